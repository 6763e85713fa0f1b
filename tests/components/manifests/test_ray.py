"""What KubeRay gets, for each shape, as golden files; and what must hold in all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from components.config import parse
from components.plan import Planned, assemble
from tests.components.environments import environment, with_model
from tests.components.shapes import SHAPES


def planned(shape: str) -> Planned:
    return assemble(parse(SHAPES[shape]), shape)


def workload(shape: str) -> dict[str, Any]:
    return next(iter(planned(shape).manifests.values()))[0]


def readable(manifest: dict[str, Any]) -> str:
    """YAML with the serve config as a mapping, so that a change can be reviewed."""
    copy = json.loads(json.dumps(manifest))
    if "serveConfigV2" in copy["spec"]:
        copy["spec"]["serveConfigV2"] = json.loads(copy["spec"]["serveConfigV2"])
    return str(yaml.safe_dump(copy, sort_keys=True, width=120))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_manifest_of_a_shape_is_as_reviewed(shape: str, snapshot: SnapshotAssertion) -> None:
    manifest = workload(shape)
    text = readable(manifest).replace(planned(shape).specs[0].image.rsplit(":", 1)[1], "<tag>")
    assert text == snapshot


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_has_no_finding(shape: str) -> None:
    assert [f.sentence() for f in planned(shape).plan.findings] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_config_gives_the_same_bytes(shape: str) -> None:
    reordered = json.loads(json.dumps(SHAPES[shape], sort_keys=True))
    assert json.dumps(assemble(parse(reordered), shape).manifests) == json.dumps(planned(shape).manifests)


def test_a_share_is_in_step_everywhere() -> None:
    service = workload("shares_of_one_gpu")
    for config in json.loads(service["spec"]["serveConfigV2"])["applications"][0]["args"]["llm_configs"]:
        assert config["placement_group_config"]["bundle_per_worker"]["GPU"] == 0.45
        assert config["runtime_env"]["env_vars"]["VLLM_RAY_PER_WORKER_GPUS"] == "0.45"
        assert config["engine_kwargs"]["gpu_memory_utilization"] <= 0.45 - 0.03
        assert "num_gpus" not in config["deployment_config"].get("ray_actor_options", {})
    (group,) = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert group["resources"]["GPU"] == "1"
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 2)  # 2 shares on one GPU, 4 on two


def test_the_head_carries_nothing() -> None:
    head = workload("whole_gpu")["spec"]["rayClusterConfig"]["headGroupSpec"]
    assert head["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0"}
    container = head["template"]["spec"]["containers"][0]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert head["template"]["spec"]["nodeSelector"] == {"llm-serving/pool": "cpu"}


def test_a_replica_over_two_nodes_is_one_multi_host_replica() -> None:
    (group,) = workload("two_nodes")["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert (group["numOfHosts"], group["replicas"]) == (2, 1)
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_a_kai_fraction_is_an_annotation_and_no_limit() -> None:
    (group,) = workload("kai_fraction")["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert group["template"]["metadata"]["annotations"] == {"gpu-fraction": "0.45"}
    assert "nvidia.com/gpu" not in group["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert group["resources"]["GPU"] == "1"  # Ray's autoscaler sees the GPU that KubeRay cannot
    assert workload("kai_fraction")["metadata"]["labels"]["kai.scheduler/queue"] == "team"


def test_prefill_and_decode_have_ports_of_their_own() -> None:
    (app,) = json.loads(workload("prefill_decode")["spec"]["serveConfigV2"])["applications"]
    ports = {
        app["args"][f"{role}_config"]["experimental_configs"]["NIXL_SIDE_CHANNEL_PORT_BASE"]
        for role in ("prefill", "decode")
    }
    assert ports == {40000, 41000}


def test_models_on_two_pools_ask_for_their_own_group() -> None:
    service = workload("two_pools")
    configs = json.loads(service["spec"]["serveConfigV2"])["applications"][0]["args"]["llm_configs"]
    wanted = {c["model_loading_config"]["model_id"]: c["placement_group_config"]["bundle_per_worker"] for c in configs}
    assert "group-l4" in wanted["qwen"]
    assert "group-h100" in wanted["llama"]
    groups = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert all(f"group-{g['groupName']}" in g["resources"] for g in groups)


def test_a_secret_is_only_ever_a_reference() -> None:
    service = workload("tensor_parallel")
    for group in (
        service["spec"]["rayClusterConfig"]["headGroupSpec"],
        *service["spec"]["rayClusterConfig"]["workerGroupSpecs"],
    ):
        env = {e["name"]: e for e in group["template"]["spec"]["containers"][0]["env"]}
        assert env["HF_TOKEN"] == {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}


def test_a_patch_reaches_into_lists_by_name_and_into_the_serve_config() -> None:
    env = with_model(
        {},
        patch={
            "spec": {
                "rayClusterConfig": {
                    "workerGroupSpecs": [
                        {
                            "groupName": "l4",
                            "template": {
                                "spec": {"containers": [{"name": "ray-worker", "env": [{"name": "A", "value": "1"}]}]}
                            },
                        }
                    ]
                },
                "serveConfigV2": {"applications": [{"name": "chat", "route_prefix": "/v2"}]},
            }
        },
    )
    manifest = assemble(env).manifests["chat"][0]
    (group,) = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert {"name": "A", "value": "1"} in group["template"]["spec"]["containers"][0]["env"]
    assert group["template"]["spec"]["containers"][0]["image"]
    assert json.loads(manifest["spec"]["serveConfigV2"])["applications"][0]["route_prefix"] == "/v2"


def test_shares_with_tensor_parallel_lie_in_pods_of_as_many_gpus() -> None:
    pool = {"kind": "existing", "gpu": "L40S", "gpus_per_node": 4, "cpu": 40, "memory_gib": 300, "max": 4}
    env = with_model(
        {"gpu": {"share": 0.5}, "parallel": {"tensor": 2}, "replicas": {"min": 3, "max": 3}, "pool": "l40s"}
    )
    env = env.model_copy(update={"node_pools": {**env.node_pools, **environment(node_pools={"l40s": pool}).node_pools}})
    (group,) = assemble(env).manifests["chat"][0]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert group["replicas"] == 2  # two replicas share a pod of two GPUs


def test_parallel_sizes_given_as_engine_arguments_size_the_pods() -> None:
    pool = {"kind": "existing", "gpu": "H100", "gpus_per_node": 8, "cpu": 190, "memory_gib": 1900, "max": 4}
    env = with_model({"engine_args": {"tensor_parallel_size": 4}, "pool": "h100"})
    env = env.model_copy(update={"node_pools": {**env.node_pools, **environment(node_pools={"h100": pool}).node_pools}})
    (group,) = assemble(env).manifests["chat"][0]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "4"


def test_token_authentication_is_on_where_ray_has_it() -> None:
    new = assemble(with_model({})).manifests["chat"][0]["spec"]["rayClusterConfig"]
    old = assemble(with_model({}, ray_version="2.51.0")).manifests["chat"][0]["spec"]["rayClusterConfig"]
    assert new["authOptions"] == {"mode": "token"}
    assert "authOptions" not in old
