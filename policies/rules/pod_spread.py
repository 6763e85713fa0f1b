"""Whether pods that ask to be spread are. Not for: words that the API server refuses (pod_scheduling.py), or ranks of an engine (engine_spread.py)."""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, warning

from ._selectors import asked, labels, matches


def spreads(stack: Stack) -> Iterator[Problem]:
    """Spread constraints that do not count the pods that carry them."""
    for workload in stack.workloads:
        for group in workload.pod_groups:
            known = labels(workload, group)
            for each in map(mapping, items(mapping(group.pod).get("topologySpreadConstraints"))):
                selector = mapping(each.get("labelSelector"))
                wanted = asked(selector)
                if each.get("labelSelector") is not None and not selector:
                    continue  # {} finds every pod of the namespace
                # KubeRay gives its pods labels that are not known before, such as the name of the cluster.
                unknown = selector.get("matchExpressions") or (
                    workload.by_kuberay and not wanted.keys() <= known.keys()
                )
                if unknown or (wanted and matches(selector, known)):
                    continue
                lacks = next((f"{k}={v}" for k, v in wanted.items() if known.get(k) != v), None)
                yield warning(
                    group.where,
                    f"it spreads pods {f'with {lacks}, which its own do not have' if lacks else 'without a labelSelector, which finds none'}: nothing is spread over {each.get('topologyKey')}",
                    "select the labels of its own pods in labelSelector",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-spread",
        title="Spreading counts the pods that are spread",
        why="A spread constraint compares numbers of pods that its labelSelector finds. One that finds others, or none, is met everywhere: all replicas may stand on one node, or in one zone.",
        check=spreads,
        sources=(
            "karpenter-provider-aws#2845",
            "karpenter-provider-aws PR#1808",
            "https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/",
        ),
    ),
)
