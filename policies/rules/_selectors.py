"""Label selectors: labels of pods as far as they are known, and which objects may select them. Not for: judging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from policies.facts import Object, PodGroup, Values, Workload
from policies.facts.quantities import mapping

Pair = tuple[str, str]


def labels(workload: Workload, group: PodGroup) -> dict[str, str]:
    """Labels of a group's pods that are known before the pods are: declared, and those that their controller adds (KubeRay: common/pod.go labelPod)."""
    known = {str(k): str(v) for k, v in group.labels.items()}
    if workload.by_kuberay:
        known["ray.io/is-ray-node"] = "yes"
        known["ray.io/node-type"] = "head" if group.head else "worker"
        known["ray.io/group"] = "headgroup" if group.head else group.name
        if workload.kind == "RayCluster":
            known["ray.io/cluster"] = workload.name
    elif workload.kind == "LeaderWorkerSet":  # lws: api/leaderworkerset/v1
        known["leaderworkerset.sigs.k8s.io/name"] = workload.name
        if group is workload.groups[0]:  # the leader, which starts the engine; a worker's index is any other
            known["leaderworkerset.sigs.k8s.io/worker-index"] = "0"
    elif workload.kind == "Job":
        known["batch.kubernetes.io/job-name"] = known["job-name"] = workload.name
    return known


def asked(selector: object) -> dict[str, str]:
    """The labels that a selector asks for."""
    return {str(k): str(v) for k, v in mapping(mapping(selector).get("matchLabels")).items()}


def matches(selector: object, known: Mapping[str, str]) -> bool:
    """Whether a selector certainly matches pods with these labels; one with expressions is not judged."""
    if mapping(selector).get("matchExpressions"):
        return False
    return all(known.get(key) == value for key, value in asked(selector).items())


class Selectors:
    """Objects by namespace and by the rarest of the labels that they ask for: pods among thousands meet their own."""

    def __init__(self, items: Iterable[Object], selector: Callable[[Values], object]) -> None:
        found = [(item, list(asked(selector(item.spec)).items())) for item in items]
        often = Counter((item.namespace, *pair) for item, pairs in found for pair in pairs)
        self._by_label: dict[tuple[str, Pair], list[tuple[int, Object]]] = {}
        for place, (item, pairs) in enumerate(found):
            rarest = min(pairs, key=lambda pair: often[(item.namespace, *pair)], default=("", ""))
            self._by_label.setdefault((item.namespace, rarest), []).append((place, item))

    def of(self, namespace: str, known: Mapping[str, str]) -> list[Object]:
        """Those that may select pods with these labels, in the order in which they were given."""
        near = (self._by_label.get((namespace, pair), ()) for pair in (("", ""), *known.items()))
        return [item for _, item in sorted((each for found in near for each in found), key=lambda each: each[0])]
