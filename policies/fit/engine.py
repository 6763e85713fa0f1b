"""From the facts of an engine to what the estimate takes: model row, engine shape, and the device its workers see.

For: the plan and the rules, so that both judge the same thing. Not for: the arithmetic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from policies.catalog import gpus, models
from policies.catalog.lookup import UnknownRow
from policies.catalog.models.row import Model
from policies.facts import Engine, NodePool, PodGroup
from policies.facts.quantities import items, mapping, real, whole
from policies.fit.shape import EngineShape

# KV connectors of 0.29.0 without SupportsHMA: they carry caches of one kind only, and vLLM turns its hybrid manager off for them.
# LMCacheMPConnector comes from the installed LMCache, which may have it.
_ONE_KIND = ("ExampleConnector", "FlexKVConnectorV1", "HF3FSKVConnector", "LMCacheConnectorV1", "MoRIIOConnector")


def connectors(kv_transfer: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Names of the connectors in a kv_transfer_config: its own, and those of which a MultiConnector is made."""
    config = mapping(kv_transfer)
    inner = items(mapping(config.get("kv_connector_extra_config")).get("connectors"))
    return tuple(str(part.get("kv_connector") or "") for part in (config, *map(mapping, inner)))


def one_kind(kv_transfer: Mapping[str, Any] | None) -> str | None:
    """The first connector in a kv_transfer_config that carries caches of one kind only."""
    return next((name for name in connectors(kv_transfer) if name in _ONE_KIND), None)


@dataclass(frozen=True, slots=True)
class Device:
    """What one engine worker sees as its GPU. memory_mib: total that a process sees. gpu: name of the catalog."""

    memory_mib: int
    gpu: str
    capability: tuple[int, int]


def model_of(engine: Engine, inline: Mapping[str, Any]) -> Model | None:
    """The row of the engine's model: given inline in the environment, else the catalog's. None where neither has it."""
    return find(engine.catalog_id, inline) or find(engine.source, inline)


def find(name: str, inline: Mapping[str, Any]) -> Model | None:
    """The row called `name`, inline rows first."""
    row = inline.get(name)
    if row is None:
        return _of_catalog(name)
    try:
        return models.from_mapping({"name": name, **row}, name) if isinstance(row, Mapping) else None
    except models.InvalidModel:
        return None


@lru_cache(maxsize=4096)
def _of_catalog(name: str) -> Model | None:
    """A miss costs a search for close names (milliseconds): once for each name."""
    try:
        return models.get(name)
    except UnknownRow:
        return None


def shape_of(engine: Engine, inline: Mapping[str, Any] | None = None) -> EngineShape:
    """The engine arguments that decide memory; what is odd or absent takes vLLM's default."""
    args = engine.engine_args
    length = args.get("max_model_len")
    max_model_len: int | Literal["auto"] | None = "auto" if length in (-1, "-1", "auto") else whole(length)
    speculative = args.get("speculative_config")
    draft = None
    tokens = 0
    if isinstance(speculative, Mapping):
        tokens = whole(speculative.get("num_speculative_tokens")) or 0
        draft = find(str(speculative.get("model", "")), inline or {})
    utilization = real(args.get("gpu_memory_utilization"))
    prefix_caching = args.get("enable_prefix_caching")
    return EngineShape(
        tensor_parallel_size=max(1, engine.tensor),
        pipeline_parallel_size=max(1, engine.pipeline),
        data_parallel_size=max(1, engine.data),
        enable_expert_parallel=engine.expert,
        decode_context_parallel_size=max(1, whole(args.get("decode_context_parallel_size")) or 1),
        dtype=_text(args.get("dtype"), "auto"),
        quantization=str(args["quantization"]) if args.get("quantization") else None,
        kv_cache_dtype=_text(args.get("kv_cache_dtype"), "auto"),
        max_model_len=max_model_len,
        max_num_seqs=whole(args.get("max_num_seqs")),
        max_num_batched_tokens=whole(args.get("max_num_batched_tokens")),
        enforce_eager=args.get("enforce_eager") is True,
        enable_prefix_caching=prefix_caching is not False,
        gpu_memory_utilization=utilization if utilization is not None and 0 < utilization <= 1 else 0.92,
        block_size=whole(args.get("block_size")) or 16,
        lora_slots=(whole(args.get("max_loras")) or 1) if args.get("enable_lora") is True else 0,
        lora_rank=whole(args.get("max_lora_rank")) or 16,
        draft_model=draft,
        num_speculative_tokens=tokens,
        cpu_offload_gb=real(args.get("cpu_offload_gb")) or 0.0,
        kv_cache_memory_bytes=whole(args.get("kv_cache_memory_bytes")),
        mm_items=_images(args.get("limit_mm_per_prompt")),
        pipeline_partition=_partition(engine.env.get("VLLM_PP_LAYER_PARTITION")),
        hybrid_cache=args.get("disable_hybrid_kv_cache_manager") is not True and not one_kind(engine.kv_transfer),
    )


def device_of(pool: NodePool | None, group: PodGroup | None) -> Device | None:
    """What a worker of `group` on `pool` sees. None where the GPU is not known."""
    if pool is None or pool.gpu is None:
        return None
    return _device(pool.gpu, pool.gpu_mib, _mig_profile(pool, group), _vgpu_mib(group))


@lru_cache(maxsize=256)
def _device(name: str, node_mib: int | None, profile: str | None, vgpu_mib: int | None) -> Device | None:
    """node_mib: of one GPU of the nodes as the driver reports it, less than the GPU's own where nodes have a part of one (g6f)."""
    try:
        gpu = gpus.get(name)
        memory = gpu.mig_profile(profile).memory_mib if profile else gpu.cuda_memory_mib
    except UnknownRow:
        return None
    if node_mib is not None and node_mib < gpu.memory_mib:
        memory = min(memory, gpu.cuda_memory_mib * node_mib // gpu.memory_mib)
    if vgpu_mib:
        memory = min(memory, vgpu_mib)
    return Device(memory, gpu.name, gpu.compute_capability)


def _mig_profile(pool: NodePool, group: PodGroup | None) -> str | None:
    if group is not None and group.gpu_resource and group.gpu_resource.startswith("nvidia.com/mig-"):
        return group.gpu_resource.removeprefix("nvidia.com/mig-")
    if pool.sharing.strategy == "mig" and pool.sharing.mig_strategy == "single":
        return pool.sharing.mig_profile
    return None


def _vgpu_mib(group: PodGroup | None) -> int | None:
    return whole(group.limits.get("volcano.sh/vgpu-memory")) if group is not None else None


def _text(value: Any, default: str) -> str:
    return value if isinstance(value, str) and value else default


def _images(limit: Any) -> int:
    if not isinstance(limit, Mapping) or "image" not in limit:
        return 1
    image = limit["image"]
    count = whole(image.get("count")) if isinstance(image, Mapping) else whole(image)
    return 1 if count is None else max(0, count)


def _partition(value: Any) -> tuple[int, ...]:
    if not isinstance(value, str):
        return ()
    counts = [whole(part) for part in value.split(",")]
    return tuple(c for c in counts if c is not None) if all(c is not None for c in counts) else ()
