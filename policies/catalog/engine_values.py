"""What vLLM takes as the value of each engine argument: kind, least value, choices; and how its command line spells it.

For: the rules on engine arguments, and the command line of a plain vLLM Deployment. Not for: names (engine_args.py), keys of
arguments that are mappings (engine_configs.py), or values that a rule of their own judges against GPU, model or each other.
Source: fields of AsyncEngineArgs (vllm/engine/arg_utils.py), the pydantic config classes they end in (vllm/config) and the parser
made from them (vllm/entrypoints/launchers/cli_args.py) of vLLM 0.29.0; tests/engine asks vLLM about every one.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _choices(text: str) -> tuple[str, ...]:
    return tuple(text.split())


READ_IN = "0.29"
"""Kinds and choices were read in this minor."""

SWITCHES = _names(
    """
    aggregate_engine_logging allow_credentials allow_deprecated_quantization async_scheduling
    cohere_is_reasoning_model cudagraph_metrics data_parallel_external_lb data_parallel_hybrid_lb
    data_parallel_multi_port_external_lb dcp_q_replicate disable_cascade_attn disable_chunked_mm_input
    disable_custom_all_reduce disable_fastapi_docs disable_hybrid_kv_cache_manager disable_log_stats
    disable_nccl_for_dp_synchronization disable_sliding_window disable_uvicorn_access_log enable_auto_tool_choice
    enable_batch_sharded_sampling enable_bf16x3_router_gemm enable_chunked_prefill enable_cumem_allocator enable_dbo
    enable_elastic_ep enable_ep_weight_filter enable_eplb enable_expert_parallel enable_fault_tolerance
    enable_flash_late_interaction enable_flashinfer_autotune enable_force_include_usage enable_layerwise_nvtx_tracing
    enable_log_deltas enable_log_outputs enable_log_requests enable_logging_iteration_details enable_lora
    enable_mamba_cache_stochastic_rounding enable_mfu_metrics enable_mixed_moe_lora_format enable_mm_embeds
    enable_mm_processor_stats enable_moe_shared_loras enable_offline_docs enable_per_request_metrics
    enable_prefix_caching enable_prompt_embeds enable_prompt_tokens_details enable_request_id_headers
    enable_return_routed_experts enable_server_load_tracking enable_sleep_mode enable_ssl_refresh
    enable_tokenizer_info_endpoint enable_tower_connector_lora enable_trace_replay enforce_eager
    exclude_tools_when_tool_choice_none fail_on_environ_validation fully_sharded_loras interleave_mm_strings
    jit_monitor_verbose kv_cache_metrics kv_sharing_fast_prefill language_model_only log_error_stack
    mm_device_do_normalize mm_encoder_only numa_bind ray_workers_use_nsight return_sampling_mask
    return_tokens_as_token_ids scheduler_reserve_full_isl skip_mm_profiling skip_tokenizer_init specialize_active_lora
    tokens_only trust_remote_code trust_request_chat_template use_fp64_gumbel use_replayssm use_tqdm_on_load
    """
)
"""True or false."""

INTEGERS: dict[str, int | None] = {
    "block_size": 1,
    "cp_kv_cache_interleave_size": None,
    "cpu_distributed_timeout_seconds": None,
    "data_parallel_rank": 0,
    "data_parallel_rpc_port": 1,
    "data_parallel_size": 1,
    "data_parallel_size_local": 0,
    "data_parallel_start_rank": None,
    "data_parallel_supervisor_port": None,
    "dbo_decode_token_threshold": 0,
    "dbo_prefill_token_threshold": 0,
    "dcp_kv_cache_interleave_size": None,
    "decode_context_parallel_size": 1,
    "distributed_timeout_seconds": None,
    "dp_supervisor_probe_failure_threshold": None,
    "h11_max_header_count": None,
    "h11_max_incomplete_event_size": None,
    "kv_cache_memory_bytes": None,
    "long_prefill_token_threshold": 0,
    "mamba_block_size": 1,
    "mamba_cache_philox_rounds": None,
    "master_port": None,
    "max_cpu_loras": None,
    "max_cudagraph_capture_size": 1,
    "max_log_len": None,
    "max_logprobs": None,
    "max_lora_rank": 1,
    "max_loras": None,
    "max_model_len": -1,
    "max_num_batched_tokens": 1,
    "max_num_queued_reqs": 0,
    "max_num_queued_tokens": 0,
    "max_num_scheduled_tokens": 0,
    "max_num_seqs": 1,
    "max_parallel_loading_workers": 1,
    "mm_shm_cache_max_object_size_mb": None,
    "nnodes": 1,
    "node_rank": 0,
    "num_gpu_blocks_override": None,
    "offload_group_size": 0,
    "offload_num_in_group": 1,
    "offload_prefetch_step": 0,
    "optimization_level": 0,
    "pipeline_parallel_size": 1,
    "port": None,
    "prefill_context_parallel_size": 1,
    "prefill_schedule_interval": 1,
    "prefix_cache_retention_interval": 0,
    "prefix_match_unit": 1,
    "renderer_num_workers": None,
    "replayssm_buffer_len": 1,
    "safetensors_prefetch_block_size": 1,
    "safetensors_prefetch_num_threads": 1,
    "seed": None,
    "shutdown_timeout": 0,
    "spec_tokens": 1,
    "sse_keep_alive_interval": 0,
    "ssl_cert_reqs": None,
    "stream_interval": 1,
    "tensor_parallel_size": 1,
    "ubatch_size": 0,
}
"""Whole numbers, and the least that vLLM takes (None: any)."""

NUMBERS: dict[str, float | None] = {
    "cpu_offload_gb": 0,
    "dp_supervisor_probe_interval_s": None,
    "dp_supervisor_probe_timeout_s": None,
    "gpu_memory_utilization": 0,
    "kv_cache_metrics_sample": 0,
    "kv_offloading_size": None,
    "mm_encoder_fp8_scale_save_margin": None,
    "mm_ipc_gpu_memory_gb": None,
    "mm_processor_cache_gb": None,
    "video_pruning_rate": None,
    "watermark": 0,
}
"""Numbers, and the least that vLLM takes."""

MOST: dict[str, float] = {
    "gpu_memory_utilization": 1,
    "kv_cache_metrics_sample": 1,
    "optimization_level": 3,
    "watermark": 1,
}
"""The most that vLLM takes."""

TEXTS = _names(
    """
    allowed_local_media_path chat_template code_revision cohere_format data_parallel_address
    disable_access_log_for_endpoints distributed_executor_backend download_dir fingerprint_value generation_config
    hf_config_path host io_processor_plugin load_format log_config_file master_addr mm_encoder_attn_backend
    mm_encoder_fp8_scale_path mm_encoder_fp8_scale_save_path model_impl model_weights otlp_traces_endpoint
    quantization reasoning_parser_plugin response_role revision root_path scheduler_cls
    spec_model ssl_ca_certs ssl_certfile ssl_ciphers ssl_keyfile
    tokenizer_mode tokenizer_revision tool_parser_plugin tool_server uds worker_cls worker_extension_cls
    """
)
"""Text."""

LISTS = _names(
    """
    allowed_headers allowed_media_domains allowed_methods allowed_origins api_key collect_detailed_traces
    cpu_offload_params kv_cache_dtype_skip_layers logits_processors lora_modules lora_target_modules middleware
    numa_bind_cpus offload_params
    """
)
"""Lists of text; one text is no list."""

INTEGER_LISTS = _names("cudagraph_capture_sizes device_ids numa_bind_nodes")
"""Lists of whole numbers; device_ids of GPU UUIDs too."""

MAPPINGS = _names(
    """
    additional_config attention_config compilation_config default_chat_template_kwargs default_mm_loras
    diffusion_config ec_manager_config ec_transfer_config eplb_config fault_tolerance_config hf_overrides
    ir_op_priority kernel_config kv_events_config kv_transfer_config limit_mm_per_prompt mamba_config media_io_kwargs
    mm_processor_kwargs model_class_overrides override_generation_config pooler_config
    profiler_config quantization_config reasoning_config speculative_config structured_outputs_config
    weight_transfer_config
    """
)
"""Mappings."""

CHOICES: dict[str, tuple[str, ...]] = {
    "all2all_backend": _choices(
        """
        allgather_reducescatter deepep_high_throughput deepep_low_latency deepep_v2 flashinfer_all2allv
        flashinfer_nvlink_one_sided flashinfer_nvlink_two_sided mori_high_throughput mori_low_latency naive nixl_ep
        pplx
        """
    ),
    "attention_backend": _choices(
        """
        FLASH_ATTN FLASH_ATTN_DIFFKV TRITON_ATTN TRITON_ATTN_DIFFKV ROCM_ATTN ROCM_AITER_MLA ROCM_AITER_TRITON_MLA
        ROCM_AITER_FA ROCM_AITER_MLA_SPARSE XPU_MLA_SPARSE TORCH_SDPA FLASHINFER FLASHINFER_MLA TOKENSPEED_MLA
        FLASHINFER_MLA_SPARSE FLASHINFER_MLA_SPARSE_SM120 TRITON_MLA CUTLASS_MLA FLASHMLA FLASHMLA_SPARSE
        FLASHMLA_SPARSE_DSV4 FLASHINFER_MLA_SPARSE_DSV4 ROCM_FLASHMLA_SPARSE_DSV4 FLASH_ATTN_MLA FLASH_ATTN_MLA_SPARSE
        MINIMAX_M3_SPARSE CUTLASS_MSA TRITON_MSA NO_ATTENTION FLEX_ATTENTION HPC_ATTN ROCM_AITER_UNIFIED_ATTN CPU_ATTN
        CPU_MLA AMX_MLA TURBOQUANT CUSTOM
        """
    ),
    "chat_template_content_format": ("auto", "openai", "string"),
    "config_format": ("auto", "hf", "mistral"),
    "convert": ("auto", "classify", "embed", "none"),
    "data_parallel_backend": ("mp", "ray"),
    "dcp_comm_backend": ("a2a", "ag_rs"),
    "dtype": ("auto", "bfloat16", "float", "float16", "float32", "half"),
    "expert_placement_strategy": ("linear", "round_robin"),
    "fingerprint_mode": ("custom", "full", "hash", "none"),
    "gdn_prefill_backend": ("flashinfer", "triton", "cutedsl"),
    "jit_monitor_mode": ("error", "warn"),
    "kda_prefill_backend": ("auto", "triton", "flashkda"),
    "kv_cache_dtype": _choices(
        """
        auto bfloat16 float16 fp8 fp8_ds_mla fp8_e4m3 fp8_e5m2 fp8_inc fp8_per_token_head int4_per_token_head
        int8_per_token_head nvfp4 nvfp4_4over6 turboquant_3bit_nc turboquant_4bit_nc turboquant_k3v4_nc
        turboquant_k8v4
        """
    ),
    "kv_offloading_backend": ("lmcache", "native"),
    "linear_backend": _choices(
        """
        aiter auto b12x conch cutlass deep_gemm emulation exllama fbgemm flashinfer_b12x flashinfer_cudnn
        flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm humming machete marlin torch triton xpu xpu_woq
        """
    ),
    "logprobs_mode": ("processed_logits", "processed_logprobs", "raw_logits", "raw_logprobs"),
    "lora_dtype": ("auto", "bfloat16", "float16"),
    "mamba_backend": ("CPU", "FLASHINFER", "TRITON"),
    "mamba_cache_dtype": ("auto", "bfloat16", "float16", "float32"),
    "mamba_cache_mode": ("align", "all", "none"),
    "mamba_ssm_cache_dtype": ("auto", "bfloat16", "float16", "float32"),
    "mamba_ssu_algorithm": ("auto", "horizontal", "simple", "vertical"),
    "mm_encoder_attn_dtype": ("fp8",),
    "mm_encoder_tp_mode": ("data", "weights"),
    "mm_hasher_algorithm": ("blake3", "sha256", "sha512"),
    "mm_processor_cache_type": ("lru", "shm"),
    "mm_processor_device": ("auto", "cpu"),
    "mm_tensor_ipc": ("direct_rpc", "torch_shm"),
    "moe_backend": _choices(
        """
        aiter auto b12x batched_triton cutlass deep_gemm deep_gemm_mega_moe emulation flashinfer_b12x
        flashinfer_cutedsl flashinfer_cutlass flashinfer_moe_ep_mega_cutedsl flashinfer_moe_ep_mega_deep_gemm
        flashinfer_trtllm flydsl hpc humming marlin triton triton_unfused
        """
    ),
    "offload_backend": ("auto", "prefetch", "uva"),
    "per_request_spec_decode_metrics": ("detailed", "none", "summary"),
    "performance_mode": ("balanced", "interactivity", "throughput"),
    "prefix_caching_hash_algo": ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"),
    "reasoning_parser": _choices(
        """
        cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 ernie45 gemma4 glm45 glm47 granite holo2
        hunyuan_a13b hy_v3 hy_v4 inkling kimi_k2 kimi_k3 ling3 mimo minimax_m2 minimax_m2_append_think minimax_m3
        mistral muse_glimmer nemotron_v3 olmo3 openai_gptoss poolside_v1 qwen3 seed_oss step3 step3p5
        """
    ),
    "runner": ("auto", "draft", "generate", "pooling"),
    "safetensors_load_strategy": ("eager", "lazy", "prefetch", "torchao"),
    "scheduling_policy": ("fcfs", "priority"),
    "spec_method": _choices(
        """
        bailing_hybrid_mtp bailing_hybrid_v3_mtp custom_class deepseek_mtp dflash dots3_note_mtp draft_model dspark
        eagle eagle3 ernie_mtp exaone4_5_mtp exaone_moe_mtp extract_hidden_states gemma4_mtp glm4_moe_lite_mtp
        glm4_moe_mtp glm_ocr_mtp hy_v3_mtp hy_v4_mtp inkling_mtp kimi_k3_mtp longcat_flash_mtp medusa mimo_mtp
        mimo_v2_mtp minimax_m3_mtp mlp_speculator mtp nemotron_h_mtp ngram ngram_gpu pangu_ultra_moe_mtp qwen3_5_mtp
        qwen3_next_mtp qwen4_exp_mtp step3p5_mtp suffix
        """
    ),
    "tool_call_parser": _choices(
        """
        apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 dots ernie45
        functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hunyuan_a13b hy_v3 hy_v4
        inkling internlm jamba kimi_k2 kimi_k3 lfm2 ling3 llama3_json llama4_json llama4_pythonic longcat mimo
        minicpm5 minimax_m2 minimax_m3 mistral muse_glimmer olmo3 openai phi4_mini_json poolside_v1 pythonic
        qwen3_coder qwen3_xml seed_oss step3 step3p5 xlam
        """
    ),
    "uvicorn_log_level": ("critical", "debug", "error", "info", "trace", "warning"),
    "video_pruning_method": ("evs", "vidcom2"),
}
"""One of these texts."""

ANY_CASE = _names("attention_backend mamba_backend")
"""Choices whose case does not matter."""

NULLABLE = _names(
    """
    allowed_media_domains api_key async_scheduling attention_backend block_size chat_template code_revision
    collect_detailed_traces cpu_distributed_timeout_seconds cudagraph_capture_sizes data_parallel_address
    data_parallel_external_lb data_parallel_rank data_parallel_rpc_port data_parallel_size_local
    data_parallel_start_rank dcp_comm_backend dcp_q_replicate default_chat_template_kwargs default_mm_loras device_ids
    diffusion_config disable_access_log_for_endpoints disable_hybrid_kv_cache_manager
    disable_nccl_for_dp_synchronization distributed_executor_backend distributed_timeout_seconds download_dir
    ec_transfer_config enable_batch_sharded_sampling enable_bf16x3_router_gemm enable_chunked_prefill
    enable_mamba_cache_stochastic_rounding enable_mm_embeds enable_prefix_caching fingerprint_value
    gdn_prefill_backend hf_config_path hf_token host interleave_mm_strings io_processor_plugin kda_prefill_backend
    kv_cache_memory_bytes kv_events_config kv_offloading_size kv_transfer_config limit_mm_per_prompt log_config_file
    logits_processors lora_dtype lora_modules lora_target_modules mamba_backend mamba_block_size mamba_ssu_algorithm
    max_cpu_loras max_cudagraph_capture_size max_log_len max_model_len max_num_batched_tokens max_num_queued_reqs
    max_num_queued_tokens max_num_scheduled_tokens max_num_seqs max_parallel_loading_workers media_io_kwargs
    mm_device_do_normalize mm_encoder_attn_backend mm_encoder_attn_dtype mm_encoder_fp8_scale_path
    mm_encoder_fp8_scale_save_margin mm_encoder_fp8_scale_save_path mm_encoder_only mm_encoder_tp_mode
    mm_hasher_algorithm mm_ipc_gpu_memory_gb mm_processor_cache_gb mm_processor_cache_type mm_processor_device
    mm_processor_kwargs mm_shm_cache_max_object_size_mb moe_backend num_gpu_blocks_override numa_bind_cpus
    numa_bind_nodes otlp_traces_endpoint pooler_config prefix_cache_retention_interval prefix_match_unit quantization
    quantization_config reasoning_config reasoning_parser reasoning_parser_plugin revision root_path
    safetensors_load_strategy scheduler_cls show_hidden_metrics_for_version skip_mm_profiling spec_method spec_model
    spec_tokens speculative_config ssl_ca_certs ssl_certfile ssl_ciphers ssl_keyfile tokenizer tokenizer_revision
    tool_call_parser tool_server uds video_pruning_method video_pruning_rate weight_transfer_config
    """
)
"""Arguments that take null; for the others their default must be left out, not nulled."""

NO_TEXT = _names(
    """
    data_parallel_size data_parallel_size_local decode_context_parallel_size max_cudagraph_capture_size
    max_num_batched_tokens max_num_seqs nnodes pipeline_parallel_size prefill_context_parallel_size ubatch_size
    """
)
"""Numbers that vLLM reckons with before it reads them as numbers, so that "2" fails where 2 works."""

UNCHECKED = _names(
    """
    aggregate_engine_logging data_parallel_multi_port_external_lb data_parallel_start_rank disable_log_stats
    enable_bf16x3_router_gemm enable_flashinfer_autotune enable_log_requests enable_lora enable_mixed_moe_lora_format
    enable_moe_shared_loras enable_tower_connector_lora fail_on_environ_validation fully_sharded_loras
    gdn_prefill_backend kda_prefill_backend linear_backend lora_dtype lora_target_modules mamba_cache_philox_rounds
    max_cpu_loras max_lora_rank max_loras model_loader_extra_config reasoning_parser_plugin specialize_active_lora
    tokens_only
    """
)
"""Nothing looks at these when the engine starts from keyword arguments (as under Ray), unless what they belong to is on."""

LORA = _names(
    """
    fully_sharded_loras lora_dtype lora_target_modules max_cpu_loras max_loras specialize_active_lora
    enable_mixed_moe_lora_format enable_moe_shared_loras enable_tower_connector_lora
    """
)
"""Looked at when enable_lora is true."""

PLUGINS: dict[str, str] = {"reasoning_parser": "reasoning_parser_plugin", "tool_call_parser": "tool_parser_plugin"}
"""Arguments that bring further choices."""

ABOVE_LEAST = _names("gpu_memory_utilization kv_cache_metrics_sample")
BELOW_MOST = _names("watermark")
"""The bound itself is refused."""

TEXT_OR_MAPPING = _names("model_loader_extra_config pt_load_map_location")
TEXT_OR_LIST = _names("ignore_patterns")
TEXT_OR_SWITCH = _names("hf_token")
NOT_EMPTY = _names("cudagraph_capture_sizes numa_bind_cpus numa_bind_nodes")
MAPPINGS_OF: dict[str, str] = {
    "media_io_kwargs": "mapping",
    "model_class_overrides": "text",
    "pt_load_map_location": "text",
}
"""What each value of a mapping is."""

LIST_CHOICES: dict[str, tuple[str, ...]] = {"collect_detailed_traces": ("all", "model", "worker")}

FORMS: dict[str, tuple[str, str]] = {
    "show_hidden_metrics_for_version": (r"v?\d+(\.\d+)*((a|b|rc|[.-]?post|[.-]?dev)\d+)*", "a version, such as 0.28"),
    "tokenizer": (
        r"[./~].*|\w+://.*|[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)*",
        "a repository of the hub (organisation/name) or a folder",
    ),
}
"""Text of a form: pattern, and the form in words."""
