from __future__ import annotations

import json

import pytest
from moto.iam.policy_validation import IAMPolicyDocumentValidator

from components.manifests import iam, iam_controllers

CLUSTER = "llm-serving-a-rather-long-environment-name"
CONTROLLERS = {
    "cluster-autoscaler": iam_controllers.cluster_autoscaler(CLUSTER),
    "karpenter": iam_controllers.karpenter(
        cluster_name=CLUSTER,
        cluster_arn=f"arn:aws:eks:ap-southeast-2:123456789012:cluster/{CLUSTER}",
        region="ap-southeast-2",
        node_role_arn=f"arn:aws:iam::123456789012:role/{CLUSTER}-karpenter-node-0123456",
        queue_arn=f"arn:aws:sqs:ap-southeast-2:123456789012:{CLUSTER}",
    ),
    "load-balancer-controller": iam_controllers.load_balancer_controller("ap-southeast-2"),
}
MAY_NAME_EVERYTHING = ("Describe", "List", "Get")


@pytest.mark.parametrize("name", sorted(CONTROLLERS))
def test_a_controllers_policy_is_one_that_iam_takes(name: str) -> None:
    IAMPolicyDocumentValidator(CONTROLLERS[name]).validate()
    assert len(CONTROLLERS[name]) < 10_240  # all inline policies of a role together


@pytest.mark.parametrize("name", ["cluster-autoscaler", "karpenter"])
def test_a_node_autoscaler_changes_only_what_is_the_clusters_own(name: str) -> None:
    """What changes something is bound to a tag of the cluster, to a resource by name, or to images and subnets that it uses."""
    for statement in json.loads(CONTROLLERS[name])["Statement"]:
        changes = [each for each in statement["Action"] if not each.split(":")[1].startswith(MAY_NAME_EVERYTHING)]
        if changes and statement["Resource"] == "*":
            assert CLUSTER in json.dumps(statement.get("Condition", {})), statement


def test_pods_of_one_service_account_of_one_cluster_may_take_a_role_and_no_others() -> None:
    (statement,) = json.loads(iam.trust_pods("prod", "chat", "engine"))["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-name": "prod",
        "aws:RequestTag/kubernetes-namespace": "chat",
        "aws:RequestTag/kubernetes-service-account": "engine",
    }


def test_arns_of_managed_policies_follow_the_region() -> None:
    assert iam.managed_policy_arn("X", "eu-west-1") == "arn:aws:iam::aws:policy/X"
    assert iam.managed_policy_arn("X", "cn-north-1") == "arn:aws-cn:iam::aws:policy/X"
    assert iam.access_policy_arn("X", "us-gov-west-1") == "arn:aws-us-gov:eks::aws:cluster-access-policy/X"


def test_a_document_is_the_same_bytes_each_time() -> None:
    assert iam_controllers.load_balancer_controller("us-east-1") == iam_controllers.load_balancer_controller(
        "us-east-1"
    )
