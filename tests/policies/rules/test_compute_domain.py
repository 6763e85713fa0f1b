"""One service over two GB200 nodes that NVLink joins, as others write it; each test breaks one thing about its IMEX channel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies import rules
from policies.facts import NodePool, Object, PodGroup, Release, Sharing, Stack

from .stacks import GPU, core, engine, gpu_operator, h100, h100_workers, kuberay, release, stack, two_node_service

RULES = (*rules.compute_domain.RULES, *rules.dra_driver.RULES)
TEMPLATE = "chat-imex-channel"
CLAIMS = [{"name": "imex", "resourceClaimTemplateName": TEMPLATE}]
VALUES: dict[str, Any] = {"nvidiaDriverRoot": "/", "resources": {"gpus": {"enabled": False}}}


def gb200(**over: Any) -> NodePool:
    given: dict[str, Any] = {
        "instance_types": ("p6e-gb200.36xlarge",),
        "gpu": "GB200",
        "gpus_per_node": 4,
        "gpu_mib": 189471,
        "cpu_milli": 143570,
        "memory_mib": 906719,
        "architecture": "arm64",
        "ami_type": "AL2023_ARM_64_NVIDIA",
        "reservation_kind": "capacity_block",
        "efa_declared_interfaces": 4,
        "max": 4,
    }
    return h100(**{**given, **over})


def domain(namespace: str = "default", **spec: Any) -> Object:
    given = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": TEMPLATE}}, **spec}
    manifest = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "spec": given}
    return Object(
        api_version="resource.nvidia.com/v1beta1",
        kind="ComputeDomain",
        name="chat",
        namespace=namespace,
        where=f"ComputeDomain {namespace}/chat",
        manifest=manifest,
    )


def dra_driver(version: str = "0.5.0", chart: str = "dra-driver-nvidia-gpu", **values: Any) -> Release:
    return release(chart, version, {**VALUES, **values})


def workers(**over: Any) -> PodGroup:
    container = {"name": "ray-worker", "resources": {"claims": [{"name": "imex"}], "limits": {GPU: "4"}}}
    given: dict[str, Any] = {
        "limits": {GPU: "4"},
        "gpus": 4.0,
        "cpu_milli": 130_000,
        "memory_mib": 800_000,
        "resources": {"CPU": "130", "GPU": "4"},
        "pod": {"containers": [container], "resourceClaims": CLAIMS},
    }
    return h100_workers(**{**given, **over})


def given(group: PodGroup | None = None, **over: Any) -> Stack:
    service = two_node_service(
        groups=(group or workers(),),
        engines=(engine(tensor=4, pipeline=2, bundles=({"GPU": 1},) * 8, groups=("h100",)),),
    )
    base: dict[str, Any] = {
        "workloads": (service,),
        "pools": (core(), gb200()),
        "objects": (domain(),),
        "releases": (gpu_operator(), dra_driver(), kuberay()),
    }
    return stack(**{**base, **over})


def said(judged: Stack) -> list[tuple[str, str]]:
    return sorted({(f.rule, f.severity) for f in rules.check(judged, rules=RULES)})


def kubernetes(version: str, **over: Any) -> Stack:
    base = given(**over)
    return replace(base, versions=replace(base.versions, kubernetes=version))


def unclaimed(**over: Any) -> PodGroup:
    return workers(pod={"containers": [{"name": "ray-worker"}]}, **over)


CHANNEL, CLAIM, DRIVER = "compute-domain-channel", "compute-domain-claim", "compute-domain-driver"
PART = {"gpus": 2.0, "limits": {GPU: "2"}}


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        (given(), []),
        (given(unclaimed()), [(CHANNEL, "warning")]),
        # pods of one replica, whether numOfHosts says so or the engine is larger than a pod
        (given(unclaimed(hosts=1)), [(CHANNEL, "warning")]),
        (given(unclaimed(), pools=(core(), h100(max=4))), []),
        (given(workers(env={"NCCL_MNNVL_ENABLE": "0"})), [(CHANNEL, "warning")]),
        (given(workers(env={"NCCL_MNNVL_ENABLE": "1"})), []),
        (given(unclaimed(node_selector={"nvidia.com/gpu.product": "NVIDIA-GB200"}), pools=()), [(CHANNEL, "warning")]),
        (given(unclaimed(node_selector={"node.kubernetes.io/instance-type": "p6e-gb200.36xlarge"}), pools=()), [(CHANNEL, "warning")]),
        (given(unclaimed(node_selector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}), pools=()), []),
        # the claim
        (given(objects=(domain("team"),)), [(CLAIM, "error")]),
        (given(objects=(domain("team"), domain())), []),
        (given(workers(pod={"containers": [{"name": "ray-worker"}], "resourceClaims": CLAIMS})), [(CLAIM, "error")]),
        (given(workers(**PART)), [(CLAIM, "warning")]),
        # a claim of another driver's template is nobody's business here
        (given(workers(pod={"containers": [{}], "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}]})), []),
        # the driver
        (given(releases=(gpu_operator(), kuberay())), [(DRIVER, "error")]),
        (given(releases=(gpu_operator(), kuberay()), present=("dra-driver-nvidia-gpu",)), []),
        (given(releases=(gpu_operator(), kuberay()), complete=False), []),
        (given(releases=(gpu_operator(), dra_driver(resources={"gpus": {"enabled": False}, "computeDomains": {"enabled": False}}))), [(DRIVER, "error")]),
        (given(releases=(gpu_operator(), dra_driver(resources={}))), [(DRIVER, "error")]),
        (given(releases=(gpu_operator(), dra_driver(resources={}, gpuResourcesEnabledOverride=True))), [(DRIVER, "warning")]),
        (given(releases=(gpu_operator(devicePlugin={"enabled": False}), dra_driver(resources={}, gpuResourcesEnabledOverride=True))), []),
        (given(releases=(gpu_operator(), dra_driver(nvidiaDriverRoot="/run/nvidia/driver"))), [(DRIVER, "error")]),
        (given(releases=(gpu_operator(driver={"enabled": True}), dra_driver())), [(DRIVER, "error")]),
        (given(releases=(gpu_operator(), dra_driver(nvidiaDriverRoot="/home/kubernetes/bin/nvidia"))), []),
        (given(releases=(gpu_operator(), dra_driver("25.3.2", "nvidia-dra-driver-gpu"))), [(DRIVER, "error")]),
        (given(releases=(gpu_operator(), dra_driver("25.8.0", "nvidia-dra-driver-gpu"))), []),
        (given(releases=(gpu_operator(), dra_driver("25.3.2", "nvidia-dra-driver-gpu")), objects=(domain(numNodes=2),)), []),
        (given(pools=(core(), gb200(driver_version="570.133.20"))), [(DRIVER, "error")]),
        (given(pools=(core(), gb200(driver_version="570.158.01"))), []),
        (given(pools=(core(), gb200(driver_version="570"))), []),
        (kubernetes("1.31"), [(DRIVER, "error")]),
        (kubernetes("1.32"), [(DRIVER, "error")]),
        (kubernetes("1.33"), []),
        (kubernetes("1.33", cluster="existing"), [(DRIVER, "warning")]),
        (kubernetes("1.34", cluster="existing"), []),
        # MIG beside memory that the driver manages
        (given(pools=(core(), gb200(sharing=Sharing(strategy="mig", mig_profile="1g.23gb")))), [("pool-mig-cdmm", "error")]),
        (given(pools=(core(), gb200(ami_type="CUSTOM", sharing=Sharing(strategy="mig", mig_profile="1g.23gb")))), []),
    ],
)  # fmt: skip
def test_nvlink_between_nodes_needs_channel_claim_and_driver(judged: Stack, expected: list[tuple[str, str]]) -> None:
    assert said(judged) == expected


def test_the_whole_text_says_where_what_and_how_to_mend_it() -> None:
    (found,) = [f.sentence() for f in rules.check(given(unclaimed()), rules=RULES)]
    assert found == (
        "service 'chat': worker group 'h100': a replica has 2 pods on node pool 'h100', which NVLink joins, and they claim no IMEX channel: vLLM turns NVLink "
        "between nodes off, and they talk over EFA or TCP, many times slower; leave worker.compute_domain out, which derives it; or claim the "
        "resourceClaimTemplate of a ComputeDomain in the pod and in its first container [compute-domain-channel]"
    )


def test_what_nvlink_carries_between_nodes_needs_no_efa_and_is_no_slow_network() -> None:
    network = (*rules.network.RULES, *rules.engine_spread.RULES)
    ids = ("network-efa-multi-node", "topology-tensor-spans-pods")

    def judge(stack: Stack) -> list[str]:
        return [f.rule for f in rules.check(stack, rules=network) if f.rule in ids]

    wide = engine(tensor=8, pipeline=1, bundles=({"GPU": 1},) * 8, groups=("h100",))
    slow = (core(), gb200(efa=False))

    def over(group: PodGroup) -> Stack:
        base = given(group, pools=slow)
        return replace(base, workloads=(replace(base.workloads[0], engines=(wide,)),))

    assert judge(over(workers())) == []
    assert sorted(judge(over(unclaimed()))) == ["network-efa-multi-node", "topology-tensor-spans-pods"]
