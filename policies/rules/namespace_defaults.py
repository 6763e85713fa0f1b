"""What a namespace's LimitRange gives containers that state nothing themselves. Not for: quotas and ranges that refuse pods (namespace_bounds.py)."""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping, mib
from policies.finding import Problem, Rule, error

# Python, PyTorch and a CUDA context of one engine process, before any weights.
_LEAST_MIB = 4096


def memory(stack: Stack) -> Iterator[Problem]:
    given = stack.of_kind("LimitRange", group="v1")
    for workload in stack.workloads if given else ():
        for item in given if workload.engines and not workload.by_kuberay else ():
            limits = [mapping(each) for each in items(item.spec.get("limits"))]
            defaults = [
                mapping(each.get("default")).get("memory") for each in limits if each.get("type") == "Container"
            ]
            shown = next((each for each in defaults if (mib(each) or _LEAST_MIB) < _LEAST_MIB), None)
            if item.namespace != workload.namespace or shown is None:
                continue
            for group in workload.groups:
                resources = mapping(group.main_container.get("resources"))
                if group.main_container and not mapping(resources.get("limits")).get("memory"):
                    yield error(
                        group.where,
                        f"its engine states no limit of memory and gets {shown} from {item.where}: it is killed while it starts (OOMKilled)",
                        "state limits.memory of the container, as much as the engine needs",
                    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="namespace-default-memory",
        title="An engine's memory is not the namespace's default",
        why="A LimitRange fills in what containers leave out. Defaults are made for web servers; an engine takes several gibibytes of the host before it reads weights.",
        check=memory,
        sources=("NVIDIA/aicr PR#70", "https://kubernetes.io/docs/concepts/policy/limit-range/"),
    ),
)
