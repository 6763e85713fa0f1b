"""Stacks that no rule about engines objects to, one for each shape; tests break one thing in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from policies import rules
from policies.facts import Engine, NodePool, ServeApp, Sharing, Stack, Workload

from .stacks import (
    core,
    engine,
    h100,
    h100_workers,
    l4,
    service,
    stack,
    with_engine,
    with_pool,
    with_service,
    with_workers,
    workers,
)

MODULES = (
    rules.engine_share,
    rules.memory_share,
    rules.fit,
    rules.host_memory,
    rules.model_catalog,
    rules.parallelism,
    rules.context_parallel,
    rules.topology,
    rules.engine_spread,
    rules.dtype_quantisation,
    rules.cache_dtype,
    rules.accelerator,
    rules.attention,
    rules.engine_args,
    rules.engine_needs,
    rules.engine_values,
    rules.engine_words,
    rules.speculation,
    rules.serve_llm,
    rules.serve_options,
    rules.serve_autoscaling,
    rules.startup_time,
    rules.routing,
    rules.disaggregation,
    rules.side_channels,
    rules.versions,
    rules.drivers,
    rules.model_access,
    rules.model_use,
    rules.model_tools,
    rules.model_adapters,
    rules.engine_runners,
    rules.engine_nodes,
    rules.kv_connectors,
    rules.environment_variables,
)
ENGINE = tuple(rule for module in MODULES for rule in module.RULES)
SMALL = "Qwen/Qwen2.5-1.5B-Instruct"
MIDDLE = "Qwen/Qwen2.5-7B-Instruct"
LARGE = "Qwen/Qwen2.5-72B-Instruct"
SPARSE = "Qwen/Qwen3-30B-A3B"
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def model(name: str, **over: Any) -> Engine:
    """Engine 'm' of a model of the catalog, two fixed replicas on a whole GPU each."""
    given: dict[str, Any] = {
        "where": "service 'chat': model 'm'",
        "model_id": "m",
        "source": name,
        "catalog_id": name,
        "engine_args": {"max_model_len": 8192},
    }
    return engine(**{**given, **over})


def whole(**over: Any) -> Stack:
    """A 7B model on L4 nodes, a whole GPU for each of two replicas."""
    return stack(workloads=(service(engines=(model(MIDDLE, **over),)),))


def shared(**over: Any) -> Stack:
    """Ray's documented pattern: share 0.49, memory 0.4, two replicas on one L4."""
    given: dict[str, Any] = {
        "bundles": ({"GPU": 0.49, "CPU": 1},),
        "engine_args": {"max_model_len": 4096, "gpu_memory_utilization": 0.4},
        "env": {"VLLM_RAY_PER_WORKER_GPUS": "0.49"},
    }
    return stack(
        workloads=(service(engines=(model(SMALL, **{**given, **over}),), groups=(workers(min=1, replicas=1, max=1),)),)
    )


def large(**over: Any) -> Stack:
    """A 72B model, tensor parallel 4, two replicas in one pod of eight H100."""
    given: dict[str, Any] = {
        "engine_args": {"max_model_len": 8192, "tensor_parallel_size": 4},
        "tensor": 4,
        "bundles": ({"GPU": 1, "CPU": 1},) * 4,
        "groups": ("h100",),
    }
    return _on_h100(model(LARGE, **{**given, **over}))


def two_nodes(**over: Any) -> Stack:
    """A 72B model over two pods of eight H100: tensor parallel 8, pipeline parallel 2."""
    given: dict[str, Any] = {
        "engine_args": {"tensor_parallel_size": 8, "pipeline_parallel_size": 2},
        "tensor": 8,
        "pipeline": 2,
        "bundles": ({"GPU": 1, "CPU": 1},) * 16,
        "groups": ("h100",),
        "min_replicas": 1,
        "max_replicas": 1,
    }
    return _on_h100(model(LARGE, **{**given, **over}), hosts=2)


def sparse(**over: Any) -> Stack:
    """A model with experts: data parallel 2, tensor parallel 2, experts spread."""
    given: dict[str, Any] = {
        "role": "data_parallel",
        "engine_args": {"tensor_parallel_size": 2, "data_parallel_size": 2, "enable_expert_parallel": True},
        "tensor": 2,
        "data": 2,
        "expert": True,
        "bundles": ({"GPU": 1, "CPU": 1},) * 2,
        "groups": ("h100",),
    }
    return _on_h100(model(SPARSE, **{**given, **over}))


def _on_h100(own: Engine, hosts: int = 1) -> Stack:
    group = h100_workers(hosts=hosts, min=1, replicas=1, max=1)
    return stack(workloads=(service(engines=(own,), groups=(group,)),), pools=(core(), h100(max=4)))


def scaled(**over: Any) -> Stack:
    """The 7B model with one to three replicas."""
    given: dict[str, Any] = {
        "min_replicas": 1,
        "max_replicas": 3,
        "autoscaled": True,
        "target_ongoing_requests": 48.0,
        "max_ongoing_requests": 256,
        "deployment_config": {
            "autoscaling_config": {"min_replicas": 1, "max_replicas": 3, "target_ongoing_requests": 48},
            "max_ongoing_requests": 256,
        },
    }
    group = workers(min=1, replicas=1, max=3)
    own = model(MIDDLE, **{**given, **over})
    return stack(workloads=(service(engines=(own,), groups=(group,), autoscaling=True, autoscaler_version="v2"),))


def disaggregated(prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None) -> Stack:
    """A 7B model with prefill and decode in engines of their own."""
    sides = []
    for role, base, over in (("prefill", 40000, prefill), ("decode", 41000, decode)):
        given: dict[str, Any] = {
            "where": f"service 'chat': model 'm': {role}",
            "role": role,
            "engine_args": {"max_model_len": 8192, "kv_transfer_config": NIXL},
            "kv_transfer": NIXL,
            "experimental": {"NIXL_SIDE_CHANNEL_PORT_BASE": base},
        }
        sides.append(model(MIDDLE, **{**given, **(over or {})}))
    group = workers(min=4, replicas=4, max=4)
    return stack(workloads=(service(engines=tuple(sides), groups=(group,), apps=(pair(),)),))


def pair(**over: Any) -> ServeApp:
    """The application of a prefill/decode pair."""
    side = {"model_loading_config": {"model_id": "m"}, "engine_kwargs": {"kv_transfer_config": NIXL}}
    args = {"prefill_config": side, "decode_config": side, **over}
    return ServeApp(name="chat", import_path="serve_apps.openai_chat.app:build", route_prefix="/", args=args)


def on_cpu(**over: Any) -> Stack:
    """A 1.5B model on CPU, in pods of 12 GiB."""
    given: dict[str, Any] = {
        "device": "cpu",
        "bundles": ({"CPU": 1},),
        "env": {"VLLM_CPU_KVCACHE_SPACE": "2"},
        "groups": ("cpu",),
    }
    group = workers(
        name="cpu", limits={}, gpu_resource=None, gpus=0.0, gpu_containers=0, memory_mib=12288, resources={"CPU": "7"},
        node_selector={"llm-serving/pool": "core"},
    )  # fmt: skip
    return stack(workloads=(service(engines=(model(SMALL, **{**given, **over}),), groups=(group,)),))


def plain(**over: Any) -> Stack:
    """A 7B model by vLLM itself, in a Deployment."""
    own = model(MIDDLE, bundles=(), bundles_form="none", **over)
    group = workers(service_links=False)
    deployment = Workload(
        kind="Deployment", name="chat", namespace="default", where="service 'chat'", vllm_version="0.29.0",
        groups=(group,), engines=(own,), ready_timeout_seconds=900,
    )  # fmt: skip
    return stack(workloads=(deployment,))


def kai_part(**over: Any) -> Stack:
    """A 1.5B model on halves of an L4 by KAI."""
    given: dict[str, Any] = {"engine_args": {"max_model_len": 4096, "gpu_memory_utilization": 0.44}}
    half = workers(limits={}, gpu_resource=None, gpus=0.0, gpu_containers=0, annotations={"gpu-fraction": "0.5"})
    own = model(SMALL, **{**given, **over})
    return stack(
        workloads=(service(engines=(own,), groups=(half,)),), pools=(core(), l4(sharing=Sharing(strategy="kai")))
    )


def sliced(**over: Any) -> Stack:
    """A 0.5B model on quarters of an L4 by time-slicing."""
    given: dict[str, Any] = {
        "engine_args": {"max_model_len": 2048, "gpu_memory_utilization": 0.2, "enforce_eager": True}
    }
    own = model("Qwen/Qwen2.5-0.5B-Instruct", **{**given, **over})
    pool = l4(sharing=Sharing(strategy="time_slicing", replicas=4))
    return stack(workloads=(service(engines=(own,)),), pools=(core(), pool))


COMPLIANT = {
    "whole": whole,
    "shared": shared,
    "large": large,
    "two nodes": two_nodes,
    "sparse": sparse,
    "scaled": scaled,
    "disaggregated": disaggregated,
    "cpu": on_cpu,
    "plain": plain,
    "kai": kai_part,
    "time slicing": sliced,
}


def found(given: Stack) -> list[tuple[str, str]]:
    """(rule, severity) of everything the rules about engines find, sorted and unique."""
    return sorted({(f.rule, f.severity) for f in rules.check(given, rules=ENGINE)})


def sentences(given: Stack, rule: str) -> list[str]:
    """Full sentences of one rule."""
    return [f.sentence() for f in rules.check(given, rules=ENGINE) if f.rule == rule]


def args(given: Stack, **changes: Any) -> Stack:
    """The stack with engine arguments of its first engine changed; None takes one out."""
    own = given.workloads[0].engines[0]
    merged = {k: v for k, v in {**own.engine_args, **changes}.items() if v is not None}
    return with_engine(given, engine_args=merged)


def at(given: Stack, ray: str, vllm: str) -> Stack:
    """The stack with another Ray and vLLM, in images and everywhere."""
    own = given.workloads[0]
    image = f"registry.example.com/llm-serve:ray{ray}-1"
    head = replace(own.head, image=image) if own.head is not None else None
    groups = tuple(replace(group, image=image) for group in own.groups)
    changed = with_service(given, ray_version=ray, vllm_version=vllm, head=head, groups=groups)
    return replace(changed, versions=replace(given.versions, ray=ray, vllm=vllm))


def gpu_pool(given: Stack, gpu: str, gpu_mib: int, **over: Any) -> Stack:
    """The stack with another GPU on its GPU pool, on nodes that are there already."""
    changed: dict[str, Any] = {
        "kind": "existing",
        "instance_types": (),
        "ami_type": None,
        "gpu": gpu,
        "gpu_mib": gpu_mib,
    }
    return with_pool(given, **{**changed, **over})


def pools(given: Stack, *more: NodePool) -> Stack:
    """The stack with further pools."""
    return replace(given, pools=(*given.pools, *more))


__all__ = [
    "COMPLIANT", "ENGINE", "LARGE", "MIDDLE", "NIXL", "SMALL", "SPARSE", "args", "at", "disaggregated", "found", "gpu_pool",
    "kai_part", "large", "model", "on_cpu", "pair", "plain", "pools", "scaled", "sentences", "shared", "sliced",
    "sparse", "two_nodes", "whole", "with_engine", "with_pool", "with_service", "with_workers",
]  # fmt: skip
