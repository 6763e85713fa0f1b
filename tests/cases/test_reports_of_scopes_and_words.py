"""Public reports about what operators look at, user data of nodes, IAM documents and annotations: each broken, and mended."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from moto.iam.exceptions import MalformedPolicyDocument
from moto.iam.policy_validation import IAMPolicyDocumentValidator, IAMTrustPolicyDocumentValidator

from policies.facts.wire import Resource, manifests, resource

from .resources import CLUSTER, aws, case, objects, said, twins
from .test_reports_of_access import config, shell
from .test_reports_of_aws import POOL, ROLE, group
from .test_reports_of_objects import ALB, ENGINE, INGRESS, KEDA
from .test_reports_of_plugins_and_names import PROMETHEUS, release
from .test_reports_of_ray_objects import service

RAY = manifests([copy.deepcopy(service())], "ray.yaml")


def kuberay(**values: Any) -> Resource:
    return release("kuberay-operator", "1.7.0", "kuberay-system", values)


def nginx(**scope: Any) -> Resource:
    return release("ingress-nginx", "4.14.0", "ingress", {"controller": {"scope": scope}})


def prometheus(**namespaces: Any) -> Resource:
    values = {"prometheusOperator": {"namespaces": namespaces}}
    return release("kube-prometheus-stack", "80.0.0", "monitoring", values)


SCOPES = [
    pytest.param(RAY, [kuberay(watchNamespace=["ray-a", "ray-b"])], [kuberay(watchNamespace=["ray-a", "serving"])], id="ray-project/kuberay-helm#27"),
    pytest.param(RAY, [kuberay(singleNamespaceInstall=True)], [kuberay(singleNamespaceInstall=True, watchNamespace=["serving"])], id="ray-project/kuberay#1083"),
    pytest.param(objects(ENGINE + KEDA), [release("keda", "2.18.0", "keda", {"watchNamespace": "keda,models"})], [release("keda", "2.18.0", "keda", {"watchNamespace": "models, serving"})], id="keda"),
    pytest.param(objects(ENGINE + INGRESS), [nginx(enabled=True)], [nginx(enabled=True, namespace="serving")], id="ingress-nginx"),
    pytest.param(objects(PROMETHEUS), [prometheus(releaseNamespace=True)], [prometheus(releaseNamespace=True, additional=["serving"])], id="kube-prometheus-stack"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "broken", "mended"), SCOPES)
def test_an_operator_looks_at_the_namespaces_of_its_objects(
    given: list[Resource], broken: list[Resource], mended: list[Resource]
) -> None:
    twins("operator-namespaces", "error", [*broken, *given], [*mended, *given])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([kuberay(), *RAY], id="all namespaces"),
        pytest.param([nginx(enabled=False, namespace="models"), *objects(ENGINE + INGRESS)], id="a scope that is off"),
        pytest.param([nginx(enabled=True), *objects(ENGINE + ALB)], id="an Ingress of another class"),
        pytest.param([kuberay(watchNamespace=["models"]), release("kuberay-operator", "1.7.0", "serving", {"singleNamespaceInstall": True}), *RAY], id="an operator for each namespace"),
    ],
)  # fmt: skip
def test_operators_that_look_everywhere_or_at_others_are_fine(given: list[Resource]) -> None:
    assert "operator-namespaces" not in {rule for rule, _ in said(*given)}


MAX_PODS = config("kubelet: {config: {maxPods: 110}}")
TYPO = base64.b64encode(base64.b64decode(MAX_PODS).replace(b"v1alpha1", b"v1alpha")).decode()
CLASS = POOL.replace(
    "  role:",
    "  userData: |\n    apiVersion: node.eks.aws/v1alpha1\n    kind: NodeConfig\n    spec: {kubelet: {config: {maxPods: 110}}}\n  role:",
)
TOML = POOL.replace("al2023@v20261101", "bottlerocket@v1.54.0").replace("/dev/xvda", "/dev/xvdb").replace("  role:", "  userData: |\n    [settings.kubernetes]\n    max-pods = 110\n  role:")  # fmt: skip


def given(user_data: str) -> list[Resource]:
    return [*group({"userData": user_data})]


@pytest.mark.parametrize(
    ("severity", "broken", "mended"),
    [
        pytest.param("error", given(TYPO), given(MAX_PODS), id="terraform-aws-modules/terraform-aws-eks#2985"),
        pytest.param("warning", given(shell("export USE_MAX_PODS=false\nexport KUBELET_EXTRA_ARGS='--max-pods=109'")), given(config("kubelet: {flags: [--max-pods=109]}")), id="terraform-aws-modules/terraform-aws-eks#3420"),
        pytest.param("warning", given(config("kubelet: {maxPods: 110}")), given(MAX_PODS), id="a field of the kubelet's beside its config"),
        pytest.param("warning", given(config("kubelet: {config: {imageGcHighThresholdPercent: 70}}")), given(config("kubelet: {config: {imageGCHighThresholdPercent: 70}}")), id="a field in other letters"),
        pytest.param("error", given(config("kubelet: {config: {maxPods: '110'}}")), given(MAX_PODS), id="a number as text"),
        pytest.param("error", given(config("instance: {localStorage: {strategy: Raid0}}")), given(config("instance: {localStorage: {strategy: RAID0}}")), id="a strategy that is none"),
        pytest.param("warning", objects(CLASS.replace("maxPods", "maxPod")), objects(CLASS), id="Karpenter's nodes"),
        pytest.param("error", objects(TOML.replace("[settings.kubernetes]\n    max-pods = 110", "#!/bin/bash\n    echo hello")), objects(TOML), id="a script for Bottlerocket"),
    ],
)  # fmt: skip
def test_user_data_is_written_for_what_reads_it(severity: str, broken: list[Resource], mended: list[Resource]) -> None:
    twins("node-user-data", severity, broken, mended)


def test_an_image_of_one_s_own_family_may_read_anything() -> None:
    script = TOML.replace("[settings.kubernetes]\n    max-pods = 110", "#!/bin/bash\n    echo hello")
    assert "node-user-data" not in {rule for rule, _ in said(*objects(script.replace("  role:", "  amiFamily: Custom\n  role:")))}  # fmt: skip


def test_a_script_that_sets_its_own_variables_is_fine() -> None:
    assert "node-user-data" not in {
        rule for rule, _ in said(*given(shell("MAX=1\nexport HTTP_PROXY=http://proxy:3128")))
    }


WEIGHTS = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::weights", "arn:aws:s3:::weights/*"]}  # fmt: skip
TRUST = {"Effect": "Allow", "Action": ["sts:AssumeRole", "sts:TagSession"], "Principal": {"Service": "pods.eks.amazonaws.com"}}  # fmt: skip
Doc = dict[str, Any]


def document(statement: Doc, drop: str = "", version: str = "2012-10-17", **changes: Any) -> str:
    given = {key: value for key, value in {**statement, **changes}.items() if key != drop}
    return json.dumps({"Version": version, "Statement": [given]})


def policy(text: str) -> list[Resource]:
    return [resource("aws:iam/policy:Policy", "weights", {"name": "weights", "policy": text}, urn="urn:weights")]


def role(text: str) -> list[Resource]:
    return [resource(ROLE, "weights", {"name": "weights", "assumeRolePolicy": text}, urn="urn:weights")]


REFUSED = [
    pytest.param(document(WEIGHTS, Resource=["weights", "weights/*"]), id="awslabs/mountpoint-s3-csi-driver#172"),
    pytest.param(document(WEIGHTS, version="2026-11-30"), id="a version of today"),
    pytest.param(document(WEIGHTS, Action="GetObject"), id="an action of no service"),
    pytest.param(document(WEIGHTS, Actions=["s3:PutObject"]), id="a misspelt element"),
    pytest.param(document(WEIGHTS, drop="Resource"), id="no resource"),
    pytest.param(document(WEIGHTS, Effect="Permit"), id="another effect"),
    pytest.param("{'Version': '2012-10-17'}", id="no JSON"),
]


@pytest.mark.parametrize("broken", REFUSED)
def test_documents_that_iam_refuses_are_told(broken: str) -> None:
    with pytest.raises(MalformedPolicyDocument):
        IAMPolicyDocumentValidator(broken).validate()
    IAMPolicyDocumentValidator(document(WEIGHTS)).validate()
    twins("iam-document", "error", policy(broken), policy(document(WEIGHTS)))


@pytest.mark.parametrize("changes", [{"Resource": "*"}, {"Resource": None, "Sid": "x"}])
def test_a_trust_policy_is_for_its_role_alone(changes: Doc) -> None:
    broken = document(TRUST, **changes)
    with pytest.raises(MalformedPolicyDocument):
        IAMTrustPolicyDocumentValidator(broken).validate()
    IAMTrustPolicyDocumentValidator(document(TRUST)).validate()
    twins("iam-document", "error", role(broken), role(document(TRUST)))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(document(WEIGHTS, Resource="arn:aws:s3:::weights/*"), id="meadowdata/meadowrun#121"),
        pytest.param(document(WEIGHTS, Action="s3:GetObject", Resource="arn:aws:s3:::weights"), id="aws-ia/terraform-aws-bedrock#41"),
        pytest.param(document(WEIGHTS, Action=["s3:GetObject", "s3:ListObjectsV2"]), id="remotely-save/remotely-save#564"),
    ],
)  # fmt: skip
def test_permissions_that_allow_nothing_are_warned_of(broken: str) -> None:
    twins("iam-permissions", "warning", policy(broken), policy(document(WEIGHTS)))


@pytest.mark.parametrize(
    "text",
    [
        document(WEIGHTS, Resource="arn:aws:s3:::weights*"),
        document(WEIGHTS, Action="s3:*", Resource="*"),
        document(WEIGHTS, drop="Resource", NotResource="arn:aws:s3:::secret/*"),
        document(WEIGHTS, Resource="${bucket.arn}"),
        json.dumps({"version": "2012-10-17", "statement": {"effect": "Allow", "action": "*", "resource": "*"}}),
        "",
    ],
)
def test_documents_that_iam_takes_are_fine(text: str) -> None:
    assert {rule for rule, _ in said(*policy(text))} & {"iam-document", "iam-permissions"} == set()


_LB = "service.beta.kubernetes.io/aws-load-balancer-"
_GROUPED = ALB.replace("annotations: {", "annotations: {alb.ingress.kubernetes.io/group.name: team, alb.ingress.kubernetes.io/listen-ports: '[{\"HTTPS\": 443}]', alb.ingress.kubernetes.io/target-type: ip, ")  # fmt: skip
INTERNAL = ENGINE.replace(
    "labels: {app: chat}}\nspec: {selector",
    f"labels: {{app: chat}}, annotations: {{{_LB}type: external, {_LB}scheme: internal}}}}\nspec: {{type: LoadBalancer, selector",
)
WORDS = (
    case("kubernetes-sigs/aws-load-balancer-controller#2564", "annotation-words", ENGINE + _GROUPED, ("group.name", "group-name"), severity="warning"),
    case("kubernetes-sigs/aws-load-balancer-controller#71", "annotation-words", ENGINE + _GROUPED, ("listen-ports", "listen-port"), severity="warning"),
    case("ports that are no JSON", "annotation-words", ENGINE + _GROUPED, ("'[{\"HTTPS\": 443}]'", '"HTTPS:443"')),
    case("a target type of the Service's", "annotation-words", ENGINE + _GROUPED, ("target-type: ip", "target-type: pod")),
    case("seconds with their unit", "annotation-words", ENGINE + INGRESS, ('"900"', '"900s"')),
    case("which leave the default", "ingress-timeout", ENGINE + INGRESS, ('"900"', '"900s"'), severity="warning"),
    case("a misspelt time-out", "annotation-words", ENGINE + INGRESS, ("proxy-read-timeout", "proxy-read-timeouts"), severity="warning"),
    case("kubernetes-sigs/aws-load-balancer-controller#3293", "load-balancer-maker", INTERNAL, ("type: external", "type: nlb"), severity="warning"),
    case("kubernetes-sigs/aws-load-balancer-controller#2737", "load-balancer-maker", INTERNAL, (f"{_LB}type: external, ", ""), severity="warning"),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), WORDS)
def test_annotations_are_words_to_their_controller(rule: str, severity: str, broken: str, mended: str) -> None:
    twins(rule, severity, objects(broken), objects(mended))


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param([release("aws-load-balancer-controller", "1.17.0", "kube-system", {"clusterName": "llm"})], id="the controller's webhook"),
        pytest.param([aws(CLUSTER, computeConfig={"enabled": True})], id="Auto Mode"),
    ],
)  # fmt: skip
def test_a_load_balancer_without_a_class_is_fine_where_one_is_set(beside: list[Resource]) -> None:
    text = INTERNAL.replace(f"{_LB}type: external, ", "")
    assert "load-balancer-maker" not in {rule for rule, _ in said(*objects(text), *beside)}


def test_annotations_of_listeners_rules_and_other_controllers_are_fine() -> None:
    more = "annotations: {alb.ingress.kubernetes.io/listener-attributes.HTTPS-443: a=b, alb.ingress.kubernetes.io/actions.chat: '{}', haproxy.org/timeout-server: 900s, nginx.ingress.kubernetes.io/proxy-body-size: 100m, "
    text = ENGINE + INGRESS.replace("annotations: {", more)
    assert "annotation-words" not in {rule for rule, _ in said(*objects(text))}
