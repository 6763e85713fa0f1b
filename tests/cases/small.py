"""Small environments for public bug reports about clusters, pools, queues and releases, and one way to look at their plan."""

from __future__ import annotations

from typing import Any

from components.config import Environment, deep_merge, parse
from components.plan.assemble import Planned, assemble

Config = dict[str, Any]

AWS: Config = {
    "cluster": {"kind": "aws", "region": "us-east-1"},
    "node_pools": {
        "core": {"instance_types": ["m7i.2xlarge"], "min": 2, "max": 6},
        "l4": {"instance_types": ["g6.2xlarge"], "max": 8},
    },
    "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm-serve",
    "services": {
        "chat": {
            "pool": "l4",
            "auth": {"secret": "ray-token"},
            "fault_tolerance": {"backend": "redis", "redis_address": "redis.cache:6379"},
            "models": {
                "qwen": {
                    "model": "Qwen/Qwen2.5-7B-Instruct",
                    "engine_args": {"max_model_len": 8192, "max_num_seqs": 64},
                    "replicas": {"min": 2, "max": 2},
                }
            },
        }
    },
}
"""Two fixed replicas of a 7B model on L4 nodes, with nothing to object to."""

EXISTING: Config = {
    **AWS,
    "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
    "node_pools": {
        "core": {"kind": "existing", "cpu": 8, "memory_gib": 28, "min": 2, "max": 6},
        "l4": {
            "kind": "existing",
            "gpu": "L4",
            "gpus_per_node": 1,
            "cpu": 7.9,
            "memory_gib": 28,
            "max": 8,
            "driver_version": "580.95.05",
        },
    },
}
"""The same on nodes that are there already."""

H100: Config = {
    "instance_types": ["p5.48xlarge"],
    "zones": ["us-east-1b"],
    "reservation": {"kind": "on_demand", "id": "cr-0a1b2c3d4e5f60718"},
    "efa": True,
    "max": 4,
}
TWO_NODES: Config = {
    "node_pools": {"h100": H100},
    "services": {
        "chat": {
            "pool": "h100",
            "upgrade": {"strategy": "none"},
            "models": {
                "qwen": None,
                "llama": {
                    "model": "meta-llama/Llama-3.1-405B-Instruct",
                    "parallel": {"tensor": 8, "pipeline": 2},
                    "engine_args": {"max_model_len": 8192, "max_num_seqs": 64},
                    "replicas": {"min": 2, "max": 2},
                },
            },
            "huggingface_token": {"secret": "huggingface", "key": "token"},
        }
    },
}
"""A 405B model over two nodes of eight H100."""

KAI: Config = {
    "software": {"batch_scheduler": "kai"},
    "queues": {
        "serving": {"gpu": {"quota": 64, "limit": 64}},
        "team": {"parent": "serving", "gpu": {"quota": 64, "limit": 64}},
    },
    "services": {"chat": {"queue": "team"}},
}
VOLCANO: Config = {
    "software": {"batch_scheduler": "volcano"},
    "queues": {"team": {"gpu": {"quota": 4, "limit": 64}}},
    "services": {"chat": {"queue": "team"}},
}


def config(*patches: Config, base: Config = AWS) -> Config:
    """The base with patches merged over it, one after another; None deletes a key."""
    merged: Any = base
    for patch in patches:
        merged = deep_merge(merged, patch)
    result: Config = merged
    return result


def chat(**fields: Any) -> Config:
    """A patch of service 'chat'."""
    return {"services": {"chat": fields}}


def model(**fields: Any) -> Config:
    """A patch of its model."""
    return chat(models={"qwen": fields})


def pool(name: str = "l4", **fields: Any) -> Config:
    """A patch of a node pool."""
    return {"node_pools": {name: fields}}


PLANNED: list[tuple[Environment, Planned]] = []
"""What the running test has planned: judged at the pack's door as well (conftest.py)."""


def planned(*patches: Config, base: Config = AWS) -> Planned:
    """The plan of a patched environment."""
    env = parse(config(*patches, base=base))
    PLANNED.append((env, assemble(env)))
    return PLANNED[-1][1]


def found(*patches: Config, base: Config = AWS) -> set[tuple[str, str]]:
    """(rule, severity) of all findings."""
    return {(f.rule, f.severity) for f in planned(*patches, base=base).plan.findings}


def manifest(*patches: Config, base: Config = AWS) -> dict[str, Any]:
    """The workload's manifest of service 'chat'."""
    whole: dict[str, Any] = planned(*patches, base=base).manifests["chat"][0]
    return whole


def cluster(*patches: Config, base: Config = AWS) -> dict[str, Any]:
    """rayClusterConfig of service 'chat'."""
    spec: dict[str, Any] = manifest(*patches, base=base)["spec"]["rayClusterConfig"]
    return spec


def container(group: dict[str, Any]) -> dict[str, Any]:
    """The Ray container of a head or worker group."""
    first: dict[str, Any] = group["template"]["spec"]["containers"][0]
    return first
