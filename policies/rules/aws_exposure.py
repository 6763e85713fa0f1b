"""Doors of the AWS side: security groups, the Kubernetes API, and what pods can take from a node's metadata.

Not for: Kubernetes Services (exposure.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._places import places

_DOORS = frozenset({22, 6379, 8000, 8265, 10001, 10250, 2379, 2380, 6443, 52365})


def security_groups(stack: Stack) -> Iterator[Problem]:
    for resource in stack.aws:
        props = mapping(resource.props)
        if resource.type == "aws:ec2/securityGroup:SecurityGroup":
            rules = [mapping(rule) for rule in items(props.get("ingress"))]
        elif resource.type == "aws:ec2/securityGroupRule:SecurityGroupRule" and props.get("type") == "ingress":
            rules = [props]
        elif resource.type == "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
            rules = [
                {
                    **props,
                    "protocol": props.get("ipProtocol"),
                    "cidrBlocks": [props.get("cidrIpv4")],
                    "ipv6CidrBlocks": [props.get("cidrIpv6")],
                }
            ]
        else:
            continue
        for rule in rules:
            world = "0.0.0.0/0" in items(rule.get("cidrBlocks")) or "::/0" in items(rule.get("ipv6CidrBlocks"))
            if not world:
                continue
            everything = str(rule.get("protocol")) in ("-1", "all")
            low, high = whole(rule.get("fromPort")) or 0, whole(rule.get("toPort")) or 0
            if everything or (low, high) not in ((80, 80), (443, 443)):
                doors = sorted(port for port in _DOORS if low <= port <= high)
                severe = everything or bool(doors)
                what = "every port" if everything else (f"port {low}" if low == high else f"ports {low} to {high}")
                yield (error if severe else warning)(
                    resource.where,
                    f"it lets the whole internet in at {what}",
                    "name the addresses or security groups that may come in",
                )


def cluster_endpoint(stack: Stack) -> Iterator[Problem]:
    for resource in stack.aws:
        props = mapping(resource.props)
        if resource.type == "aws:eks/cluster:Cluster":
            vpc = mapping(props.get("vpcConfig"))
            cidrs = items(vpc.get("publicAccessCidrs"))
            if vpc.get("endpointPublicAccess") is not False and (
                not cidrs or {"0.0.0.0/0", "::/0"} & set(map(str, cidrs))
            ):
                yield warning(
                    resource.where,
                    "the Kubernetes API is open to the whole internet",
                    "name who may reach it (publicAccessCidrs; public_endpoint_cidrs in an environment file), or set endpointPublicAccess: false",
                )
        elif resource.type == "aws:ec2/launchTemplate:LaunchTemplate":
            options = mapping(props.get("metadataOptions"))
            if options.get("httpTokens") != "required":
                yield warning(
                    resource.where,
                    "its nodes answer IMDSv1, so any pod that can be made to fetch a URL gets the node's credentials",
                    "set metadataOptions.httpTokens: required",
                )


def hop_limit(stack: Stack) -> Iterator[Problem]:
    """Weights in S3 with nothing but the node's role, which a hop limit of 1 keeps from pods."""
    index = places(stack)
    for workload in stack.workloads:
        remote = next((e for e in workload.engines if e.source.startswith("s3://")), None)
        if remote is None:
            continue
        for group in workload.groups:
            pool = index.home(group)
            if group.service_account or pool is None or pool.hop_limit is None or pool.hop_limit > 1:
                continue
            if any(name in group.env for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")):
                continue
            yield warning(
                group.where,
                f"{remote.where.rsplit(': ', 1)[-1]} reads {remote.source} and the pods have no service account of their own: they would need the node's role, "
                f"which IMDS hop limit {pool.hop_limit} of {pool.where} keeps from them",
                "set service_account to one with Pod Identity for the bucket",
            )
            break


RULES: tuple[Rule, ...] = (
    Rule(
        id="aws-open-group",
        title="Security groups do not let the internet in",
        why="A rule for 0.0.0.0/0 beyond web ports reaches kubelets, Ray and model servers of every node in the group.",
        check=security_groups,
        sources=("CVE-2023-48022",),
    ),
    Rule(
        id="aws-open-control",
        title="The Kubernetes API and node metadata are not for everyone",
        why="EKS opens the API endpoint to all addresses unless told otherwise; IMDSv1 hands the node role to any server-side request forgery.",
        check=cluster_endpoint,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",),
    ),
    Rule(
        id="aws-weights-access",
        title="Pods that read S3 have an identity of their own",
        why=(
            "Karpenter and hardened node groups set the IMDS hop limit to 1, so containers cannot reach the node's role, and downloads fail with "
            "NoCredentialsError after the node was paid for."
        ),
        check=hop_limit,
        sources=("karpenter-provider-aws#7548", "karpenter-provider-aws#5310"),
    ),
)
