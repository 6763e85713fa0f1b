"""Quantisation methods of vLLM: the compute capability each needs, and from which it is fast; cache and load formats.

For: rules on dtype and quantisation. Not for: bytes (policies/fit).
Source: vllm/model_executor/layers/quantization (QuantizationMethods, get_min_capability), config/cache.py CacheDType and
model_executor/model_loader (LoadFormats) of vLLM 0.29.0; docs/features/quantization of the same. Capabilities are
major x 10 + minor: 75 is Turing (T4), 80 A100, 86 A10G, 89 L4 and L40S, 90 Hopper, 100 Blackwell.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Method:
    """One value of `quantization`.

    minimum: vLLM refuses GPUs below it. native: from here the tensor cores compute in the format; below it weights are
    unpacked to 16 bits for each multiplication, which saves memory and not time. 0: no such difference.
    """

    name: str
    minimum: int
    native: int = 0


METHODS: tuple[Method, ...] = (
    Method("auto_awq", 75),
    Method("auto_gptq", 60),
    Method("awq", 75),
    Method("awq_marlin", 75),
    Method("compressed-tensors", 70),
    Method("deepseek_v4_fp8", 75, 89),
    Method("experts_int8", 80),
    Method("fbgemm_fp8", 80, 89),
    Method("fp8", 75, 89),
    Method("fp8_per_block", 75, 89),
    Method("fp8_per_channel", 75, 89),
    Method("fp8_per_tensor", 75, 89),
    Method("fp_quant", 100, 100),
    Method("gpt_oss_mxfp4", 80),
    Method("gptq", 60),
    Method("gptq_marlin", 60),
    Method("humming", 75),
    Method("inc", 60),
    Method("int8_per_channel_weight_only", 75),
    Method("modelopt", 80, 89),
    Method("modelopt_fp4", 75, 100),
    Method("modelopt_mixed", 75, 89),
    Method("modelopt_mxfp8", 80, 100),
    Method("moe_wna16", 70),
    Method("mxfp4", 80),
    Method("mxfp8", 80, 100),
    Method("nvfp4_per_token", 75, 100),
    Method("online", 75),
    Method("quark", 70),
    Method("torchao", 75),
)
# get_supported_act_dtypes of these is bfloat16 alone.
BFLOAT16_ONLY: tuple[str, ...] = ("fp_quant", "gpt_oss_mxfp4", "modelopt_mxfp8", "mxfp4", "mxfp8")
BY_NAME: dict[str, Method] = {method.name: method for method in METHODS}
DEPRECATED: tuple[str, ...] = ("fbgemm_fp8", "fp_quant")  # refused without allow_deprecated_quantization
# Methods of older versions that 0.29 no longer has in its list; some live on as plugins.
REMOVED: tuple[str, ...] = (
    "aqlm",
    "auto-round",
    "bitblas",
    "bitsandbytes",
    "deepspeedfp",
    "gguf",
    "gptq_bitblas",
    "gptq_marlin_24",
    "hqq",
    "ipex",
    "marlin",
    "neuron_quant",
    "petit_nvfp4",
    "ptpc_fp8",
    "qqq",
    "rtn",
    "squeezellm",
    "tpu_int8",
)
# Methods that quantise while they load; the others need a checkpoint made by them.
ONLINE: tuple[str, ...] = (
    "experts_int8",
    "fp8",
    "fp8_per_block",
    "fp8_per_channel",
    "fp8_per_tensor",
    "humming",
    "int8_per_channel_weight_only",
    "mxfp8",
    "nvfp4_per_token",
)
# These read how the weights were made when the engine is configured, so that a checkpoint that does not say it stops the start
# (vllm/model_executor/model_loader/weight_utils.py get_quant_config); tests/engine asks vLLM about each.
READS_CHECKPOINT: tuple[str, ...] = (
    "auto_awq",
    "auto_gptq",
    "awq",
    "awq_marlin",
    "compressed-tensors",
    "fbgemm_fp8",
    "gptq",
    "gptq_marlin",
    "inc",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mixed",
    "modelopt_mxfp8",
    "moe_wna16",
    "online",
    "quark",
    "torchao",
)
# What says it instead of the checkpoint.
QUANTIZATION_SETTINGS: tuple[str, ...] = ("hf_overrides", "model_loader_extra_config", "quantization_config")
DTYPES: tuple[str, ...] = ("auto", "bfloat16", "float", "float16", "float32", "half")
# model_type gemma2, gemma3, gemma3_text and glm4 (config/model.py _FLOAT16_NOT_SUPPORTED_MODELS).
NO_FLOAT16: tuple[str, ...] = (
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "Glm4ForCausalLM",
)
CACHE_DTYPES: tuple[str, ...] = (
    "auto",
    "bfloat16",
    "float16",
    "fp8",
    "fp8_ds_mla",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_inc",
    "fp8_per_token_head",
    "int4_per_token_head",
    "int8_per_token_head",
    "nvfp4",
    "nvfp4_4over6",
    "turboquant_3bit_nc",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_k8v4",
)
LOAD_FORMATS: tuple[str, ...] = (
    "auto",
    "dummy",
    "fastsafetensors",
    "hf",
    "instanttensor",
    "ipc_cache",
    "mistral",
    "modelexpress",
    "npcache",
    "pt",
    "runai_streamer",
    "runai_streamer_sharded",
    "safetensors",
    "sharded_state",
    "tensorizer",
)
