"""Names of vLLM's metrics, for queries that scalers and alerts ask. Not for: what Ray calls them (ray_vllm_, with underscores).

Source: vllm 0.29.0, the literals "vllm:..." of the package (v1/metrics/loggers.py and others). Counters get _total when they are
scraped, histograms _bucket, _sum and _count.
"""

from __future__ import annotations

from collections.abc import Mapping

NAMES: frozenset[str] = frozenset(
    {
        "cache_config_info",
        "corrupted_requests",
        "diffusion_num_canvas_positions",
        "diffusion_num_committed_tokens",
        "diffusion_num_denoising_steps",
        "e2e_request_latency_seconds",
        "engine_sleep_state",
        "estimated_flops_per_gpu_total",
        "estimated_read_bytes_per_gpu_total",
        "estimated_write_bytes_per_gpu_total",
        "external_prefix_cache_hits",
        "external_prefix_cache_queries",
        "generation_tokens",
        "hf3fs_load_duration_seconds",
        "hf3fs_num_failed_load",
        "hf3fs_num_failed_save",
        "hf3fs_save_duration_seconds",
        "inter_token_latency_seconds",
        "iteration_tokens_total",
        "kv_block_idle_before_evict_seconds",
        "kv_block_lifetime_seconds",
        "kv_block_reuse_gap_seconds",
        "kv_cache_usage_perc",
        "kv_offload_allocation_failure",
        "kv_offload_cpu_allocation_size",
        "kv_offload_cpu_cache_read_usage_perc",
        "kv_offload_cpu_cache_usage_perc",
        "kv_offload_cpu_cache_write_usage_perc",
        "kv_offload_load_bytes",
        "kv_offload_load_size",
        "kv_offload_load_time",
        "kv_offload_lookup_async_delay_seconds",
        "kv_offload_lookup_sync_delay_seconds",
        "kv_offload_size",
        "kv_offload_store_bytes",
        "kv_offload_store_size",
        "kv_offload_store_time",
        "kv_offload_stores_skipped",
        "kv_offload_tiering_active_cascade_jobs",
        "kv_offload_tiering_active_promotion_jobs",
        "kv_offload_tiering_cascade_job_failures",
        "kv_offload_tiering_chunk_hits",
        "kv_offload_tiering_chunk_queries",
        "kv_offload_tiering_lookup_async_delay_seconds",
        "kv_offload_tiering_lookup_sync_delay_seconds",
        "kv_offload_tiering_primary_read_usage_perc",
        "kv_offload_tiering_primary_write_usage_perc",
        "kv_offload_tiering_promotion_allocation_failures",
        "kv_offload_tiering_promotion_job_failures",
        "kv_offload_tiering_read_bytes",
        "kv_offload_tiering_read_time",
        "kv_offload_tiering_write_bytes",
        "kv_offload_tiering_write_time",
        "kv_offload_total_bytes",
        "kv_offload_total_time",
        "lora_requests_info",
        "mm_cache_hits",
        "mm_cache_queries",
        "mooncake_store_operation_bytes_total",
        "mooncake_store_operation_failed_keys_total",
        "mooncake_store_operation_keys_total",
        "mooncake_store_operation_time_seconds",
        "mooncake_store_operation_total",
        "nixl_bytes_transferred",
        "nixl_num_descriptors",
        "nixl_num_failed_notifications",
        "nixl_num_failed_transfers",
        "nixl_num_kv_expired_reqs",
        "nixl_post_time_seconds",
        "nixl_xfer_time_seconds",
        "num_preemptions",
        "num_requests_running",
        "num_requests_waiting",
        "num_requests_waiting_by_reason",
        "prefix_cache_hits",
        "prefix_cache_queries",
        "prompt_tokens",
        "prompt_tokens_by_source",
        "prompt_tokens_cached",
        "request_decode_time_seconds",
        "request_generation_tokens",
        "request_inference_time_seconds",
        "request_max_num_generation_tokens",
        "request_params_max_tokens",
        "request_params_n",
        "request_prefill_kv_computed_tokens",
        "request_prefill_time_seconds",
        "request_prompt_tokens",
        "request_queue_time_seconds",
        "request_success",
        "request_time_per_output_token_seconds",
        "spec_decode_num_accepted_tokens",
        "spec_decode_num_accepted_tokens_per_pos",
        "spec_decode_num_draft_tokens",
        "spec_decode_num_drafts",
        "time_to_first_token_seconds",
        "tool_call_parser_invocations_total",
        "websocket_connection_duration_seconds",
        "websocket_connections_active",
        "websocket_connections_total",
    }
)
# Names of earlier versions, and what took their place; None: nothing did (vllm: docs/usage/metrics.md, deprecated and removed).
GONE: Mapping[str, str | None] = {
    "cpu_cache_usage_perc": None,
    "cpu_prefix_cache_hit_rate": None,
    "gpu_cache_usage_perc": "kv_cache_usage_perc",
    "gpu_prefix_cache_hit_rate": "prefix_cache_hits",
    "gpu_prefix_cache_hits": "prefix_cache_hits",
    "gpu_prefix_cache_queries": "prefix_cache_queries",
    "num_requests_swapped": None,
    "time_in_queue_requests": "request_queue_time_seconds",
    "time_per_output_token_seconds": "inter_token_latency_seconds",
}
_SUFFIXES = ("_bucket", "_count", "_created", "_sum", "_total")


def plain(name: str) -> str:
    """A metric's name without what scraping adds; the name itself where that is one."""
    if name in NAMES or name in GONE:
        return name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and (name.removesuffix(suffix) in NAMES or name.removesuffix(suffix) in GONE):
            return name.removesuffix(suffix)
    return name
