"""CPU architectures of the nodes that the pods of one service can land on, against its one image.

Not for: the machine image of a node (pool_image.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import PodGroup, Stack
from policies.finding import Problem, Rule, warning

from ._places import Places, places
from ._values import listed


def architecture(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload in stack.workloads:
        by_image: dict[str, list[tuple[PodGroup, frozenset[str]]]] = {}
        for group in workload.pod_groups:
            kinds = _kinds(index, group)
            if kinds:
                by_image.setdefault(group.image, []).append((group, kinds))
        for image, groups in by_image.items():
            first, others = groups[0], groups[1:]
            other = next((each for each in others if each[1].isdisjoint(first[1])), None)
            if other is None:
                continue
            yield warning(
                workload.where,
                f"its {_name(first[0])} goes to {listed(first[1])} nodes and its {_name(other[0])} to {listed(other[1])}, with one image ({image}): "
                "unless it is built for both, one of them ends with 'exec format error'",
                "build the image for both architectures, or choose pools of one",
            )


def _kinds(index: Places, group: PodGroup) -> frozenset[str]:
    """Architectures of the nodes that take the pod; empty where that is not known."""
    wanted = group.node_selector.get("kubernetes.io/arch")
    if wanted is not None:
        return frozenset({{"amd64": "x86_64"}.get(str(wanted), str(wanted))})
    return frozenset(pool.architecture for pool in index.open(group))


def _name(group: PodGroup) -> str:
    return "head" if group.head else f"worker group '{group.name}'"


RULES: tuple[Rule, ...] = (
    Rule(
        id="placement-architecture",
        title="One image, one CPU architecture",
        why=(
            "Head and workers of a Ray cluster share an image. Graviton and Grace nodes run arm64, all other GPU nodes x86_64; an image of the wrong one is "
            "pulled and its first process fails."
        ),
        check=architecture,
        sources=("https://docs.docker.com/build/building/multi-platform/",),
    ),
)
