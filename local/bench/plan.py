"""How long a plan takes, with all findings: 1, 10, 100 and 1000 services on one core, and the import of the planning code.

Run: python -m local.bench.plan. Goal: 1000 services under 2 s, growth linear, import under 0.3 s. Beside the time on the clock
stands that of the processor, which other work on the machine changes less. Imports are measured with bytecode in a cache, as they
are for everybody who runs a command for the second time; PYTHONDONTWRITEBYTECODE would hide that.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from local.bench.environments import values
from local.tools import REPOSITORY

COUNTS = (1, 10, 100, 1000)
RUNS = 5
COMMANDS = {
    "import of the planning code": ("-c", "import components.plan"),
    "python -m components.plan Pulumi.prod.yaml": ("-m", "components.plan", str(REPOSITORY / "Pulumi.prod.yaml")),
}


def seconds(count: int, runs: int = RUNS) -> tuple[float, float, int]:
    """(median seconds to read the config of `count` services and plan it, those of the processor, findings)."""
    from components.config import parse
    from components.plan import assemble

    config = values(count)
    clock: list[float] = []
    processor: list[float] = []
    findings = 0
    for _ in range(runs):
        start, cpu = time.perf_counter(), time.process_time()
        planned = assemble(parse(config), "bench")
        clock.append(time.perf_counter() - start)
        processor.append(time.process_time() - cpu)
        findings = len(planned.plan.findings)
    return statistics.median(clock), statistics.median(processor), findings


def process_seconds(*arguments: str) -> tuple[float, float]:
    """Median (seconds, processor seconds) that a fresh interpreter takes for `arguments` beyond one that does nothing."""
    with tempfile.TemporaryDirectory() as bytecode:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        env.pop("PYTHONDONTWRITEBYTECODE", None)

        def run(*words: str) -> tuple[float, float]:
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *words], env=env, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return (
                time.perf_counter() - start,
                after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            )

        run(*arguments)  # writes the bytecode
        pairs = [(run(*arguments), run("-c", "pass")) for _ in range(RUNS)]
    return (
        statistics.median(full[0] - bare[0] for full, bare in pairs),
        statistics.median(full[1] - bare[1] for full, bare in pairs),
    )


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, as the goal says
    table = Table(title="Plan with all findings, one core", title_justify="left")
    for column in ("services", "seconds", "of the processor", "ms a service", "times those of a tenth", "findings"):
        table.add_column(column, justify="right")
    before: float | None = None
    seconds(1)  # imports and caches are paid before
    for count in COUNTS:
        taken, processor, findings = seconds(count)
        ratio = f"{processor / before:.1f}" if before else "-"
        each = f"{processor / count * 1000:.2f}"
        table.add_row(f"{count}", f"{taken:.3f}", f"{processor:.3f}", each, ratio, f"{findings}")
        before = processor
    Console().print(table)
    for name, arguments in COMMANDS.items():
        taken, processor = process_seconds(*arguments)
        Console().print(f"{name}: {taken:.2f} s, {processor:.2f} s of the processor")


if __name__ == "__main__":
    main()
