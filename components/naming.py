"""Names in the account that more than one part must agree on. Pure."""

from __future__ import annotations

from components.config import PROJECT, AwsCluster


def cluster_name(config: AwsCluster, environment: str) -> str:
    """The EKS cluster's name: stated, else project and environment. Also that of Karpenter's queue and of log groups."""
    # Names of environments may have dots, those of clusters may not.
    return config.name or f"{PROJECT}-{environment}".replace(".", "-")


ROLE_PREFIX, POLICY_PREFIX, RULE_PREFIX, TEMPLATE_PREFIX = 38, 102, 38, 99
"""Longest prefixes of IAM roles and their policies, EventBridge rules and launch templates: the provider's suffix takes 26 characters of
the 64, 128, 64 and 125 that a name may have (terraform-provider-aws: internal/create/naming.go, id.UniqueIDSuffixLength)."""


def prefix(name: str, longest: int) -> str:
    """The start of a name that the provider makes unique. Pulumi's own names are refused when they are too long; these are cut."""
    return f"{name[: longest - 1].rstrip('-')}-"


def log_group(cluster: str) -> str:
    """Where EKS writes control-plane logs; it cannot be chosen."""
    return f"/aws/eks/{cluster}/cluster"


def tags(config: AwsCluster) -> dict[str, str]:
    """Tags of everything that can have tags."""
    return dict(sorted({"managed-by": PROJECT, **config.tags}.items()))
