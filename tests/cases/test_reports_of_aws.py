"""Public reports about EKS node groups, access and Karpenter's objects as other programs declare them: each broken, and mended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.facts.wire import Resource

from .resources import CLUSTER, GROUP, TEMPLATE, aws, objects, said, twins

Resources = tuple[Resource, ...]
ENTRY, ROLE, ADDON = "aws:eks/accessEntry:AccessEntry", "aws:iam/role:Role", "aws:eks/addon:Addon"
BLOCK = {
    "instanceType": "p5.48xlarge",
    "instanceMarketOptions": {"marketType": "capacity-block"},
    "capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": "cr-0a"}},
}
ARN = "arn:aws:iam::123456789012:role/team"


def cards(*pairs: tuple[int, int], **first: Any) -> dict[str, Any]:
    given = [{"interfaceType": "efa", "networkCardIndex": card, "deviceIndex": device} for card, device in pairs]
    return {"networkInterfaces": [{**given[0], **first}, *given[1:]]}


def group(template: dict[str, Any] | None = None, /, **props: Any) -> Resources:
    return aws(GROUP, **props), aws(TEMPLATE, **(template or {}))


def trust(*actions: str) -> Resources:
    statement = {"Effect": "Allow", "Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": list(actions)}
    return (aws(ROLE, assumeRolePolicy=json.dumps({"Version": "2012-10-17", "Statement": [statement]})),)


def case(source: str, rule: str, broken: Resources, mended: Resources) -> Any:
    return pytest.param(rule, broken, mended, id=f"{source} {rule}")


GROUPS = (
    case("pulumi/pulumi-eks#1228", "node-group-template", group(diskSize=200), group()),
    case("crossplane-contrib/provider-upjet-aws#866", "node-group-template", group(diskSize=20), group(diskSize=0)),
    case("terraform-aws-modules/terraform-aws-eks#2219", "node-group-template", group(remoteAccess={"ec2SshKey": "ops"}), group({"keyName": "ops"})),
    case("types in two places", "node-group-template", group({"instanceType": "p5.48xlarge"}), group({"instanceType": "p5.48xlarge"}, instanceTypes=None)),
    case("an own image without user data", "node-group-template", group({"imageId": "ami-1"}, amiType=None), group({"imageId": "ami-1", "userData": "TUlNRQ=="}, amiType="CUSTOM")),
    case("an own image and a release", "node-group-template", group({"imageId": "ami-1", "userData": "TUlNRQ=="}, amiType=None, version="1.35"), group({"imageId": "ami-1", "userData": "TUlNRQ=="}, amiType=None)),
    case("instance profile in the template", "node-group-template", group({"iamInstanceProfile": {"name": "node"}}), group()),
    case("spot request in the template", "node-group-template", group({"instanceMarketOptions": {"marketType": "spot"}}), group(capacityType="SPOT", instanceTypes=["p5.48xlarge", "p5.4xlarge"])),
    case("subnet in the template", "node-group-template", group(cards((0, 0), subnetId="subnet-0a")), group(cards((0, 0)))),
    case("EFA devices of one number", "node-group-template", group(cards((0, 0), (1, 1), (1, 1))), group(cards((0, 0), (1, 1), (2, 1)))),
    case("EFA and a public address", "node-group-template", group(cards((0, 0), (1, 1), associatePublicIpAddress="true")), group(cards((0, 0), (1, 1)))),
    case("security groups beside interfaces", "node-group-template", group({**cards((0, 0)), "vpcSecurityGroupIds": ["sg-1"]}), group(cards((0, 0), securityGroups=["sg-1"]))),
    case("a block that no template names", "node-group-template", group(capacityType="CAPACITY_BLOCK"), group(BLOCK, capacityType="CAPACITY_BLOCK", instanceTypes=None)),
    case("a taint as Kubernetes writes it", "node-group-values", group(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]), group()),
    case("a capacity type in small letters", "node-group-values", group(capacityType="on-demand"), group(capacityType="ON_DEMAND")),
    case("two ways to say maxUnavailable", "node-group-values", group(updateConfig={"maxUnavailable": 1, "maxUnavailablePercentage": 33}), group(updateConfig={"maxUnavailable": 1})),
    case("nodes newer than the cluster", "node-group-version", (aws(CLUSTER), *group(version="1.36")), (aws(CLUSTER), *group(version="1.35"))),
    case("nodes four minors older", "node-group-version", (aws(CLUSTER, version="1.36"), *group(version="1.32")), (aws(CLUSTER, version="1.36"), *group(version="1.33"))),
)  # fmt: skip
ACCESS = (
    case("terraform-aws-modules/terraform-aws-eks#2915", "eks-access-entry", (aws(ENTRY, principalArn=ARN, kubernetesGroups=["system:masters"]),), (aws(ENTRY, principalArn=ARN, kubernetesGroups=["platform"]),)),
    case("a session in place of its role", "eks-access-entry", (aws(ENTRY, principalArn="arn:aws:sts::123456789012:assumed-role/team/me"),), (aws(ENTRY, principalArn=ARN),)),
    case("entries where aws-auth alone is read", "eks-access-entry", (aws(CLUSTER, accessConfig={"authenticationMode": "CONFIG_MAP"}), aws(ENTRY, principalArn=ARN)), (aws(CLUSTER, accessConfig={"authenticationMode": "API"}), aws(ENTRY, principalArn=ARN))),
    case("mattrobinsonsre/terrapod PR#1546", "eks-pod-identity", trust("sts:AssumeRole"), trust("sts:AssumeRole", "sts:TagSession")),
    case("a cluster without endpoint", "eks-endpoint", (aws(CLUSTER, vpcConfig={"endpointPrivateAccess": False}),), (aws(CLUSTER),)),
    case("a mistyped add-on", "eks-addon-name", (aws(ADDON, addonName="eks-pod-identity-agnet"),), (aws(ADDON, addonName="eks-pod-identity-agent"), aws(ADDON, addonName="datadog_operator"), aws(ADDON, addonName="kubecost"))),
)  # fmt: skip
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
      - {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [l4]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  limits: {nvidia.com/gpu: 8}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: KarpenterNodeRole
  amiSelectorTerms: [{alias: al2023@v20261101}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: llm}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: llm}}]
  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 200Gi, volumeType: gp3}}]
"""
OK = tuple(objects(POOL))


def changed(*pairs: tuple[str, str]) -> Resources:
    text = POOL
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return tuple(objects(text))


NUMBER = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}"
KARPENTER = (
    case("a GPU in capitals", "karpenter-requirements", changed(("[l4]", "[L4]")), OK),
    case("a GPU that EC2 does not have", "karpenter-requirements", changed(("[l4]", "[l40]")), changed(("[l4]", "[l40s]"))),
    case("ondemand", "karpenter-requirements", changed(("[on-demand]", "[ondemand]")), OK),
    case("memory with a unit", "karpenter-requirements", changed((NUMBER, "{key: karpenter.k8s.aws/instance-memory, operator: In, values: [32Gi]}")), changed((NUMBER, "{key: karpenter.k8s.aws/instance-memory, operator: In, values: ['32768']}"))),
    case("Gt with two values", "karpenter-requirements", changed((NUMBER, "{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['4', '8']}")), changed((NUMBER, "{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['4']}"))),
    case("a label that Karpenter has not", "karpenter-requirements", changed((NUMBER, "{key: karpenter.k8s.aws/instance-gpu-type, operator: Exists}")), changed((NUMBER, "{key: karpenter.k8s.aws/instance-gpu-name, operator: Exists}"))),
    case("more minValues than values", "karpenter-requirements", changed(("values: [l4]}", "values: [l4], minValues: 2}")), changed(("values: [l4]}", "values: [l4, a10g], minValues: 2}"))),
    case("two lists with nothing in common", "karpenter-requirements", changed((NUMBER, "{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [t4]}")), changed((NUMBER, "{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [t4, l4]}"))),
    case("aws/karpenter-provider-aws#6884", "karpenter-class", changed(("  role:", "  kubelet: {maxPods: 1}\n  role:")), changed(("  role:", "  kubelet: {maxPods: 58}\n  role:"))),
    case("role and profile", "karpenter-class", changed(("  role:", "  instanceProfile: node\n  role:")), OK),
    case("an alias beside an id", "karpenter-class", changed(("[{alias: al2023@v20261101}]", "[{alias: al2023@v20261101}, {id: ami-1}]")), OK),
    case("the root volume by another name", "karpenter-class", changed(("/dev/xvda", "/dev/sda1")), OK),
    case("the data volume of Bottlerocket", "karpenter-class", changed(("al2023@v20261101", "bottlerocket@v1.54.0")), changed(("al2023@v20261101", "bottlerocket@v1.54.0"), ("/dev/xvda", "/dev/xvdb"))),
    case("a size without unit", "karpenter-class", changed(("200Gi", "200")), OK),
    case("an alias without version", "karpenter-class", changed(("al2023@v20261101", "al2023")), OK),
    case("a class of another name", "karpenter-references", changed(("name: gpu}\n      req", "name: gpus}\n      req")), OK),
    case("a class without group", "karpenter-references", changed(("{group: karpenter.k8s.aws, kind", "{kind")), OK),
    case("objects of 2023", "karpenter-references", changed(("karpenter.sh/v1", "karpenter.sh/v1beta1")), OK),
)  # fmt: skip


ENGINE = """
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: serving}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}, annotations: {karpenter.sh/do-not-disrupt: "true"}}
    spec:
      nodeSelector: {karpenter.sh/nodepool: gpu}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      enableServiceLinks: false
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.29.0
        args: [--model, Qwen/Qwen2.5-7B-Instruct, --max-model-len, "8192"]
        resources: {limits: {nvidia.com/gpu: 1, memory: 24Gi}}
        startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 120, periodSeconds: 10}
"""


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        (POOL.replace("      nodeClassRef", "      expireAfter: 19m\n      nodeClassRef"), POOL.replace("      nodeClassRef", "      expireAfter: 720h\n      nodeClassRef")),
        (POOL + ENGINE.replace(', annotations: {karpenter.sh/do-not-disrupt: "true"}', ""), POOL + ENGINE),
        (POOL + ENGINE.replace('"true"', '"false"'), POOL.replace("  limits:", "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}\n  limits:") + ENGINE.replace('"true"', '"false"')),
    ],
    ids=["kubernetes-sigs/karpenter#1611", "aws/karpenter-provider-aws#6129", "consolidation of what may be moved"],
)  # fmt: skip
def test_karpenter_leaves_gpu_nodes_to_their_engines(broken: str, mended: str) -> None:
    assert ("karpenter-disruption", "warning") in said(*objects(broken))
    assert "karpenter-disruption" not in {rule for rule, _ in said(*objects(mended))}


def subnet(**tags: str) -> Resource:
    return aws(
        "aws:ec2/subnet:Subnet", vpcId="vpc-1", tags={"Name": "private", "karpenter.sh/discovery": "llm", **tags}
    )


def test_subnets_have_the_tag_that_karpenter_looks_for() -> None:
    key = "karpenter.sh/discovery"
    assert "karpenter-discovery" not in {rule for rule, _ in said(*OK, subnet())}
    assert ("karpenter-discovery", "error") in said(*OK, subnet(**{key: "llm-prod"}))
    untagged = aws("aws:ec2/subnet:Subnet", vpcId="vpc-1", tags={"Name": "private"})
    assert ("karpenter-discovery", "warning") in said(*OK, untagged)
    anything = changed(
        ("{tags: {karpenter.sh/discovery: llm}}]\n  sec", "{tags: {karpenter.sh/discovery: '*'}}]\n  sec")
    )
    assert "karpenter-discovery" not in {rule for rule, _ in said(*anything, subnet(**{key: "other"}))}


def test_the_cluster_s_own_security_group_is_not_seen_and_may_have_the_tag() -> None:
    group = aws("aws:ec2/securityGroup:SecurityGroup", tags={"Name": "endpoints"})
    assert "karpenter-discovery" not in {rule for rule, _ in said(*OK, subnet(), group)}


@pytest.mark.parametrize(("rule", "broken", "mended"), [*GROUPS, *ACCESS, *KARPENTER])
def test_what_was_reported_is_said_and_its_mended_twin_passes(rule: str, broken: Resources, mended: Resources) -> None:
    twins(rule, "error", broken, mended)


def test_a_pool_of_a_class_that_is_elsewhere_is_fine() -> None:
    assert said(OK[0]) == set()


def test_own_images_that_start_by_themselves_are_doubted_and_no_more() -> None:
    given = changed(("[{alias: al2023@v20261101}]", "[{id: ami-1}]"))
    assert ("karpenter-class", "warning") in said(*given)
    assert not any(severity == "error" for _, severity in said(*given))
