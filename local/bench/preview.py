"""How long `pulumi preview` takes by the number of services in one stack: the real engine, the real program, a file backend of its own.

Run: python -m local.bench.preview. The cluster's address answers nobody, so that the provider's dry runs on a server, which depend on
that server, are not in the figures: what is measured is the program (config, plan, rules), the engine and the provider's diffs.

Pulumi's engine writes its whole state anew after each step, in a preview into nothing: work that is the number of resources squared
(a profile of 200 services: half of the engine's time). PULUMI_SKIP_CHECKPOINTS leaves that out, which is safe in a preview and is set here.
"""

from __future__ import annotations

import re
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console
from rich.table import Table

from local import stack
from local.bench.environments import values

COUNTS = (1, 10, 100, 1000)
RUNS = 3
# Another team's software: no release is part of the stack, and no chart repository is asked.
GIVEN = {
    "software": {"kuberay": {"install": False}, "gpu_operator": {"install": False}},
    "policy": {"helm-operator": "off"},
}
NO_CHECKPOINTS = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
NOBODY = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "current-context": "none",
}


def preview(count: int, runs: int) -> tuple[float, float, int]:
    """(median seconds of a preview of `count` new services, those of all its processes, resources that it would make)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # A project of its own around the real program: stacks leave files beside their project.
        python = {"name": "python", "options": {"virtualenv": sys.prefix}}
        project = {"name": "llm-serving", "main": str(stack.REPO), "runtime": python}
        config = {f"llm-serving:{key}": value for key, value in {**values(count), **GIVEN}.items()}
        for file, content in (
            ("Pulumi.yaml", project),
            ("Pulumi.bench.yaml", {"config": config}),
            ("kubeconfig", NOBODY),
        ):
            (folder / file).write_text(yaml.safe_dump(content))
        (folder / "state").mkdir()
        env = {
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            **NO_CHECKPOINTS,
        }
        stack.pulumi("stack", "init", "bench", cwd=folder, env=env, capture=True)
        clock: list[float] = []
        processors: list[float] = []
        made = 0
        for _ in range(runs):
            start, before = time.perf_counter(), _children()
            shown = stack.pulumi("preview", "--stack", "bench", cwd=folder, env=env, capture=True).stdout
            clock.append(time.perf_counter() - start)
            processors.append(_children() - before)
            found = re.search(r"\+ (\d+) to create", shown)
            made = int(found.group(1)) if found else 0
        return statistics.median(clock), statistics.median(processors), made


def _children() -> float:
    """Processor seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(
    counts: Annotated[
        list[int] | None, typer.Argument(help="Numbers of services; 1, 10, 100 and 1000 when not given.")
    ] = None,
) -> None:
    """Time `pulumi preview` by the number of services."""
    table = Table(title="pulumi preview of new services", title_justify="left")
    for column in ("services", "resources", "seconds", "of processors", "ms a service", "times those of the row above"):
        table.add_column(column, justify="right")
    preview(1, 1)  # caches of the tools are paid before
    before: float | None = None
    for count in counts or COUNTS:
        taken, processors, resources = preview(count, RUNS)
        ratio = f"{taken / before:.1f}" if before else "-"
        # Shown as it comes, too: a thousand services take a while.
        print(f"{count} services: {taken:.1f} s, {processors:.1f} s of processors", file=sys.stderr, flush=True)
        table.add_row(
            f"{count}", f"{resources}", f"{taken:.1f}", f"{processors:.1f}", f"{taken / count * 1000:.0f}", ratio
        )
        before = taken
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
