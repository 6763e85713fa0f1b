"""Each test breaks one thing about how a GPU is shared: MIG, time-slicing, MPS, KAI fractions, Volcano vGPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts import Sharing, Stack

from .stacks import (
    core,
    found,
    fraction_stack,
    kai_stack,
    karpenter_stack,
    l4,
    mig_pool,
    mig_stack,
    sentences,
    sliced_pool,
    sliced_stack,
    stack,
    volcano_stack,
    with_engine,
    with_pool,
    with_service,
    with_values,
    with_workers,
)


def shared(**fields: Any) -> Stack:
    """The plain stack whose GPU pool states some sharing."""
    return with_pool(sharing=Sharing(**fields))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (shared(strategy="slices"), ("sharing-fields", "error")),
        (shared(strategy="time_slicing"), ("sharing-fields", "error")),
        (shared(strategy="time_slicing", replicas=1), ("sharing-fields", "error")),
        (shared(strategy="mps", replicas=64), ("sharing-fields", "error")),
        (shared(strategy="mps", replicas=4, rename_by_default=True), ("sharing-fields", "error")),
        (shared(strategy="none", replicas=4), ("sharing-fields", "error")),
        (shared(strategy="kai", replicas=4), ("sharing-fields", "error")),
        (shared(strategy="none", mig_profile="1g.10gb"), ("sharing-fields", "error")),
        (shared(strategy="mig", mig_profile="1g.10gb", replicas=2), ("sharing-fields", "error")),
        (with_pool(which=0, sharing=Sharing(strategy="mps", replicas=4)), ("sharing-fields", "error")),
        (shared(strategy="mig", mig_profile="1g.10gb"), ("sharing-mig-profile", "error")),
        (shared(strategy="kai"), ("sharing-scheduler", "error")),
        (shared(strategy="volcano_vgpu"), ("sharing-scheduler", "error")),
        (replace(sliced_stack(), batch_scheduler="kai"), ("sharing-scheduler", "warning")),
    ],
)
def test_what_is_wrong_with_a_pools_sharing(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


@pytest.mark.parametrize(
    ("profile", "strategy", "expected"),
    [
        ("1g.5gb", "mixed", [("sharing-mig-profile", "error")]),
        (None, "mixed", [("sharing-mig-profile", "error")]),
        ("all-balanced", "mixed", []),
        ("all-1g.10gb", "mixed", []),
        ("1g.10gb", "mixed", []),
    ],
)
def test_profiles_must_exist_on_the_gpu(profile: str | None, strategy: str, expected: list[tuple[str, str]]) -> None:
    sharing = Sharing(strategy="mig", mig_strategy=strategy, mig_profile=profile)
    got = found(with_pool(mig_stack(), sharing=sharing))
    assert [pair for pair in got if pair[0].startswith("sharing-mig")] == expected


def test_an_unknown_profile_is_answered_with_those_of_the_gpu() -> None:
    given = with_pool(mig_stack(), sharing=Sharing(strategy="mig", mig_strategy="mixed", mig_profile="1g.5gb"))
    assert sentences(given, "sharing-mig-profile") == [
        "node pool 'h100': an H100 has no MIG profile '1g.5gb'; use one of 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb [sharing-mig-profile]"
    ]


def test_balanced_slices_need_the_mixed_strategy() -> None:
    given = with_pool(mig_stack(), sharing=Sharing(strategy="mig", mig_strategy="single", mig_profile="all-balanced"))
    assert ("sharing-mig-profile", "error") in found(given)


@pytest.mark.parametrize(
    ("given", "resource"),
    [
        (mig_stack(), "nvidia.com/gpu"),
        (mig_stack(), "nvidia.com/mig-2g.20gb"),
        (
            with_values(with_pool(mig_stack(), sharing=Sharing(strategy="mig", mig_profile="1g.10gb")), mig={}),
            "nvidia.com/mig-1g.10gb",
        ),
        (sliced_stack(), "nvidia.com/gpu.shared"),
        (
            with_pool(sliced_stack(), sharing=Sharing(strategy="time_slicing", replicas=4, rename_by_default=True)),
            "nvidia.com/gpu",
        ),
        (stack(), "nvidia.com/gpu.shared"),
        (volcano_stack(pools=(core(), l4(sharing=Sharing(strategy="volcano_vgpu", replicas=4)))), "nvidia.com/gpu"),
    ],
)
def test_pods_must_ask_for_what_the_pool_advertises(given: Stack, resource: str) -> None:
    asked = with_workers(given, gpu_resource=resource, limits={resource: "1"})
    assert ("sharing-resource", "error") in found(asked)


def test_mig_single_pods_ask_for_nvidia_com_gpu() -> None:
    given = with_values(with_pool(mig_stack(), sharing=Sharing(strategy="mig", mig_profile="1g.10gb")), mig={})
    assert found(with_workers(given, gpu_resource="nvidia.com/gpu", limits={"nvidia.com/gpu": "1"})) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_workers(mig_stack(), gpus=2.0), ("sharing-one-slice", "error")),
        (with_workers(sliced_stack(), gpus=2.0), ("sharing-one-slice", "error")),
        (
            with_workers(
                with_pool(
                    sliced_stack(),
                    sharing=Sharing(strategy="time_slicing", replicas=4, fail_requests_greater_than_one=False),
                ),
                gpus=2.0,
            ),
            ("sharing-one-slice", "warning"),
        ),
        (with_engine(mig_stack(), tensor=2, bundles=({"GPU": 1},) * 2), ("sharing-parallel", "error")),
        (with_engine(sliced_stack(), pipeline=2, bundles=({"GPU": 1},) * 2), ("sharing-parallel", "error")),
        (with_engine(fraction_stack(), tensor=2, bundles=({"GPU": 1},) * 2), ("sharing-parallel", "error")),
        (with_workers(fraction_stack(), resources={"CPU": "3"}), ("sharing-ray-unseen", "warning")),
        (
            with_workers(
                with_pool(sliced_stack(), sharing=Sharing(strategy="time_slicing", replicas=4, rename_by_default=True)),
                gpu_resource="nvidia.com/gpu.shared",
                resources={},
            ),
            ("sharing-ray-unseen", "warning"),
        ),
        (with_workers(mig_stack(), gpu_containers=2), ("sharing-containers", "warning")),
        (with_workers(mig_stack(), env={"CUDA_VISIBLE_DEVICES": "MIG-377e0049"}), ("sharing-device-uuid", "warning")),
        (
            with_workers(
                with_service(mig_stack(), vllm_version="0.20.1"), env={"CUDA_VISIBLE_DEVICES": "MIG-377e0049"}
            ),
            ("sharing-device-uuid", "error"),
        ),
    ],
)
def test_what_pods_on_shared_gpus_get_wrong(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


def test_a_group_that_scales_from_zero_with_a_gpu_that_ray_cannot_see_is_an_error() -> None:
    given = with_service(fraction_stack(), autoscaling=True, autoscaler_version="v2")
    given = with_workers(given, min=0, replicas=0, max=2, resources={"CPU": "3"})
    assert ("sharing-ray-unseen", "error") in found(given)
    assert ("sharing-ray-unseen", "error") not in found(with_workers(given, ray_start_params={"num-gpus": "1"}))


def test_tensor_parallel_on_whole_gpus_is_fine() -> None:
    given = stack(
        pools=(core(), l4(instance_types=("g6.12xlarge",), gpus_per_node=4, cpu_milli=47810, memory_mib=178933))
    )
    given = with_workers(
        with_engine(given, tensor=2, bundles=({"GPU": 1},) * 2),
        gpus=2.0,
        limits={"nvidia.com/gpu": "2"},
        resources={"GPU": "2"},
    )
    assert found(given) == []


def test_karpenter_and_shared_gpus() -> None:
    sliced = sliced_pool(
        kind="karpenter",
        instance_types=("g6e.xlarge", "g6e.2xlarge"),
        limits={"nvidia.com/gpu": 8},
        desired=None,
        ami_release="v20261101",
    )
    given = replace(
        karpenter_stack(),
        pools=(core(max=2), sliced),
        workloads=sliced_stack().workloads,
        releases=sliced_stack().releases,
    )
    assert found(given) == [("sharing-autoscaler", "warning")]
    assert ("sharing-containers", "error") in found(with_workers(given, gpu_containers=2))
    mixed = mig_pool(
        kind="karpenter", reservation=None, reservation_kind=None, limits={"nvidia.com/gpu": 8}, desired=None, zones=()
    )
    assert ("sharing-autoscaler", "error") in found(replace(mig_stack(), pools=(core(), mixed), autoscaler="karpenter"))


def test_mig_from_zero_is_a_warning_unless_tags_announce_the_slices() -> None:
    assert found(with_pool(mig_stack(), min=0, desired=0)) == [("sharing-autoscaler", "warning")]
    assert found(mig_stack()) == []
    assert found(with_pool(mig_stack(), min=0, desired=0, announced=("nvidia.com/mig-1g.10gb",))) == []
    assert sentences(with_pool(mig_stack(), min=0, desired=0, announced=("nvidia.com/gpu",)), "sharing-autoscaler") == [
        "node pool 'h100': it scales from zero and its GPUs become MIG slices after a node is up: the node autoscaler plans with whole GPUs and may start too "
        "many nodes, or none; set min: 1, or tag its Auto Scaling group k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/mig-1g.10gb "
        "[sharing-autoscaler]"
    ]


def test_bottlerocket_cuts_gpus_into_one_profile() -> None:
    balanced = Sharing(strategy="mig", mig_strategy="mixed", mig_profile="all-balanced")
    given = with_pool(mig_stack(), sharing=balanced, ami_type="BOTTLEROCKET_x86_64_NVIDIA")
    (sentence,) = sentences(given, "sharing-mig-profile")
    assert "Bottlerocket cuts GPUs by its own, into one profile; set sharing.mig_profile: 1g.10gb" in sentence
    assert sentences(with_pool(given, ami_type="AL2023_x86_64_NVIDIA"), "sharing-mig-profile") == []


def test_bottlerocket_has_a_device_plugin_of_its_own() -> None:
    given = with_pool(volcano_stack(), sharing=Sharing(strategy="volcano_vgpu"), ami_type="BOTTLEROCKET_x86_64_NVIDIA")
    assert ("sharing-scheduler", "error") in found(given)
    assert ("sharing-scheduler", "error") not in found(with_pool(given, ami_type="AL2023_x86_64_NVIDIA"))


def test_nodes_that_never_have_whole_gpus_are_not_labelled_as_if_they_would() -> None:
    labels = {"llm-serving/pool": "h100", "k8s.amazonaws.com/accelerator": "nvidia-h100"}
    assert found(with_pool(mig_stack(), labels=labels)) == [("sharing-autoscaler", "error")]
    single = Sharing(strategy="mig", mig_strategy="single", mig_profile="1g.10gb")
    assert ("sharing-autoscaler", "error") not in found(with_pool(mig_stack(), labels=labels, sharing=single))


@pytest.mark.parametrize(
    ("annotations", "limits", "fragment"),
    [
        ({"gpu-fraction": "0.5"}, {"nvidia.com/gpu": "1"}, "exclude each other"),
        ({"gpu-fraction": "1.5"}, {}, "is not a number between 0 and 1"),
        ({"gpu-fraction": "0"}, {}, "is not a number between 0 and 1"),
        ({"gpu-fraction": "half"}, {}, "is not a number between 0 and 1"),
        ({"gpu-memory": "4000Mi"}, {}, "is not a whole number of MiB"),
        ({"gpu-memory": "0"}, {}, "is not a whole number of MiB"),
        ({"gpu-memory": "4000", "gpu-fraction": "0.5"}, {}, "exclude each other"),
        ({"gpu-memory": "4000"}, {"nvidia.com/gpu": "1"}, "exclude each other"),
        ({"gpu-fraction-num-devices": "2"}, {}, "needs gpu-fraction or gpu-memory"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, {}, "is not a whole number of devices"),
        ({"mps": "true"}, {}, "needs a GPU fraction"),
    ],
)
def test_kais_webhook_refuses(annotations: dict[str, str], limits: dict[str, str], fragment: str) -> None:
    given = with_workers(fraction_stack(), annotations=annotations, limits=limits)
    assert any(fragment in sentence for sentence in sentences(given, "kai-fraction"))


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpu-memory": "8000"},
        {"gpu-fraction": "0.25", "mps": "true"},
        {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1"},
    ],
)
def test_kais_webhook_takes(annotations: dict[str, str]) -> None:
    assert sentences(with_workers(fraction_stack(), annotations=annotations), "kai-fraction") == []


def test_fractions_need_kai_its_sharing_and_its_pool() -> None:
    assert ("kai-sharing-off", "error") in found(replace(fraction_stack(), gpu_sharing_enabled=False))
    assert ("kai-fraction-scheduler", "error") in found(replace(fraction_stack(), batch_scheduler="volcano"))
    assert ("kai-fraction-scheduler", "error") in found(
        with_pool(fraction_stack(), sharing=Sharing(strategy="mps", replicas=4))
    )


def test_kai_versions_that_lose_shares() -> None:
    old = replace(fraction_stack().versions, kai="0.7.10")
    assert ("kai-versions", "error") in found(replace(fraction_stack(), versions=old))
    mixed = replace(mig_stack(), batch_scheduler="kai", versions=replace(fraction_stack().versions, kai="v0.16.2"))
    assert ("kai-versions", "error") in found(mixed)
    assert ("kai-versions", "error") not in found(replace(mixed, versions=replace(mixed.versions, kai="0.16.5")))


def test_kai_values_that_nothing_reads_or_nothing_provides() -> None:
    assert ("kai-values", "warning") in found(
        with_values(kai_stack(), "kai-scheduler", binder={"resourceReservation": {"runtimeClassName": "nvidia"}})
    )
    assert ("kai-values", "error") in found(with_values(kai_stack(), "kai-scheduler", kaiConfig={"render": True}))
    assert ("kai-values", "warning") in found(
        with_values(fraction_stack(), "kai-scheduler", **{"global": {"gpuSharing": True}})
    )
    assert ("kai-values", "error") in found(
        with_values(fraction_stack(), "kai-scheduler", admission={"gpuFractionRuntimeClassName": "gpu"})
    )


def test_a_gpu_without_mig_is_answered_with_the_alternatives() -> None:
    given = shared(strategy="mig", mig_profile="1g.10gb")
    assert sentences(given, "sharing-mig-profile") == [
        "node pool 'l4': its L4 GPUs cannot be cut by MIG; use time_slicing, mps or kai, or GPUs with MIG (A30, A100, H100, H200, B200, B300, GB200, "
        "RTX PRO 6000) [sharing-mig-profile]"
    ]


def test_volcano_vgpu_pods_are_seen_by_ray_through_the_groups_resources() -> None:
    pool = l4(sharing=Sharing(strategy="volcano_vgpu", replicas=2))
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "11000"}
    given = with_workers(
        volcano_stack(pools=(core(), pool)),
        gpu_resource="volcano.sh/vgpu-number",
        limits=limits,
        cpu_milli=3000,
        memory_mib=12000,
    )
    assert found(given) == []
    assert found(with_workers(given, resources={})) == [("sharing-ray-unseen", "warning")]


@pytest.mark.parametrize(("sharing", "rules"), [(Sharing(strategy="time_slicing", replicas=4), {"sharing-one-slice"}), (Sharing(), set())])  # fmt: skip
def test_what_the_device_plugin_does_by_default_holds_where_no_nodes_are_declared(
    sharing: Sharing, rules: set[str]
) -> None:
    workers = with_workers(gpus=2.0, node_selector={})
    for pools, expected in (((), rules), (workers.pools, set())):
        given = replace(workers, pools=pools, complete=False, gpu_sharing=sharing)
        assert {rule for rule, _ in found(given) if rule.startswith("sharing-")} == expected
