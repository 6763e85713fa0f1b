"""Public reports about Helm values, operators, Secrets, namespaces and KAI's placement as small environments: each broken, and mended."""

from __future__ import annotations

from typing import Any

from .report import Report, each
from .small import AWS, EXISTING, KAI, TWO_NODES, Config, chat, pool
from .test_a_to_b import gpus


def values(part: str, **given: Any) -> Config:
    return {"software": {part: {"values": given}}}


def operator(**given: Any) -> Config:
    return values("gpu_operator", **given)


MIG = {"strategy": "mig", "mig_profile": "3g.40gb"}
CUT = {"node_pools": {"l4": {"instance_types": ["p4de.24xlarge"], "max": 2, "sharing": MIG, "reservation": {"kind": "on_demand", "id": "cr-0a1b2c3d4e5f60718"}, "zones": ["us-east-1b"]}}}  # fmt: skip
B200 = {"node_pools": {"b200": {"instance_types": ["p6-b200.48xlarge"], "zones": ["us-east-1b"], "reservation": {"kind": "capacity_block", "id": "cr-0a1b2c3d4e5f60718"}, "efa": True, "max": 2}}}  # fmt: skip
PLAIN: tuple[Config, ...] = (chat(),)
TOKEN = {"store": "aws", "keys": {"token": {"name": "prod/huggingface"}}}
RACK = {"kai.scheduler/topology-required-placement": "example.com/rack"}
CERTIFICATE = "arn:aws:acm:{}:123456789012:certificate/0a1b"


def ingress(certificate: str) -> Config:
    return chat(expose={"ingress": {"host": "chat.example.com", "certificate_arn": certificate}})


OPERATORS = (
    Report("NVIDIA/gpu-operator#423", "operator-values", (operator(nfd={"enabled": False}),), PLAIN, base=AWS),
    Report("NVIDIA/gpu-operator#78", "operator-values", (operator(nfd={"enabled": False}),), PLAIN, "warning", EXISTING),
    Report("NVIDIA/gpu-operator#1469", "operator-values", (operator(**{"node-feature-discovery": {"worker": {"config": {"sources": {"pci": {"deviceLabelFields": ["vendor", "device"]}}}}}}),), (operator(**{"node-feature-discovery": {"worker": {"config": {"sources": {"pci": {"deviceLabelFields": ["vendor"]}}}}}}),), base=AWS),
    Report("NVIDIA/gpu-operator#114", "operator-values", (operator(**{"node-feature-discovery": {"worker": {"config": {"sources": {"pci": {"deviceLabelFields": ["class", "vendor"]}}}}}}),), PLAIN),
    Report("nodes for virtual machines", "operator-values", (operator(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}),), (operator(sandboxWorkloads={"enabled": True, "defaultWorkload": "container"}),)),
    Report("MIG without its manager", "operator-values", (CUT, operator(migManager={"enabled": False})), (CUT,), base=AWS),
    Report("a MIG strategy of none", "operator-values", (CUT, operator(mig={"strategy": "none"})), (CUT,), "warning", AWS),
    Report("the operator's driver is too old", "driver-cuda", (pool(driver_version=None), operator(driver={"enabled": True, "version": "535.183.01"})), (pool(driver_version=None), operator(driver={"enabled": True, "version": "580.95.05"}))),
    Report("a part of the operator by another name", "helm-values-read", (operator(devicePlugins={"enabled": False}),), (operator(devicePlugin={"imagePullPolicy": "Always"}),), "warning"),
    Report("a setting of another chart", "helm-values-read", (operator(migStrategy="mixed"),), PLAIN, "warning"),
    Report("Prometheus' retention one level too high", "helm-values-read", ({"software": {"monitoring": {"install": True, "values": {"prometheus": {"retention": "5d"}}}}},), ({"software": {"monitoring": {"install": True, "values": {"prometheus": {"prometheusSpec": {"retention": "5d"}}, "grafana": {"persistence": {"enabled": True}}}}}},), "warning"),
    Report("gates as a mapping", "kuberay-values", (values("kuberay", featureGates={"RayCronJob": True}),), (values("kuberay", featureGates=[{"name": "RayCronJob", "enabled": True}]),)),
    Report("an operator of another release", "kuberay-values", (values("kuberay", image={"tag": "v1.3.0"}),), (values("kuberay", image={"tag": "v1.7.0"}),)),
)  # fmt: skip
PLACES = (
    Report("a namespace that nobody makes", "namespace-there", (chat(namespace="team"),), (chat(namespace="team", create_namespace=True),), "warning", AWS),
    Report("a Secret without the key", "secret-keys", (chat(secrets={"hf": TOKEN}, huggingface_token={"secret": "hf", "key": "HF_TOKEN"}),), (chat(secrets={"hf": TOKEN}, huggingface_token={"secret": "hf", "key": "token"}),)),
    Report("a Secret in capitals", "secret-keys", (chat(secrets={"hf-token": TOKEN}, secret_env={"KEY": {"secret": "hf_token", "key": "token"}}),), (chat(secrets={"hf-token": TOKEN}, secret_env={"KEY": {"secret": "hf-token", "key": "token"}}),)),
    Report("a certificate of another region", "ingress-certificate", (ingress(CERTIFICATE.format("eu-west-1")),), (ingress(CERTIFICATE.format("us-east-1")),), base=AWS),
    Report("no certificate at all", "config", (ingress("chat.example.com"),), (ingress(CERTIFICATE.format("us-east-1")),), base=AWS),
    Report("a place without topology", "kai-topology", (KAI, chat(annotations=RACK)), (KAI, chat(annotations={**RACK, "kai.scheduler/topology": "cluster"}))),
    Report("a class of nearly the name", "kai-priority-class", (KAI, chat(priority_class="inferences")), (KAI, chat(priority_class="inference")), "warning"),
)  # fmt: skip
QUEUES = (
    Report("a queue in capitals", "queue-name", (KAI, {"queues": {"team": None, "Team_A": {"parent": "serving", "gpu": {"quota": 64, "limit": 64}}}}, chat(queue="Team_A")), (KAI, {"queues": {"team": None, "team-a": {"parent": "serving", "gpu": {"quota": 64, "limit": 64}}}}, chat(queue="team-a"))),
    Report("KAI before its label", "kai-versions", (KAI, {"software": {"kai": {"version": "v0.5.1"}}}), (KAI,)),
    Report("KAI before its charts moved", "kai-values", (KAI, {"software": {"kai": {"version": "v0.12.4"}}}), (KAI,)),
    Report("aws/sagemaker-hyperpod-cli PR#282", "network-efa-plugin", (B200, {"software": {"efa_plugin": {"version": "v0.5.8"}}}), (B200,), base=AWS),
    Report("modelplaneai/modelplane#197", "network-efa-multi-node", (TWO_NODES, {"node_pools": {"h100": {"efa": False}}}), (TWO_NODES,), "warning", AWS),
    Report("an operator that is given no time", "helm-recovery", ({"software": {"gpu_operator": {"timeout_seconds": 30}}},), ({"software": {"gpu_operator": {"timeout_seconds": 600}}},), "warning"),
)  # fmt: skip


@each((*OPERATORS, *PLACES, *QUEUES))
def test_what_was_reported_is_said_and_its_mended_twin_passes(report: Report) -> None:
    report.holds()


def test_a_namespace_of_an_existing_cluster_may_be_there() -> None:
    assert "namespace-there" not in {rule for rule, _ in Report("", "", PLAIN, PLAIN).said((chat(namespace="team"),))}


def test_gpus_that_are_cut_already_need_no_manager() -> None:
    cut = gpus("A100-80G", sharing=MIG)
    report = Report("", "", (cut, operator(migManager={"enabled": False})), PLAIN)
    assert "operator-values" not in {rule for rule, _ in report.said(report.broken)}


def test_two_services_do_not_make_one_namespace() -> None:
    made: Config = {"create_namespace": True, "namespace": "team"}
    other = {**AWS["services"]["chat"], **made}
    report = Report("", "namespace-there", (chat(**made), {"services": {"other": other}}), (chat(**made),), base=AWS)
    assert ("namespace-there", "error") in report.said(report.broken)
    assert "namespace-there" not in {rule for rule, _ in report.said(report.mended)}
