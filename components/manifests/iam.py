"""IAM policy documents of the cluster's own parts, each with no more than the part uses. Pure: dicts, sorted by the caller.

Not for: the node autoscalers' and the load balancer controller's policies (see iam_controllers.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Statement = dict[str, Any]

CLUSTER_POLICIES = ("AmazonEKSClusterPolicy",)
"""AWS managed policies of the control plane's role."""
NODE_POLICIES = (
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSWorkerNodePolicy",
    "AmazonSSMManagedInstanceCore",
)
"""AWS managed policies of a node's role. The VPC CNI has a role of its own, so nodes cannot touch network interfaces."""
CNI_POLICY = "AmazonEKS_CNI_Policy"
EBS_CSI_POLICY = "service-role/AmazonEBSCSIDriverPolicy"
CLUSTER_ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"


def partition(region: str) -> str:
    """The ARN partition of a region: aws, aws-cn or aws-us-gov."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def managed_policy_arn(name: str, region: str) -> str:
    """ARN of an AWS managed IAM policy."""
    return f"arn:{partition(region)}:iam::aws:policy/{name}"


def access_policy_arn(name: str, region: str) -> str:
    """ARN of an EKS cluster access policy."""
    return f"arn:{partition(region)}:eks::aws:cluster-access-policy/{name}"


def document(statements: Sequence[Statement]) -> str:
    """The policy as JSON, always the same bytes for the same statements."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)}, sort_keys=True)


def allow(
    actions: Sequence[str], resources: str | Sequence[str], condition: Mapping[str, Any] | None = None
) -> Statement:
    """An Allow statement; one resource may be given as a string."""
    statement: Statement = {"Effect": "Allow", "Action": sorted(actions), "Resource": resources}
    return statement | ({"Condition": dict(condition)} if condition else {})


def trust_service(service: str, *actions: str) -> str:
    """Trust policy for an AWS service, e.g. ec2.amazonaws.com."""
    return document(
        [{"Effect": "Allow", "Principal": {"Service": service}, "Action": sorted(actions or ("sts:AssumeRole",))}]
    )


def trust_pods(cluster_name: str, namespace: str, service_account: str) -> str:
    """Trust policy of a Pod Identity role: pods of one service account of one cluster, and nobody else.

    The session tags are what EKS Pod Identity sets when it assumes the role (EKS user guide, "Grant Pods access to AWS
    resources based on tags").
    """
    return document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": "pods.eks.amazonaws.com"},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Condition": {
                    "StringEquals": {
                        "aws:RequestTag/eks-cluster-name": cluster_name,
                        "aws:RequestTag/kubernetes-namespace": namespace,
                        "aws:RequestTag/kubernetes-service-account": service_account,
                    }
                },
            }
        ]
    )


def read_weights(region: str, places: Sequence[str]) -> str:
    """Read access to buckets or folders in them: "bucket" or "bucket/folder", each with everything below it."""
    arn = f"arn:{partition(region)}:s3:::"
    whole = sorted({place for place in places if "/" not in place.strip("/")})
    folders = sorted({place.strip("/") for place in places} - {place.strip("/") for place in whole})
    statements: list[Statement] = []
    if whole:
        statements.append(allow(["s3:ListBucket"], [arn + place.strip("/") for place in whole]))
    for folder in folders:
        bucket, prefix = folder.split("/", 1)
        condition = {"StringLike": {"s3:prefix": [prefix, f"{prefix}/*"]}}
        statements.append(allow(["s3:ListBucket"], arn + bucket, condition))
    objects = [f"{arn}{place.strip('/')}/*" for place in [*whole, *folders]]
    statements.append(allow(["s3:GetObject"], sorted(objects)))
    return document(statements)


def bucket_over_tls_only(bucket_arn: str) -> str:
    """Bucket policy: no request without TLS."""
    return document(
        [
            {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [bucket_arn, f"{bucket_arn}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ]
    )


def queue_takes_events(queue_arn: str) -> str:
    """Queue policy: EventBridge may put messages in, and nobody without TLS."""
    return document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                "Action": "sqs:SendMessage",
                "Resource": queue_arn,
            },
            {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": queue_arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ]
    )
