"""NVLink between nodes (GB200 NVL72): ComputeDomains and the claims of pods on their IMEX channels.

Not for: the driver that makes them real (dra_driver.py), EFA between nodes (network.py), or GPUs that are themselves claimed by DRA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Object, PodGroup, Stack, Workload
from policies.facts.nodes import nvlink_between_nodes as joined
from policies.facts.nodes import rows
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._engines import on_gpus
from ._places import Places, places
from ._values import amount, before, dig, literal

_KIND = "ComputeDomain"
# Both turn NCCL's multi-node NVLink off (NVIDIA/nccl, src/init.cc and src/mnnvl.cc; vllm#16992).
_SWITCHES = ("NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE")


def domains(stack: Stack) -> Mapping[str, list[Object]]:
    """ComputeDomains by the ResourceClaimTemplate that is made for each."""
    found: dict[str, list[Object]] = {}
    for thing in stack.of_kind(_KIND, group="resource.nvidia.com/"):
        name = dig(thing.spec, "channel", "resourceClaimTemplate", "name")
        found.setdefault(str(name or ""), []).append(thing)
    return found


def _claims(group: PodGroup) -> list[Mapping[str, Any]]:
    return [mapping(each) for each in items(group.pod.get("resourceClaims"))]


def nvlink_joins(group: PodGroup, pool: NodePool) -> bool:
    """Whether NVLink carries what the group's pods exchange: their nodes are joined by it, and they claim a channel."""
    return joined(pool) and bool(_claims(group))


def _of_domain(stack: Stack) -> Iterator[tuple[Workload, PodGroup, Mapping[str, Any], list[Object]]]:
    """Every claim of a pod on the template of a known domain."""
    known = domains(stack)
    if not known:
        return
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for claim in _claims(group):
                found = known.get(str(claim.get("resourceClaimTemplateName") or ""))
                if found:
                    yield workload, group, claim, found


def _nodes(index: Places, group: PodGroup) -> str | None:
    """Nodes the group goes to, for a message, where NVLink joins all of them; None elsewhere and where nobody can know."""
    pools = [pool for pool in index.selected(group) if pool.gpus_per_node]
    if pools:
        return pools[0].where if all(joined(pool) for pool in pools) else None
    named = str(group.node_selector.get("node.kubernetes.io/instance-type") or "")
    names = [row.gpu or "" for row in rows([named])]
    names.append(str(group.node_selector.get("nvidia.com/gpu.product") or "").removeprefix("NVIDIA-"))
    for name in filter(None, names):
        try:
            if gpus.get(name).multi_node_nvlink:
                return f"{name} nodes"
        except UnknownRow:
            continue
    return None


def _pods_of_replicas(stack: Stack) -> dict[int, int]:
    """Pods over which a replica of an engine is spread, by the identity of each group that carries it."""
    found: dict[int, int] = {}
    for seat in on_gpus(stack):
        for group in seat.groups:
            found[id(group)] = max(found.get(id(group), 1), seat.pods_joined)
    return found


def channel(stack: Stack) -> Iterator[Problem]:
    index, spread = places(stack), _pods_of_replicas(stack)
    for workload in stack.workloads:
        for group in workload.groups:
            together = max(group.hosts, spread.get(id(group), 1))
            if not workload.by_kuberay:
                together = sum(each.hosts for each in workload.groups)
            if together < 2 or not group.gpus:
                continue
            nodes = _nodes(index, group)
            if nodes is None:
                continue
            if not _claims(group):
                yield warning(
                    group.where,
                    f"a replica has {together} pods on {nodes}, which NVLink joins, and they claim no IMEX channel: vLLM turns NVLink between "
                    "nodes off, and they talk over EFA or TCP, many times slower",
                    "leave worker.compute_domain out, which derives it; or claim the resourceClaimTemplate of a ComputeDomain in the pod and in its first container",
                )
                continue
            for name in _SWITCHES:
                if literal(group.env, name) == "0":
                    yield warning(
                        group.where,
                        f"it claims an IMEX channel and sets {name}=0, which turns NVLink between nodes off",
                        f"leave {name} out",
                    )


def claim(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload, group, given, found in _of_domain(stack):
        name = str(given.get("name"))
        here = [each for each in found if each.namespace == workload.namespace]
        if not here:
            yield error(
                group.where,
                f"it claims '{given.get('resourceClaimTemplateName')}', which is made in namespace '{found[0].namespace}' beside {_KIND} '{found[0].name}', and runs "
                f"in '{workload.namespace}': its pods wait for a template that never comes",
                f"make the {_KIND} in '{workload.namespace}'",
            )
        main = next(iter(map(mapping, items(group.pod.get("containers")))), {})
        used = [str(mapping(each).get("name")) for each in items(dig(main, "resources", "claims"))]
        if name not in used:
            yield error(
                group.where,
                f"its pod claims an IMEX channel ('{name}') and its first container does not: the channel is not in the container, and NVLink ends at the node",
                f"add {{name: {name}}} to resources.claims of the container",
            )
        home = index.home(group)
        if home is not None and group.gpus and home.gpus_per_node >= 2 * group.gpus:
            yield warning(
                group.where,
                f"a node has one IMEX channel and one pod holds it: of the {home.gpus_per_node} GPUs of a node of {home.where} its pods use {amount(group.gpus)}",
                f"give a pod the whole node (worker.gpus_per_pod: {home.gpus_per_node}), or claim no channel",
            )


def mig(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        own = pool.ami_type in (None, "CUSTOM")
        if joined(pool) and pool.sharing.strategy == "mig" and not own and not before(pool.driver_version, "580"):
            yield error(
                pool.where,
                f"its {pool.gpu} GPUs cannot be cut by MIG: EKS' images manage their memory by the driver (CDMM, since driver 580), which has no MIG",
                "use whole GPUs, or another instance type for small models",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="compute-domain-channel",
        title="Pods of one replica on nodes that NVLink joins have an IMEX channel",
        why=(
            "In a GB200 NVL72 the GPUs of several nodes share memory over NVLink, through IMEX. A container without a channel cannot: vLLM sets NCCL_CUMEM_ENABLE=0 "
            "where it sees none, and NCCL by itself ends with 'MNNVL is available but not working'. The replica then talks over the network cards."
        ),
        check=channel,
        sources=(
            "vllm#16992",
            "NVIDIA/nccl: src/mnnvl.cc",
            "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html",
        ),
    ),
    Rule(
        id="compute-domain-claim",
        title="A claim on an IMEX channel reaches the container, in the domain's namespace, one pod a node",
        why=(
            "The driver makes the claim template in the namespace of the ComputeDomain, injects the channel into containers that name the claim, and has one channel "
            "for a node. A claim that misses one of these waits for ever, or is of no use."
        ),
        check=claim,
        sources=(
            "dra-driver-nvidia-gpu#309",
            "dra-driver-nvidia-gpu#353",
            "dra-driver-nvidia-gpu v0.5.0: cmd/compute-domain-kubelet-plugin/device_state.go",
        ),
    ),
    Rule(
        id="pool-mig-cdmm",
        title="GPUs whose memory the driver manages are not cut by MIG",
        why=(
            "EKS' images of P6e-GB200 have driver 580 with Coherent Driver-based Memory Management, since the kernel would count GPU memory as its own otherwise. "
            "With it the driver supports neither MIG nor vGPU."
        ),
        check=mig,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html",),
    ),
)
