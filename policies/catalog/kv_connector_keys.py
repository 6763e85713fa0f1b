"""Keys of kv_connector_extra_config that each KV connector of vLLM 0.29.0 reads (vllm/distributed/kv_transfer/kv_connector/v1, v1/kv_offload).

Not for: connectors that take any key (LMCacheConnectorV1 hands lmcache.* on) or come from elsewhere.
"""

_NIXL = (
    "backends", "bidirectional_kv_xfer", "decoder_kv_blocks_ttl", "enforce_handshake_compat", "engine_ttl", "kv_lease_duration", "kv_recompute_threshold",
    "num_threads", "push_registration_timeout",
)  # fmt: skip
KEYS: dict[str, tuple[str, ...]] = {
    "DecodeBenchConnector": ("fill_mean", "fill_std"),
    "ExampleConnector": ("shared_storage_path",),
    "LMCacheMPConnector": ("lmcache.mp.heartbeat_interval", "lmcache.mp.host", "lmcache.mp.mq_timeout", "lmcache.mp.port"),
    "MooncakeConnector": ("device_name", "mooncake_protocol", "num_workers"),
    "MultiConnector": ("connectors",),
    "NixlConnector": _NIXL,
    "NixlPullConnector": _NIXL,
    "NixlPushConnector": _NIXL,
    "OffloadingConnector": (
        "block_size", "blocks_per_chunk", "cache_policy_module_path", "canonical_layout", "cpu_bytes_to_use", "eviction_policy", "max_tracker_size",
        "offload_prompt_only", "secondary_tiers", "self_describing_kv_events", "spec_module_path", "spec_name", "store_threshold",
    ),
    "SimpleCPUOffloadConnector": (
        "cpu_bytes_to_use", "cpu_bytes_to_use_per_rank", "disk_buffer_slots", "disk_capacity_bytes", "disk_path", "kv_offload_backend", "lazy_offload", "use_page_cache",
    ),
}  # fmt: skip
