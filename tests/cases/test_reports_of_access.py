"""Public reports about access entries, roles of pods, add-ons and user data as other programs declare them: each broken, and mended."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from policies.facts.wire import Resource

from .resources import CLUSTER, aws, objects, said, twins
from .test_reports_of_aws import ADDON, ENTRY, POOL, ROLE, Resources, case, group

POLICY = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
NODE = "arn:aws:iam::123456789012:role/KarpenterNodeRole"
TEAM = "arn:aws:iam::123456789012:role/team"
AUTO = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy"
ISSUER = "oidc.eks.us-east-1.amazonaws.com/id/A"
FULL = "{name: llm, apiServerEndpoint: 'https://x.eks.amazonaws.com', certificateAuthority: Y2E=, cidr: 172.20.0.0/16}"


def entry(arn: str = NODE, **props: Any) -> Resource:
    return aws(ENTRY, principalArn=arn, clusterName="llm", **props)


def associated(kind: str) -> Resources:
    return entry(type=kind), aws(POLICY, clusterName="llm", principalArn=NODE, policyArn=AUTO)


def service_account(operator: str, subject: str, action: str = "sts:AssumeRoleWithWebIdentity") -> Resources:
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{ISSUER}"},
        "Action": action,
        "Condition": {operator: {f"{ISSUER}:sub": subject}},
    }
    return (aws(ROLE, assumeRolePolicy=json.dumps({"Version": "2012-10-17", "Statement": [statement]})),)


def addon(name: str, **values: Any) -> Resources:
    return (aws(ADDON, addonName=name, clusterName="llm", configurationValues=json.dumps(values)),)


def part(kind: str, text: str) -> str:
    whole = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n--//\nContent-Type: {kind}\n\n{text}\n\n--//--\n'
    return base64.b64encode(whole.encode()).decode()


def config(spec: str) -> str:
    return part(
        "application/node.eks.aws", f"---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  {spec}"
    )


def own(user_data: str) -> Resources:
    return group({"imageId": "ami-1", "userData": user_data}, amiType="CUSTOM")


def shell(text: str) -> str:
    return part("text/x-shellscript", f"#!/bin/bash\n{text}")


CLASS = tuple(objects(POOL))
ACCESS = (
    case("terraform-aws-modules/terraform-aws-eks#3413", "eks-access-entry", (entry(type="EC2_LINUX", kubernetesGroups=["nodes"]),), (entry(type="EC2_LINUX"),)),
    case("eksctl-io/eksctl#7446", "eks-access-entry", (entry(kubernetesGroups=["system:bootstrappers", "system:nodes"]),), (entry(type="EC2_LINUX"),)),
    case("terraform-aws-modules/terraform-aws-eks#3286", "eks-access-entry", (entry(TEAM, userName="system:admin"),), (entry(TEAM, userName="team"),)),
    case("a type in small letters", "eks-access-entry", (entry(type="ec2_linux"),), (entry(type="EC2_LINUX"),)),
    case("terraform-aws-modules/terraform-aws-eks#3274", "eks-node-entry", associated("EC2_LINUX"), associated("EC2")),
    case("aws/karpenter-provider-aws#7558", "eks-node-entry", (entry(kubernetesGroups=["admin"]), *CLASS), (entry(type="EC2_LINUX"), *CLASS)),
    case("awslabs/mountpoint-s3-csi-driver#300", "eks-service-account-role", service_account("StringEquals", "system:serviceaccount:kube-system:s3-csi-*"), service_account("StringLike", "system:serviceaccount:kube-system:s3-csi-*")),
    case("a subject without its prefix", "eks-service-account-role", service_account("StringEquals", "serving:engine"), service_account("StringEquals", "system:serviceaccount:serving:engine")),
    case("a role for a token that asks for another action", "eks-service-account-role", service_account("StringEquals", "system:serviceaccount:serving:engine", "sts:AssumeRole"), service_account("StringEquals", "system:serviceaccount:serving:engine")),
    case("terraform-aws-modules/terraform-aws-eks#2878", "eks-addon-values", addon("vpc-cni", VpcCni={"properties": {"enableNetworkPolicy": "true"}}), addon("vpc-cni", enableNetworkPolicy="true", nodeAgent={"enablePolicyEventLogs": "true"})),
    case("a switch that is no text", "eks-addon-values", addon("vpc-cni", enableNetworkPolicy=True), addon("vpc-cni", enableNetworkPolicy="true")),
    case("a number in the CNI's environment", "eks-addon-values", addon("vpc-cni", env={"WARM_PREFIX_TARGET": 1}), addon("vpc-cni", env={"WARM_PREFIX_TARGET": "1"})),
    case("pulumi/pulumi-eks#1515", "node-user-data", group({"userData": shell("/etc/eks/bootstrap.sh llm --kubelet-extra-args '--max-pods=110'")}), group({"userData": config("kubelet: {config: {maxPods: 110}}")})),
    case("a NodeConfig without its cluster", "node-user-data", own(config("kubelet: {config: {maxPods: 110}}")), own(config(f"cluster: {FULL}"))),
    case("replicas of CoreDNS are a number", "eks-addon-values", addon("coredns", definitions={"Coredns": {}}), addon("coredns", replicaCount=3, autoScaling={"enabled": True})),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "broken", "mended"), ACCESS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(rule: str, broken: Resources, mended: Resources) -> None:
    twins(rule, "error", broken, mended)


def test_an_own_image_may_start_by_itself() -> None:
    """cloudposse/terraform-aws-eks-node-group#226: user data that says nothing of the cluster."""
    assert ("node-user-data", "warning") in said(*own(shell("echo hello")))
    assert "node-user-data" not in {
        rule for rule, _ in said(*own(shell("nodeadm init --config-source file:///etc/n.yaml")))
    }


def test_user_data_that_is_not_known_yet_is_not_judged() -> None:
    assert "node-user-data" not in {rule for rule, _ in said(*own("TUlNRQ=="[:3]))}


def test_entries_of_other_roles_than_the_nodes_are_as_they_like() -> None:
    assert "eks-node-entry" not in {rule for rule, _ in said(entry(TEAM), aws(CLUSTER), *CLASS)}
