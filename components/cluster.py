"""The Kubernetes cluster of an environment: one that is there, or EKS with its node pools. Either way: a provider."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.config import AwsCluster, ConfigError, Environment, ExistingCluster
from policies.facts import NodePool


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What later steps need: the provider, and what must exist before workloads do.

    connection: the arguments that make a provider for this cluster.
    """

    provider: k8s.Provider
    connection: Mapping[str, Any]
    ready: tuple[pulumi.Resource, ...] = ()

    @cached_property
    def crd_provider(self) -> k8s.Provider:
        """The same cluster for CRDs, which outlive the stack and are taken over when they are there already. Made when used:
        a provider is a process of its own."""
        return k8s.Provider("kubernetes-crds", **self.connection, upsert_existing_objects=True)


def build(env: Environment, pools: Sequence[NodePool]) -> Cluster:
    """Build or find the cluster."""
    if isinstance(env.cluster, AwsCluster):
        from components import aws  # the AWS SDK is loaded only where it is used

        return aws.build(env, pools)
    connection = _connection(env.cluster)
    return Cluster(provider=k8s.Provider("kubernetes", **connection), connection=connection)


def _connection(cluster: ExistingCluster) -> dict[str, Any]:
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
    return {"kubeconfig": str(path), "context": cluster.context, "delete_unreachable": True}
