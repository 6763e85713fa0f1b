"""Pools for the tests of pure manifests, resolved from config as the program does it."""

from __future__ import annotations

from typing import Any

from components import node_pools
from components.config import AwsPool, parse
from policies.facts import NodePool


def pool(name: str = "gpu", **fields: Any) -> NodePool:
    return pool_and_config(name, **fields)[0]


def pool_and_config(name: str = "gpu", **fields: Any) -> tuple[NodePool, AwsPool]:
    env = parse({"cluster": {"kind": "aws", "region": "us-east-1"}, "node_pools": {name: fields}})
    (resolved,) = node_pools.resolve(env)
    config = env.node_pools[name]
    assert isinstance(config, AwsPool)
    return resolved, config
