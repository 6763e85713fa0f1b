"""The plan as people see it in a terminal: a table of services, one of pools, the findings. Not the page (page.py)."""

from __future__ import annotations

import io

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from components.plan.result import Changes, EnginePlan, Plan, Range

GIB = 2**30
BAR = 16
MOST_CAUSES = 6


def preview(plan: Plan) -> None:
    """Print the plan where the engine shows a program's output (`pulumi preview` and `up`)."""
    print(text(plan), flush=True)


def text(plan: Plan, width: int = 170, color: bool = False) -> str:
    """The plan as text of a fixed width."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, color_system="standard" if color else None)
    console.print(render(plan))
    return out.getvalue().rstrip() + "\n"


def render(plan: Plan) -> RenderableType:
    """The plan for a rich console."""
    parts: list[RenderableType] = []
    if plan.services:
        parts.append(_services(plan))
    if plan.pools:
        parts.append(_pools(plan))
    parts.append(_totals(plan))
    if plan.changes is not None:
        parts.extend(_changes(plan.changes))
    parts.extend(_findings(plan))
    return Group(*parts)


def _services(plan: Plan) -> Table:
    table = Table(
        title=f"Plan of {plan.environment or 'this environment'} (GPUs, nodes and USD/h: at rest/at full load/in an upgrade)",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    for name, justify in (
        ("service", "left"),
        ("model", "left"),
        ("GPU", "left"),
        ("memory of a GPU (GiB)", "left"),
        ("KV cache", "right"),
        ("replicas", "right"),
        ("GPUs", "right"),
        ("USD/h", "right"),
    ):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    for service in plan.services:
        for index, engine in enumerate(service.engines):
            first = index == 0
            table.add_row(
                service.name if first else "",
                engine.name if engine.role in ("serve", "data_parallel") else f"{engine.name} ({engine.role})",
                gpu_use(engine),
                memory_bar(engine),
                tokens(engine),
                replicas(engine),
                figures(service.gpus) if first else "",
                money(service.usd_per_hour) if first else "",
            )
        if not service.engines:
            table.add_row(
                service.name, f"({service.kind})", "", "", "", "", figures(service.gpus), money(service.usd_per_hour)
            )
    return table


def _pools(plan: Plan) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in (
        "node pool",
        "nodes of",
        "GPUs a node",
        "nodes",
        "allowed",
        "USD/h min/max/upgrade",
        "services",
    ):
        table.add_column(name)
    for pool in plan.pools:
        table.add_row(
            pool.name,
            ", ".join(pool.instance_types) or pool.kind,
            f"{pool.gpus_per_node} x {pool.gpu}" if pool.gpu else "-",
            figures(pool.nodes),
            f"{pool.nodes_allowed.min:g}..{pool.nodes_allowed.max:g}",
            money(pool.usd_per_hour),
            _short(pool.services),
        )
    return table


def _totals(plan: Plan) -> Text:
    totals = plan.totals
    idle = f", {totals.idle_share:.0%} of the GPU money at rest is idle" if totals.idle_share is not None else ""
    return Text(
        f"  GPUs {figures(totals.gpus)}; USD/h {money(totals.usd_per_hour)}{idle}; "
        f"{totals.errors} errors, {totals.warnings} warnings"
    )


def _changes(changes: Changes) -> list[RenderableType]:
    """What an update does to each service, with its causes below; then the figures that differ."""
    lines: list[RenderableType] = [Text(f"\n  Changes against {changes.against}", "bold")]
    if changes.services is None:
        lines.append(Text("  what an update does is told against an environment file or `pulumi stack export`"))
    elif not changes.services:
        lines.append(Text("  an update changes no service"))
    for change in changes.services or ():
        peak = "" if change.gpus_peak is None else f"; at the peak {change.gpus_peak:g} GPUs"
        if change.usd_per_hour_peak is not None:
            peak += f", {change.usd_per_hour_peak:.2f} USD/h"
        lines.append(
            Text.assemble(f"  {change.service}: ", (change.effect.replace("_", " "), "bold"), f", {change.text}{peak}")
        )
        lines += [Text(f"      {cause}") for cause in _few(change.causes)]
    lines += [Text(f"  {each.place}: {each.before or '-'} -> {each.after or '-'}") for each in changes.figures]
    return lines


def _few(causes: tuple[str, ...]) -> list[str]:
    return [*causes[:MOST_CAUSES], *([f"and {len(causes) - MOST_CAUSES} more"] if len(causes) > MOST_CAUSES else [])]


def _findings(plan: Plan) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for finding in sorted(plan.findings, key=lambda f: (f.severity != "error", f)):
        style = "bold red" if finding.severity == "error" else "yellow"
        lines.append(Text.assemble((f"  {finding.severity}: ", style), finding.sentence()))
    return lines


def gpu_use(engine: EnginePlan) -> str:
    """ "2 x H100 (tp 2)", "0.45 x L4", "CPU"."""
    if engine.device == "cpu":
        return "CPU"
    sizes = parallel_sizes(engine)
    return f"{round(engine.gpus_per_replica, 2):g} x {engine.gpu or 'GPU'}" + (f" ({sizes})" if sizes else "")


def parallel_sizes(engine: EnginePlan) -> str:
    """ "tp 8, pp 2"; nothing for one worker."""
    parallel = [
        f"{label} {size}"
        for label, size in (
            ("tp", engine.tensor_parallel),
            ("pp", engine.pipeline_parallel),
            ("dp", engine.data_parallel),
        )
        if size > 1
    ]
    return ", ".join(parallel)


def memory_bar(engine: EnginePlan) -> str:
    """A bar of one GPU: # weights, = activations, graphs and runtime, k KV cache, . free of this engine."""
    memory = engine.memory
    if memory is None:
        return "" if engine.device == "cpu" else "unknown model"
    total = max(memory.device_bytes, 1)
    fixed = memory.activation_bytes + memory.graph_bytes + memory.overhead_bytes
    cells = [
        ("#", memory.weights_bytes),
        ("=", fixed),
        ("k", max(0, memory.kv_bytes)),
    ]
    bar = ""
    reached = 0
    for sign, size in cells:
        reached += size
        bar += sign * max(0, round(min(reached, total) / total * BAR) - len(bar))
    verdict = {"fits": "", "tight": " tight", "too_big": " TOO BIG"}.get(memory.verdict, "")
    return f"{bar.ljust(BAR, '.')} {memory.weights_bytes / GIB:.1f}/{memory.budget_bytes / GIB:.1f}{verdict}"


def tokens(engine: EnginePlan) -> str:
    """Tokens in the KV cache, and requests of full length."""
    memory = engine.memory
    if memory is None:
        return ""
    return f"{memory.kv_tokens:,} ({memory.concurrency:.1f} x {memory.max_model_len:,})"


def replicas(engine: EnginePlan) -> str:
    low, high = engine.replicas_min, engine.replicas_max
    return f"{low}" if low == high else f"{low}..{high}"


def figures(figure: Range) -> str:
    """min/max/upgrade to a hundredth, without needless zeros."""
    return "/".join(f"{round(value, 2):g}" for value in (figure.min, figure.max, figure.upgrade))


def money(figure: Range | None) -> str:
    """USD an hour, or a dash where a price is not known."""
    return "-" if figure is None else "/".join(f"{v:.2f}" for v in (figure.min, figure.max, figure.upgrade))


def _short(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
