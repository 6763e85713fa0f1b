"""Nodes for the cluster's own pods, pools that nobody would scale, untainted GPU nodes, and one image on two architectures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts import AwsResource, NodePool, Stack, Taint

from .stacks import core, found, karpenter_pool, karpenter_stack, l4, sentences, service, stack, with_head

CRITICAL = (Taint(key="CriticalAddonsOnly", value="true"),)


def pools(*given: NodePool, **over: Any) -> Stack:
    """The plain stack without services, with these pools."""
    return stack(pools=given, workloads=(), **over)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pools(core(), l4()), []),
        (pools(core(min=0, desired=2), l4()), []),  # its desired size is only ever lowered to where its pods fit
        (pools(core(taints=(Taint(key="soft", effect="PreferNoSchedule"),)), l4()), []),
        (pools(core(taints=CRITICAL), core(name="apps", where="node pool 'apps'"), l4()), []),
        (pools(l4(min=1, desired=1, taints=())), []),  # GPU nodes that take everything, and no other home
        (pools(l4()), [("pool-system", "error")]),
        (pools(), [("pool-system", "error")]),
        (pools(core(min=0, desired=0), l4()), [("pool-system", "error")]),
        (pools(core(taints=CRITICAL), l4()), [("pool-system", "error")]),
        (
            pools(core(reservation="cr-1", reservation_kind="capacity_block", zones=("us-east-1a",)), l4()),
            [("pool-reservation", "warning"), ("pool-system", "error")],
        ),
        (
            pools(core(spot=True, instance_types=("m7i.2xlarge", "m6i.2xlarge")), l4()),
            [("pool-system", "warning")],
        ),
        (pools(l4(), cluster_made=False), []),  # the cluster is there, with nodes of its own
        (pools(l4(), complete=False), []),
    ],
)
def test_the_clusters_own_pods_have_a_node(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_karpenter_itself_needs_a_node_first() -> None:
    home = core(kind="karpenter", min=0, desired=0, limits={"cpu": "64"})
    assert sentences(karpenter_stack(pools=(home, karpenter_pool())), "pool-system") == [
        "node_pools: no node is there for the cluster's own pods (CoreDNS, operators, schedulers, the node autoscaler itself, Ray heads): 'core' is Karpenter's, "
        "whose own pods need a node first; 'l4' is Karpenter's, whose own pods need a node first; add a managed pool without taints, e.g. core: "
        "{instance_types: [m7i.xlarge], min: 2, max: 4} [pool-system]"
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (stack(autoscaler="none"), [("pool-scaled", "error"), ("pool-scaled", "warning")]),
        (stack(autoscaler="none", pools=(core(max=2), l4(min=2, desired=2, max=2))), []),
        (stack(autoscaler="none", pools=(core(max=2), l4(desired=2, max=2))), []),
        (stack(autoscaler="none", pools=(core(max=2), l4(min=2, desired=2))), [("pool-scaled", "warning")]),
        (
            stack(
                autoscaler="none",
                pools=(
                    core(max=2),
                    l4(reservation="cr-1", reservation_kind="capacity_block", zones=("us-east-1a",), max=2),
                ),
            ),
            [("pool-reservation", "warning"), ("pool-scaled", "warning")],  # a schedule may start its nodes
        ),
        (karpenter_stack(pools=(core(), karpenter_pool())), [("pool-scaled", "warning")]),
        (karpenter_stack(pools=(core(max=2), l4())), [("pool-scaled", "error")]),
        (stack(autoscaler=None, complete=False), []),
    ],
)
def test_a_pool_that_may_grow_is_made_to_grow_by_somebody(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert [each for each in found(given) if each[0] != "upgrade-room"] == expected


def test_a_pool_that_is_too_small_beside_karpenter_is_told_with_what_it_needs() -> None:
    assert sentences(karpenter_stack(pools=(core(max=2), l4())), "pool-scaled") == [
        "node pool 'l4': services need 2 of its nodes at rest, it starts with 0, and the node autoscaler is Karpenter, which leaves node groups alone: nobody adds "
        "nodes to it; set min: 2, or make it kind: karpenter [pool-scaled]"
    ]


def test_ec2_pools_are_made_on_eks_only() -> None:
    given = stack(cluster="existing", cluster_made=False)
    assert [each for each in found(given) if each[0] == "pool-cluster"] == [("pool-cluster", "error")]
    assert len(sentences(given, "pool-cluster")) == 2
    assert sentences(stack(cluster_made=False), "pool-cluster") == []


def test_gpu_nodes_are_tainted_where_there_is_another_home() -> None:
    assert found(pools(core(), l4(taints=()))) == [("pool-gpu-taint", "warning")]
    assert found(pools(core(), l4(taints=CRITICAL))) != [("pool-gpu-taint", "warning")]
    assert found(pools(l4(min=1, desired=1, taints=()))) == []


def test_one_image_on_two_architectures_is_a_warning() -> None:
    arm = core(instance_types=("m7g.2xlarge",), architecture="arm64", ami_type="AL2023_ARM_64_STANDARD")
    given = stack(pools=(arm, l4()))
    assert found(given) == [("placement-architecture", "warning")]
    assert found(with_head(given, image="registry.example.com/llm-serve:ray2.60.0-1-arm64")) != found(given)
    both = replace(given, pools=(arm, l4(), core(name="x86", where="node pool 'x86'")))
    assert found(with_head(both, node_selector={})) == []


def test_karpenter_keeps_no_minimum() -> None:
    given = karpenter_stack(pools=(core(max=2), karpenter_pool(min=2)))
    assert found(given) == [("karpenter-minimum", "error")]
    static = karpenter_stack(pools=(core(max=2), karpenter_pool(min=4, max=4, fixed=True)))
    assert found(static) == []


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"nvidia.com/gpu": 8, "cpu": "128", "memory": "1Ti"}, []),
        ({"nvidia.com/gpu": "8", "nodes": 4}, []),
        ({"nvidia.com/gpu": 8, "example.com/licence": 3}, []),
        ({"nvidia.com/gpu": "eight", "cpu": 64}, [("karpenter-limits", "error")]),
        ({"nvidia.com/gpus": 8, "cpu": 64}, [("karpenter-limits", "error")]),
        ({"nvidia.com/gpu": 8, "mem": "1Ti"}, [("karpenter-limits", "error")]),
    ],
)
def test_karpenters_limits_are_quantities_of_what_nodes_have(
    limits: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    assert found(karpenter_stack(pools=(core(max=2), karpenter_pool(limits=limits)))) == expected


def test_a_service_without_pools_of_its_own_is_judged_all_the_same() -> None:
    assert found(stack(workloads=(service(head=None),), pools=(core(), l4()))) == []


def subnets(*cidrs: str, **over: Any) -> Stack:
    """The plain stack with private subnets of these ranges, one in each zone."""
    made = tuple(
        AwsResource(
            type="aws:ec2/subnet:Subnet",
            name=zone,
            where="cluster.network",
            props={"cidrBlock": cidr, "availabilityZone": f"us-east-1{zone}"},
        )
        for zone, cidr in zip("abc", cidrs, strict=False)
    )
    return stack(aws=made, **over)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (subnets("10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18"), []),
        (subnets("10.0.0.0/24", "10.0.1.0/24"), []),  # 14 nodes and 502 addresses
        (subnets("10.0.0.0/26", "10.0.0.64/26", "10.0.0.128/26"), [("network-addresses", "warning")]),
        (
            subnets("10.0.0.0/24", "10.0.1.0/24", pools=(core(), l4(zones=("us-east-1a",), max=9))),
            [("network-addresses", "warning")],
        ),
        (subnets("10.0.0.0/26", complete=False), []),
        (stack(), []),
    ],
)
def test_subnets_have_addresses_for_the_nodes(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert [each for each in found(given) if each[0] == "network-addresses"] == expected
