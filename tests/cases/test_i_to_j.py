"""Public reports about sharing GPUs and about queues (classes I, J), each as a small config."""

from __future__ import annotations

import pytest

from .small import KAI, VOLCANO, Config, chat, cluster, container, found, manifest, model, planned, pool

SLICED = {
    **pool(sharing={"strategy": "time_slicing", "replicas": 4}),
    **model(gpu={"share": 0.25}, model="Qwen/Qwen2.5-0.5B-Instruct"),
}
MIG = {
    "node_pools": {
        "l4": None,
        "h100": {
            "instance_types": ["p5.48xlarge"],
            "zones": ["us-east-1b"],
            "reservation": {"kind": "on_demand", "id": "cr-0a1b2c3d4e5f60718"},
            "min": 1,
            "max": 2,
            "sharing": {"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "1g.20gb"},
        },
    },
    **chat(pool="h100"),
}
FRACTION = {**KAI, **pool(sharing={"strategy": "kai"})}
HALF = model(gpu={"share": 0.5}, model="Qwen/Qwen2.5-1.5B-Instruct")


def workers(group: str = "l4", **fields: object) -> Config:
    """A patch of one worker group."""
    return chat(patch={"spec": {"rayClusterConfig": {"workerGroupSpecs": [{"groupName": group, **fields}]}}})


def limits(group: str = "l4", **fields: object) -> Config:
    """A patch of the limits of the Ray container of one worker group; keys are resource names."""
    resources = {"limits": fields, "requests": fields}
    return workers(group, template={"spec": {"containers": [{"name": "ray-worker", "resources": resources}]}})


def plugin(text: str) -> Config:
    """A patch of the device plugin's configuration of the GPU Operator."""
    return {"software": {"gpu_operator": {"values": {"devicePlugin": {"config": {"data": {"l4": text}}}}}}}


@pytest.mark.parametrize("patches", [(SLICED,), (MIG,), (FRACTION, HALF)], ids=["time slicing", "mig", "kai"])
def test_shared_pools_pass_as_they_are_derived(patches: tuple[Config, ...]) -> None:
    got = {pair for pair in found(*patches) if pair[1] == "error"}
    assert got == set()


def test_i2_sharing_keys_under_flags_are_refused() -> None:
    wrong = plugin(
        "version: v1\nflags: {failRequestsGreaterThanOne: true}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
    )
    assert ("device-plugin-config", "error") in found(SLICED, wrong)


def test_i3_two_containers_with_a_gpu_each_are_refused_under_karpenter() -> None:
    grown = pool(kind="karpenter", instance_types=["g6e.xlarge", "g6e.2xlarge"])
    side = {"name": "side", "image": "example.com/side:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    two = workers(template={"spec": {"containers": [*manifest_containers(SLICED, grown), side]}})
    assert ("sharing-containers", "error") in found(SLICED, grown, two)


def manifest_containers(*patches: Config) -> list[object]:
    """Containers of the first worker group as rendered."""
    containers: list[object] = cluster(*patches)["workerGroupSpecs"][0]["template"]["spec"]["containers"]
    return containers


def test_i5_slices_are_asked_for_by_the_name_of_their_strategy() -> None:
    assert "nvidia.com/mig-1g.20gb" in container(cluster(MIG)["workerGroupSpecs"][0])["resources"]["limits"]
    single = pool("h100", sharing={"mig_strategy": "single"})
    assert "nvidia.com/gpu" in container(cluster(MIG, single)["workerGroupSpecs"][0])["resources"]["limits"]


@pytest.mark.parametrize(
    ("strategy", "asked"),
    [
        ("single", {"nvidia.com/gpu": None, "nvidia.com/mig-1g.20gb": "1"}),
        ("mixed", {"nvidia.com/mig-1g.20gb": None, "nvidia.com/gpu": "1"}),
    ],
)
def test_i5_the_other_strategys_name_is_refused(strategy: str, asked: dict[str, object]) -> None:
    assert ("sharing-resource", "error") in found(
        MIG, pool("h100", sharing={"mig_strategy": strategy}), limits("h100", **asked)
    )


def test_i6_a_slice_by_uuid_is_refused_for_a_vllm_that_cannot_read_it() -> None:
    uuid = chat(worker={"env": {"CUDA_VISIBLE_DEVICES": "MIG-377e0049-554c-540b-93c6-d0976f8426cb"}})
    assert ("sharing-device-uuid", "error") in found(MIG, uuid, {"versions": {"vllm": "0.20.1"}})


@pytest.mark.parametrize("value", ["0", "1", "1.5", "half"])
def test_i8_fractions_outside_zero_and_one_are_refused(value: str) -> None:
    assert ("kai-fraction", "error") in found(FRACTION, HALF, chat(worker={"annotations": {"gpu-fraction": value}}))


def test_i8_a_fraction_and_a_whole_gpu_are_refused() -> None:
    assert ("kai-fraction", "error") in found(FRACTION, HALF, limits(**{"nvidia.com/gpu": "1"}))
    memory = chat(worker={"annotations": {"gpu-memory": "8000"}})
    assert ("kai-fraction", "error") in found(FRACTION, HALF, memory)


def test_i9_fractions_with_sharing_switched_off_are_refused() -> None:
    assert ("kai-sharing-off", "error") in found(FRACTION, HALF, {"software": {"kai": {"gpu_sharing": False}}})


def test_i9_sharing_is_switched_on_where_a_pool_shares_by_kai() -> None:
    assert planned(FRACTION, HALF).stack.gpu_sharing_enabled is True


def test_i11_a_kai_without_the_runtime_class_is_refused() -> None:
    assert ("kai-versions", "error") in found(FRACTION, HALF, {"software": {"kai": {"version": "v0.7.10"}}})


def test_i12_a_kai_that_finds_no_mixed_profile_is_refused() -> None:
    assert ("kai-versions", "error") in found(MIG, KAI, {"software": {"kai": {"version": "v0.16.2"}}})
    assert not any(rule == "kai-versions" for rule, _ in found(MIG, KAI))


def test_i13_ray_sees_gpus_whose_name_kuberay_does_not_know() -> None:
    renamed = pool(sharing={"strategy": "time_slicing", "replicas": 4, "rename_by_default": True})
    assert cluster(SLICED, renamed)["workerGroupSpecs"][0]["resources"]["GPU"] == "1"
    blind = workers(resources=None)
    assert any(rule == "sharing-ray-unseen" for rule, _ in found(SLICED, renamed, blind))


def test_i14_tags_tell_the_autoscaler_of_mig_slices_on_nodes_that_are_not_there_yet() -> None:
    pools = {each.name: each for each in planned(MIG, pool("h100", min=0)).stack.pools}
    assert "nvidia.com/mig-1g.20gb" in pools["h100"].announced
    assert "sharing-autoscaler" not in {rule for rule, _ in found(MIG, pool("h100", min=0))}


@pytest.mark.parametrize(
    ("sharing", "rule"),
    [
        ({"strategy": "mig", "mig_profile": "1g.10gb"}, "sharing-mig-profile"),
        ({"strategy": "time_slicing"}, "sharing-fields"),
        ({"strategy": "mps", "replicas": 4, "mig_profile": "1g.10gb"}, "sharing-fields"),
        ({"strategy": "kai"}, "sharing-scheduler"),
        ({"strategy": "volcano_vgpu"}, "sharing-scheduler"),
    ],
)
def test_sharing_that_excludes_itself_is_refused(sharing: dict[str, object], rule: str) -> None:
    assert (rule, "error") in found(pool(sharing=sharing))


def test_tensor_parallel_over_slices_is_refused() -> None:
    assert ("sharing-parallel", "error") in found(MIG, model(parallel={"tensor": 2}))


# J: queues


@pytest.mark.parametrize("labels", [{}, {"runai/queue": "team"}])
def test_j1_a_queue_by_its_old_label_or_none_is_refused(labels: dict[str, str]) -> None:
    assert ("queue-label", "error") in found(KAI, chat(queue=None, labels=labels))


def test_j1_the_queue_is_a_label_of_the_custom_resource() -> None:
    assert manifest(KAI)["metadata"]["labels"]["kai.scheduler/queue"] == "team"


def test_j3_relying_on_the_default_queue_is_a_warning() -> None:
    assert ("queue-exists", "warning") in found(KAI, chat(queue="default-queue"))


def test_j4_a_queue_by_annotation_is_refused() -> None:
    assert ("queue-label", "error") in found(KAI, chat(queue=None, annotations={"kai.scheduler/queue": "team"}))


def test_j6_a_queue_that_does_not_exist_is_refused() -> None:
    assert ("queue-exists", "error") in found(VOLCANO, chat(queue="teams"))
    assert ("queue-exists", "error") in found(KAI, chat(queue="teams"))


def test_a_parent_queue_takes_no_workloads() -> None:
    assert ("queue-exists", "error") in found(KAI, chat(queue="serving"))


def test_j7_a_half_stated_capability_is_a_warning() -> None:
    half = {"queues": {"team": {"gpu": {"limit": 4}, "cpu": {"limit": 40}}}}
    assert ("queue-capability", "warning") in found(VOLCANO, half)


def test_j9_both_settings_of_kuberays_batch_scheduler_are_refused() -> None:
    assert ("helm-batch-scheduler", "error") in found(
        KAI, {"software": {"kuberay": {"values": {"batchScheduler": {"enabled": True}}}}}
    )


def test_j10_kai_and_k8s_job_mode_are_refused() -> None:
    job = chat(
        kind="ray_job",
        fault_tolerance=None,
        models={"qwen": None},
        job={"entrypoint": "python run.py", "submission_mode": "K8sJobMode"},
    )
    assert ("queue-job-submission", "error") in found(KAI, job)
    other = chat(job={"submission_mode": "HTTPMode"})
    assert not any(rule == "queue-job-submission" for rule, _ in found(KAI, job, other))


def test_a_service_that_cannot_borrow_and_has_no_quota_is_refused() -> None:
    none = {"queues": {"team": {"gpu": {"quota": 0}}}}
    assert ("queue-quota-preemptible", "error") in found(KAI, none)
    assert ("queue-quota-preemptible", "error") not in found(KAI, none, chat(priority_class="train"))
