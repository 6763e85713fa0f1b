"""Everything a person may write for one environment: the root of the config."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from policies.catalog.karpenter import own_tag

from .base import Env, Json, Name, Strict
from .clusters import AwsCluster, Cluster, ExistingCluster
from .names import ImageRepository
from .pools import Pools
from .services import Service
from .software import Budget, Queue, Software, VersionOverrides


def _off(value: Any) -> Any:
    return "off" if value is False else value  # what YAML 1.1 makes of a bare off


class Environment(Strict):
    """One environment, as in the `config:` of Pulumi.<env>.yaml, each key prefixed with the project's name."""

    cluster: Cluster = ExistingCluster.model_construct()
    """The Kubernetes cluster."""
    versions: VersionOverrides = VersionOverrides.model_construct()
    """Versions set by hand."""
    software: Software = Software.model_construct()
    """Cluster software."""
    node_pools: Pools = {}
    """Node pools, by name."""
    queues: dict[Name, Queue] = {}
    """Queues of the batch scheduler, by name."""
    image: ImageRepository | None = None
    """Image repository of the services, e.g. <account>.dkr.ecr.<region>.amazonaws.com/llm-serve."""
    models: dict[str, Json] = {}
    """Further model rows, by id, for models that the catalog does not have."""
    services: dict[Name, Service] = {}
    """Services, by name."""
    budget: Budget = Budget.model_construct()
    """Ceilings."""
    env: Env = {}
    """Environment of every Ray container of every service."""
    policy: dict[str, Annotated[Literal["error", "warning", "off"], BeforeValidator(_off)]] = {}
    """Rule id -> error, warning or off, for this environment, with the reason written beside it in the file."""

    @model_validator(mode="after")
    def _no_tag_that_karpenter_sets(self) -> Environment:
        pools = [name for name, pool in self.node_pools.items() if pool.kind == "karpenter"]
        tags = self.cluster.tags if isinstance(self.cluster, AwsCluster) else {}
        own = [key for key in tags if own_tag(key)]
        if pools and own:
            raise ValueError(
                f"cluster.tags has '{own[0]}', which Karpenter sets itself, and node pool '{pools[0]}' is Karpenter's: "
                "the API server refuses its EC2NodeClass; leave the tag out"
            )
        return self
