"""The Kubernetes cluster of an environment: one that is there, or EKS with its node pools. Either way: a provider."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

from components.config import AwsCluster, ConfigError, Environment, ExistingCluster
from policies.facts import NodePool


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What later steps need: the provider, and what must exist before workloads do.

    crd_provider: the same cluster for CRDs, which outlive the stack and are taken over when they are there already.
    """

    provider: k8s.Provider
    crd_provider: k8s.Provider | None = None
    ready: tuple[pulumi.Resource, ...] = ()


def build(env: Environment, pools: Sequence[NodePool]) -> Cluster:
    """Build or find the cluster."""
    if isinstance(env.cluster, AwsCluster):
        from components import aws  # the AWS SDK is loaded only where it is used

        return aws.build(env, pools)
    return Cluster(
        provider=_provider("kubernetes", env.cluster),
        crd_provider=_provider("kubernetes-crds", env.cluster, upsert=True),
    )


def _provider(name: str, cluster: ExistingCluster, *, upsert: bool | None = None) -> k8s.Provider:
    """An explicit provider: the ambient one would follow whatever context a person has selected (pulumi-kubernetes issue 3027)."""
    given = cluster.kubeconfig or os.environ.get("KUBECONFIG", "~/.kube/config")
    path = Path(os.path.expandvars(given)).expanduser()
    if not path.is_file():
        raise ConfigError(
            [
                f"cluster.kubeconfig: '{given}' is no file; give the path of a kubeconfig, or set KUBECONFIG (`make up` sets its own)"
            ]
        )
    # A path, not the content: credentials stay out of the state, and a renewed certificate is no change of the provider.
    return k8s.Provider(
        name,
        kubeconfig=str(path),
        context=cluster.context,
        delete_unreachable=True,
        upsert_existing_objects=upsert,
    )
