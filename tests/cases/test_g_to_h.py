"""Public reports about shared memory, networks, probes, identity and names (classes G, H), each as a small config."""

from __future__ import annotations

import pytest

from .small import TWO_NODES, Config, chat, cluster, container, found, model, pool


def workers(**fields: object) -> Config:
    """A patch of the pod spec of the worker group 'l4'."""
    return chat(
        patch={"spec": {"rayClusterConfig": {"workerGroupSpecs": [{"groupName": "l4", "template": {"spec": fields}}]}}}
    )


def test_g2_shm_gib_reaches_the_engine_pod() -> None:
    group = cluster(chat(worker={"shm_gib": 4}))["workerGroupSpecs"][0]
    assert container(group)["volumeMounts"] == [{"name": "dshm", "mountPath": "/dev/shm"}]
    assert group["template"]["spec"]["volumes"] == [
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}
    ]


def test_g2_a_volume_that_is_not_mounted_is_a_warning() -> None:
    stray = workers(volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}}])
    assert ("network-shm-mount", "warning") in found(stray)


def test_shared_memory_too_small_for_tensor_parallel_is_refused() -> None:
    four = pool(instance_types=["g6.12xlarge"])
    assert ("network-shared-memory", "error") in found(
        four, model(parallel={"tensor": 4}), chat(worker={"shm_gib": 0.0625})
    )
    assert found(four, model(parallel={"tensor": 4})) == set()


def test_g3_engines_over_nodes_ask_for_their_network_cards() -> None:
    limits = container(cluster(TWO_NODES)["workerGroupSpecs"][0])["resources"]["limits"]
    assert limits["vpc.amazonaws.com/efa"] == "32"


def test_g3_engines_over_nodes_without_efa_are_a_warning() -> None:
    assert ("network-efa-multi-node", "warning") in found(TWO_NODES, pool("h100", efa=False))


def test_g5_experts_over_nodes_by_deepep_are_a_warning() -> None:
    experts = chat(
        models={
            "llama": {
                "model": "deepseek-ai/DeepSeek-V3",
                "parallel": {"expert": True},
                "engine_args": {"all2all_backend": "deepep_low_latency"},
            }
        }
    )
    assert ("network-expert-parallel", "warning") in found(TWO_NODES, experts)


def test_h4_no_probe_of_an_engine_gates_the_head() -> None:
    assert "readinessProbe" not in container(cluster(TWO_NODES)["headGroupSpec"])
    probe = {"readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}}
    gated = chat(
        patch={
            "spec": {
                "rayClusterConfig": {
                    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray-head", **probe}]}}}
                }
            }
        }
    )
    assert ("probe-head-gated", "error") in found(TWO_NODES, gated)


def test_h6_one_replica_is_a_warning_and_two_are_not() -> None:
    assert ("probe-single-replica", "warning") in found(model(replicas={"min": 1, "max": 1}))
    assert found() == set()


def test_h9_weights_in_s3_by_the_nodes_role_are_a_warning() -> None:
    bucket = model(source="s3://weights/qwen2.5-7b")
    assert ("aws-weights-access", "warning") in found(
        bucket, pool(kind="karpenter", instance_types=["g6.2xlarge", "g6.4xlarge"])
    )
    assert not any(rule == "aws-weights-access" for rule, _ in found(bucket, chat(service_account="weights")))


@pytest.mark.parametrize("name", ["a" * 48, "chat.v2", "2chat"])
def test_h10_names_that_kuberay_refuses_are_refused(name: str) -> None:
    from .small import AWS

    renamed: Config = {"services": {"chat": None, name: AWS["services"]["chat"]}}
    assert ("name-workload", "error") in found(renamed)


def test_h10_a_name_of_47_characters_passes() -> None:
    from .small import AWS

    assert found({"services": {"chat": None, "a" * 47: AWS["services"]["chat"]}}) == set()


def test_a_plain_deployment_whose_probe_kills_the_load_is_refused() -> None:
    probe = {
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5, "failureThreshold": 3},
        "startupProbe": None,
    }
    plain = chat(
        kind="vllm",
        fault_tolerance=None,
        patch={"spec": {"template": {"spec": {"containers": [{"name": "vllm", **probe}]}}}},
    )
    assert ("probe-kills-loading", "error") in found(plain)
