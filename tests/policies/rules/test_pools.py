"""Each test breaks one thing about a node pool: its types, image, shape, or Karpenter's view of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.facts import Stack, Taint

from .stacks import (
    VERSIONS,
    core,
    found,
    h100,
    karpenter_pool,
    karpenter_stack,
    l4,
    release,
    sentences,
    sliced_stack,
    stack,
    two_node_stack,
    with_pool,
    with_values,
    without_release,
)

OTHER = {"cpu_milli": None, "memory_mib": None, "gpu": None, "gpus_per_node": 0, "gpu_mib": None}


def gpu_pool(**over: object) -> Stack:
    return with_pool(**over)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            stack(
                pools=(
                    core(),
                    l4(),
                    h100(name="x", where="node pool 'x'", instance_types=("p5.48xl",), efa=False, **OTHER),
                )
            ),
            [("pool-type", "error")],
        ),
        (stack(pools=(core(instance_types=("m7i-flex.2xlarge",)), l4())), [("pool-type", "warning")]),
        (stack(pools=(core(), l4(gpu="L5", kind="existing", instance_types=()))), [("pool-type", "error")]),
        (stack(pools=(core(), l4(gpu=None, kind="existing", instance_types=()))), [("pool-type", "error")]),
        (gpu_pool(instance_types=("g6.2xlarge", "g5.2xlarge")), [("pool-types-together", "warning")]),
        (gpu_pool(instance_types=("g6.2xlarge", "g6.12xlarge")), [("pool-types-together", "warning")]),
        (
            gpu_pool(instance_types=("g6.2xlarge", "m7i.2xlarge")),
            [("pool-image", "warning"), ("pool-types-together", "error")],
        ),
        (
            gpu_pool(instance_types=("g5.2xlarge", "g5g.2xlarge")),
            [("pool-image", "error"), ("pool-types-together", "error"), ("pool-types-together", "warning")],
        ),
        (gpu_pool(ami_type="AL2023_x86_64_STANDARD"), [("pool-image", "error")]),
        (gpu_pool(ami_type="AL2023_ARM_64_NVIDIA"), [("pool-image", "error")]),
        (gpu_pool(ami_type="AL2023_x86_64_NVIDA"), [("pool-image", "error")]),
        (gpu_pool(ami_type="AL2_x86_64_GPU"), [("pool-image", "error")]),
        (
            gpu_pool(ami_type="BOTTLEROCKET_x86_64_NVIDIA", instance_types=("g7.2xlarge",), gpu="RTX-PRO-4500"),
            [("operator-host-software", "error"), ("pool-image", "error")],
        ),
        (gpu_pool(ami_type="CUSTOM", ami_id="ami-1", driver_version="595"), []),
        (gpu_pool(ami_type="CUSTOM", driver_version="595"), [("pool-image", "error")]),
        (gpu_pool(ami_type="CUSTOM", ami_id="ami-1", driver_version=None), [("pool-image", "warning")]),
        (with_pool(which=0, ami_type="AL2023_x86_64_NVIDIA"), [("pool-image", "warning")]),
        (stack(versions=replace(VERSIONS, pulumi_aws="6.50.0")), [("pool-image-provider", "error")]),
        (stack(versions=replace(VERSIONS, pulumi_aws="7.51.1")), []),
        (gpu_pool(min=9, max=8), [("pool-size", "error")]),
        (gpu_pool(desired=9), [("pool-size", "error")]),
        (gpu_pool(min=1, desired=0), [("pool-size", "error")]),
        (gpu_pool(zones=("us-east-1d",), zones_declared=True), [("pool-zones", "error")]),
        (gpu_pool(zones=("us-east-1a",), zones_declared=True), []),
        (gpu_pool(spot=True), [("pool-availability", "warning")]),
        (gpu_pool(spot=True, instance_types=("g6.2xlarge", "g6.4xlarge")), []),
        (
            gpu_pool(
                spot=True, reservation="cr-1", reservation_kind="on_demand", zones=("us-east-1a",), zones_declared=True
            ),
            [("pool-reservation", "error")],
        ),
        (gpu_pool(efa=True), [("operator-installed", "warning"), ("pool-efa", "error")]),
        (gpu_pool(root_disk_gib=20, nvme_gb=0), [("pool-disk", "error")]),
        (gpu_pool(root_disk_gib=30, nvme_gb=0), [("pool-disk", "error")]),
        (gpu_pool(root_disk_gib=20), [("pool-disk", "warning")]),
        (gpu_pool(root_disk_gib=40, nvme_gb=0), [("pool-disk", "warning")]),
        (gpu_pool(root_disk_gib=60, nvme_gb=0), []),
        (gpu_pool(ignores_desired=False), [("pool-desired-ignored", "warning")]),
    ],
)
def test_what_is_wrong_with_a_pool(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ({"zones": ("us-east-1a", "us-east-1b")}, [("pool-efa", "error"), ("pool-reservation", "error")]),
        ({"reservation_kind": "capacity_block", "min": 1, "desired": 1}, [("pool-reservation", "warning")]),
        ({"reservation_kind": "capacity_block"}, []),
        ({"zones": (), "zones_declared": False}, [("pool-reservation", "warning")]),
        ({"reservation": None, "reservation_kind": None}, []),  # EFA keeps it in one zone anyway
        (
            {"efa": False, "reservation": None, "reservation_kind": None},
            [("network-efa-multi-node", "warning"), ("pool-availability", "warning")],
        ),
        (
            {"efa": False, "reservation": None, "reservation_kind": None, "zones": ()},
            [("network-efa-multi-node", "warning")],
        ),
    ],
)
def test_what_is_wrong_with_reserved_and_scarce_capacity(
    over: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    assert found(with_pool(two_node_stack(), **over)) == expected


def test_an_unknown_type_is_named_with_the_closest() -> None:
    given = stack(pools=(core(), l4(), h100(instance_types=("p5.48xl",), **OTHER)))
    assert sentences(given, "pool-type") == [
        "node pool 'h100': instance type 'p5.48xl' is not in the catalog; did you mean 'p5.48xlarge'? [pool-type]"
    ]


def test_ultraserver_types_need_a_capacity_block() -> None:
    gb200 = h100(
        name="gb200",
        where="node pool 'gb200'",
        instance_types=("p6e-gb200.36xlarge",),
        gpu="GB200",
        gpus_per_node=4,
        ami_type="AL2023_ARM_64_NVIDIA",
        architecture="arm64",
        efa=False,
        labels={"llm-serving/pool": "gb200"},
    )
    assert found(stack(pools=(core(), l4(), gb200))) == [("pool-reservation", "error")]
    assert found(stack(pools=(core(), l4(), replace(gb200, reservation_kind="capacity_block")))) == []


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (karpenter_pool(instance_types=("g6f.xlarge", "g6f.2xlarge")), [("karpenter-gpu-count", "error")]),
        (karpenter_pool(instance_types=("g6f.xlarge", "g6.2xlarge")), [("karpenter-gpu-count", "warning")]),
        (karpenter_pool(instance_types=("g6.2xlarge",)), [("pool-availability", "warning")]),
        (karpenter_pool(limits={"nvidia.com/gpu": 1}), [("karpenter-limits", "error")]),
        (karpenter_pool(limits={"nvidia.com/gpu": 2}), []),
        (karpenter_pool(limits={"nvidia.com/gpu": 0}), [("karpenter-limits", "error")]),
        (karpenter_pool(limits={"cpu": "4", "nvidia.com/gpu": 8}), [("karpenter-limits", "error")]),
        (karpenter_pool(limits={}), [("karpenter-limits", "warning")]),
    ],
)
def test_what_karpenter_cannot_start(pool: object, expected: list[tuple[str, str]]) -> None:
    given = replace(karpenter_stack(), pools=(core(max=2), pool))  # type: ignore[arg-type]
    assert found(given) == expected


def test_p5_4xlarge_is_refused_under_karpenter_with_the_way_round_it() -> None:
    for types, severity in ((("p5.4xlarge",), "error"), (("p5.4xlarge", "p5.48xlarge"), "warning")):
        h1 = karpenter_pool(instance_types=types, gpu="H100", gpu_mib=81559)
        assert ("karpenter-gpu-count", severity) in found(replace(karpenter_stack(), pools=(core(max=2), h1)))


def test_a_karpenter_pool_without_karpenter_is_an_error() -> None:
    assert found(replace(karpenter_stack(), autoscaler="cluster_autoscaler")) == [("karpenter-installed", "error")]
    old = replace(karpenter_stack(), versions=replace(VERSIONS, karpenter="1.6.0"))
    assert found(old) == [("karpenter-installed", "error")]


def test_scale_up_beyond_karpenters_limits_is_a_warning() -> None:
    given = karpenter_stack(pools=(core(max=2), karpenter_pool(limits={"nvidia.com/gpu": 3})))
    workload = given.workloads[0]
    group = replace(workload.groups[0], max=5)
    engines = (replace(workload.engines[0], max_replicas=5, autoscaled=True),)
    given = replace(
        given,
        workloads=(replace(workload, autoscaling=True, autoscaler_version="v2", groups=(group,), engines=engines),),
    )
    assert found(given) == [("karpenter-limits", "warning")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_values(driver={}), [("operator-host-software", "error")]),
        (with_values(toolkit={"enabled": True}), [("operator-host-software", "warning")]),
        (with_values(devicePlugin={"enabled": False}), [("operator-host-software", "error")]),
        (with_values(with_pool(ami_type="BOTTLEROCKET_x86_64_NVIDIA"), devicePlugin={"enabled": False}), []),
        (with_pool(ami_type="BOTTLEROCKET_x86_64_NVIDIA"), [("operator-host-software", "error")]),
        (
            with_values(with_pool(ami_type="AL2023_x86_64_STANDARD"), driver={}),
            [("operator-host-software", "error"), ("pool-image", "error")],
        ),
        (with_values(with_pool(ami_type="CUSTOM", ami_id="ami-1"), driver={"enabled": True}), []),
        (without_release("gpu-operator"), [("operator-installed", "error")]),
        (replace(without_release("gpu-operator"), cluster=None), []),
        (without_release("aws-efa-k8s-device-plugin", two_node_stack()), [("operator-installed", "warning")]),
        (stack(releases=(*without_release("gpu-operator").releases, release("nvidia-device-plugin", "0.20.0"))), []),
    ],
)
def test_what_is_wrong_with_the_gpu_operator(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_the_operator_tolerates_the_default_taint_and_no_other() -> None:
    other = Taint(key="dedicated", value="gpu")
    given = with_pool(taints=(other,))
    assert ("operator-tolerations", "error") in found(given)
    exists = {"key": "dedicated", "operator": "Exists"}
    mended = with_values(
        given, daemonsets={"tolerations": [exists]}, **{"node-feature-discovery": {"worker": {"tolerations": [exists]}}}
    )
    assert ("operator-tolerations", "error") not in found(mended)


def test_nfds_worker_is_named_when_only_it_stays_away() -> None:
    exists = {"key": "dedicated", "operator": "Exists"}
    equal = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}
    given = with_pool(
        with_values(
            daemonsets={"tolerations": [exists, {"operator": "Exists"}]},
            **{"node-feature-discovery": {"worker": {"tolerations": [equal]}}},
        ),
        taints=(Taint(key="nvidia.com/gpu", value="true"),),
    )
    assert sentences(given, "operator-tolerations") == [
        "release 'gpu-operator': Node Feature Discovery's worker does not tolerate nvidia.com/gpu=true:NoSchedule of node pool 'l4': the node is never "
        "labelled as a GPU node, and the operator's daemon sets want 0 pods, without an event; add {key: nvidia.com/gpu, operator: Exists} to "
        "node-feature-discovery.worker.tolerations [operator-tolerations]"
    ]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (
            "flags: {renameByDefault: true}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
            "under flags is ignored",
        ),
        (
            "sharing: {renameByDefault: true, timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}",
            "is ignored",
        ),
        (
            "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}, mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}",
            "the plugin takes one",
        ),
        ("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}", "shares nothing"),
        ("sharing: {timeSlicing: {}}", "names no resources"),
        ("version: v1", "has no timeSlicing for it"),
    ],
)
def test_what_is_wrong_with_the_device_plugins_configuration(text: str, fragment: str) -> None:
    given = with_values(sliced_stack(), devicePlugin={"config": {"create": True, "name": "x", "data": {"l4": text}}})
    assert any(fragment in sentence for sentence in sentences(given, "device-plugin-config"))


def test_a_pool_that_is_labelled_with_an_entry_that_is_not_there_is_an_error() -> None:
    given = with_values(
        sliced_stack(), devicePlugin={"config": {"create": True, "name": "x", "data": {"other": "version: v1"}}}
    )
    assert found(given) == [("device-plugin-config", "error")]
    assert found(with_values(sliced_stack(), devicePlugin={"config": {"create": True}})) == [
        ("device-plugin-config", "error")
    ]
