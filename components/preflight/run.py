"""All checks of an environment, in the order of their places. Reads the account and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import boto3
from botocore.config import Config

from components.config import AwsCluster, Environment
from components.naming import cluster_name
from components.node_pools import cluster_zones
from components.preflight import cluster, nodes, quotas
from components.preflight.check import Check, attempt, ok, unchecked
from components.versions import KUBERNETES
from policies.facts import NodePool

# Describe calls of a large account are throttled before anything else: wait, at a rate that adapts.
RETRIES = Config(retries={"mode": "adaptive", "max_attempts": 8}, connect_timeout=5, read_timeout=20)


@dataclass
class Account:
    """Clients of one account and region, each made once."""

    session: boto3.Session
    config: Config = RETRIES
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self.session.client(service, config=self.config)
        return self._clients[service]


def checks(
    env: Environment,
    environment: str,
    pools: Sequence[NodePool],
    peak_nodes: Mapping[str, int],
    account: Account | None = None,
) -> Iterator[Check]:
    """Every check of an AWS environment; nothing for another. `peak_nodes` is the plan's peak for each pool.

    Raises nothing for an account that answers or refuses: what could not be looked at is a check that says so.
    """
    config = env.cluster
    if not isinstance(config, AwsCluster):
        return
    found = account or Account(boto3.Session(region_name=config.region))
    if found.session.get_credentials() is None:
        mend = "log in, so that `aws sts get-caller-identity` answers"
        yield unchecked("account", "credentials", "there are none, so nothing was looked at", mend)
        return
    name, version = cluster_name(config, environment), config.kubernetes_version or KUBERNETES
    ec2, zones = found.client("ec2"), cluster_zones(env)

    looks: list[tuple[str, str, Callable[[], Iterator[Check]]]] = [
        ("account", "credentials", lambda: _caller(found.client("sts"), config.region)),
        ("cluster", "Kubernetes version", lambda: cluster.version(found.client("eks"), config, version)),
        ("cluster", "name", lambda: cluster.names(found.client("eks"), found.client("logs"), config, name)),
        ("cluster.network", "zones", lambda: cluster.zones(ec2, zones, control_plane=config.create)),
    ]
    if config.network.vpc_id is not None:
        looks.append(("cluster.network", "subnets", lambda: cluster.subnets(ec2, config, pools)))
    else:
        gateways = len(zones) if config.network.nat == "per_zone" else 1
        look_up = partial(quotas.network, found.client("service-quotas"), ec2, name, gateways)
        looks.append(("cluster.network", "VPC quota", look_up))
    looks.append(
        (
            "node pools",
            "vCPU quota",
            lambda: quotas.check(found.client("service-quotas"), ec2, name, pools, peak_nodes),
        )
    )
    if config.create and config.admin_role_arns:
        looks.append(("cluster", "admin role", lambda: _admins(found, config)))
    for place, question, look in looks:
        yield from attempt(place, question, look)
    yield from nodes.check(ec2, found.client("ssm"), env, pools, zones, version)


def _admins(account: Account, config: AwsCluster) -> Iterator[Check]:
    owner = account.client("sts").get_caller_identity()["Account"]
    yield from cluster.admins(account.client("iam"), owner, config)


def _caller(sts: Any, region: str) -> Iterator[Check]:
    who = sts.get_caller_identity()
    yield ok("account", "credentials", f"account {who['Account']}, region {region}")
