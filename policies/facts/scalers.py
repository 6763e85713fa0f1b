"""Reader of HorizontalPodAutoscalers and KEDA's ScaledObjects, and what they make of the workloads they scale.

Not for judging them (policies/rules/pod_scaling.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .quantities import items, mapping, whole
from .records.stack import Object
from .records.values import Values
from .records.workloads import Workload

KINDS = ("HorizontalPodAutoscaler", "ScaledObject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """A scaler as declared. Kubernetes' defaults: an HPA has at least 1 pod, a ScaledObject 0 to 100."""

    kind: str
    where: str
    namespace: str
    target_kind: str
    target: str
    min: int
    max: int
    triggers: tuple[Values, ...]  # metrics of an HPA, triggers of a ScaledObject


def read(item: Object) -> Scaler | None:
    """The scaler in an object; None for anything else."""
    if item.kind not in KINDS:
        return None
    spec = item.spec
    target = mapping(spec.get("scaleTargetRef"))
    keda = item.kind == "ScaledObject"
    low = whole(spec.get("minReplicaCount" if keda else "minReplicas"))
    high = whole(spec.get("maxReplicaCount" if keda else "maxReplicas"))
    return Scaler(
        kind=item.kind,
        where=item.where,
        namespace=item.namespace,
        target_kind=str(target.get("kind") or "Deployment"),
        target=str(target.get("name", "")),
        min=low if low is not None else (0 if keda else 1),
        max=high if high is not None else (100 if keda else 1),
        triggers=tuple(map(mapping, items(spec.get("triggers" if keda else "metrics")))),
    )


def all_of(objects: Iterable[Object]) -> list[Scaler]:
    """Every scaler among the objects."""
    return [scaler for scaler in map(read, objects) if scaler is not None]


def apply(workloads: Sequence[Workload], objects: Iterable[Object]) -> tuple[Workload, ...]:
    """The workloads with the replicas that their scalers give them."""
    found = {(s.namespace, s.target_kind, s.target): s for s in all_of(objects)}
    if not found:
        return tuple(workloads)
    return tuple(_scaled(each, found.get((each.namespace, each.kind, each.name))) for each in workloads)


def _scaled(workload: Workload, scaler: Scaler | None) -> Workload:
    if scaler is None:
        return workload
    return replace(
        workload,
        autoscaling=True,
        groups=tuple(replace(g, min=scaler.min, replicas=scaler.min, max=scaler.max) for g in workload.groups),
        engines=tuple(replace(e, min_replicas=scaler.min, max_replicas=scaler.max) for e in workload.engines),
    )
