"""PodDisruptionBudgets: drains take a replica at a time, and end.

Not for what a drain does to a service with one replica (probes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, PodGroup, Stack, Workload
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._places import pods_at_rest


def _budgets(stack: Stack) -> Iterator[tuple[Object, Mapping[str, Any], Mapping[str, Any]]]:
    """(object, spec, labels that it selects) of budgets that select by labels alone."""
    for item in stack.objects:
        if item.kind == "PodDisruptionBudget":
            spec = mapping(item.manifest.get("spec"))
            selector = mapping(spec.get("selector"))
            labels = mapping(selector.get("matchLabels"))
            if labels and not selector.get("matchExpressions"):
                yield item, spec, labels


def _selected(stack: Stack, item: Object, labels: Mapping[str, Any]) -> Iterator[tuple[Workload, PodGroup]]:
    """Groups of pods that a budget selects, by what is known of their labels."""
    for workload in stack.workloads:
        if workload.namespace != item.namespace:
            continue
        for group in (*workload.groups, *((workload.head,) if workload.head is not None else ())):
            known = {str(k): str(v) for k, v in group.labels.items()}
            if workload.kind.startswith("Ray"):
                known |= {"ray.io/node-type": "head" if group.head else "worker"}
                known |= {"ray.io/group": "headgroup" if group.head else group.name}
                known |= {"ray.io/cluster": workload.name} if workload.kind == "RayCluster" else {}
            if all(known.get(str(key)) == str(value) for key, value in labels.items()):
                yield workload, group


def countable(stack: Stack) -> Iterator[Problem]:
    for item, spec, labels in _budgets(stack):
        percent = str(spec.get("minAvailable", "")).endswith("%")
        if spec.get("maxUnavailable") is None and not percent:
            continue
        found = [workload for workload, _ in _selected(stack, item, labels)]
        ray = any(workload.kind.startswith("Ray") for workload in found)
        if ray or (not found and any(str(key).startswith("ray.io/") for key in labels)):
            given = "minAvailable in percent" if percent else "maxUnavailable"
            yield error(
                item.where,
                f"{given} over pods of Ray: Kubernetes asks their owner how many there should be, RayCluster has no scale subresource, "
                "and no pod may be evicted at all: every drain and node upgrade waits for ever",
                "state minAvailable as a number of pods",
            )


def ends(stack: Stack) -> Iterator[Problem]:
    for item, spec, labels in _budgets(stack):
        never = spec.get("maxUnavailable") in (0, "0", "0%") or str(spec.get("minAvailable")) == "100%"
        least = whole(spec.get("minAvailable")) if not str(spec.get("minAvailable", "")).endswith("%") else None
        found = list(_selected(stack, item, labels))
        at_rest = sum(pods_at_rest(workload, group) if not group.head else 1 for workload, group in found)
        if not found or not (never or (least is not None and least >= max(1, at_rest))):
            continue
        yield warning(
            item.where,
            f"it lets no pod go while there are {at_rest}: a drain waits for ever, and the upgrade of an EKS node group fails after "
            "15 minutes (PodEvictionFailure)",
            "leave room for one replica, or run one more",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="disruption-ray-pods",
        title="Budgets over Ray's pods are numbers",
        why=(
            "For maxUnavailable and percentages the disruption controller reads the scale of the pods' owner. RayCluster's CRD has a status subresource and no scale, so the "
            "controller counts nothing and allows no eviction."
        ),
        check=countable,
        sources=(
            "https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors",
            "kuberay: config/crd/bases/ray.io_rayclusters.yaml",
        ),
    ),
    Rule(
        id="disruption-ends",
        title="A budget lets a drain end",
        why="An eviction that a budget never allows holds the node: autoscalers cannot remove it, and a managed node group's upgrade fails or kills the pods by force.",
        check=ends,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",),
    ),
)
