"""A plan against another one, or against what is deployed: what an update does to each service, and which figures differ.

The other side is an environment file (of another commit, say), the output of `pulumi stack export`, or a plan saved as JSON.
Not for: what an edit of a manifest means (rollout.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.config import ConfigError, load_text
from components.plan import view
from components.plan.assemble import Planned, assemble
from components.plan.result import Change, Changes, Plan, ServiceChange, ServicePlan
from components.plan.rollout import SENTENCES, Rollout, rollout

Manifests = Mapping[str, Sequence[Mapping[str, Any]]]
_COMPONENT = "llm-serving:index:LlmService"


@dataclass(frozen=True, slots=True)
class Other:
    """The other side. `plan` has figures, `manifests` the objects of each service; what is not known is None."""

    name: str
    plan: Plan | None
    manifests: Manifests | None


def read(path: Path) -> Other:
    """The other side from a file, - for standard input. Raises ConfigError for what is neither of the three."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read ({error.strerror}); {_WANTED}"]) from None
    name = "what is deployed" if str(path) == "-" else path.name
    if not text.lstrip().startswith("{"):
        planned = assemble(load_text(text, str(path)), "")
        return Other(name, planned.plan, planned.manifests)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError([f"{path}:{error.lineno}: not JSON: {error.msg}; {_WANTED}"]) from None
    if "deployment" in document:
        return Other(name, None, deployed(document))
    from components.plan import serial

    try:
        return Other(name, serial.loads(text), None)
    except ValidationError:
        raise ConfigError([f"{path}: is no plan and no exported stack; {_WANTED}"]) from None


_WANTED = "give an environment file, the output of `pulumi stack export`, or a plan saved with --format json"


def deployed(export: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Objects of each service in an exported stack."""
    found: dict[str, list[dict[str, Any]]] = {}
    for resource in (export.get("deployment") or {}).get("resources") or []:
        parent = str(resource.get("parent", ""))
        inputs = resource.get("inputs") or {}
        if parent.split("::")[-2:-1] == [_COMPONENT] and "kind" in inputs:
            manifest = {key: inputs[key] for key in ("apiVersion", "kind", "metadata", "spec") if key in inputs}
            found.setdefault(parent.rsplit("::", 1)[-1], []).append(manifest)
    return found


def compared(planned: Planned, other: Other) -> Plan:
    """The plan, with what changes."""
    plan = planned.plan
    figures = tuple(_figures(other.plan, plan)) if other.plan is not None else ()
    services = None if other.manifests is None else tuple(_services(planned, other, other.manifests))
    return replace(plan, changes=Changes(against=other.name, services=services, figures=figures))


def _services(planned: Planned, other: Other, manifests: Manifests) -> Iterator[ServiceChange]:
    before = {service.name: service for service in other.plan.services} if other.plan else {}
    after = {service.name: service for service in planned.plan.services}
    for name in sorted({*manifests, *planned.manifests}):
        found = rollout(manifests.get(name, ()), planned.manifests.get(name, ()))
        if found.effect != "none":
            yield _change(name, found, before.get(name), after.get(name))


def _change(name: str, found: Rollout, before: ServicePlan | None, after: ServicePlan | None) -> ServiceChange:
    gpus, money = _peak(found, before, after)
    return ServiceChange(
        service=name,
        effect=found.effect,
        text=SENTENCES[found.effect] + (f" ({found.note})" if found.note else ""),
        causes=found.causes,
        gpus_peak=gpus,
        usd_per_hour_peak=money,
    )


def _peak(found: Rollout, before: ServicePlan | None, after: ServicePlan | None) -> tuple[float | None, float | None]:
    """Old and new side by side: the old at full load (as it was, where that is known) and what the update adds to the new."""
    if found.effect not in ("new_cluster", "incremental", "rolling") or after is None:
        return None, None
    old = before or after
    gpus = round(old.gpus.max + after.gpus.upgrade - after.gpus.max, 4)
    if old.usd_per_hour is None or after.usd_per_hour is None:
        return gpus, None
    return gpus, round(old.usd_per_hour.max + after.usd_per_hour.upgrade - after.usd_per_hour.max, 4)


def _figures(before: Plan, after: Plan) -> Iterator[Change]:
    """What differs: services and pools that came or went, and their figures."""
    yield from _differences(
        "service", {s.name: _of_service(s) for s in before.services}, {s.name: _of_service(s) for s in after.services}
    )
    yield from _differences(
        "node pool",
        {p.name: {"nodes": view.figures(p.nodes), "USD/h": view.money(p.usd_per_hour)} for p in before.pools},
        {p.name: {"nodes": view.figures(p.nodes), "USD/h": view.money(p.usd_per_hour)} for p in after.pools},
    )
    for name, old, new in (
        ("GPUs", view.figures(before.totals.gpus), view.figures(after.totals.gpus)),
        ("USD/h", view.money(before.totals.usd_per_hour), view.money(after.totals.usd_per_hour)),
    ):
        if old != new:
            yield Change(place=f"in all: {name}", before=old, after=new)


def _of_service(service: ServicePlan) -> dict[str, str]:
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
            yield Change(
                place=f"{kind} '{name}'", before="" if not old else "there", after="new" if not old else "gone"
            )
            continue
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield Change(place=f"{kind} '{name}': {key}", before=old.get(key, ""), after=new.get(key, ""))
