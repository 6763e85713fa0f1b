"""Public reports about security and about secrets in plain text (classes N, O), each as a small config."""

from __future__ import annotations

import json

import pytest

from .small import Config, chat, cluster, found, manifest, model, planned

HF = "hf_" + "a1B2c3D4e5" * 3


@pytest.mark.parametrize("service_type", ["LoadBalancer", "NodePort"])
def test_n2_a_head_service_that_leaves_the_cluster_is_refused(service_type: str) -> None:
    assert ("security-head-exposed", "error") in found(chat(head={"service_type": service_type}))


def test_n2_an_ingress_for_the_dashboard_is_refused() -> None:
    ingress = chat(patch={"spec": {"rayClusterConfig": {"headGroupSpec": {"enableIngress": True}}}})
    assert ("security-head-exposed", "error") in found(ingress)


def test_n2_by_default_the_head_is_a_cluster_ip_with_token_authentication() -> None:
    rendered = cluster()
    assert rendered["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert rendered["authOptions"] == {"mode": "token", "secretName": "ray-token"}


def test_authentication_switched_off_is_a_warning() -> None:
    assert ("security-token-auth", "warning") in found(chat(auth={"mode": "disabled"}))


@pytest.mark.parametrize(
    ("patches", "severity"),
    [
        (({"versions": {"ray": "2.53.0"}},), "warning"),
        (
            ({"versions": {"ray": "2.53.0"}}, chat(auth={"mode": "disabled"}, head={"service_type": "LoadBalancer"})),
            "error",
        ),
    ],
)
def test_n3_a_dashboard_that_takes_delete_from_anyone(patches: tuple[Config, ...], severity: str) -> None:
    assert ("security-dashboard-delete", severity) in found(*patches)


def test_n5_tools_without_the_token_are_a_warning() -> None:
    tool = {
        "name": "collector",
        "image": "example.com/collector:1",
        "command": ["collect", "--url", "http://localhost:8265"],
    }
    containers = [*cluster()["headGroupSpec"]["template"]["spec"]["containers"], tool]
    beside = chat(
        patch={"spec": {"rayClusterConfig": {"headGroupSpec": {"template": {"spec": {"containers": containers}}}}}}
    )
    assert ("auth-token-tools", "warning") in found(beside)


def test_n5_kubernetes_tokens_for_a_ray_service_are_refused() -> None:
    assert ("kuberay-token-auth", "error") in found(chat(auth={"kubernetes_tokens": True}))


def test_an_endpoint_on_the_internet_is_a_warning_and_an_internal_one_is_not() -> None:
    public = chat(expose={"type": "LoadBalancer", "internal": False})
    assert ("security-endpoint-public", "warning") in found(public)
    assert not any(rule == "security-endpoint-public" for rule, _ in found(chat(expose={"type": "LoadBalancer"})))


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"securityContext": {"privileged": True}}, "security-privileged"),
        ({"image": "llm-serve:latest"}, "security-image-pinned"),
    ],
)
def test_privileged_and_unpinned_pods_are_refused(fields: dict[str, object], rule: str) -> None:
    patched = {"groupName": "l4", "template": {"spec": {"containers": [{"name": "ray-worker", **fields}]}}}
    assert (rule, "error") in found(chat(patch={"spec": {"rayClusterConfig": {"workerGroupSpecs": [patched]}}}))


def test_an_unpinned_tag_of_the_config_is_refused() -> None:
    assert ("security-image-pinned", "error") in found(chat(image={"tag": "latest"}))


# O: secrets


@pytest.mark.parametrize(
    ("patch", "rule"),
    [
        ({"env": {"HF_TOKEN": HF}}, "secret-environment"),
        (chat(env={"HF_TOKEN": HF}), "secret-environment"),
        (chat(worker={"env": {"REDIS_PASSWORD": "hunter2"}}), "secret-environment"),
        (model(env={"HF_TOKEN": HF}), "secret-environment"),
        (model(engine_args={"hf_token": HF}), "secret-argument"),
        (chat(annotations={"note": HF}), "secret-argument"),
        (chat(fault_tolerance={"redis_address": "redis://:hunter2@redis.cache:6379"}), "secret-argument"),
        (chat(head={"ray_start_params": {"redis-password": "hunter2"}}), "secret-argument"),
        (
            {"software": {"monitoring": {"install": True, "values": {"grafana": {"adminPassword": "hunter2"}}}}},
            "secret-helm-values",
        ),
    ],
)
def test_o1_secrets_in_plain_text_are_refused_and_not_shown(patch: Config, rule: str) -> None:
    findings = planned(patch).plan.findings
    assert (rule, "error") in {(f.rule, f.severity) for f in findings}
    assert not any("hunter2" in f.sentence() or HF in f.sentence() for f in findings)


def test_o1_secrets_by_reference_pass_and_stay_references() -> None:
    by_reference = chat(
        huggingface_token={"secret": "huggingface", "key": "token"},
        secret_env={"API_KEY": {"secret": "api", "key": "key"}},
        fault_tolerance={"redis_password": {"secret": "redis", "key": "password"}},
    )
    assert found(by_reference) == set()
    text = json.dumps(manifest(by_reference))
    assert text.count('"secretKeyRef"') == 5  # two variables on head and workers, and the Redis password
