"""Further public reports about engines, models and GPUs, each with its mended twin."""

from __future__ import annotations

from typing import Any

from policies.facts import ray as ray_facts

from .report import Report, each
from .small import AWS, EXISTING, Config, chat, manifest, model, pool
from .test_a_to_b import gpus, one

L8, L70 = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"
V3, V32 = "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.2"
TOKEN = chat(huggingface_token={"secret": "huggingface", "key": "token"})


def args(name: str, tensor: int = 1, **engine_args: Any) -> Config:
    """Two replicas of a model with these engine arguments, over `tensor` GPUs each."""
    return one(name, parallel={"tensor": tensor}, engine_args={"max_model_len": 4096, **engine_args})


def guess(name: str, tensor: int = 1, **speculative: Any) -> Config:
    return args(name, tensor, speculative_config={"num_speculative_tokens": 3, **speculative})


OLD = {"versions": {"ray": "2.59.0", "vllm": "0.27.0"}}  # the pair before 2.60 and 0.29
H8, H200, A8 = gpus("H100", 8), gpus("H200", 8), gpus("A100-80G", 8)
MEMORY = (
    Report("vllm-project/vllm#10517", "fit-memory", (H8, TOKEN, args(L70, 2, dtype="half", max_model_len=131072)), (H8, TOKEN, args(L70, 2, dtype="half", max_model_len=8192))),
    Report("SemiAnalysisAI/InferenceX#1587", "fit-memory", (H8, args("moonshotai/Kimi-K2.5", 8, max_model_len=262144)), (H200, args("moonshotai/Kimi-K2.5", 8, max_model_len=131072))),
    Report("vllm-project/vllm#18550", "fit-memory", (gpus("L4"), args("Qwen/Qwen2.5-VL-7B-Instruct", max_model_len=32768, gpu_memory_utilization=0.8)), (gpus("L40S"), args("Qwen/Qwen2.5-VL-7B-Instruct", max_model_len=32768))),
)  # fmt: skip
CUTS = (
    Report("vllm-project/vllm#12256", "parallel-tensor", (H8, one(V3, parallel={"tensor": 32}, replicas={"min": 1, "max": 1})), (H8, one(V3, parallel={"tensor": 8, "pipeline": 4}, replicas={"min": 1, "max": 1}))),
    Report("vllm-project/vllm#25292", "parallel-tensor", (H8, OLD, args("Qwen/Qwen3-30B-A3B-FP8", 4)), (H8, args("Qwen/Qwen3-30B-A3B-FP8", 4))),
    Report("vllm-project/vllm#25292 with experts whole", "parallel-tensor", (A8, args("Qwen/Qwen3-235B-A22B-FP8", 8)), (A8, one("Qwen/Qwen3-235B-A22B-FP8", parallel={"tensor": 8, "expert": True}, engine_args={"max_model_len": 8192}))),
)  # fmt: skip
SPECULATION = (
    Report("vllm-project/vllm#5203", "speculative-decoding", (A8, guess("Qwen/Qwen2.5-72B-Instruct", 4, model="Qwen/Qwen2.5-0.5B-Instruct")), (A8, guess("Qwen/Qwen2.5-72B-Instruct", 4, model="Qwen/Qwen2.5-7B-Instruct"))),
    Report("vllm-project/vllm#10483", "speculative-decoding", (H8, guess("Qwen/Qwen3-32B", 4, model="Qwen/Qwen3-0.6B", draft_tensor_parallel_size=2)), (H8, guess("Qwen/Qwen3-32B", 4, model="Qwen/Qwen3-0.6B"))),
    Report("vllm-project/vllm#10913", "speculative-decoding", (H8, guess("Qwen/Qwen2.5-3B-Instruct", 4, model="Qwen/Qwen2.5-0.5B-Instruct")), (H8, guess("Qwen/Qwen2.5-3B-Instruct", 2, model="Qwen/Qwen2.5-0.5B-Instruct"))),
    Report("vllm-project/vllm#12323", "speculative-decoding", (H8, guess("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", model="Qwen/Qwen2.5-0.5B-Instruct")), (H8, guess("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", method="ngram", prompt_lookup_max=4))),
    Report("vllm-project/vllm PR#24322", "speculative-decoding", (H8, guess("Qwen/Qwen3-32B", 2, method="eagle3")), (H8, guess("Qwen/Qwen3-32B", 2, method="eagle3", model="AngelSlim/Qwen3-32B_eagle3"))),
    Report("vllm-project/vllm#54178", "speculative-decoding", (H8, guess("Qwen/Qwen3-32B", 2, method="mtp")), (H200, guess(V3, 8, method="mtp"))),
)  # fmt: skip
ATTENTION = (
    Report("vllm-project/vllm PR#39594", "attention-backend", (A8, one(V32, parallel={"tensor": 8, "pipeline": 2})), (H200, args(V32, 8))),
    Report("vllm-project/vllm#30214", "attention-backend", (gpus("B200", 8), args(V32, 8, attention_backend="CUTLASS_MLA")), (gpus("B200", 8), args(V32, 8, attention_backend="FLASHMLA_SPARSE"))),
    Report("vllm-project/vllm#40153", "attention-backend", (H8, args("openai/gpt-oss-20b", attention_backend="FLASHINFER")), (H8, args("openai/gpt-oss-20b", attention_backend="TRITON_ATTN"))),
    Report("vllm-project/vllm#22331", "attention-backend", (A8, args("openai/gpt-oss-20b", attention_backend="FLASH_ATTN")), (A8, args("openai/gpt-oss-20b"))),
    Report("vllm-project/vllm#13398", "attention-backend", (gpus("T4"), args("Qwen/Qwen2.5-1.5B-Instruct", dtype="half", attention_backend="FLASH_ATTN")), (gpus("T4"), args("Qwen/Qwen2.5-1.5B-Instruct", dtype="half"))),
    Report("vllm-project/vllm#10662", "engine-argument-kinds", (gpus("A10G"), args("Qwen/Qwen2.5-1.5B-Instruct", attention_backend="XFORMERS")), (gpus("A10G"), args("Qwen/Qwen2.5-1.5B-Instruct", attention_backend="TRITON_ATTN"))),
    Report("vllm-project/vllm#23203", "quantisation-capability", (gpus("T4", 4), args("openai/gpt-oss-20b", 4)), (gpus("L4", 4), args("openai/gpt-oss-20b", 4))),
    Report("vllm-project/vllm#1592", "dtype-capability", (gpus("T4"), args("Qwen/Qwen2.5-1.5B-Instruct", dtype="bfloat16")), (gpus("T4"), args("Qwen/Qwen2.5-1.5B-Instruct", dtype="half"))),
)  # fmt: skip
CACHES = (
    Report("vllm-project/vllm#42587 fp8_inc", "attention-cache-dtype", (H8, args("Qwen/Qwen3-8B", kv_cache_dtype="fp8_inc")), (H8, args("Qwen/Qwen3-8B", kv_cache_dtype="fp8"))),
    Report("vllm-project/vllm#42587 fp8_ds_mla", "attention-cache-dtype", (H8, args("Qwen/Qwen3-8B", kv_cache_dtype="fp8_ds_mla")), (H200, args(V32, 8, kv_cache_dtype="fp8_ds_mla"))),
    Report("vllm-project/vllm#8409", "attention-cache-dtype", (gpus("L40S"), args("Qwen/Qwen3-30B-A3B-FP8", kv_cache_dtype="fp8_e5m2")), (gpus("L40S"), args("Qwen/Qwen3-30B-A3B-FP8", kv_cache_dtype="fp8"))),
    Report("vllm-project/vllm PR#43914", "attention-cache-dtype", (A8, args("openai/gpt-oss-20b", kv_cache_dtype="fp8")), (A8, args("openai/gpt-oss-20b"))),
    Report("vllm-project/recipes#565", "attention-cache-dtype", (H200, args(V32, 8, kv_cache_dtype="fp8_e4m3")), (H200, args(V32, 8, kv_cache_dtype="fp8"))),
    Report("vllm-project/vllm#12543", "attention-cache-dtype", (A8, args("Qwen/Qwen3-8B", kv_cache_dtype="fp8", attention_backend="FLASH_ATTN")), (A8, args("Qwen/Qwen3-8B", kv_cache_dtype="fp8"))),
)  # fmt: skip
HYBRID, SUPER = "Qwen/Qwen3.5-27B", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"
MANY = {"max_num_seqs": 1024}  # vLLM's default on H100
STATES = (
    Report("vllm-project/vllm#49064", "cuda-graph-states", (H8, args(HYBRID, max_model_len=131072, **MANY)), (H8, args(HYBRID, max_model_len=131072))),
    Report("vllm-project/recipes PR#551", "cuda-graph-states", (H8, args(HYBRID, quantization="fp8", gpu_memory_utilization=0.95, **MANY)), (H8, args(HYBRID, quantization="fp8", gpu_memory_utilization=0.95, max_num_seqs=512))),
    Report("NVIDIA-AI-Blueprints/retail-shopping-assistant PR#95", "cuda-graph-states", (H8, args(SUPER, 2, **MANY)), (H8, args(SUPER, 2, max_num_seqs=256))),
    Report("kaito-project/kaito#2319", "cuda-graph-states", (A8, args(HYBRID, **MANY)), (A8, args(HYBRID, 2, **MANY))),
    Report("vllm-project/vllm PR#26016", "cuda-graph-sizes", (H8, args("Qwen/Qwen3-8B", compilation_config={"cudagraph_capture_sizes": [1, 2, 4, 8], "max_cudagraph_capture_size": 16})), (H8, args("Qwen/Qwen3-8B", compilation_config={"cudagraph_capture_sizes": [1, 2, 4, 8]}))),
)  # fmt: skip
EXPERTS = {"parallel": {"tensor": 8, "expert": True}}
BALANCED = (
    Report("vllm-project/vllm#30075", "parallel-expert", (H8, one("Qwen/Qwen3-30B-A3B", **EXPERTS, engine_args={"enable_eplb": True, "eplb_config": {"num_redundant_experts": 4}})), (H8, one("Qwen/Qwen3-30B-A3B", **EXPERTS, engine_args={"enable_eplb": True, "eplb_config": {"num_redundant_experts": 8}}))),
)  # fmt: skip
ARGUMENTS = (
    Report("vllm-project/vllm#9398", "engine-arguments", (gpus("L4"), args("Qwen/Qwen3-8B", num_scheduler_steps=8)), (gpus("L4"), args("Qwen/Qwen3-8B"))),
    Report("xorbitsai/inference#2900", "engine-arguments", (gpus("L4"), args("Qwen/Qwen3-8B", guided_decoding_backend="outlines")), (gpus("L4"), args("Qwen/Qwen3-8B", structured_outputs_config={"backend": "outlines"}))),
    Report("vllm-project/vllm#5944", "engine-arguments", (gpus("L4"), args("Qwen/Qwen3-8B", worker_use_ray=True)), (gpus("L4"), args("Qwen/Qwen3-8B", distributed_executor_backend="ray"))),
    Report("verl-project/verl PR#7626", "engine-argument-values", (H8, args("Qwen/Qwen3-8B", max_model_len=32768, max_num_batched_tokens=8192, enable_chunked_prefill=False)), (H8, args("Qwen/Qwen3-8B", max_model_len=32768, max_num_batched_tokens=8192))),
    Report("unslothai/unsloth-zoo#1211", "engine-argument-values", (H8, args("Qwen/Qwen3-8B", max_num_batched_tokens=2048, enable_chunked_prefill=False)), (H8, args("Qwen/Qwen3-8B", max_num_batched_tokens=4096, enable_chunked_prefill=False))),
    Report("decoderesearch/interp-engine PR#2", "model-images", (gpus("L4"), args("google/gemma-3-4b-it", max_num_batched_tokens=128, max_num_seqs=16)), (gpus("L4"), args("google/gemma-3-4b-it", max_num_batched_tokens=2048))),
    Report("ray-project/ray#53795", "model-tools", (gpus("L4"), args("Qwen/Qwen2.5-7B-Instruct", tool_call_parser="hermes")), (gpus("L4"), args("Qwen/Qwen2.5-7B-Instruct", tool_call_parser="hermes", enable_auto_tool_choice=True)), "warning"),
    Report("vllm-project/vllm#29643", "model-tools", (H8, args("openai/gpt-oss-20b", tool_call_parser="deepseek_v3", enable_auto_tool_choice=True)), (H8, args("openai/gpt-oss-20b", tool_call_parser="openai", enable_auto_tool_choice=True)), "warning"),
    Report("vllm-project/vllm#14359", "engine-argument-needs", (gpus("L4"), args("microsoft/Phi-4-mini-instruct", enable_auto_tool_choice=True)), (gpus("L4"), args("microsoft/Phi-4-mini-instruct", enable_auto_tool_choice=True, tool_call_parser="phi4_mini_json"))),
    Report("vllm-project/vllm#19693", "quantisation-method", (gpus("L4"), TOKEN, args(L8, quantization="bitsandbytes")), (gpus("L4"), TOKEN, args(L8, quantization="fp8"))),
    Report("vllm-project/vllm PR#41237", "model-cache-transfer", (model(disaggregation={}, env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),), (model(disaggregation={}),)),
)  # fmt: skip
PLACES = (
    Report("ray-project/ray-llm#129", "accelerator-detected", (gpus("A100-80G"), one("Qwen/Qwen3-8B", accelerator_type="A100-80G")), (gpus("A100-80G"), one("Qwen/Qwen3-8B", accelerator_type="A100"))),
    Report("ray-project/ray-llm#72", "accelerator-name", (one("Qwen/Qwen3-8B", accelerator_type="RTX"),), (one("Qwen/Qwen3-8B", accelerator_type="L4"),)),
    Report("ray-project/ray#51242", "gpu-share-form", (one("Qwen/Qwen2.5-1.5B-Instruct", ray_actor_options={"num_gpus": 1}),), (one("Qwen/Qwen2.5-1.5B-Instruct"),)),
    Report("ray-project/ray PR#62276", "gpu-share-bundles", (one("Qwen/Qwen3-8B", placement={"bundles": [{"CPU": 4}]}),), (one("Qwen/Qwen3-8B", placement={"bundles": [{"CPU": 4, "GPU": 1}]}),)),
    Report("ray-project/kuberay#4366", "parallel-data", (pool(gpus_per_node=2), one("Qwen/Qwen2.5-1.5B-Instruct", engine_args={"max_model_len": 2048, "data_parallel_size": 2})), (pool(gpus_per_node=2), one("Qwen/Qwen2.5-1.5B-Instruct", engine_args={"max_model_len": 2048})), "warning"),
)  # fmt: skip


def cached(connector: str, tensor: int = 1, env: dict[str, str] | None = None, **extra: Any) -> Config:
    """With a cache in the memory of the host."""
    transfer = {"kv_connector": connector, "kv_role": "kv_both", "kv_connector_extra_config": extra}
    return one(
        "Qwen/Qwen2.5-72B-Instruct" if tensor > 1 else "Qwen/Qwen3-8B",
        parallel={"tensor": tensor},
        env=env or {},
        engine_args={"max_model_len": 8192, "kv_transfer_config": transfer},
    )


def lmcache(gigabytes: str, tensor: int) -> Config:
    return cached("LMCacheConnectorV1", tensor, {"LMCACHE_LOCAL_CPU": "True", "LMCACHE_MAX_LOCAL_CPU_SIZE": gigabytes})


GIB = 1 << 30
OFFLOADED = (
    Report("LMCache/LMCache#949", "fit-offload", (gpus("L40S", 8), lmcache("200", 8)), (gpus("L40S", 8), lmcache("20", 8))),
    Report("LMCache/LMCache PR#5127", "fit-offload", (H8, lmcache("512", 8)), (H8, lmcache("24", 8))),
    Report("SemiAnalysisAI/InferenceX#1358", "fit-offload", (H8, cached("SimpleCPUOffloadConnector", 4, cpu_bytes_to_use=2000 * GIB)), (H8, cached("SimpleCPUOffloadConnector", 4, cpu_bytes_to_use=60 * GIB))),
    Report("OffloadingConnector without a size", "cache-offload", (gpus("L40S"), cached("OffloadingConnector")), (gpus("L40S"), cached("OffloadingConnector", cpu_bytes_to_use=8 * GIB))),
    Report("a backend that offloads nothing", "cache-offload", (gpus("L40S"), args("Qwen/Qwen3-8B", kv_offloading_backend="native")), (gpus("L40S"), args("Qwen/Qwen3-8B", kv_offloading_backend="native", kv_offloading_size=8)), "warning"),
)  # fmt: skip
MOE = "Qwen/Qwen3-30B-A3B"
KERNELS = (
    Report("vllm-project/vllm PR#29144", "moe-backend", (H8, args(f"{MOE}-FP8", 2, moe_backend="flashinfer_trtllm")), (gpus("B200", 8), args(f"{MOE}-FP8", 2, moe_backend="flashinfer_trtllm"))),
    Report("flashinfer-ai/flashinfer#1941", "moe-backend", (A8, args(MOE, 2, moe_backend="flashinfer_cutlass")), (H8, args(MOE, 2, moe_backend="flashinfer_cutlass"))),
    Report("Tencent-Hunyuan/HunyuanImage-3.0#77", "moe-backend", (A8, args(MOE, 2, kernel_config={"moe_backend": "flashinfer_cutlass"})), (A8, args(MOE, 2, kernel_config={"moe_backend": "triton"}))),
    Report("kernels for FP8 and weights of 16 bits", "moe-backend", (H8, args(MOE, 2, moe_backend="deep_gemm")), (H8, args(f"{MOE}-FP8", 2, moe_backend="deep_gemm"))),
)  # fmt: skip
MISTRAL = {"tokenizer_mode": "mistral", "config_format": "mistral", "load_format": "mistral"}
FORMS = (
    Report("vllm-project/vllm PR#17132", "model-mistral-files", (gpus("L40S"), args("RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-FP8-dynamic", **MISTRAL)), (gpus("L40S"), args("RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-FP8-dynamic")), "warning"),
    Report("vllm-project/vllm#10534", "model-mistral-files", (gpus("L40S"), args("Qwen/Qwen3-8B", **MISTRAL)), (H8, args("mistralai/Mistral-Small-3.2-24B-Instruct-2506", 2, **MISTRAL))),
    Report("a parser of another family's reasoning", "model-reasoning", (H8, args("openai/gpt-oss-20b", reasoning_parser="deepseek_r1")), (H8, args("openai/gpt-oss-20b", reasoning_parser="openai_gptoss")), "warning"),
    Report("a parser of reasoning that is not written", "model-reasoning", (gpus("L40S"), TOKEN, args(L8, reasoning_parser="deepseek_r1")), (H8, args("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", 4, reasoning_parser="deepseek_r1")), "warning"),
)  # fmt: skip


def pair(prefill: dict[str, Any], **decode: Any) -> Config:
    """Prefill over four GPUs, decode over two."""
    sides = {"prefill_engine_args": {"tensor_parallel_size": 4, **prefill}}
    return one(
        "Qwen/Qwen3-32B", parallel={"tensor": 2}, disaggregation=sides, engine_args={"max_model_len": 8192, **decode}
    )


LIMIT = "alb.ingress.kubernetes.io/load-balancer-attributes"
PATHS = (
    Report("vllm-project/vllm PR#45443", "disaggregation-pair", (H8, pair({"block_size": 32}, block_size=64)), (H8, pair({}, block_size=64))),
    Report("ray-project/ray PR#54127", "endpoint-keep-alive", (chat(expose={"ingress": {"host": "chat.example.com", "annotations": {LIMIT: "idle_timeout.timeout_seconds=3600"}}}),), (chat(expose={"ingress": {"host": "chat.example.com", "timeout_seconds": 3600}}),), "warning", AWS),
)  # fmt: skip


SPREAD = {"decode_context_parallel_size": 2}
WIDE = {"parallel": {"tensor": 8, "pipeline": 2}}


def interface(**env: str) -> Config:
    """An engine over two nodes."""
    return one("Qwen/Qwen3-235B-A22B-Instruct-2507", **WIDE, engine_args={"max_model_len": 8192}, env=env)


SEVERAL = (
    Report("vllm-project/vllm#55158", "model-adapters", (H8, args(MOE, 2, enable_lora=True, max_lora_rank=256)), (H8, args(MOE, 2, enable_lora=True, max_lora_rank=128))),
    Report("vllm-project/vllm PR#43053", "parallel-context", (H8, args("Qwen/Qwen3-8B", 8, **SPREAD, attention_backend="TRITON_ATTN")), (H8, args(MOE, 8, **SPREAD, attention_backend="FLASH_ATTN"))),
    Report("kernels without parts of the prompt", "parallel-context", (H8, args(MOE, 4, prefill_context_parallel_size=2)), (H8, args(MOE, 4))),
    Report("aws-samples/aws-do-eks PR#51", "network-interface", (H8, interface(GLOO_SOCKET_IFNAME="^lo,docker")), (H8, interface(GLOO_SOCKET_IFNAME="eth0"))),
    Report("AMD-AGI/Primus PR#1063", "network-interface", (H8, interface(NCCL_SOCKET_IFNAME="10.0.3.7")), (H8, interface(NCCL_SOCKET_IFNAME="^lo,docker"))),
)  # fmt: skip


def test_engines_that_share_a_cache_of_lmcache_agree_on_its_keys_without_being_told() -> None:
    """LMCache/LMCache#1739: with tensor parallel the hit rate is 0 unless every process hashes alike."""
    engine = ray_facts.read(manifest(H8, lmcache("20", 4), base=EXISTING)).engines[0]
    assert engine.env["PYTHONHASHSEED"] == "0"


@each(
    (
        *OFFLOADED,
        *KERNELS,
        *FORMS,
        *PATHS,
        *SEVERAL,
        *MEMORY,
        *CUTS,
        *SPECULATION,
        *ATTENTION,
        *CACHES,
        *STATES,
        *BALANCED,
        *ARGUMENTS,
        *PLACES,
    )
)
def test_what_was_reported_is_said_and_its_mended_twin_passes(report: Report) -> None:
    report.holds()


def test_prefill_and_decode_of_other_sizes_have_pods_of_their_own_sizes() -> None:
    groups = manifest(H8, pair({}), base=EXISTING)["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    limits = [g["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for g in groups]
    assert [(limit, g["replicas"]) for limit, g in zip(limits, groups, strict=True)] == [("2", 2), ("4", 1)]
