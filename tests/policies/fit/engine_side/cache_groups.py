"""Runs in the engine environment: vLLM's own grouping of caches for layers described on standard input. Not a test.

Reads a JSON list of requests {layers, length, in_flight, batch, memory, state_mode, whole}, a layer being {kind, block_size,
heads, size, bytes, window, page}; whole: without the hybrid manager; writes a JSON list of [num_blocks, maximum concurrency]. Imports nothing of the project: vLLM and the
project's packages never meet in one interpreter.
"""

import json
import sys
from unittest.mock import MagicMock

import torch
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)

_DTYPES = {1: torch.uint8, 2: torch.bfloat16, 4: torch.float32}


def _spec(layer):
    common = {"block_size": layer["block_size"]}
    if layer["kind"] in ("linear", "mamba"):
        shape = (layer["size"] // 2,)
        return MambaSpec(
            shapes=(shape,),
            dtypes=(torch.bfloat16,),
            page_size_padded=layer["page"],
            mamba_cache_mode=layer["state_mode"],
            **common,
        )
    common |= {"num_kv_heads": layer["heads"], "head_size": layer["size"], "dtype": _DTYPES[layer["bytes"]]}
    if layer["kind"] == "mla":
        return MLAAttentionSpec(**common)
    if layer["kind"] == "sliding":
        return SlidingWindowSpec(sliding_window=layer["window"], **common)
    if layer["kind"] == "chunked":
        return ChunkedLocalAttentionSpec(attention_chunk_size=layer["window"], **common)
    if layer["kind"] == "cross":
        return CrossAttentionSpec(**common)
    return FullAttentionSpec(**common)


def _answer(request):
    config = MagicMock()
    config.model_config.max_model_len = request["length"]
    config.scheduler_config.disable_hybrid_kv_cache_manager = request["whole"]
    config.scheduler_config.max_num_batched_tokens = request["in_flight"]
    config.scheduler_config.max_num_encoder_input_tokens = request["batch"]
    config.max_in_flight_tokens = request["in_flight"]
    config.cache_config.num_gpu_blocks_override = None
    config.cache_config.mamba_cache_mode = request["state_mode"]
    config.parallel_config.decode_context_parallel_size = 1
    config.parallel_config.prefill_context_parallel_size = 1
    config.attention_config.hisparse_config = None
    config.speculative_config = None
    config.kv_transfer_config = None
    try:
        from vllm.v1.kv_cache_layout import KVCacheLayout

        config.cache_config.get_resolved_kv_cache_layout.return_value = KVCacheLayout.LBNHC
    except ImportError:  # before 0.30 there was one layout
        pass
    specs = {str(number): _spec(layer) for number, layer in enumerate(request["layers"])}
    groups = kv_cache_utils.get_kv_cache_groups(config, specs)
    made = kv_cache_utils.get_kv_cache_config_from_groups(config, groups, request["memory"])
    return [made.num_blocks, kv_cache_utils.get_max_concurrency_for_kv_cache_config(config, made)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps([_answer(request) for request in json.load(sys.stdin)]))
