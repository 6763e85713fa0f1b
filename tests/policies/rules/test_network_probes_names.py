"""Each test breaks one thing about the network of engines, probes, or names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts import AwsResource, Object, Stack

from .stacks import (
    core,
    engine,
    found,
    h100,
    l4,
    sentences,
    service,
    stack,
    two_node_service,
    two_node_stack,
    with_engine,
    with_head,
    with_pool,
    with_service,
    with_workers,
    workers,
)

FOUR = l4(instance_types=("g6.12xlarge",), gpus_per_node=4, cpu_milli=47810, memory_mib=178933)


def tensor_two(**over: Any) -> Stack:
    """One engine over two GPUs of one pod."""
    given = stack(pools=(core(), FOUR))
    given = with_engine(given, tensor=2, bundles=({"GPU": 1},) * 2)
    return with_workers(given, gpus=2.0, limits={"nvidia.com/gpu": "2"}, resources={"GPU": "2"}, **over)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (tensor_two(), []),
        (tensor_two(shm_mib=64), [("network-shared-memory", "error")]),
        (tensor_two(shm_mib=1024), [("network-shared-memory", "warning")]),
        (tensor_two(shm_mib=4096), []),
        (tensor_two(ray_start_params={"plasma-directory": "/data"}), [("network-shared-memory", "error")]),
        (with_workers(shm_mib=64), []),
        (with_workers(shm_mib=64_000), [("network-shm-mount", "warning")]),
        (with_workers(host_shm=True), [("network-shm-mount", "warning")]),
        (
            with_workers(
                pod={
                    "containers": [{"name": "a", "image": "x:1"}],
                    "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
                }
            ),
            [("network-shm-mount", "warning")],
        ),
        (
            with_workers(
                pod={
                    "containers": [
                        {"name": "a", "image": "x:1", "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}
                    ],
                    "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
                }
            ),
            [],
        ),
    ],
)
def test_shared_memory_of_engine_pods(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_a_plain_deployment_mounts_shared_memory_itself() -> None:
    plain = {"kind": "Deployment", "head": None, "apps": (), "upgrade_type": None, "auth_mode": None}
    assert ("network-shared-memory", "error") in found(with_service(tensor_two(), **plain))
    assert ("network-shared-memory", "error") not in found(with_service(tensor_two(shm_mib=8192), **plain))


def two(**over: Any) -> Stack:
    """The two-node stack with its workers changed."""
    return with_workers(two_node_stack(), **over)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (two(limits={"nvidia.com/gpu": "8"}), [("network-efa-requested", "warning")]),
        (two(limits={"vpc.amazonaws.com/efa": "64"}), [("network-efa-requested", "error")]),
        (two(env={"FI_PROVIDER": "tcp"}), [("network-nccl-env", "warning")]),
        (two(env={"FI_PROVIDER": "efa"}), []),
        (with_pool(two_node_stack(), efa=False), [("network-efa-multi-node", "warning")]),
        (
            with_engine(two_node_stack(), expert=True, engine_args={"all2all_backend": "deepep_high_throughput"}),
            [("network-expert-parallel", "warning")],
        ),
        (with_engine(two_node_stack(), expert=True, engine_args={"all2all_backend": "allgather_reducescatter"}), []),
        (with_engine(two_node_stack(), expert=True), []),
    ],
)
def test_engines_over_nodes(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_pods_of_one_engine_that_may_go_to_nodes_with_and_without_efa() -> None:
    labels = {"llm-serving/pool": "h100", "gpu": "h100"}
    given = with_workers(two_node_stack(), node_selector={"gpu": "h100"}, limits={"nvidia.com/gpu": "8"})
    fast, slow = (
        h100(labels=labels, max=4),
        h100(name="slow", efa=False, labels={**labels, "llm-serving/pool": "slow"}, reservation="cr-0b"),
    )
    mixed = replace(given, pools=(core(), fast, slow))
    assert ("network-efa-mixed", "warning") in found(mixed)
    assert "network-efa-mixed" not in {rule for rule, _ in found(replace(given, pools=(core(), fast)))}
    asked = with_workers(mixed, limits={"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"})
    assert "network-efa-mixed" not in {rule for rule, _ in found(asked)}


def test_experts_inside_a_node_may_use_any_backend() -> None:
    one = two_node_service(
        groups=(replace(two_node_service().groups[0], hosts=1),),
        engines=(
            engine(
                tensor=8,
                expert=True,
                engine_args={"all2all_backend": "pplx"},
                bundles=({"GPU": 1},) * 8,
                groups=("h100",),
            ),
        ),
    )
    assert found(replace(two_node_stack(), workloads=(one,))) == []


def test_efas_security_group_needs_all_traffic_to_itself() -> None:
    template = AwsResource(
        type="aws:ec2/launchTemplate:LaunchTemplate",
        name="gpu",
        where="launch template 'gpu'",
        props={"networkInterfaces": [{"interfaceType": "efa"}], "metadataOptions": {"httpTokens": "required"}},
    )
    tcp = AwsResource(
        type="aws:ec2/securityGroup:SecurityGroup",
        name="sg",
        where="security group 'sg'",
        props={
            "ingress": [{"protocol": "tcp", "fromPort": 0, "toPort": 65535, "self": True}],
            "egress": [{"protocol": "-1", "cidrBlocks": ["0.0.0.0/0"]}],
        },
    )
    right = replace(tcp, props={**tcp.props, "ingress": [{"protocol": "-1", "self": True}]})
    assert found(Stack(aws=(template, tcp))) == [("network-efa-security-group", "warning")]
    assert found(Stack(aws=(template, right))) == []


# Probes

SERVE = {"httpGet": {"path": "/-/healthz", "port": 8000}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_head(readiness_probe={"httpGet": {"path": "/health", "port": 8000}}), [("probe-head-gated", "error")]),
        (
            with_head(readiness_probe={"exec": {"command": ["curl", "localhost:8000/health"]}}),
            [("probe-head-gated", "error")],
        ),
        (with_head(readiness_probe={"httpGet": {"path": "/api/healthz", "port": 52365}}), []),
        (
            with_workers(liveness_probe={**SERVE, "periodSeconds": 5, "failureThreshold": 3}),
            [("probe-kills-loading", "error")],
        ),
        (
            with_workers(liveness_probe={**SERVE, "periodSeconds": 10, "failureThreshold": 20}),
            [("probe-kills-loading", "warning")],
        ),
        (with_workers(liveness_probe={**SERVE, "periodSeconds": 10, "failureThreshold": 60}), []),
        (with_workers(liveness_probe=SERVE, startup_probe={**SERVE, "failureThreshold": 60}), []),
        (with_workers(liveness_probe={"exec": {"command": ["ray", "health-check"]}, "failureThreshold": 1}), []),
        (with_head(liveness_probe={"httpGet": {"path": "/api/version", "port": 8265}}), [("probe-token", "warning")]),
        (
            with_head(
                liveness_probe={
                    "httpGet": {
                        "path": "/api/version",
                        "port": 8265,
                        "httpHeaders": [{"name": "Authorization", "value": "x"}],
                    }
                }
            ),
            [],
        ),
        (with_engine(min_replicas=1, max_replicas=1), [("probe-single-replica", "warning")]),
        (
            with_workers(with_engine(min_replicas=1, max_replicas=1), liveness_probe={**SERVE, "failureThreshold": 90}),
            [],
        ),
        (with_engine(with_engine(min_replicas=1, max_replicas=1), device="cpu"), []),
    ],
)
def test_probes(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_a_plain_deployment_is_killed_while_it_loads() -> None:
    plain = service(
        kind="Deployment",
        head=None,
        apps=(),
        upgrade_type=None,
        auth_mode=None,
        groups=(workers(liveness_probe={"httpGet": {"path": "/health", "port": 8000}}, shm_mib=4096),),
    )
    assert sentences(stack(workloads=(plain,)), "probe-kills-loading") == [
        "service 'chat': worker group 'l4': its liveness probe gives up after 30 s and the engine needs about 300 s to load: the container is killed and "
        "starts over; add a startupProbe with periodSeconds x failureThreshold of at least 600 s [probe-kills-loading]"
    ]


def test_tools_beside_the_head_need_the_token() -> None:
    tool = {"name": "collector", "image": "x:1", "command": ["collect", "http://localhost:8265"]}
    main = {"name": "ray-head", "image": "x:1"}
    assert found(with_head(pod={"containers": [main, tool]})) == [("auth-token-tools", "warning")]
    armed = {
        **tool,
        "env": [{"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "chat", "key": "auth_token"}}}],
    }
    assert found(with_head(pod={"containers": [main, armed]})) == []


# Names


@pytest.mark.parametrize(
    ("kind", "name", "wrong"),
    [
        ("RayService", "a" * 47, False),
        ("RayService", "a" * 48, True),
        ("RayJob", "a" * 48, True),
        ("RayCluster", "a" * 53, False),
        ("RayCluster", "a" * 54, True),
        ("RayService", "chat.v2", True),
        ("RayService", "2chat", True),
        ("RayService", "Chat", True),
        ("RayService", "chat-", True),
        ("RayService", "chat_v2", True),
        ("RayService", "chat-v2", False),
        ("Deployment", "a" * 63, False),
    ],
)
def test_names_of_workloads(kind: str, name: str, wrong: bool) -> None:
    given = with_service(kind=kind, name=name)
    assert (("name-workload", "error") in found(given)) is wrong


def test_a_wrong_name_is_answered_with_a_right_one() -> None:
    assert sentences(with_service(name="2.Chat"), "name-workload") == [
        "service 'chat': RayService name '2.Chat' is no DNS label: lower-case letters, digits and '-', a letter first, no '-' last; call it 's-2-chat' "
        "[name-workload]"
    ]


@pytest.mark.parametrize("name", ["headgroup", "", "a b", "gpu_group", "x" * 64])
def test_names_of_groups(name: str) -> None:
    assert ("name-group", "error") in found(with_workers(name=name))


def test_groups_and_workloads_with_the_same_name() -> None:
    base = stack()
    group = base.workloads[0].groups[0]
    assert ("name-group", "error") in found(with_service(base, groups=(group, group)))
    assert ("name-unique", "error") in found(replace(base, workloads=(base.workloads[0], base.workloads[0])))
    other = Object(
        api_version="v1",
        kind="Service",
        name="chat-head-svc",
        namespace="default",
        where="Service default/chat-head-svc",
        manifest={},
    )
    assert found(replace(base, objects=(other,))) == [("name-unique", "error")]


def test_group_names_that_are_cut_to_the_same_prefix() -> None:
    long = "a" * 40
    groups = (workers(name="workers-large-a"), workers(name="workers-large-b"))
    given = with_engine(with_service(name=long, groups=groups), groups=("workers-large-a", "workers-large-b"))
    assert ("name-truncated", "warning") in found(given)
