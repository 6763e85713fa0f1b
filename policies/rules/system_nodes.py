"""Nodes that somebody has to make: for the cluster's own pods, and for pools that are meant to grow.

Not for: whether services fit a pool (capacity.py), or Karpenter's settings (karpenter.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import NodePool, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name, dig, listed
from .auto_mode import auto_clusters
from .capacity import demands, nodes_of

_HARD = ("NoSchedule", "NoExecute")
_AUTOSCALERS = {"karpenter": "Karpenter, which leaves node groups alone", "none": "none"}


def kept(pool: NodePool) -> int:
    """Nodes of a managed pool that are there with no node autoscaler."""
    return max(pool.min, pool.desired or 0)


def _closed(pool: NodePool) -> tuple[str, ...]:
    return tuple(sorted({taint.key for taint in pool.taints if taint.effect in _HARD}))


def system(stack: Stack) -> Iterator[Problem]:
    if not stack.complete:
        yield from _closed_or_spot(stack)
    if not stack.complete or not stack.cluster_made:
        return
    homes = [p for p in stack.pools if p.kind == "managed" and kept(p) and not _closed(p)]
    steady = [p for p in homes if p.reservation_kind != "capacity_block"]
    if any(not pool.spot for pool in steady):
        return
    if steady:
        yield _all_spot(steady[0])
        return
    why = "; ".join(f"'{pool.name}' {_unfit(pool)}" for pool in stack.pools[:6]) or "there is no pool"
    yield error(
        "node_pools",
        f"no node is there for the cluster's own pods (CoreDNS, operators, schedulers, the node autoscaler itself, Ray heads): {why}",
        "add a managed pool without taints, e.g. core: {instance_types: [m7i.xlarge], min: 2, max: 4}",
    )


def _all_spot(pool: NodePool) -> Problem:
    return warning(
        pool.where,
        "it is the only pool for the cluster's own pods (CoreDNS, operators, schedulers, Ray heads) and it is spot: they all go at once",
        "add a small on-demand pool, or leave capacity: spot out",
    )


def _closed_or_spot(stack: Stack) -> Iterator[Problem]:
    """Groups of a program that makes the cluster as well, all of them tainted or spot, and nothing else that CoreDNS could run on."""
    types = [each.type for each in stack.aws]
    dns = [mapping(each.props) for each in stack.aws if mapping(each.props).get("addonName") == "coredns"]
    elsewhere = any(each in types for each in ("aws:eks/fargateProfile:FargateProfile", "aws:autoscaling/group:Group"))
    if types.count("aws:eks/cluster:Cluster") != 1 or elsewhere or auto_clusters(stack):
        return
    groups = [pool for pool in stack.pools if pool.kind == "managed"]
    if groups and all(map(_closed, groups)) and not any("toleration" in str(p.get("configurationValues")) for p in dns):
        yield warning(
            groups[0].where,
            f"all groups of nodes are tainted ({listed(sorted({key for pool in groups for key in _closed(pool)}))}): CoreDNS and the other pods of the cluster's own have no node",
            "add a group without taints, of two small instances",
        )
    open_ = [pool for pool in groups if not _closed(pool)]
    serves = stack.workloads or any(pool.gpus_per_node for pool in stack.pools)
    if serves and open_ and all(pool.spot for pool in open_):
        yield _all_spot(open_[0])


def _unfit(pool: NodePool) -> str:
    if pool.kind == "karpenter":
        return "is Karpenter's, whose own pods need a node first"
    if pool.kind != "managed":
        return "is not made by this stack"
    if pool.reservation_kind == "capacity_block":
        return "is there in its capacity block's period only"
    if _closed(pool):
        return f"is tainted {', '.join(_closed(pool))}"
    return "keeps no node (min 0)"


def scaled(stack: Stack) -> Iterator[Problem]:
    """Managed pools with room to grow and nobody who makes them grow."""
    if not stack.complete:
        yield from _unscaled(stack)
    if not stack.complete or stack.autoscaler not in _AUTOSCALERS:
        return
    needs = {demand.pool.name: nodes_of(demand.rest) for demand in demands(stack)}
    mend = "make it kind: karpenter" if stack.autoscaler == "karpenter" else "choose software.autoscaler.kind"
    for pool in stack.pools:
        most = pool.max or 0
        if pool.kind != "managed" or most <= kept(pool):
            continue
        need = needs.get(pool.name, 0)
        adds = f"the node autoscaler is {_AUTOSCALERS[stack.autoscaler]}: nobody adds nodes to it"
        if need > kept(pool) and most >= need and pool.reservation_kind != "capacity_block":
            yield error(
                pool.where,
                f"services need {need} of its nodes at rest, it starts with {kept(pool)}, and {adds}",
                f"set min: {need}, or {mend}",
            )
        else:
            yield warning(
                pool.where,
                f"it has {kept(pool)} nodes and max {most}, and {adds}",
                f"set max to {max(1, kept(pool))}, or {mend}" if kept(pool) else f"set min, or {mend}",
            )


def _unscaled(stack: Stack) -> Iterator[Problem]:
    """GPU groups of a program that makes the cluster as well, and brings nobody who raises their size."""
    made_here = any(each.type == "aws:eks/cluster:Cluster" for each in stack.aws)
    images = [
        str(mapping(each).get("image"))
        for item in stack.of_kind("Deployment")
        for each in items(dig(item.spec, "template", "spec", "containers"))
    ]
    there = [*images, *(chart_name(release) for release in stack.releases)]
    if not made_here or any("cluster-autoscaler" in name for name in there):
        return
    for pool in stack.pools:
        starts = max(pool.min, pool.desired or 0)
        if pool.kind == "managed" and pool.gpus_per_node and (pool.max or 0) > starts:
            yield warning(
                pool.where,
                f"it starts with {starts} nodes and may have {pool.max}, and nothing of this stack raises its size: EKS itself never does, and Karpenter leaves node groups alone",
                "install cluster-autoscaler, or set maxSize to what it starts with",
            )


def made(stack: Stack) -> Iterator[Problem]:
    """Pools of EC2 nodes beside a cluster in which this stack makes no nodes."""
    if not stack.complete or stack.cluster != "existing":
        return
    for pool in stack.pools:
        if pool.kind in ("managed", "karpenter"):
            yield error(
                pool.where,
                "it is made of EC2 nodes and the cluster is kind: existing, in which this stack makes none",
                "set cluster: {kind: aws, create: false, ...} to add node pools to an EKS cluster that is there, or state its nodes with kind: existing",
            )


def gpu_taint(stack: Stack) -> Iterator[Problem]:
    cpu = [p for p in stack.pools if p.kind in ("managed", "karpenter") and p.cpu_milli and not p.gpus_per_node]
    if not any(not _closed(pool) for pool in cpu):
        return  # without another home the GPU nodes are meant to take everything
    for pool in stack.pools:
        if pool.kind in ("managed", "karpenter") and pool.gpus_per_node and not _closed(pool):
            yield warning(
                pool.where,
                "its GPU nodes have no taint: pods without a GPU land there, take the engines' CPU and memory, and keep the nodes on when no engine needs them",
                "leave taints out, which gives GPU pools nvidia.com/gpu=present:NoSchedule",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="pool-system",
        title="There is a node for the cluster's own pods",
        why=(
            "CoreDNS, the CSI and metrics controllers, node autoscalers, operators and Ray heads tolerate no taint and run before anything is scaled. An EKS "
            "cluster whose only nodes are tainted or start at zero has no DNS; its add-ons stay degraded until the deployment gives up."
        ),
        check=system,
        sources=(
            "https://docs.aws.amazon.com/eks/latest/best-practices/karpenter.html",
            "https://docs.aws.amazon.com/eks/latest/userguide/managing-coredns.html",
        ),
    ),
    Rule(
        id="pool-scaled",
        title="A pool that may grow has somebody who makes it grow",
        why=(
            "The max of a node group is a limit, not a wish: cluster-autoscaler raises the desired size, Karpenter starts instances of its own beside it. Pods "
            "beyond the first nodes stay pending, and the plan's maximum is never reached."
        ),
        check=scaled,
        sources=("https://karpenter.sh/docs/faq/#how-do-i-use-karpenter-with-the-kubernetes-cluster-autoscaler",),
    ),
    Rule(
        id="pool-cluster",
        title="Pools are made in a cluster that this stack adds nodes to",
        why="Node groups and NodePools are made on EKS only. Beside an existing cluster of another kind the pool exists in the plan and nowhere else.",
        check=made,
    ),
    Rule(
        id="pool-gpu-taint",
        title="GPU nodes are tainted",
        why=(
            "A GPU node without a taint is the emptiest node for every pod that starts, and a single one of them keeps the autoscaler from removing it. GPU "
            "Operator, device plugins and the pods of this stack tolerate nvidia.com/gpu."
        ),
        check=gpu_taint,
        sources=("k8s-device-plugin#1934", "doeks#446"),
    ),
)
