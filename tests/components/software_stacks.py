"""Environments for each choice of cluster software. Each is small; what is judged here are releases and queues."""

from __future__ import annotations

from typing import Any

from components.config import Environment, parse
from tests.components.environments import WHOLE_GPU

_CORE = {"instance_types": ["m7i.large"], "min": 2, "max": 4}
_CHAT = {
    "pool": "gpu",
    "models": {"qwen": {"model": "Qwen/Qwen2.5-7B-Instruct", "engine_args": {"max_model_len": 8192}}},
}


def _existing(sharing: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "kind": "existing",
        "gpu": "L4",
        "gpus_per_node": 1,
        "cpu": 7,
        "memory_gib": 28,
        "min": 1,
        "max": 4,
        "driver_version": "580.95.05",
        **({"sharing": sharing} if sharing else {}),
        **more,
    }


def _on_aws(
    services: dict[str, Any] | None = None, *, more: dict[str, Any] | None = None, **pools: Any
) -> dict[str, Any]:
    return {
        "cluster": {"kind": "aws", "region": "us-east-1"},
        "image": "registry.example.com/llm-serve",
        "node_pools": {"core": _CORE, **pools},
        "services": {"chat": _CHAT} if services is None else services,
        **(more or {}),
    }


def _with(pools: dict[str, Any], software: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
        "image": "registry.example.com/llm-serve",
        "node_pools": pools,
        "services": {"chat": _CHAT},
        "software": software,
        **more,
    }


def _p5(**sharing: Any) -> dict[str, Any]:
    return {"instance_types": ["p5.48xlarge"], "max": 1, "sharing": sharing}


TEAMS = {
    "serving": {"gpu": {"quota": 6, "limit": 8}, "priority": 200},
    "research": {"gpu": {"quota": 2, "limit": 4, "weight": 2}, "cpu": {"quota": 32, "limit": 64}},
    "chat": {"parent": "serving", "gpu": {"quota": 4}},
    "batch": {
        "parent": "serving",
        "gpu": {"quota": 2},
        "memory_gib": {"quota": 100, "limit": 200},
        "reclaimable": False,
    },
}
FLAT = {"serving": {"gpu": {"limit": 8, "weight": 3}}, "batch": {}}

STACKS: dict[str, dict[str, Any]] = {
    "existing_nodes": WHOLE_GPU,
    "nothing_needed": {"services": {"plain": {"kind": "vllm", "models": {}}}},
    "no_driver_on_the_nodes": _with({"gpu": _existing(driver_version=None)}, {}),
    "shared_by_kai": _with({"gpu": _existing({"strategy": "kai"})}, {"batch_scheduler": "kai"}, queues=TEAMS),
    "volcano_weights": _with({"gpu": _existing()}, {"batch_scheduler": "volcano"}, queues=FLAT),
    "volcano_hierarchy": _with({"gpu": _existing()}, {"batch_scheduler": "volcano"}, queues=TEAMS),
    "volcano_vgpu": _with(
        {"gpu": _existing({"strategy": "volcano_vgpu", "replicas": 4}, taints=[{"key": "team", "value": "a"}])},
        {"batch_scheduler": "volcano"},
        queues={"serving": {"gpu": {"quota": 2, "guarantee": 1}}},
    ),
    "time_sliced": _with({"gpu": _existing({"strategy": "time_slicing", "replicas": 4})}, {}),
    "monitored": _with({"gpu": _existing()}, {"monitoring": {"install": True, "retention_days": 30}}),
    "incremental": _with(
        {"gpu": _existing()},
        {"gateway": {"install": True, "class_name": "envoy"}},
        services={"chat": {**_CHAT, "upgrade": {"strategy": "incremental"}, "fault_tolerance": {"backend": "rocksdb"}}},
    ),
    "kuberay_by_hand": _with(
        {"gpu": _existing()},
        {
            "kuberay": {
                "version": "1.6.1",
                "image": "registry.example.com:5000/kuberay/operator:v1.6.1-a",
                "feature_gates": {"RayCronJob": True},
                "watch_namespaces": ["b", "a"],
                "values": {"resources": {"limits": {"memory": "2Gi"}}, "replicas": 2},
            }
        },
    ),
    "kuberay_manifests": _with(
        {"gpu": _existing()},
        {
            "batch_scheduler": "volcano",
            "kuberay": {
                "source": "manifests",
                "version": "1.6.1",
                "directory": "$KUBERAY_MANIFESTS",
                "image": "localhost/kr:1",
            },
        },
        queues=FLAT,
    ),
    "aws_managed": _on_aws(gpu={"instance_types": ["g6.2xlarge"], "max": 3}),
    "aws_karpenter": _on_aws(
        gpu={
            "kind": "karpenter",
            "instance_types": ["g6e.2xlarge"],
            "max": 3,
            "taints": [
                {"key": "nvidia.com/gpu", "value": "present"},
                {"key": "dedicated", "value": "chat", "effect": "NoExecute"},
            ],
        }
    ),
    "aws_efa_and_load_balancer": _on_aws(
        {"chat": {**_CHAT, "expose": {"type": "LoadBalancer"}}},
        gpu={
            "instance_types": ["p5.48xlarge"],
            "efa": True,
            "max": 2,
            "taints": [{"key": "nvidia.com/gpu", "value": "present"}, {"key": "aws.amazon.com/efa"}],
        },
    ),
    "aws_nvlink_between_nodes": _on_aws(
        {
            "chat": {
                **_CHAT,
                "models": {
                    "llama": {"model": "meta-llama/Llama-3.3-70B-Instruct", "parallel": {"tensor": 4, "pipeline": 2}}
                },
            }
        },
        gpu={
            "instance_types": ["p6e-gb200.36xlarge"],
            "reservation": {"id": "cr-0123456789abcdef0", "kind": "capacity_block"},
            "zones": ["us-east-1a"],
            "efa": True,
            "max": 9,
            "taints": [{"key": "nvidia.com/gpu", "value": "present"}, {"key": "team", "value": "research"}],
        },
    ),
    "aws_scaled_by_keda_behind_an_ingress": _on_aws(
        {
            "chat": {
                "kind": "vllm",
                "pool": "gpu",
                "models": {"qwen": {**_CHAT["models"]["qwen"], "replicas": {"min": 1, "max": 3}}},  # type: ignore[index]
                "expose": {"ingress": {"host": "chat.example.com"}},
            }
        },
        more={"software": {"monitoring": {"install": True}}},
        gpu={"instance_types": ["g6.2xlarge"], "max": 4},
    ),
    "aws_bottlerocket": _on_aws(gpu={"instance_types": ["g6.2xlarge"], "ami": "BOTTLEROCKET_x86_64_NVIDIA", "max": 2}),
    "aws_mig": _on_aws(
        gpu=_p5(strategy="mig", mig_profile="1g.10gb"),
        mixed=_p5(strategy="mig", mig_profile="2g.20gb", mig_strategy="mixed"),
        mps={"instance_types": ["g6.2xlarge"], "max": 1, "sharing": {"strategy": "mps", "replicas": 2}},
        whole={"instance_types": ["g6.2xlarge"], "max": 1},
    ),
}


def environment(name: str) -> Environment:
    """The environment of a stack."""
    return parse(STACKS[name])
