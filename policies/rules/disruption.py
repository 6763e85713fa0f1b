"""PodDisruptionBudgets: drains take a replica at a time, and end.

Not for what a drain does to a service with one replica (probes.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Object, PodGroup, Stack, Values, Workload
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._places import pods_at_rest
from ._selectors import Selectors, asked, labels, matches

Pods = tuple[Workload, PodGroup]


def _budgets(stack: Stack) -> list[tuple[Object, Values, list[Pods]]]:
    """(budget, its spec, groups of pods that it selects) of budgets that select by labels alone."""
    found = [each for each in stack.of_kind("PodDisruptionBudget") if asked(_selector(each))]
    index = Selectors(found, lambda spec: spec.get("selector"))
    selected: dict[int, list[Pods]] = {id(each): [] for each in found}
    if found:
        for workload in stack.workloads:
            for group in workload.pod_groups:
                known = labels(workload, group)
                for item in index.of(workload.namespace, known):
                    if matches(_selector(item), known):
                        selected[id(item)].append((workload, group))
    return [(each, each.spec, selected[id(each)]) for each in found]


def _selector(item: Object) -> object:
    return item.spec.get("selector")


def countable(stack: Stack) -> Iterator[Problem]:
    for item, spec, found in _budgets(stack):
        percent = str(spec.get("minAvailable", "")).endswith("%")
        if spec.get("maxUnavailable") is None and not percent:
            continue
        ray = any(workload.by_kuberay for workload, _ in found)
        if ray or (not found and any(key.startswith("ray.io/") for key in asked(_selector(item)))):
            given = "minAvailable in percent" if percent else "maxUnavailable"
            yield error(
                item.where,
                f"{given} over pods of Ray: Kubernetes asks their owner how many there should be, RayCluster has no scale subresource, "
                "and no pod may be evicted at all: every drain and node upgrade waits for ever",
                "state minAvailable as a number of pods",
            )


def protects(stack: Stack) -> Iterator[Problem]:
    """Budgets that select no pods that are seen, and ask for all but one of the labels of some that are."""
    for item, _, found in _budgets(stack):
        if found or mapping(_selector(item)).get("matchExpressions"):
            continue
        wanted = asked(_selector(item))
        for workload in stack.workloads:
            if workload.namespace != item.namespace:
                continue
            known = [labels(workload, group) for group in workload.pod_groups]
            lacks = min(
                ([key for key in wanted if each.get(key) != wanted[key]] for each in known), key=len, default=[]
            )
            if len(lacks) == 1 and len(wanted) > 1 and not any(lacks[0] in each for each in known):
                yield warning(
                    item.where,
                    f"no pod has {lacks[0]}={wanted[lacks[0]]}, and pods of {workload.where} have its other labels: it protects nothing (NoPods), and every drain may take all at once",
                    f"give the pods that label, or leave {lacks[0]} out of the selector",
                )
                break


def ends(stack: Stack) -> Iterator[Problem]:
    for item, spec, found in _budgets(stack):
        never = spec.get("maxUnavailable") in (0, "0", "0%") or str(spec.get("minAvailable")) == "100%"
        least = whole(spec.get("minAvailable")) if not str(spec.get("minAvailable", "")).endswith("%") else None
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
            "budget stays at SyncFailed, 'rayclusters.ray.io does not implement the scale subresource', and allows no eviction (seen with KubeRay 1.7.0 on Kubernetes 1.34.2)."
        ),
        check=countable,
        sources=(
            "https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors",
            "kuberay: config/crd/bases/ray.io_rayclusters.yaml",
        ),
    ),
    Rule(
        id="disruption-pods",
        title="A budget finds its pods",
        why="A budget is taken whatever it selects. Charts often give labels to the Deployment that its pods do not have: the budget then counts no pods, and holds no drain.",
        check=protects,
        sources=("bank-vaults/vault-operator#1064", "bitnami/charts#34544", "1Password/connect-helm-charts#240"),
    ),
    Rule(
        id="disruption-ends",
        title="A budget lets a drain end",
        why="An eviction that a budget never allows holds the node: autoscalers cannot remove it, and a managed node group's upgrade fails or kills the pods by force.",
        check=ends,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",),
    ),
)
