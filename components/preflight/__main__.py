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
from rich.markup import escape
from rich.table import Table

from components.config import AwsCluster, ConfigError, load_file
from components.plan import assemble
from components.preflight import Check, checks

MARKS = {
    "pass": "[green]ok[/green]",
    "warning": "[yellow]warning[/yellow]",
    "error": "[red]error[/red]",
    "unchecked": "[magenta]not checked[/magenta]",
}
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


def table(found: list[Check]) -> Table:
    """The checks as a table, in the order they were made."""
    drawn = Table("where", "check", "", "found", title=None, expand=False)
    for check in found:
        text = check.message + (f"; {check.mend}" if check.mend else "")
        drawn.add_row(escape(check.place), check.name, MARKS[check.status], escape(text))
    return drawn


def status(found: list[Check]) -> int:
    """Exit status of a run."""
    states = {check.status for check in found}
    return 1 if "error" in states else 2 if "unchecked" in states else 0


if __name__ == "__main__":
    app()
