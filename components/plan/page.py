"""The plan as one self-contained page: GPUs drawn with what is on them, memory bars, costs, findings, changes. No script, no fetch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from components.plan import view
from components.plan.drawing import draw
from components.plan.result import EnginePlan, Plan, ServicePlan

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


@dataclass(frozen=True, slots=True)
class Change:
    """One figure that differs from an earlier plan."""

    place: str
    before: str
    after: str


def html(plan: Plan, earlier: Plan | None = None) -> str:
    """The page. With `earlier`, what changed since is listed."""
    loader = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = loader.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        plan=plan,
        findings=sorted(plan.findings, key=lambda f: (f.severity != "error", f)),
        drawings=draw(plan),
        changes=list(changes(earlier, plan)) if earlier is not None else None,
        figures=view.figures,
        money=view.money,
        gpu_use=view.gpu_use,
        tokens=view.tokens,
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


def changes(before: Plan, after: Plan) -> Iterator[Change]:
    """What differs: services and pools that came or went, and their figures."""
    yield from _differences(
        "service", {s.name: _service(s) for s in before.services}, {s.name: _service(s) for s in after.services}
    )
    yield from _differences(
        "node pool",
        {p.name: {"nodes": view.figures(p.nodes), "USD/h": view.money(p.usd_per_hour)} for p in before.pools},
        {p.name: {"nodes": view.figures(p.nodes), "USD/h": view.money(p.usd_per_hour)} for p in after.pools},
    )
    totals = (
        {"USD/h": view.money(p.totals.usd_per_hour), "GPUs": view.figures(p.totals.gpus)} for p in (before, after)
    )
    yield from _differences("total", {"all": next(totals)}, {"all": next(totals)})


def _service(service: ServicePlan) -> dict[str, str]:
    figures = {
        "GPUs": view.figures(service.gpus),
        "USD/h": view.money(service.usd_per_hour),
        "upgrade": service.upgrade,
        "image": service.image,
    }
    for engine in service.engines:
        figures[f"{engine.name}: model"] = engine.model
        figures[f"{engine.name}: GPU"] = view.gpu_use(engine)
        figures[f"{engine.name}: replicas"] = view.replicas(engine)
        figures[f"{engine.name}: KV cache"] = view.tokens(engine)
    return figures


def _differences(kind: str, before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        old: dict[str, Any] = before.get(name, {})
        new: dict[str, Any] = after.get(name, {})
        if not old or not new:
            yield Change(f"{kind} '{name}'", "" if not old else "there", "new" if not old else "gone")
            continue
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield Change(f"{kind} '{name}': {key}", old.get(key, ""), new.get(key, ""))
