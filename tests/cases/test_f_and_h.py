"""Public reports about versions, tokens and variables (class F, and H1, H3, H7), each as a small config."""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules
from policies.facts import Object, Stack
from policies.facts import vllm as vllm_facts

from .small import EXISTING, Config, chat, found, manifest, model, pool


def versions(**given: str) -> Config:
    return {"versions": given}


def case(*patches: Config) -> set[tuple[str, str]]:
    return found(*patches, base=EXISTING)


def errors(*patches: Config) -> set[str]:
    return {rule for rule, severity in case(*patches) if severity == "error"}


NO_TOKEN = chat(auth={"mode": "disabled"})


def test_f2_a_vllm_that_ray_cannot_import_is_refused() -> None:
    assert errors(versions(ray="2.54.0", vllm="0.17.0")) == {"version-ray-vllm"}
    assert errors(versions(ray="2.54.0", vllm="0.16.0")) == set()
    assert errors(versions(ray="2.54.0")) == set()  # the vLLM that goes with it is derived


def test_f2_a_model_newer_than_the_bundled_vllm_is_refused() -> None:
    new = model(model="Qwen/Qwen3.5-27B", gpu={"share": None}, engine_args={"max_model_len": 2048})
    large = pool(gpu="A100-80G", gpus_per_node=1, cpu=12, memory_gib=128)
    assert "version-model" in errors(large, new, versions(ray="2.54.0"))
    assert "version-model" not in errors(large, new)


def test_f3_ray_without_serve_llm_is_refused() -> None:
    assert "version-serve-llm" in errors(versions(ray="2.42.1", vllm="0.7.2"), NO_TOKEN)
    assert "version-serve-llm" not in errors(versions(ray="2.43.0"), NO_TOKEN)


def test_f5_ray_version_and_images_agree() -> None:
    image = {"repository": "rayproject/ray-llm", "tag": "2.56.0-py311-cu130"}
    assert "version-images" in errors(chat(image=image))
    assert errors(chat(image=image, ray_version="2.56.0")) == set()
    other = {
        "template": {
            "spec": {"containers": [{"name": "ray-worker", "image": "rayproject/ray-llm:2.60.0-py312-cu130"}]}
        },
        "groupName": "l4",
    }
    same = {"repository": "rayproject/ray-llm", "tag": "2.60.0-py311-cu130"}
    patch = {"spec": {"rayClusterConfig": {"workerGroupSpecs": [other]}}}
    assert "version-images" in errors(chat(image=same, patch=patch))  # Python minor
    assert errors(chat(image=same)) == set()


@pytest.mark.parametrize(("ray", "refused"), [("2.51.0", True), ("2.52.0", False)])
def test_f6_token_authentication_came_with_ray_2_52(ray: str, refused: bool) -> None:
    given = errors(versions(ray=ray), chat(auth={"mode": "token"}))
    assert ("kuberay-token-auth" in given) is refused
    assert "kuberay-token-auth" not in errors(versions(ray=ray))  # derived: off where Ray does not have it


@pytest.mark.parametrize(
    ("driver", "cuda", "expected"),
    [
        ("570.133.20", "13.0", ("driver-cuda", "error")),
        ("570.133.20", "12.9", ("driver-cuda", "warning")),
        ("580.95.05", "13.0", None),
        ("570.133.20", "12.8", None),
    ],
)
def test_f8_the_driver_of_the_nodes_runs_the_images_cuda(
    driver: str, cuda: str, expected: tuple[str, str] | None
) -> None:
    given = case(pool(driver_version=driver), versions(cuda=cuda))
    assert (expected in given) if expected else not {rule for rule, _ in given if rule == "driver-cuda"}


def test_f9_an_image_with_reports_is_a_warning() -> None:
    image = {"repository": "rayproject/ray-llm", "tag": "2.44.1-py311-cu124"}
    assert ("version-serve-llm", "warning") in case(chat(image=image, ray_version="2.44.1"), NO_TOKEN)


GATED = model(model="meta-llama/Llama-3.2-1B-Instruct", engine_args={"max_model_len": 4096})
SECRET = chat(huggingface_token={"secret": "huggingface", "key": "token"})


def test_h1_the_token_goes_by_reference_into_every_ray_container() -> None:
    body = manifest(GATED, SECRET, base=EXISTING)["spec"]["rayClusterConfig"]
    reference = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"key": "token", "name": "huggingface"}}}
    for group in (body["headGroupSpec"], *body["workerGroupSpecs"]):
        assert reference in group["template"]["spec"]["containers"][0]["env"]
    assert case(GATED, SECRET) == set()
    assert ("model-token", "warning") in case(GATED)


def test_h1_a_token_in_the_runtime_env_alone_does_not_reach_an_old_engine_core() -> None:
    plain = model(env={"HF_TOKEN": "hf_0123456789"})
    assert "model-token" in errors(GATED, plain, versions(ray="2.48.0"), NO_TOKEN)
    assert ("model-token", "warning") in case(GATED, plain)


def test_h3_a_short_health_check_passes_and_a_short_wait_is_a_warning() -> None:
    assert case(model(deployment_config={"health_check_timeout_s": 30})) == set()
    assert case(chat(ready_timeout_seconds=20)) == {("startup-timeout", "warning")}
    assert case(chat(ready_timeout_seconds=1800)) == set()


def service_called_vllm(**pod: Any) -> Stack:
    """Another team's Deployment and Service, both called vllm."""
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.29.0", "args": ["--model=Qwen/Qwen3-0.6B"]}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "vllm", "namespace": "serving"},
        "spec": {"template": {"spec": {"containers": [container], **pod}}},
    }
    item = Object(
        api_version="v1", kind="Service", name="vllm", namespace="serving", where="Service serving/vllm", manifest={}
    )
    return Stack(workloads=(vllm_facts.read(deployment),), objects=(item,))


def test_h7_a_service_called_vllm_is_refused_unless_links_are_off() -> None:
    def said(stack: Stack) -> set[str]:
        return {f.rule for f in rules.check(stack) if f.severity == "error"}

    assert "environment-service-links" in said(service_called_vllm())
    assert "environment-service-links" not in said(service_called_vllm(enableServiceLinks=False))


def test_h7_our_own_pods_have_no_service_links() -> None:
    body = manifest(base=EXISTING)["spec"]["rayClusterConfig"]
    for group in (body["headGroupSpec"], *body["workerGroupSpecs"]):
        assert group["template"]["spec"]["enableServiceLinks"] is False
