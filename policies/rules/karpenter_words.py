"""Words on pods that Karpenter does not read, or reads before a node could have them: names of before v1, and labels of GPU discovery.

Not for: requirements of a NodePool (karpenter_objects.py), or selectors that no pool meets (placement.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._places import places
from ._values import dig, listed
from .pool_types import other_accelerator

# Renamed with v1beta1 and v1 (https://karpenter.sh/docs/upgrading/v1-migration/).
_OLD = {
    "karpenter.sh/do-not-evict": "karpenter.sh/do-not-disrupt",
    "karpenter.sh/do-not-consolidate": "karpenter.sh/do-not-disrupt",
    "karpenter.sh/provisioner-name": "karpenter.sh/nodepool",
}
# Domains whose labels a DaemonSet puts on a node that is there: NVIDIA's GPU feature discovery, node feature discovery.
_TYPES = ("karpenter.k8s.aws/instance-family", "node.kubernetes.io/instance-type")
_DISCOVERED = ("nvidia.com/", "feature.node.kubernetes.io/")
# Domains whose labels Karpenter, EC2 or Kubernetes know; others are a pool's own.
KNOWN = ("amazonaws.com", "csi.aws.com", "k8s.aws", "k8s.io", "karpenter.sh", "kubernetes.io", "nvidia.com")


def words(stack: Stack) -> Iterator[Problem]:
    pools = stack.of_kind("NodePool", group="karpenter.sh/")
    named = {key for pool in pools for key in _named(pool.spec)}
    alone = bool(pools) and all(pool.kind == "karpenter" for pool in stack.pools)
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for key in sorted(_OLD.keys() & group.annotations.keys()):
                yield warning(
                    group.where,
                    f"annotation {key} is not read since Karpenter 1.0: its pods are evicted like any others",
                    f"write {_OLD[key]}",
                )
            asked = _asked(group)
            for key in sorted(_OLD.keys() & asked):
                yield error(
                    group.where,
                    f"it asks for nodes with label {key}, which Karpenter 1.0 and newer give to none",
                    f"write {_OLD[key]}",
                )
            found = [key for key in sorted(asked - named) if key.startswith(_DISCOVERED)]
            if found and alone:
                yield warning(
                    group.where,
                    f"it asks for nodes with {listed(found)}, which feature discovery writes on a node that runs: Karpenter knows of no pool whose nodes will have it, and starts none",
                    "ask by karpenter.k8s.aws/instance-gpu-name, or give the label to the NodePool's template",
                )
            own = [
                key for key in sorted(asked - named) if not key.partition("/")[0].endswith(KNOWN) and key not in _OLD
            ]
            if own and alone and group.gpus and not stack.complete:  # of a complete stack placement.py says it
                yield warning(
                    group.where,
                    f"it asks for nodes with {listed(own)}, which no NodePool here gives to its nodes: Karpenter starts none (label does not have known values)",
                    f"give the label to a NodePool (spec.template.metadata.labels), or ask for one that it has: {listed(named)}",
                )


def chips(stack: Stack) -> Iterator[Problem]:
    """Pods that ask for NVIDIA's GPUs of pools whose instances have others."""
    strange = {
        item.name: others for item in stack.of_kind("NodePool", group="karpenter.sh/") if (others := _others(item.spec))
    }
    index = places(stack)
    for workload in stack.workloads if strange else ():
        for group in workload.pod_groups:
            pools = index.open(group) if group.node_selector and group.limits.get("nvidia.com/gpu") else ()
            if pools and all(pool.kind == "karpenter" and pool.name in strange for pool in pools):
                yield error(
                    group.where,
                    f"it asks for nvidia.com/gpu, and {pools[0].where} starts {listed(strange[pools[0].name])}, which have accelerators of other makers: no instance has enough resources",
                    "choose a family with NVIDIA GPUs (g4dn, g5, g6, g6e, p5)",
                )


def _others(spec: Mapping[str, Any]) -> list[str]:
    """Families or types of a pool, where all of them have accelerators of other makers."""
    for each in map(mapping, items(dig(spec, "template", "spec", "requirements"))):
        values = [str(value) for value in items(each.get("values"))]
        chosen = each.get("operator") == "In" and str(each.get("key")) in _TYPES
        if chosen and values and all(other_accelerator(value) for value in values):
            return values
    return []


def _named(spec: Mapping[str, Any]) -> set[str]:
    """Labels that a pool says its nodes have."""
    requirements = map(mapping, items(dig(spec, "template", "spec", "requirements")))
    return {*mapping(dig(spec, "template", "metadata", "labels")), *(str(each.get("key")) for each in requirements)}


def _asked(group: PodGroup) -> set[str]:
    """Labels without which the pod goes to no node."""
    found = set(map(str, group.node_selector))
    terms = items(
        dig(
            group.pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
        )
    )
    if len(terms) == 1:  # of several, any one will do
        for each in map(mapping, items(mapping(terms[0]).get("matchExpressions"))):
            if each.get("operator") in ("Exists", "Gt", "In", "Lt"):
                found.add(str(each.get("key")))
    return found


RULES: tuple[Rule, ...] = (
    Rule(
        id="karpenter-words",
        title="Pods speak to Karpenter in words that it reads",
        why=(
            "Karpenter 1.0 has other names for what keeps a pod where it is and for a pool's own label. And it plans a node from what NodePools and EC2 say: a label that feature "
            "discovery finds on the running node is unknown to it, so that the node which would get the label is never started."
        ),
        check=words,
        sources=(
            "karpenter-provider-aws#6861",
            "Azure/karpenter-provider-azure#1005",
            "aws/karpenter-provider-aws#5073",
            "https://karpenter.sh/docs/concepts/scheduling/",
        ),
    ),
    Rule(
        id="karpenter-chips",
        title="A pool's instances have the GPUs that its pods ask for",
        why="G4ad has AMD's GPUs, inf2 and trn1 AWS' own chips: they advertise other resources than nvidia.com/gpu, and Karpenter starts none of them for it.",
        check=chips,
        sources=("karpenter-provider-aws#7754", "karpenter-provider-aws#5676"),
    ),
)
