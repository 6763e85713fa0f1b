"""`python -m components.plan FILE`: the plan of an environment file as table, JSON or a page. Exit code 1 where there is an error."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from components.config import ConfigError, load_file
from components.plan import Plan, Planned, assemble
from components.plan.result import SCHEMA_VERSION
from policies.finding import Finding

FORMATS = ("table", "json", "html")


def main(
    file: Annotated[
        Path | None, typer.Argument(help="Environment file: Pulumi.<env>.yaml or one of the same keys.")
    ] = None,
    format: Annotated[str, typer.Option(help="table, json or html.")] = "table",
    output: Annotated[Path | None, typer.Option(help="Write there instead of standard output.")] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Say what an update changes: against an environment file, the output of `pulumi stack export` (- for standard "
            "input), or a plan saved as JSON."
        ),
    ] = None,
    schema: Annotated[bool, typer.Option(help="Print the JSON schema of the plan.")] = False,
) -> None:
    """Plan an environment without any cluster or account."""
    from components.plan import serial

    if schema:
        print(json.dumps(serial.schema(), indent=2, sort_keys=True))
        return
    if format not in FORMATS:
        _refuse(f"--format: '{format}' was given; allowed: {', '.join(FORMATS)}")
    if file is None:
        _refuse("give an environment file, e.g. Pulumi.dev.yaml")
        return
    environment = file.name.removeprefix("Pulumi.").removesuffix(".yaml").removesuffix(".yml")
    try:
        planned = assemble(load_file(file), environment)
        result = planned.plan
        if against is not None:
            result = _compared(planned, against)
    except ConfigError as error:
        result = _unreadable(environment, error)
    if format == "table" and output is None:
        from components.plan import view

        console = Console()
        console.print(view.render(result), soft_wrap=not console.is_terminal) if console.is_terminal else print(
            view.text(result), end=""
        )
    else:
        _write(_content(result, format), output)
    raise typer.Exit(1 if result.errors else 0)


def _compared(planned: Planned, against: Path) -> Plan:
    from components.plan import changes

    try:
        return changes.compared(planned, changes.read(against))
    except ConfigError as error:  # of the other side: no finding about this environment
        _refuse(f"--against: {error}")
        raise


def _content(result: Plan, format: str) -> str:
    if format == "json":
        from components.plan import serial

        return serial.dumps(result)
    if format == "table":
        from components.plan import view

        return view.text(result)
    from components.plan import page

    return page.html(result)


def _unreadable(environment: str, error: ConfigError) -> Plan:
    """A config that cannot be read is a plan with findings and nothing else: machines get one shape."""
    from components.plan.result import Range, Totals

    findings = tuple(_finding(problem) for problem in error.problems)
    return Plan(
        schema_version=SCHEMA_VERSION,
        environment=environment,
        services=(),
        pools=(),
        totals=Totals(
            gpus=Range(min=0, max=0, upgrade=0), usd_per_hour=None, idle_share=None, errors=len(findings), warnings=0
        ),
        findings=findings,
    )


def _finding(problem: str) -> Finding:
    place, _, message = problem.partition(": ")
    head, _, mend = message.rpartition("; ")
    return Finding(place, "error", "config", head or message, mend if head else "mend the file")


def _write(content: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(content)
    else:
        output.write_text(content, encoding="utf-8")
        print(f"wrote {output}")


def _refuse(message: str) -> None:
    print(message, file=sys.stderr)
    raise typer.Exit(2)


if __name__ == "__main__":
    typer.run(main)
