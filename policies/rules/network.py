"""What engines over several nodes need of the network: EFA, NCCL, security groups.

Not for: which pools have EFA (pool_shape.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import NodePool, PodGroup, Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, on_gpus
from ._places import EFA, engine_groups, places
from ._values import before, literal, releases
from .compute_domain import nvlink_joins
from .pool_types import rows


def _spread(stack: Stack) -> Iterator[tuple[Seat, PodGroup, NodePool]]:
    """Engines over more than one pod, with the group and pool of each."""
    index = places(stack)
    for seat in on_gpus(stack):
        if seat.pods_joined < 2:
            continue
        for group in seat.groups:
            pool = index.home(group)
            if pool is not None:
                yield seat, group, pool


def efa_multi_node(stack: Stack) -> Iterator[Problem]:
    for seat, group, pool in _spread(stack):
        able = [row.name for row in rows(pool) if row.efa_interfaces]
        if able and not pool.efa and not nvlink_joins(group, pool):
            yield warning(
                seat.engine.where,
                f"one replica spans {seat.pods_joined} pods on nodes of {pool.where} without EFA, though {able[0]} has it: NCCL goes over TCP",
                "set efa: true on the pool",
            )


def efa_mixed(stack: Stack) -> Iterator[Problem]:
    """Pods of one engine that may go to several pools, of which some have EFA."""
    index = places(stack)
    for seat in on_gpus(stack):
        if seat.pods_joined < 2:
            continue
        for group in seat.groups:
            pools = [pool for pool in index.open(group) if pool.gpus_per_node]
            slow = [pool for pool in pools if not pool.efa]
            if slow and len(slow) < len(pools) and not group.limits.get(EFA):
                fast = next(pool for pool in pools if pool.efa)
                yield warning(
                    group.where,
                    f"its pods may go to {fast.where}, which has EFA, and to {slow[0].where}, which has none: an engine over both waits for the slower, or its NCCL fails",
                    f"select one pool, or ask for {EFA} in the pods' limits",
                )


# Until here the plugin takes the NVLink controllers of these instances for EFA devices and advertises ten for eight.
_PLUGIN_LEAST = {"p6-b200": "0.5.10"}


def efa_plugin(stack: Stack) -> Iterator[Problem]:
    for release in releases(stack, "aws-efa-k8s-device-plugin"):
        for pool in stack.pools:
            families = {name.split(".")[0] for name in pool.instance_types}
            least = max((v for family, v in _PLUGIN_LEAST.items() if family in families), default=None)
            if pool.efa and least and before(str(release.version or "").removeprefix("v"), least):
                yield error(
                    release.where,
                    f"{release.version} of the EFA plugin takes NVLink controllers of {pool.where} for EFA devices: pods get devices that carry no network, and NCCL times out",
                    f"use v{least} or newer",
                )


def efa_requested(stack: Stack) -> Iterator[Problem]:
    for seat, group, pool in _spread(stack):
        if not pool.efa:
            continue
        asked = whole(group.limits.get(EFA)) or 0
        have = pool.efa_declared_interfaces
        if not asked:
            yield warning(
                group.where,
                f"pods of {seat.engine.where.rsplit(': ', 1)[-1]} span nodes of {pool.where} and do not ask for {EFA}: NCCL falls back to TCP",
                f"add {EFA}: {have or 1} to the limits",
            )
        elif have is not None and asked > have:
            yield error(
                group.where,
                f"it asks for {asked} {EFA} and nodes of {pool.where} have {have}, so its pods stay pending",
                f"ask for {have}",
            )


_EFA_OFF = {"NCCL_NET": ("socket",), "FI_PROVIDER": ("tcp", "sockets", "udp"), "NCCL_NET_PLUGIN": ("none",)}


def nccl_env(stack: Stack) -> Iterator[Problem]:
    for seat, group, pool in _spread(stack):
        env = {**group.env, **seat.engine.env}
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            if (literal(env, name) or "").lstrip("=") == "lo":
                yield error(
                    group.where,
                    f"{name}=lo: the pods of an engine look for each other on their own loopback device",
                    f"leave {name} out, or name the pod's device (eth0)",
                )
        for name, values in _EFA_OFF.items():
            value = literal(env, name)
            if pool.efa and value is not None and value.lower() in values:
                yield warning(
                    group.where,
                    f"{name}={value} turns EFA off for an engine over several nodes of {pool.where}",
                    f"leave {name} out",
                )


def expert_parallel(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload in stack.workloads:
        for engine in workload.engines:
            if not engine.expert:
                continue
            backend = str(
                engine.engine_args.get("all2all_backend") or literal(engine.env, "VLLM_ALL2ALL_BACKEND") or ""
            )
            for group in engine_groups(workload, engine):
                pool = index.home(group)
                if pool is None or not pool.gpus_per_node or engine.world * engine.data <= pool.gpus_per_node:
                    continue
                if not pool.efa and not any(row.efa_interfaces for row in rows(pool)):
                    continue
                if backend.startswith(("deepep", "pplx")):
                    yield warning(
                        engine.where,
                        f"experts are spread over nodes with backend {backend}, which needs InfiniBand verbs that EFA does not have",
                        "keep experts inside one node, or use all2all_backend allgather_reducescatter",
                    )
                break


def security_group(stack: Stack) -> Iterator[Problem]:
    """EFA needs all traffic of a security group to itself, in and out; judged where the stack declares groups and EFA interfaces."""
    templates = [r for r in stack.aws if r.type == "aws:ec2/launchTemplate:LaunchTemplate" and _efa_interfaces(r.props)]
    groups = [r for r in stack.aws if r.type == "aws:ec2/securityGroup:SecurityGroup"]
    if not templates or not groups:
        return
    separate = any("securityGroup" in r.type and "Rule" in r.type for r in stack.aws)
    for direction in ("ingress", "egress"):
        if not separate and not any(_all_to_itself(g.props, direction) for g in groups):
            yield warning(
                templates[0].where,
                f"it has EFA interfaces and no security group lets all traffic to itself {'in' if direction == 'ingress' else 'out'}: "
                "TCP, UDP and ICMP rules do not cover EFA",
                f"add an {direction} rule with protocol -1 and self: true",
            )


def _efa_interfaces(props: object) -> bool:
    return any(
        str(mapping(i).get("interfaceType", "")).startswith("efa")
        for i in items(mapping(props).get("networkInterfaces"))
    )


def _all_to_itself(props: object, direction: str) -> bool:
    return any(
        str(mapping(rule).get("protocol")) in ("-1", "all")
        and (
            mapping(rule).get("self") is True
            or (direction == "egress" and "0.0.0.0/0" in items(mapping(rule).get("cidrBlocks")))
        )
        for rule in items(mapping(props).get(direction))
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-efa-mixed",
        title="Pods of one engine are all on EFA, or none is",
        why="Two pools whose labels and taints are alike both take an engine's pods. RDMA works between nodes of one subnet that have EFA, and not from there to others.",
        check=efa_mixed,
        sources=("aws-samples/amazon-eks-machine-learning-with-terraform-and-kubeflow#118",),
    ),
    Rule(
        id="network-efa-plugin",
        title="The EFA plugin knows the instance's devices",
        why="The InfiniBand subsystem of newer instances has controllers that are no network. A plugin of before their time advertises them as EFA devices.",
        check=efa_plugin,
        sources=("aws/sagemaker-hyperpod-cli PR#282",),
    ),
    Rule(
        id="network-efa-multi-node",
        title="Engines over nodes use the fast network",
        why=(
            "Ranks on different nodes exchange activations for every step. Large GPU instances have up to 3200 Gbit/s of EFA; without it NCCL takes the one "
            "TCP path."
        ),
        check=efa_multi_node,
        sources=("aws-ofi-nccl#1063",),
    ),
    Rule(
        id="network-efa-requested",
        title="Pods ask for the EFA interfaces they use",
        why="EFA interfaces are given by a device plugin like GPUs: without the resource in the limits the container has none, and NCCL silently takes sockets.",
        check=efa_requested,
        sources=("aws-ofi-nccl#1063", "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"),
    ),
    Rule(
        id="network-nccl-env",
        title="No variable turns the network between pods off",
        why="NCCL and libfabric follow these variables without a word, and throughput drops by an order of magnitude.",
        check=nccl_env,
        sources=("https://github.com/aws/aws-ofi-nccl",),
    ),
    Rule(
        id="network-expert-parallel",
        title="Experts stay inside a node on EFA",
        why="DeepEP and pplx kernels use GPU-initiated InfiniBand, which EFA does not offer; the engine fails or hangs when it sets them up.",
        check=expert_parallel,
        sources=("vllm#27633", "vllm#27898"),
    ),
    Rule(
        id="network-efa-security-group",
        title="EFA's security group lets all traffic to itself",
        why="EFA's protocol is none of TCP, UDP or ICMP. Only a rule for all protocols from and to the group itself covers it.",
        check=security_group,
        sources=("nccl#229", "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"),
    ),
)
