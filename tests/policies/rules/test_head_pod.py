"""Each test breaks one thing about the head."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.facts import Stack

from .stacks import core, found, l4, sentences, stack, with_head, with_pool, with_service

L4 = {"llm-serving/pool": "l4"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_head(ray_start_params={"num-cpus": "0"}, env={}), [("head-gpu-visible", "warning")]),
        (with_head(ray_start_params={"num-cpus": "0"}), []),
        (with_head(ray_start_params={}, resources={"CPU": "0", "GPU": "0"}), []),
        (with_head(ray_start_params={"num-gpus": "0"}), [("head-replicas", "warning")]),
        (
            with_head(gpus=1.0, gpu_resource="nvidia.com/gpu"),
            [("head-replicas", "warning"), ("placement-gpu-pool", "error")],
        ),
        (with_head(memory_mib=900), [("head-memory", "error")]),
        (with_head(memory_mib=2048), [("head-memory", "warning")]),
        (with_head(memory_mib=None), [("head-memory", "warning")]),
        (with_head(memory_mib=3072), []),
        (with_head(memory_mib=40_000), [("placement-node-size", "error")]),
        (with_head(annotations={}), [("head-eviction", "warning")]),
        (replace(with_head(annotations={}), autoscaler=None), []),
        (with_service(fault_tolerance=None), [("head-fault-tolerance", "warning")]),
        (with_service(fault_tolerance=None, annotations={"ray.io/ft-enabled": "true"}), []),
        (with_pool(which=0, spot=True, instance_types=("m7i.2xlarge", "m6i.2xlarge")), [("head-spot", "warning")]),
        (
            with_service(
                with_pool(which=0, spot=True, instance_types=("m7i.2xlarge", "m6i.2xlarge")), fault_tolerance=None
            ),
            [("head-fault-tolerance", "warning"), ("head-spot", "error")],
        ),
    ],
)
def test_what_is_wrong_with_the_head(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert of_pods(given) == expected


@pytest.mark.parametrize("image", ["rayproject/ray:2.60.0", "mirror.example.com/rayproject/ray:2.60.0-py312-cpu"])
def test_an_image_without_cuda_shows_a_head_no_gpu(image: str) -> None:
    bare = {"ray_start_params": {"num-cpus": "0"}, "env": {}}
    assert "head-gpu-visible" not in {rule for rule, _ in found(with_head(image=image, **bare))}
    assert "head-gpu-visible" in {rule for rule, _ in found(with_head(image=image + "-gpu", **bare))}


def of_pods(given: Stack) -> list[tuple[str, str]]:
    """What is found of pods; what is found of the pools that a test changed for them is judged in test_system_nodes.py."""
    return [each for each in found(given) if not each[0].startswith("pool-")]


def test_a_head_on_a_gpu_node_that_shows_its_gpus_is_an_error() -> None:
    pools = (core(), l4(taints=()))
    seen = with_head(stack(pools=pools), node_selector=L4, ray_start_params={"num-cpus": "0"}, env={})
    assert of_pods(seen) == [("head-gpu-node", "warning"), ("head-gpu-visible", "error")]
    assert sentences(seen, "head-gpu-visible") == [
        "service 'chat': head: it asks for no GPU, states no num-gpus, and leaves NVIDIA_VISIBLE_DEVICES to the image: on a GPU node it offers "
        'Ray every GPU of the node, though other pods own them; set rayStartParams num-gpus: "0" and NVIDIA_VISIBLE_DEVICES=void, and keep '
        "it on a CPU pool [head-gpu-visible]"
    ]


def test_a_head_on_a_gpu_node_that_hides_them_is_only_dear() -> None:
    assert of_pods(with_head(stack(pools=(core(), l4(taints=()))), node_selector=L4)) == [("head-gpu-node", "warning")]


def test_the_spot_head_is_named_with_its_pool_and_the_mend() -> None:
    given = with_service(
        with_pool(which=0, spot=True, instance_types=("m7i.2xlarge", "m6i.2xlarge")), fault_tolerance=None
    )
    assert sentences(given, "head-spot") == [
        "service 'chat': head: it runs on spot pool 'core' and GCS fault tolerance is off: each interruption ends the Ray cluster with all "
        "replicas; send the head to an on-demand pool (head.pool) [head-spot]"
    ]


def test_a_cpu_service_needs_no_fault_tolerance() -> None:
    given = stack()
    cheap = with_service(given, fault_tolerance=None, engines=(replace(given.workloads[0].engines[0], device="cpu"),))
    assert ("head-fault-tolerance", "warning") not in found(cheap)
