"""Public reports about EKS Auto Mode, roles of pods, keys of disks and add-ons that the cluster has already: each broken, and mended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.config import deep_merge
from policies.facts.wire import Resource, resource

from .resources import CLUSTER, aws, objects, said, twins
from .test_reports_of_aws import ADDON, OK, ROLE, Resources, case, group
from .test_reports_of_plugins_and_names import release

ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
AUTO: dict[str, Any] = {
    "computeConfig": {
        "enabled": True,
        "nodePools": ["general-purpose", "system"],
        "nodeRoleArn": "arn:aws:iam::123456789012:role/auto",
    },
    "kubernetesNetworkConfig": {"elasticLoadBalancing": {"enabled": True}},
    "storageConfig": {"blockStorage": {"enabled": True}},
    "accessConfig": {"authenticationMode": "API"},
    "bootstrapSelfManagedAddons": False,
}
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
      requirements:
      - {key: eks.amazonaws.com/instance-family, operator: In, values: [g6e, g6]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  limits: {nvidia.com/gpu: 8}
---
apiVersion: v1
kind: Pod
metadata: {name: gpu, namespace: serving}
spec:
  nodeSelector: {eks.amazonaws.com/instance-gpu-name: l4}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def auto(**changes: Any) -> Resource:
    return aws(CLUSTER, **deep_merge(AUTO, changes))


def pool(good: str = "", bad: str = "") -> Resources:
    assert good in POOL
    return auto(), *objects(POOL.replace(good, bad) if good else POOL)


AUTO_MODE = (
    case("terraform-aws-modules/terraform-aws-eks#3496", "eks-auto-mode", (auto(computeConfig={"nodePools": ["general-purpose", "sytem"]}),), (auto(),)),
    case("one switch of three", "eks-auto-mode", (auto(storageConfig=None),), (auto(),)),
    case("a role without pools", "eks-auto-mode", (auto(computeConfig={"nodePools": None}),), (auto(computeConfig={"nodePools": None, "nodeRoleArn": None}),)),
    case("add-ons that Auto Mode brings", "eks-auto-mode", (auto(bootstrapSelfManagedAddons=None),), (auto(),)),
    case("nodes that aws-auth would let in", "eks-auto-mode", (auto(accessConfig={"authenticationMode": "CONFIG_MAP"}),), (auto(accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"}),)),
    case("awslabs/startups PR#247", "eks-auto-mode-objects", (auto(), *OK), (auto(), *OK, release("karpenter", "1.14.0", "kube-system", {}))),
    case("awsdocs/amazon-eks-user-guide PR#1250", "eks-auto-mode-objects", pool("eks.amazonaws.com/instance-family", "karpenter.k8s.aws/instance-family"), pool()),
    case("a class of the other Karpenter", "eks-auto-mode-objects", pool("kind: NodeClass", "kind: EC2NodeClass"), pool()),
    case("a selector in the other Karpenter's words", "eks-auto-mode-objects", pool("eks.amazonaws.com/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-name"), pool()),
)  # fmt: skip


def role(principal: dict[str, str], *actions: str) -> Resource:
    statement = {"Effect": "Allow", "Principal": principal, "Action": list(actions)}
    props = {"name": "ebs", "assumeRolePolicy": json.dumps({"Version": "2012-10-17", "Statement": [statement]})}
    return resource(ROLE, "ebs", props, urn="urn:ebs")


EBS = "arn:aws:iam::123456789012:role/ebs"
BY_IDENTITY = role({"Service": "pods.eks.amazonaws.com"}, "sts:AssumeRole", "sts:TagSession")
BY_TOKEN = role({"Federated": "arn:aws:iam::123456789012:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/A"}, "sts:AssumeRoleWithWebIdentity")  # fmt: skip
AGENT = aws(ADDON, addonName="eks-pod-identity-agent", clusterName="llm")


def driver(**given: Any) -> Resource:
    return aws(ADDON, addonName="aws-ebs-csi-driver", clusterName="llm", **given)


TOKEN = driver(serviceAccountRoleArn=EBS)
IDENTITY = driver(podIdentityAssociations=[{"roleArn": EBS, "serviceAccount": "ebs-csi-controller-sa"}])
ASSOCIATED = aws(ASSOCIATION, clusterName="llm", namespace="kube-system", serviceAccount="ebs", roleArn=EBS)
ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: ebs, namespace: kube-system, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/ebs"}}
"""


def key(*statements: dict[str, Any], **props: Any) -> Resource:
    policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    given = {"arn": "arn:aws:kms:us-east-1:123456789012:key/1", "policy": policy, **props}
    return resource("aws:kms/key:Key", "disks", given, urn="urn:disks")


SCALING = "arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
ROOT = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*", "Resource": "*"}
LETS = {"Effect": "Allow", "Principal": {"AWS": SCALING}, "Action": ["kms:Decrypt", "kms:CreateGrant"], "Resource": "*"}
EC2 = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "kms:*", "Resource": "*", "Condition": {"StringEquals": {"kms:ViaService": "ec2.us-east-1.amazonaws.com"}}}  # fmt: skip
GRANT = aws("aws:kms/grant:Grant", keyId="arn:aws:kms:us-east-1:123456789012:key/1", granteePrincipal=SCALING)
ENCRYPTED = group({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200, "encrypted": "true", "kmsKeyId": "arn:aws:kms:us-east-1:123456789012:key/1"}}]})  # fmt: skip
ROLES = (
    case("aws/aws-cdk#31522", "eks-role-way", (BY_IDENTITY, TOKEN), (BY_TOKEN, TOKEN)),
    case("the other way round", "eks-role-way", (BY_TOKEN, IDENTITY, AGENT), (BY_IDENTITY, IDENTITY, AGENT)),
    case("an association", "eks-role-way", (BY_TOKEN, ASSOCIATED, AGENT), (BY_IDENTITY, ASSOCIATED, AGENT)),
    case("a service account's annotation", "eks-role-way", (BY_IDENTITY, *objects(ACCOUNT)), (BY_TOKEN, *objects(ACCOUNT))),
    case("aws/aws-cdk#34491", "pool-disk-key", (key(ROOT), *ENCRYPTED), (key(ROOT, LETS), *ENCRYPTED)),
    case("a key with the account's policy", "pool-disk-key", (key(policy=None), *ENCRYPTED), (key(ROOT), *ENCRYPTED, GRANT)),
    case("everybody by way of EC2", "pool-disk-key", (key(ROOT), *ENCRYPTED), (key(ROOT, EC2), *ENCRYPTED)),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "broken", "mended"), [*AUTO_MODE, *ROLES])
def test_what_was_reported_is_said_and_its_mended_twin_passes(rule: str, broken: Resources, mended: Resources) -> None:
    twins(rule, "error", broken, mended)


CNI = aws(ADDON, addonName="vpc-cni", clusterName="llm")


@pytest.mark.parametrize(
    ("rule", "broken", "mended"),
    [
        case("aws/karpenter-provider-aws#5784", "eks-pod-identity-agent", (aws(CLUSTER), ASSOCIATED), (aws(CLUSTER), ASSOCIATED, AGENT)),
        case("an agent that Auto Mode has", "eks-pod-identity-agent", (aws(CLUSTER), IDENTITY), (auto(), IDENTITY)),
        case("aws/amazon-network-policy-controller-k8s#200", "eks-addon-conflicts", (aws(CLUSTER), CNI), (aws(CLUSTER, bootstrapSelfManagedAddons=False), CNI)),
        case("zalando-incubator/kubernetes-on-aws PR#10377", "eks-addon-conflicts", (aws(CLUSTER), CNI), (aws(CLUSTER), aws(ADDON, addonName="vpc-cni", clusterName="llm", resolveConflictsOnCreate="OVERWRITE"))),
    ],
)  # fmt: skip
def test_what_can_fail_is_warned_of(rule: str, broken: Resources, mended: Resources) -> None:
    twins(rule, "warning", broken, mended)


def test_an_auto_mode_class_is_no_matter_to_a_karpenter_beside_it() -> None:
    assert "eks-auto-mode-objects" not in {rule for rule, _ in said(*OK)}
    assert "eks-auto-mode-objects" not in {rule for rule, _ in said(*objects(POOL))}
