"""How long a plan takes, with all findings: 1, 10, 100 and 1000 services on one core, and the import of the planning code.

Run: python -m local.bench.plan. Goal: 1000 services under 2 s, growth linear, import under 0.3 s.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

from local.bench.environments import values

COUNTS = (1, 10, 100, 1000)
RUNS = 5


def seconds(count: int, runs: int = RUNS) -> tuple[float, int]:
    """(median seconds to read the config of `count` services and plan it, findings)."""
    from components.config import parse
    from components.plan import assemble

    config = values(count)
    times: list[float] = []
    findings = 0
    for _ in range(runs):
        start = time.perf_counter()
        planned = assemble(parse(config), "bench")
        times.append(time.perf_counter() - start)
        findings = len(planned.plan.findings)
    return statistics.median(times), findings


def import_seconds() -> float:
    """Median seconds that `import components.plan` adds to a bare interpreter, in fresh processes."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    differences = [run("import components.plan") - run("pass") for _ in range(RUNS)]
    return statistics.median(differences)


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, as the goal says
    table = Table(title="Plan with all findings, one core", title_justify="left")
    for column in ("services", "seconds", "ms a service", "of 10 times fewer", "findings"):
        table.add_column(column, justify="right")
    before: float | None = None
    seconds(1)  # imports and caches are paid before
    for count in COUNTS:
        taken, findings = seconds(count)
        ratio = f"{taken / before:.1f}x" if before else "-"
        table.add_row(f"{count}", f"{taken:.3f}", f"{taken / count * 1000:.2f}", ratio, f"{findings}")
        before = taken
    Console().print(table)
    Console().print(f"import of the planning code: {import_seconds():.2f} s")


if __name__ == "__main__":
    main()
