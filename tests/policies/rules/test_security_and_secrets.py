"""Each test breaks one thing about exposure, pods' rights, or secrets. No message may show a secret."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies import rules
from policies.facts import AwsResource, Object, SecretRef, Stack
from policies.rules.pod_security import unpinned
from policies.rules.secret_shapes import by_name, shape

from .stacks import (
    APP,
    core,
    found,
    l4,
    sentences,
    stack,
    with_engine,
    with_head,
    with_service,
    with_values,
    with_workers,
)

HF = "hf_" + "a1B2c3D4e5" * 3
AWS_KEY = "AKIA" + "ABCDEFGH12345678"
PRIVATE = "-----BEGIN RSA " + "PRIVATE KEY-----\nabc"


def kubernetes(kind: str, spec: dict[str, Any], **metadata: Any) -> Stack:
    """The stack with one more Kubernetes object."""
    manifest = {"metadata": metadata, "spec": spec}
    item = Object(
        api_version="v1", kind=kind, name="extra", namespace="default", where=f"{kind} default/extra", manifest=manifest
    )
    return replace(stack(), objects=(item,))


def aws(type_: str, **props: Any) -> Stack:
    """A stack of one AWS resource."""
    return Stack(aws=(AwsResource(type=type_, name="x", where="resource 'x'", props=props),))


HEAD = {"ray.io/node-type": "head", "ray.io/cluster": "chat"}
LB = {"type": "LoadBalancer"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_service(head_service_type="LoadBalancer"), [("security-head-exposed", "error")]),
        (with_service(head_service_type="NodePort"), [("security-head-exposed", "error")]),
        (with_service(head_service_type="ClusterIP"), []),
        (with_service(head_ingress=True), [("security-head-exposed", "error")]),
        (with_service(head_service={"spec": LB}), [("security-head-exposed", "error")]),
        (with_service(auth_mode=None), [("security-token-auth", "warning")]),
        (
            with_service(auth_mode="disabled", ray_version="2.50.1"),
            [("security-dashboard-delete", "warning"), ("security-token-auth", "warning")],
        ),
        (with_service(ray_version="2.53.0"), [("security-dashboard-delete", "warning")]),
        (with_service(ray_version="2.54.0"), []),
        (
            with_service(ray_version="2.53.0", auth_mode=None, head_service_type="LoadBalancer"),
            [
                ("security-dashboard-delete", "error"),
                ("security-head-exposed", "error"),
                ("security-token-auth", "warning"),
            ],
        ),
        (
            kubernetes("Service", {**LB, "selector": HEAD, "ports": [{"port": 80, "targetPort": 8265}]}),
            [("security-service-exposed", "error")],
        ),
        (
            kubernetes("Service", {**LB, "selector": HEAD, "ports": [{"port": 6379}]}),
            [("security-service-exposed", "error")],
        ),
        (kubernetes("Service", {**LB, "selector": {"app": "redis"}, "ports": [{"port": 6379}]}), []),
        (
            kubernetes(
                "Service", {"type": "NodePort", "selector": HEAD, "ports": [{"port": 80, "targetPort": "dashboard"}]}
            ),
            [("security-service-exposed", "error")],
        ),
        (kubernetes("Service", {"selector": HEAD, "ports": [{"port": 8265}]}), []),
        (
            kubernetes("Service", {"externalIPs": ["192.0.2.1"], "selector": HEAD, "ports": [{"port": 10001}]}),
            [("security-service-exposed", "error")],
        ),
        (kubernetes("Service", {**LB, "selector": HEAD, "ports": [{"port": 443, "targetPort": 8443}]}), []),
        (
            kubernetes(
                "Ingress",
                {
                    "rules": [
                        {
                            "http": {
                                "paths": [{"backend": {"service": {"name": "chat-head-svc", "port": {"number": 8265}}}}]
                            }
                        }
                    ]
                },
            ),
            [("security-service-exposed", "error")],
        ),
        (
            kubernetes("HTTPRoute", {"rules": [{"backendRefs": [{"name": "chat-head-svc", "port": 10001}]}]}),
            [("security-service-exposed", "error")],
        ),
        (kubernetes("HTTPRoute", {"rules": [{"backendRefs": [{"name": "chat-serve-svc", "port": 8000}]}]}), []),
        (with_service(serve_service={"spec": LB}), [("security-endpoint-public", "warning")]),
        (with_service(serve_service={"spec": {"type": "NodePort"}}), [("security-endpoint-public", "warning")]),
        (
            with_service(
                serve_service={
                    "spec": LB,
                    "metadata": {"annotations": {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"}},
                }
            ),
            [],
        ),
        (with_service(serve_service={"spec": {**LB, "loadBalancerSourceRanges": ["10.0.0.0/8"]}}), []),
        (
            with_service(serve_service={"spec": {**LB, "loadBalancerSourceRanges": ["0.0.0.0/0"]}}),
            [("security-endpoint-public", "warning")],
        ),
        (
            kubernetes("Service", {**LB, "selector": {"ray.io/serve": "true"}, "ports": [{"port": 8000}]}),
            [("security-endpoint-public", "warning")],
        ),
    ],
)
def test_who_can_reach_a_service(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_an_open_head_without_a_token_is_said_to_be_code_execution() -> None:
    assert sentences(with_service(head_service_type="LoadBalancer", auth_mode=None), "security-head-exposed") == [
        "service 'chat': head: its Service is a LoadBalancer: dashboard 8265, Ray client 10001 and GCS 6379 leave the cluster, and without token "
        "authentication whoever reaches them runs code; keep it a ClusterIP (head.service_type) and use kubectl port-forward, with auth.mode: token "
        "[security-head-exposed]"
    ]


SG = "aws:ec2/securityGroup:SecurityGroup"
WORLD = {"cidrBlocks": ["0.0.0.0/0"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (aws(SG, ingress=[{"protocol": "-1", **WORLD}]), [("aws-open-group", "error")]),
        (
            aws(SG, ingress=[{"protocol": "tcp", "fromPort": 8265, "toPort": 8265, **WORLD}]),
            [("aws-open-group", "error")],
        ),
        (aws(SG, ingress=[{"protocol": "tcp", "fromPort": 443, "toPort": 443, **WORLD}]), []),
        (
            aws(SG, ingress=[{"protocol": "tcp", "fromPort": 9000, "toPort": 9000, **WORLD}]),
            [("aws-open-group", "warning")],
        ),
        (
            aws(SG, ingress=[{"protocol": "tcp", "fromPort": 0, "toPort": 65535, "ipv6CidrBlocks": ["::/0"]}]),
            [("aws-open-group", "error")],
        ),
        (aws(SG, ingress=[{"protocol": "-1", "self": True}]), []),
        (
            aws(
                "aws:ec2/securityGroupRule:SecurityGroupRule",
                type="ingress",
                protocol="tcp",
                fromPort=22,
                toPort=22,
                **WORLD,
            ),
            [("aws-open-group", "error")],
        ),
        (aws("aws:ec2/securityGroupRule:SecurityGroupRule", type="egress", protocol="-1", **WORLD), []),
        (
            aws("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", ipProtocol="-1", cidrIpv4="0.0.0.0/0"),
            [("aws-open-group", "error")],
        ),
        (aws("aws:eks/cluster:Cluster", vpcConfig={"endpointPublicAccess": True}), [("aws-open-control", "warning")]),
        (
            aws(
                "aws:eks/cluster:Cluster",
                vpcConfig={"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]},
            ),
            [],
        ),
        (aws("aws:eks/cluster:Cluster", vpcConfig={"endpointPublicAccess": False}), []),
        (
            aws("aws:ec2/launchTemplate:LaunchTemplate", metadataOptions={"httpTokens": "optional"}),
            [("aws-open-control", "warning")],
        ),
        (aws("aws:ec2/launchTemplate:LaunchTemplate", metadataOptions={"httpTokens": "required"}), []),
    ],
)
def test_doors_of_the_vpc(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_weights_in_s3_need_an_identity_of_the_pods() -> None:
    given = with_engine(source="s3://weights/llama")
    assert found(given) == [("aws-weights-access", "warning")]
    assert found(with_workers(given, service_account="weights")) == []
    assert found(replace(given, pools=(core(), l4(hop_limit=2)))) == []


POD: dict[str, Any] = {"containers": [{"name": "ray", "image": "example.com/x:1"}]}


def container(**over: Any) -> Stack:
    """The stack whose worker pods have one container with these fields."""
    return with_workers(pod={"containers": [{"name": "ray", "image": "example.com/x:1", **over}]})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (container(image="llm-serve"), [("security-image-pinned", "error")]),
        (container(image="llm-serve:latest"), [("security-image-pinned", "error")]),
        (container(image="localhost:5000/llm-serve"), [("security-image-pinned", "error")]),
        (container(image="rayproject/ray-llm:nightly-py311-cu128"), [("security-image-pinned", "error")]),
        (container(image="rayproject/ray-llm:2.56.0-py312-cu130"), []),
        (container(image="localhost:5000/llm-serve:1"), []),
        (container(image="llm-serve@sha256:" + "0" * 64), []),
        (container(securityContext={"privileged": True}), [("security-privileged", "error")]),
        (container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), [("security-privileged", "warning")]),
        (container(securityContext={"capabilities": {"add": ["IPC_LOCK"]}}), []),
        (with_workers(pod={**POD, "hostNetwork": True}), [("security-node-namespaces", "warning")]),
        (with_workers(pod={**POD, "hostIPC": True}), [("security-node-namespaces", "warning")]),
        (
            with_workers(pod={**POD, "volumes": [{"name": "root", "hostPath": {"path": "/"}}]}),
            [("security-node-namespaces", "error")],
        ),
        (with_workers(pod={**POD, "volumes": [{"name": "models", "hostPath": {"path": "/mnt/models"}}]}), []),
        (
            with_workers(image_pull_policy="Never", image="registry.example.com/x:1"),
            [("security-image-pull", "warning")],
        ),
        (
            kubernetes("Deployment", {"template": {"spec": {"containers": [{"image": "x:latest"}]}}}),
            [("security-image-pinned", "warning")],
        ),
        (
            kubernetes(
                "DaemonSet",
                {"template": {"spec": {"containers": [{"image": "x:1", "securityContext": {"privileged": True}}]}}},
            ),
            [],
        ),
    ],
)
def test_what_pods_run_and_may_do(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


@pytest.mark.parametrize("image", ["a:1.2.3", "a/b:v1", "r.io:443/a:py311", "a:mainline-1", "a@sha256:" + "f" * 64])
def test_pinned_images(image: str) -> None:
    assert unpinned(image) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_workers(env={"HF_TOKEN": HF}), [("secret-environment", "error")]),
        (with_workers(env={"SOMETHING": HF}), [("secret-environment", "error")]),
        (with_workers(env={"HF_TOKEN": SecretRef(secret="huggingface", key="token")}), []),
        (with_workers(env={"HF_TOKEN": ""}), []),
        (with_workers(env={"DB_PASSWORD": "hunter2"}), [("secret-environment", "error")]),
        (with_workers(env={"AWS_SECRET_ACCESS_KEY": "abc/def"}), [("secret-environment", "error")]),
        (with_workers(env={"X": AWS_KEY}), [("secret-environment", "error")]),
        (
            with_workers(
                env={
                    "TOKENIZERS_PARALLELISM": "false",
                    "MAX_TOKENS": "5",
                    "HF_TOKEN_PATH": "/run/x",
                    "SECRET_NAME": "a",
                }
            ),
            [],
        ),
        (with_workers(env={"RAY_SERVE_SESSION_ID_HEADER_KEY": "x-session-id", "RAY_AUTH_MODE": "token"}), []),
        (with_head(env={"API_KEY": "abc", "NVIDIA_VISIBLE_DEVICES": "void"}), [("secret-environment", "error")]),
        (with_engine(env={"HF_TOKEN": HF}), [("secret-environment", "error")]),
        (with_service(annotations={"note": PRIVATE}), [("secret-argument", "error")]),
        (
            with_service(apps=(replace(APP, args={"llm_configs": [{"engine_kwargs": {"hf_token": "abc"}}]}),)),
            [("secret-argument", "error")],
        ),
        (with_service(apps=(replace(APP, args={"llm_configs": [{"engine_kwargs": {"max_tokens": "5"}}]}),)), []),
        (
            with_workers(pod={"containers": [{"name": "a", "image": "x:1", "args": ["serve --api-key abc"]}]}),
            [("secret-argument", "error")],
        ),
        (with_workers(pod={"containers": [{"name": "a", "image": "x:1", "args": ["serve --api-key $(API_KEY)"]}]}), []),
        (with_service(fault_tolerance={"redisAddress": "redis://:hunter2@redis:6379"}), [("secret-argument", "error")]),
        (with_service(fault_tolerance={"redisAddress": "redis://redis:6379"}), []),
        (
            with_service(fault_tolerance={"redisAddress": "r:1", "redisPassword": {"value": "x"}}),
            [("secret-argument", "error")],
        ),
        (
            with_service(
                fault_tolerance={
                    "redisAddress": "r:1",
                    "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "a", "key": "password"}}},
                }
            ),
            [],
        ),
        (with_values(adminPassword="prom-operator"), [("secret-helm-values", "error")]),
        (with_values(grafana={"env": {"GF_TOKEN": HF}}), [("secret-helm-values", "error")]),
        (with_values(admin={"existingSecret": "grafana", "passwordKey": "password"}), []),
        (with_values(automountServiceAccountToken=True), []),
        (kubernetes("ConfigMap", {}, annotations={"note": AWS_KEY}), [("secret-object", "error")]),
        (kubernetes("Secret", {}, annotations={"note": AWS_KEY}), []),
    ],
)
def test_secrets_in_plain_text(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_no_message_shows_the_secret() -> None:
    given = with_values(
        with_service(with_workers(env={"HF_TOKEN": HF, "P_PASSWORD": "hunter2"}), annotations={"a": AWS_KEY}),
        token="hunter2",
    )
    text = "\n".join(f.sentence() for f in rules.check(given))
    assert "secret-environment" in text
    assert not any(secret in text for secret in (HF, AWS_KEY, "hunter2"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (HF, "a Hugging Face token"),
        (AWS_KEY, "an AWS access key"),
        (PRIVATE, "a private key"),
        ("ghp_" + "a" * 36, "a GitHub token"),
        ("https://user:pass@example.com/x", "an address with a password"),
        ("https://example.com/user:pass", None),
        ("s3://bucket/hf_model", None),
        ("meta-llama/Llama-3.1-8B-Instruct", None),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "a signed token"),
    ],
)
def test_shapes_of_secrets(text: str, what: str | None) -> None:
    assert shape(text) == what


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("adminPassword", True),
        ("secretKey", True),
        ("API_TOKEN", True),
        ("tokenizer", False),
        ("maxTokens", False),
        ("passwordFile", False),
        ("credentials", True),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert by_name(name, "value-1") is secret
