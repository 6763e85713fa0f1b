"""Environments on AWS, one for each kind of node pool and each thing that can be given instead of made. All are compliant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.config import Environment, load_file, parse

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
CORE = {"instance_types": ["m7i.xlarge"], "min": 2, "max": 4}
BLOCK = {"id": "cr-0123456789abcdef0", "kind": "capacity_block"}
ODCR = {"id": "cr-00000000000000001", "kind": "on_demand"}


def _stack(cluster: dict[str, Any] | None = None, **pools: dict[str, Any]) -> dict[str, Any]:
    return {
        "cluster": {"kind": "aws", "region": REGION, **(cluster or {})},
        "node_pools": {"core": CORE, **{name.replace("_", "-"): pool for name, pool in pools.items()}},
    }


STACKS: dict[str, dict[str, Any]] = {
    "on_demand": _stack(l4={"instance_types": ["g6.2xlarge"], "max": 2}),
    "spot": _stack(
        l40s={"instance_types": ["g6e.2xlarge", "g6e.4xlarge", "g6e.8xlarge"], "capacity": "spot", "max": 4}
    ),
    "capacity_block": _stack(
        h200={"instance_types": ["p5e.48xlarge"], "reservation": BLOCK, "zones": ["us-east-1b"], "efa": True, "max": 2}
    ),
    "reservation": _stack(
        h100={"instance_types": ["p5.48xlarge"], "reservation": ODCR, "zones": ["us-east-1c"], "min": 1, "max": 2}
    ),
    "efa": _stack(b300={"instance_types": ["p6-b300.48xlarge"], "efa": True, "max": 4}),
    "mig": _stack(
        h100={"instance_types": ["p5.48xlarge"], "sharing": {"strategy": "mig", "mig_profile": "1g.10gb"}, "max": 1}
    ),
    "karpenter": _stack(
        l40s={"kind": "karpenter", "instance_types": ["g6e.2xlarge", "g6e.4xlarge"], "max": 3},
        batch={"kind": "karpenter", "instance_types": ["m7i.4xlarge"], "capacity": "spot", "max": 8},
    ),
    "karpenter_efa": _stack(h100={"kind": "karpenter", "instance_types": ["p5.48xlarge"], "efa": True, "max": 4}),
    "karpenter_reservation": _stack(
        h100={
            "kind": "karpenter",
            "instance_types": ["p5.48xlarge"],
            "reservation": ODCR,
            "zones": ["us-east-1a"],
            "max": 2,
        }
    ),
    "bottlerocket": _stack(
        l4={
            "instance_types": ["g6.2xlarge"],
            "ami": "BOTTLEROCKET_x86_64_NVIDIA",
            "sharing": {"strategy": "time_slicing", "replicas": 4},
            "max": 2,
        }
    ),
    "karpenter_bottlerocket": _stack(
        l4={
            "kind": "karpenter",
            "instance_types": ["g6.2xlarge", "g6.4xlarge"],
            "ami": "BOTTLEROCKET_x86_64_NVIDIA",
            "ami_release": "1.54.0",
            "sharing": {"strategy": "mps", "replicas": 2},
            "max": 2,
        }
    ),
    "arm": _stack(
        gb200={
            "instance_types": ["p6e-gb200.36xlarge"],
            "reservation": BLOCK,
            "zones": ["us-east-1a"],
            "efa": True,
            "max": 9,
        },
        t4g={"instance_types": ["g5g.4xlarge"], "max": 2},
    ),
    "custom_ami": _stack(
        blackwell={
            "instance_types": ["g7.2xlarge"],
            "ami_id": "ami-0123456789abcdef0",
            "driver_version": "595.71.05",
            "max": 2,
            "root_disk_gib": 200,
        }
    ),
    "existing_network": _stack(
        {
            "network": {
                "vpc_id": "vpc-0123456789abcdef0",
                "private_subnet_ids": ["subnet-00000000000000001", "subnet-00000000000000002"],
                "zones": ["us-east-1a", "us-east-1b"],
            }
        },
        l4={"instance_types": ["g6.2xlarge"], "zones": ["us-east-1b"], "max": 2},
    ),
    "existing_cluster": _stack(
        {
            "create": False,
            "name": "there",
            "network": {
                "vpc_id": "vpc-0123456789abcdef0",
                "private_subnet_ids": ["subnet-00000000000000001", "subnet-00000000000000002"],
                "zones": ["us-east-1a", "us-east-1b"],
            },
        },
        l4={"instance_types": ["g6.2xlarge"], "max": 2},
    ),
    "weights_and_load_balancer": _stack(
        {
            "network": {"nat": "per_zone", "interface_endpoints": False},
            "public_endpoint_cidrs": ["203.0.113.0/24"],
            "admin_role_arns": ["arn:aws:iam::210987654321:role/platform"],
            "addon_versions": {"coredns": "v1.12.4-eksbuild.1"},
            "support": "extended",
            "tags": {"team": "serving"},
        },
        l4={"instance_types": ["g6.2xlarge"], "max": 2},
    )
    | {
        "services": {
            "chat": {
                "pool": "l4",
                "namespace": "chat",
                "service_account": "engine",
                "expose": {"type": "LoadBalancer"},
                "models": {
                    "llama": {
                        "model": "meta-llama/Llama-3.1-8B-Instruct",
                        "source": "s3://shared-weights/llama/8b",
                        "engine_args": {"max_model_len": 8192},
                    }
                },
            }
        }
    },
}


# Names as long as they may be, of everything that another name is made from.
STACKS["long_names"] = _stack(
    {"name": "c" * 80},
    **{
        "p" * 36: {"instance_types": ["p5.48xlarge"], "efa": True, "max": 2},
        "k" * 63: {"kind": "karpenter", "instance_types": ["g6e.2xlarge", "g6e.4xlarge"], "max": 2},
    },
) | {
    "services": {
        "s" * 47: {
            "pool": "k" * 63,
            "namespace": "n" * 63,
            "service_account": "a" * 63,
            "expose": {"type": "LoadBalancer"},
            "models": {"qwen": {"model": "Qwen/Qwen2.5-7B-Instruct", "source": "s3://weights/qwen"}},
        }
    }
}


def environment(name: str) -> Environment:
    """A stack of the table, or an environment file at the root by its name (dev, prod)."""
    if name in STACKS:
        return parse(STACKS[name])
    return load_file(ROOT / f"Pulumi.{name}.yaml")


ALL = (*sorted(STACKS), "dev", "prod")
