"""Keys of engine arguments that are mappings, and choices inside them: each is a config class of vLLM that refuses other keys.

For: the rules on engine arguments. Source: the dataclasses in vllm/config of vLLM 0.29.0 that vllm/engine/arg_utils.py makes of
them; tests/engine asks vLLM about every one.
"""

from __future__ import annotations

from .engine_values import CHOICES


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONFIG_KEYS: dict[str, frozenset[str]] = {
    "attention_config": _names(
        """
        backend backend_per_kind disable_flashinfer_q_quantization flash_attn_max_num_splits_for_cuda_graph
        flash_attn_version flex_attn_block_m flex_attn_block_n flex_attn_kv_block_size flex_attn_q_block_size
        indexer_kv_dtype minimax_m3_msa_decode_backend mla_prefill_backend sparse_mla_force_mqa
        tq_max_kv_splits_for_cuda_graph use_fp4_indexer_cache use_non_causal use_prefill_query_quantization
        use_trtllm_attention
        """
    ),
    "compilation_config": _names(
        """
        backend cache_dir compile_cache_save_format compile_mm_encoder compile_ranges_endpoints compile_sizes
        cudagraph_capture_sizes cudagraph_copy_inputs cudagraph_mm_encoder cudagraph_mode cudagraph_num_of_warmups
        cudagraph_specialize_lora custom_ops debug_dump_path dynamic_shapes_config
        encoder_cudagraph_max_frames_per_batch encoder_cudagraph_max_vision_items_per_batch
        encoder_cudagraph_token_budgets fast_moe_cold_start inductor_compile_config inductor_passes
        ir_enable_torch_wrap max_cudagraph_capture_size mode pass_config splitting_ops use_inductor_graph_partition
        """
    ),
    "diffusion_config": _names(
        """
        canvas_length max_denoising_steps
        """
    ),
    "ec_manager_config": _names(
        """
        encoder_cache_manager_cls manager_config
        """
    ),
    "ec_transfer_config": _names(
        """
        ec_buffer_device ec_buffer_size ec_connector ec_connector_extra_config ec_connector_module_path ec_ip
        ec_parallel_size ec_port ec_rank ec_role engine_id
        """
    ),
    "eplb_config": _names(
        """
        communicator log_balancedness log_balancedness_interval num_redundant_experts policy step_interval use_async
        window_size
        """
    ),
    "fault_tolerance_config": _names(
        """
        engine_recovery_timeout_sec
        """
    ),
    "ir_op_priority": _names(
        """
        fused_add_rms_norm rms_norm
        """
    ),
    "kernel_config": _names(
        """
        enable_bf16x3_router_gemm enable_cutedsl_warmup enable_flashinfer_autotune enable_jit_warmup ir_op_priority
        linear_backend moe_backend
        """
    ),
    "kv_events_config": _names(
        """
        buffer_steps enable_kv_cache_events endpoint hwm max_queue_size publisher replay_endpoint topic
        """
    ),
    "kv_transfer_config": _names(
        """
        enable_permute_local_kv engine_id kv_buffer_device kv_buffer_size kv_connector kv_connector_extra_config
        kv_connector_module_path kv_ip kv_load_failure_policy kv_parallel_size kv_port kv_rank kv_role
        """
    ),
    "mamba_config": _names(
        """
        backend enable_stochastic_rounding ssu_algorithm stochastic_rounding_philox_rounds
        """
    ),
    "pooler_config": _names(
        """
        dimensions enable_chunked_processing logit_mean logit_sigma max_embed_len pooling_type returned_token_ids
        seq_pooling_type step_tag_id task tok_pooling_type use_activation
        """
    ),
    "profiler_config": _names(
        """
        active_iterations capture_torch_profiler delay_iterations detailed_trace_annotation ignore_frontend
        max_iterations profiler proton_backend proton_context proton_data proton_hook proton_mode proton_output_format
        proton_profiler_dir torch_profiler_dir torch_profiler_dump_cuda_time_total torch_profiler_record_shapes
        torch_profiler_use_gzip torch_profiler_with_flops torch_profiler_with_memory torch_profiler_with_stack
        wait_iterations warmup_iterations
        """
    ),
    "quantization_config": _names(
        """
        ignore linear moe
        """
    ),
    "reasoning_config": _names(
        """
        reasoning_end_str reasoning_parser reasoning_start_str
        """
    ),
    "speculative_config": _names(
        """
        attention_backend code_revision disable_padded_drafter_batch draft_load_config draft_model_config
        draft_parallel_config draft_sample_method draft_tensor_parallel_size dspark_draft_topk
        enable_adaptive_verification enforce_eager index_share_for_mtp_iteration kv_cache_dtype max_model_len method
        model moe_backend num_speculative_tokens num_speculative_tokens_per_batch_size parallel_drafting
        prompt_lookup_max prompt_lookup_min quantization rejection_sample_method revision
        suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor suffix_decoding_max_tree_depth
        suffix_decoding_min_token_prob synthetic_acceptance_length synthetic_acceptance_rates target_model_config
        target_parallel_config tensor_parallel_size use_heterogeneous_vocab use_local_argmax_reduction
        """
    ),
    "structured_outputs_config": _names(
        """
        backend disable_additional_properties disable_any_whitespace enable_in_reasoning reasoning_parser
        reasoning_parser_plugin
        """
    ),
    "weight_transfer_config": _names(
        """
        backend
        """
    ),
}

NESTED_KEYS: dict[str, dict[str, frozenset[str]]] = {
    "compilation_config": {
        "dynamic_shapes_config": _names("evaluate_guards type"),
        "pass_config": _names(
            """
            eliminate_noops enable_qk_norm_rope_fusion enable_sp fi_allreduce_fusion_max_size_mb fuse_act_padding fuse_act_quant
            fuse_allreduce_rms fuse_attn_quant fuse_gemm_comms fuse_mla_dual_rms_norm fuse_norm_quant fuse_qk_norm_rope_kvcache
            fuse_rope_kvcache fuse_rope_kvcache_cat_mla rope_kvcache_fusion_max_token_num sp_min_token_num
            """
        ),
    },
}
"""Keys of mappings inside them."""

CONFIG_CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "compilation_config": {"compile_cache_save_format": ("binary", "unpacked")},
    "ec_transfer_config": {"ec_role": ("ec_both", "ec_consumer", "ec_producer")},
    "eplb_config": {"communicator": ("nixl", "pynccl", "torch_gloo", "torch_nccl"), "policy": ("default",)},
    "kv_events_config": {"publisher": ("null", "zmq")},
    "kv_transfer_config": {"kv_load_failure_policy": ("fail", "recompute")},
    "profiler_config": {
        "profiler": ("cuda", "proton", "torch"),
        "proton_backend": ("cupti",),
        "proton_context": ("python", "shadow"),
        "proton_data": ("trace", "tree"),
        "proton_hook": ("triton",),
        "proton_output_format": ("chrome_trace", "hatchet", "hatchet_msgpack"),
    },
    "speculative_config": {
        "draft_sample_method": ("greedy", "probabilistic"),
        "method": CHOICES["spec_method"],
        "rejection_sample_method": ("block", "standard", "synthetic"),
    },
    "structured_outputs_config": {"backend": ("auto", "guidance", "lm-format-enforcer", "outlines", "xgrammar")},
}
"""Values of keys that are one of a list."""

CONFIG_LEAST: dict[str, dict[str, int]] = {
    "diffusion_config": {"canvas_length": 1},
    "eplb_config": {"log_balancedness_interval": 1, "step_interval": 1, "window_size": 1},
    "profiler_config": {
        "active_iterations": 1,
        "delay_iterations": 0,
        "max_iterations": 0,
        "wait_iterations": 0,
        "warmup_iterations": 0,
    },
    "speculative_config": {
        "draft_tensor_parallel_size": 1,
        "dspark_draft_topk": 1,
        "max_model_len": 1,
        "prompt_lookup_min": 1,
    },
}
"""The least that keys take which are whole numbers, but for those that have a rule of their own."""
