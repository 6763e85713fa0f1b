"""Nodes of each pool against the plan: how many, ready, their GPUs, room, labels and taints; and who holds their GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.checks import Check, error, ok, warning
from components.doctor.live import Item
from components.manifests.compute_domain import CLIQUE_LABEL
from components.manifests.pod_labels import SERVICE_LABEL
from components.node_pools import node_selector
from components.node_resources import VGPU_MEMORY, VGPU_RESOURCE, extended_resources
from components.plan.result import PoolPlan
from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool
from policies.facts.nodes import nvlink_between_nodes
from policies.facts.quantities import mib, milli, quantity, real

PRODUCT_LABEL = "nvidia.com/gpu.product"
# Taints that Kubernetes and autoscalers put on nodes that come, go or are not well; they are no drift of the pool.
_PASSING = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/",
)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Live nodes of one pool."""

    pool: NodePool
    items: tuple[Item, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(str(node["metadata"]["name"]) for node in self.items)


def of_pools(pools: Sequence[NodePool], nodes: Sequence[Item]) -> list[Nodes]:
    """The nodes that each pool's selector selects."""
    return [Nodes(pool, tuple(n for n in nodes if _selected(node_selector(pool), n))) for pool in pools]


def _selected(selector: Mapping[str, str], node: Item) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def check(found: Nodes, plan: PoolPlan) -> Iterator[Check]:
    """Everything about the nodes of one pool."""
    pool = found.pool
    yield from _count(found, plan)
    ready = [node for node in found.items if _ready(node)]
    for node in found.items:
        if node not in ready:
            reason = next(
                (c.get("message") for c in _conditions(node) if c.get("type") == "Ready"), "no condition Ready"
            )
            yield error(
                pool.where,
                "ready",
                f"node {_name(node)} is not ready: {reason}",
                "kubectl describe node " + _name(node),
            )
    if not ready:
        return
    yield from _resources(pool, ready)
    yield from _room(pool, ready)
    yield from _taints(pool, ready)
    yield from _product(pool, ready)
    if nvlink_between_nodes(pool):
        yield from _cliques(pool, ready)


def _cliques(pool: NodePool, nodes: Sequence[Item]) -> Iterator[Check]:
    """GPU feature discovery names the part of the NVLink fabric; on a node without it the DRA driver injects no channel."""
    of = {_name(node): (node["metadata"].get("labels") or {}).get(CLIQUE_LABEL) for node in nodes}
    lost = sorted(name for name, clique in of.items() if not clique)
    if lost:
        yield warning(
            pool.where,
            "NVLink",
            f"{len(lost)} of {len(nodes)} nodes have no {CLIQUE_LABEL}: {lost[0]} is in no NVLink fabric, and pods there talk over EFA or TCP",
            "look at the node's nvidia-smi -q (Fabric, State) and at GPU feature discovery",
        )
    else:
        yield ok(pool.where, "NVLink", f"{len(nodes)} nodes in {len(set(of.values()))} NVLink domains")


def _count(found: Nodes, plan: PoolPlan) -> Iterator[Check]:
    pool, count = found.pool, len(found.items)
    selector = ", ".join(f"{k}={v}" for k, v in node_selector(pool).items())
    text = f"{count} nodes with {selector}; the plan needs {plan.nodes.min:g} to {plan.nodes.max:g}"
    if count < min(plan.nodes.min, pool.max if pool.max is not None else plan.nodes.min):
        yield error(pool.where, "nodes", text, "look at the autoscaler's and the cloud's events, or label the nodes")
    elif pool.max is not None and count > pool.max:
        yield error(pool.where, "nodes", f"{text}, and its max is {pool.max}", "raise max, or take nodes away")
    else:
        yield ok(pool.where, "nodes", text)


def _resources(pool: NodePool, nodes: Sequence[Item]) -> Iterator[Check]:
    """GPUs and network cards that the device plugins advertise."""
    for name, planned in extended_resources(pool).items():
        counts = {_name(node): int(quantity(_allocatable(node).get(name)) or 0) for node in nodes}
        wrong = {node: count for node, count in counts.items() if count != planned}
        if wrong:
            node, count = next(iter(sorted(wrong.items())))
            yield error(
                pool.where,
                name,
                f"{len(wrong)} of {len(nodes)} nodes advertise another number than the {planned} of the plan: {node} has {count}",
                "look at the device plugin and the driver on the node, or correct the pool",
            )
        else:
            yield ok(pool.where, name, f"{planned} on each of {len(nodes)} nodes")


def _room(pool: NodePool, nodes: Sequence[Item]) -> Iterator[Check]:
    """Pods are sized for what the plan takes a node to have."""
    for name, planned, read, unit in (("cpu", pool.cpu_milli, milli, "m"), ("memory", pool.memory_mib, mib, "Mi")):
        if planned is None:
            continue
        least = min((read(_allocatable(node).get(name)) or 0, _name(node)) for node in nodes)
        if least[0] < planned:
            yield error(
                pool.where,
                name,
                f"node {least[1]} has {least[0]}{unit} for pods and the plan takes {planned}{unit}: pods that fill it find no place",
                "correct the pool's size, or lower the pods'",
            )
        else:
            yield ok(pool.where, name, f"at least {least[0]}{unit} for pods, {planned}{unit} in the plan")


def _taints(pool: NodePool, nodes: Sequence[Item]) -> Iterator[Check]:
    planned = {(taint.key, taint.value, taint.effect) for taint in pool.taints}
    for node in nodes:
        live = {
            (str(t.get("key")), str(t.get("value") or ""), str(t.get("effect")))
            for t in (node.get("spec") or {}).get("taints") or []
            if not str(t.get("key")).startswith(_PASSING)
        }
        extra, missing = sorted(live - planned), sorted(planned - live)
        if extra:
            yield error(
                pool.where,
                "taints",
                f"node {_name(node)} has {_taint(extra[0])}, which no pod of the plan tolerates",
                "state it in the pool's taints, or take it off the node",
            )
            return
        if missing:
            yield warning(
                pool.where,
                "taints",
                f"node {_name(node)} lacks {_taint(missing[0])}: pods of others may take its room",
                "taint the node, or leave the taint out of the pool",
            )
            return
    yield ok(pool.where, "taints", ", ".join(map(_taint, sorted(planned))) or "none")


def _product(pool: NodePool, nodes: Sequence[Item]) -> Iterator[Check]:
    """GPU feature discovery names the card; without its label nothing is said."""
    products = {str(p) for n in nodes if (p := (n["metadata"].get("labels") or {}).get(PRODUCT_LABEL))}
    for product in sorted(products):
        try:
            name = gpus.get(product.removesuffix("-SHARED")).name
        except UnknownRow:
            continue
        if pool.gpu is not None and name != pool.gpu:
            yield error(pool.where, "GPU", f"nodes have {name} and the plan takes {pool.gpu}", "correct the pool's gpu")
        else:
            yield ok(pool.where, "GPU", name)


def use(found: Nodes, plan: PoolPlan, pods: Sequence[Item]) -> Iterator[Check]:
    """GPUs that pods hold, ours and others', against the plan."""
    pool = found.pool
    resource, per_node = next(iter(extended_resources(pool).items()), (None, 0))
    if resource is None or not pool.gpus_per_node or not found.items:
        return
    each = pool.gpus_per_node / per_node
    ours = others = 0.0
    for pod in pods:
        if (pod.get("spec") or {}).get("nodeName") in found.names:
            held = _held(pod, pool, resource, each)
            if SERVICE_LABEL in (pod["metadata"].get("labels") or {}):
                ours += held
            else:
                others += held
    have = each * sum(int(quantity(_allocatable(node).get(resource)) or 0) for node in found.items)
    text = f"{round(ours, 2):g} of {round(have, 2):g} held by services; the plan holds {plan.gpus.min:g} to {plan.gpus.max:g}"
    if ours > plan.gpus.upgrade + 1e-6:
        yield warning(
            pool.where, "GPUs held", text, "look for services that the plan does not have, or an upgrade that hangs"
        )
    elif others:
        yield warning(
            pool.where,
            "GPUs held",
            f"{text}; {round(others, 2):g} by pods of others",
            "plan for them, or taint the nodes",
        )
    else:
        yield ok(pool.where, "GPUs held", text)


def _held(pod: Item, pool: NodePool, resource: str, each: float) -> float:
    """Physical GPUs of a pod: KAI's fraction, the memory of vGPUs, else what it asks for times the GPU in each."""
    fraction = real((pod["metadata"].get("annotations") or {}).get("gpu-fraction"))
    if fraction is not None:
        return fraction
    held = 0.0
    for container in pod["spec"].get("containers") or []:
        limits = (container.get("resources") or {}).get("limits") or {}
        count, memory = quantity(limits.get(resource)) or 0.0, quantity(limits.get(VGPU_MEMORY))
        if resource == VGPU_RESOURCE:
            held += count * (min(1.0, memory / pool.gpu_mib) if memory and pool.gpu_mib else 1.0)
        else:
            held += count * each
    return held


def _conditions(node: Item) -> list[Item]:
    found: list[Item] = (node.get("status") or {}).get("conditions") or []
    return found


def _ready(node: Item) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in _conditions(node))


def _allocatable(node: Item) -> Item:
    found: Item = (node.get("status") or {}).get("allocatable") or {}
    return found


def _name(node: Item) -> str:
    return str(node["metadata"]["name"])


def _taint(taint: tuple[str, str, str]) -> str:
    key, value, effect = taint
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"
