"""The plan as one self-contained page: GPUs drawn with what is on them, memory bars, costs, findings, changes. No script, no fetch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import jinja2

from components.plan import view
from components.plan.drawing import draw
from components.plan.result import EnginePlan, Plan

_TEMPLATE = Path(__file__).with_name("page.html.j2")
# Colours of services: far apart in hue, dark enough for white letters (contrast over 4.5 on each).
_COLOURS = (
    "#2f6690",
    "#8d3b72",
    "#3a7d44",
    "#a4561c",
    "#5b4b8a",
    "#96343c",
    "#1f7a7a",
    "#6b6413",
    "#44617b",
    "#7d4e9e",
)


def html(plan: Plan) -> str:
    """The page; with what changes, where the plan has it."""
    loader = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = loader.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        plan=plan,
        findings=sorted(plan.findings, key=lambda f: (f.severity != "error", f)),
        drawings=draw(plan),
        count=lambda things, name: f"{len(things)} {name}{'' if len(things) == 1 else 's'}",
        figures=view.figures,
        money=view.money,
        gpu_use=view.gpu_use,
        sizes=view.parallel_sizes,
        replicas=view.replicas,
        bar=_bar,
        gib=lambda size: f"{size / view.GIB:.1f}",
        colour=lambda service: _COLOURS[zlib.crc32(service.encode()) % len(_COLOURS)],
    )


def _bar(engine: EnginePlan) -> Iterator[tuple[str, str]]:
    """(class, percent of the device) of each part; together at most 100."""
    memory = engine.memory
    if memory is None:
        return
    total = max(memory.device_bytes, 1)
    fixed = memory.activation_bytes + memory.graph_bytes + memory.overhead_bytes
    left = 100.0
    for name, size in (("w", memory.weights_bytes), ("f", fixed), ("k", max(0, memory.kv_bytes))):
        width = min(left, size / total * 100)
        left -= width
        yield name, f"{width:.2f}"
