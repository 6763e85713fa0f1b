"""Command line: a table of checks, or JSON. Exit status 0: as planned (warnings too); 1: drift; 2: something could not be checked."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from components.checks import status, table
from components.config import ConfigError, ExistingCluster, load_file
from components.doctor import Refused, checks
from components.doctor.live import KubernetesCluster
from components.plan import assemble

WIDTH = 150  # of a table that goes into a file or a log
app = typer.Typer(add_completion=False)


@app.command()
def main(
    environment_file: Annotated[Path, typer.Argument(help="Environment file, e.g. Pulumi.dev.yaml.")],
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of the cluster; the environment's, else KUBECONFIG.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    format: Annotated[str, typer.Option(help="table or json.")] = "table",
) -> None:
    """Compare what an environment plans with the cluster as it is. Reads only."""
    if format not in ("table", "json"):
        print(f"--format: '{format}' was given; allowed: table, json", file=sys.stderr)
        raise typer.Exit(2)
    try:
        env = load_file(environment_file)
    except ConfigError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    name = environment_file.name.removeprefix("Pulumi.").removesuffix(".yaml").removesuffix(".yml")
    if isinstance(env.cluster, ExistingCluster):
        kubeconfig = kubeconfig or (Path(env.cluster.kubeconfig) if env.cluster.kubeconfig else None)
        context = context or env.cluster.context
    try:
        found = list(checks(KubernetesCluster(kubeconfig, context), env, assemble(env, name)))
    except Refused as error:
        print(f"{error}; give --kubeconfig, a file that reaches the cluster", file=sys.stderr)
        raise typer.Exit(2) from None
    if format == "json":
        print(json.dumps({"environment": name, "checks": [asdict(check) for check in found]}, indent=2))
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=WIDTH)
        console.print(table(found))
    raise typer.Exit(status(found))


if __name__ == "__main__":
    app()
