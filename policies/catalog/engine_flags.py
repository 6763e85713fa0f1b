"""How the command line of vLLM's server spells engine arguments, where it is not `--name=value`.

For: the command line of a plain vLLM Deployment, written and read. Source: the parser of vLLM 0.29.0
(vllm/entrypoints/launchers/cli_args.py make_arg_parser).
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LIST_FLAGS = _names(
    """
    allowed_media_domains api_key collect_detailed_traces cpu_offload_params cudagraph_capture_sizes ignore_patterns
    kv_cache_dtype_skip_layers logits_processors lora_modules lora_target_modules numa_bind_cpus numa_bind_nodes
    offload_params served_model_name
    """
)
"""On the command line: words after the flag, `--flag a b`."""

JSON_FLAGS = _names("allowed_headers allowed_methods allowed_origins")
"""Lists that are JSON on the command line: `--flag=["a"]`."""

COMMA_FLAGS = _names("device_ids")
"""On the command line: `--flag=a,b`."""

BARE_FLAGS = _names(
    """
    aggregate_engine_logging data_parallel_multi_port_external_lb disable_log_stats grpc headless hf_token
    """
)
"""On the command line: a flag without its `--no-` form."""

NO_FLAG = _names("enable_mm_processor_stats mamba_config model_weights")
"""Arguments that the command line does not have."""

READABLE = _names(
    """
    kv_cache_memory_bytes max_model_len max_num_batched_tokens max_num_queued_tokens max_num_scheduled_tokens
    safetensors_prefetch_block_size
    """
)
"""On the command line: `8k` is 8000, `8K` 8192."""
