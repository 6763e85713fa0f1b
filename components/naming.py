"""Names in the account that more than one part must agree on. Pure."""

from __future__ import annotations

from components.config import PROJECT, AwsCluster


def cluster_name(config: AwsCluster, environment: str) -> str:
    """The EKS cluster's name: stated, else project and environment. Also that of Karpenter's queue and of log groups."""
    # Names of environments may have dots, those of clusters may not.
    return config.name or f"{PROJECT}-{environment}".replace(".", "-")


def log_group(cluster: str) -> str:
    """Where EKS writes control-plane logs; it cannot be chosen."""
    return f"/aws/eks/{cluster}/cluster"


def tags(config: AwsCluster) -> dict[str, str]:
    """Tags of everything that can have tags."""
    return dict(sorted({"managed-by": PROJECT, **config.tags}.items()))
