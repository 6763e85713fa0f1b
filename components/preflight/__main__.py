"""Command line: a table of checks, or JSON. Exit status 0: all passed (warnings too); 1: an error; 2: something could not be checked."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from components.checks import status, table
from components.config import AwsCluster, ConfigError, load_file
from components.plan import assemble
from components.preflight import checks

app = typer.Typer(add_completion=False)


@app.command()
def main(
    environment_file: Annotated[Path, typer.Argument(help="Environment file, e.g. Pulumi.dev.yaml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Check the AWS account against an environment, before anything is created."""
    try:
        env = load_file(environment_file)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    if not isinstance(env.cluster, AwsCluster):
        print(f"{environment_file}: the cluster is {env.cluster.kind}; there is no AWS account to check")
        return
    name = environment_file.stem.removeprefix("Pulumi.")
    planned = assemble(env, name)
    peak = {pool.name: math.ceil(pool.nodes.upgrade) for pool in planned.plan.pools}
    found = list(checks(env, name, planned.pools, peak))
    if as_json:
        print(json.dumps([asdict(check) for check in found], indent=2))
    else:
        Console().print(table(found))
    raise typer.Exit(status(found))


if __name__ == "__main__":
    app()
