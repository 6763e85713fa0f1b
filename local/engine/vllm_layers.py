"""The attention layers that vLLM makes for a model, and what each keeps in its KV cache. Runs inside the engine environment.

The model is made on the meta device, on one process that is told it is one of several: no weights, no GPU. Models whose attention
has no CPU form (sparse attention: DeepSeek-V3.2, GLM-5) are refused by vLLM here.
"""

from __future__ import annotations

from typing import Any

import torch


def layers(config: Any) -> list[dict[str, Any]]:
    """One entry a layer that keeps a cache, in order: name, kind, bytes a token on one GPU, sliding window (tokens or None).

    `config` is a VllmConfig. With pipeline parallelism the layers of the first rank.
    """
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    with set_current_vllm_config(config), set_default_torch_dtype(config.model_config.dtype):
        _one_of(config)
        with torch.device("meta"):
            initialize_model(config)
        return [_layer(name, layer, config) for name, layer in _attention(config)]


def _one_of(config: Any) -> None:
    """Make groups of one process, and have them say that they are as large as the config asks."""
    from vllm.distributed import parallel_state as state

    if not torch.distributed.is_initialized():
        state.init_distributed_environment(
            world_size=1, rank=0, distributed_init_method="tcp://127.0.0.1:0", local_rank=0, backend="gloo"
        )
    state.destroy_model_parallel()  # which groups there are depends on the model: experts have one of their own
    state.initialize_model_parallel(1, 1, backend="gloo")
    state.get_tp_group().world_size = config.parallel_config.tensor_parallel_size
    state.get_pp_group().world_size = config.parallel_config.pipeline_parallel_size
    state.get_pp_group().ranks = list(range(config.parallel_config.pipeline_parallel_size))


def _attention(config: Any) -> list[tuple[str, Any]]:
    from vllm.config.vllm import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    return list(get_layers_from_vllm_config(config, AttentionLayerBase).items())


def _layer(name: str, layer: Any, config: Any) -> dict[str, Any]:
    spec = layer.get_kv_cache_spec(config)
    if spec is None or getattr(layer, "kv_sharing_target_layer_name", None):
        return {"name": name, "kind": "shared" if spec else "none", "bytes_per_token": 0, "sliding_window": None}
    return {
        "name": name,
        "kind": type(spec).__name__.removesuffix("Spec"),
        "bytes_per_token": spec.page_size_bytes / spec.block_size,
        "sliding_window": getattr(spec, "sliding_window", None),
    }
