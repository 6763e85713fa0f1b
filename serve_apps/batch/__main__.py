"""`python -m serve_apps.batch '<arguments as JSON>'`: the command of the job. Ends with 2 for wrong arguments or input, 1 when every row failed."""

from __future__ import annotations

import dataclasses
import json
import sys

from pydantic import ValidationError

from .args import BatchArgs


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: python -m serve_apps.batch '<arguments as JSON>'", file=sys.stderr)
        return 2
    try:
        args = BatchArgs.model_validate_json(words[0])
    except ValidationError as error:
        for each in error.errors(include_url=False):
            print(f"batch: {'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}", file=sys.stderr)
        return 2
    from .app import InputError, run  # ray is loaded only for arguments that are right

    try:
        summary = run(args)
    except InputError as error:
        print(f"batch: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"batch": dataclasses.asdict(summary)}), flush=True)
    return 1 if summary.rows and summary.failed == summary.rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
