"""Figures that vLLM logged in real runs on GPUs, as published, for judging the estimate. Not a test.

Each has its address, date, vLLM version, GPU total and the arguments that were not defaults. Versions before 0.21 did not
set memory aside for CUDA graphs, so those runs are estimated as eager. Runs of 0.11 and older are judged on weights and
on tokens alone: their sampler sorted all logits (three times the memory of today's) and NCCL's buffers came out of the
budget.
"""

from dataclasses import dataclass

from policies.fit import EngineShape


@dataclass(frozen=True, slots=True)
class Run:
    """One run. total_gib: of one GPU, as a process sees it. weights_gib, available_gib, tokens: as logged, None where not
    published. capability: of the GPU. rank: pipeline rank the figures belong to."""

    url: str
    date: str
    version: str
    model: str
    gpu: str
    total_gib: float
    capability: tuple[int, int]
    shape: EngineShape
    weights_gib: float | None = None
    available_gib: float | None = None
    rank: int = 0


RUNS: tuple[Run, ...] = (
    Run(
        "https://myoceane.fr/index.php/ai-vllm-a100-gemma-4/",
        "2026-04-18",
        "0.19.0",
        "openai/gpt-oss-20b",
        "A100-80G",
        79.25,
        (8, 0),
        EngineShape(gpu_memory_utilization=0.65, max_model_len=131072, enforce_eager=True),
        weights_gib=13.72,
        available_gib=36.56,
    ),
    Run(
        "https://myoceane.fr/index.php/ai-vllm-a100-gemma-4/",
        "2026-04-17",
        "0.19.0",
        "google/gemma-4-26B-A4B",
        "A100-80G",
        79.25,
        (8, 0),
        EngineShape(gpu_memory_utilization=0.9, max_model_len=131072, enforce_eager=True),
        weights_gib=48.5,
        available_gib=21.5,
    ),
    Run(
        "https://github.com/vllm-project/vllm/pull/51590",
        "2026-09-21",
        "0.28.0",
        "openai/gpt-oss-120b",
        "RTX-PRO-4500",
        31.38,
        (12, 0),
        EngineShape(tensor_parallel_size=8, gpu_memory_utilization=0.95, max_num_seqs=256),
        available_gib=19.0,
    ),
    Run(
        "https://github.com/vllm-project/vllm/issues/34076",
        "2026-02-08",
        "0.15.2rc1",
        "Qwen/Qwen3-30B-A3B-FP8",
        "RTX 5070 Ti",
        15.47,
        (12, 0),
        EngineShape(
            pipeline_parallel_size=2,
            pipeline_partition=(16, 32),
            gpu_memory_utilization=0.9,
            max_model_len=262144,
            enforce_eager=True,
        ),
        available_gib=3.18,
    ),
    Run(
        "https://github.com/vllm-project/vllm/pull/17122",
        "2025-04-24",
        "0.8.5",
        "meta-llama/Llama-3.1-8B-Instruct",
        "L40S",
        44.39,
        (8, 9),
        EngineShape(max_model_len=32768),
        weights_gib=14.9889,
    ),
    Run(
        "https://github.com/vllm-project/vllm/pull/12569",
        "2025-01-30",
        "0.7.0",
        "meta-llama/Llama-3.1-70B-Instruct",
        "H100",
        79.1,
        (9, 0),
        EngineShape(quantization="compressed-tensors", gpu_memory_utilization=0.98, max_model_len=2048),
        weights_gib=67.7229,
    ),
    Run(
        "https://github.com/vllm-project/vllm/issues/13061",
        "2025-02-11",
        "0.7.2",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
        "RTX 4090",
        23.55,
        (8, 9),
        EngineShape(tensor_parallel_size=2, gpu_memory_utilization=0.98),
        weights_gib=13.9476,
    ),
    Run(
        "https://github.com/vllm-project/vllm/pull/10511",
        "2024-12-14",
        "0.6.5",
        "meta-llama/Meta-Llama-3-8B-Instruct",
        "H100",
        79.22,
        (9, 0),
        EngineShape(tensor_parallel_size=2),
        weights_gib=7.48,
    ),
)


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of known size and the tokens that vLLM said it holds: judged without any estimate of memory."""

    url: str
    date: str
    model: str
    available_gib: float
    shape: EngineShape
    tokens: int
    concurrency: float | None


CACHES: tuple[Cache, ...] = (
    Cache(
        "https://github.com/LMCache/LMCache/issues/1739",
        "2025-10-03",
        "Qwen/Qwen3-14B",
        6.51,
        EngineShape(max_model_len=32768),
        42656,
        1.30,
    ),
    Cache(
        "https://github.com/vllm-project/recipes/blob/main/moonshotai/Kimi-K2-Think.md",
        "2025-11-06",
        "moonshotai/Kimi-K2-Instruct",
        46.80,
        EngineShape(tensor_parallel_size=8, max_model_len=131072),
        715072,
        None,
    ),
    Cache(
        "https://github.com/vllm-project/recipes/blob/main/moonshotai/Kimi-K2-Think.md",
        "2025-11-06",
        "moonshotai/Kimi-K2-Instruct",
        46.80,
        EngineShape(tensor_parallel_size=8, decode_context_parallel_size=8, max_model_len=131072),
        5721088,
        None,
    ),
    Cache(
        "https://github.com/noonghunna/club-3090/issues/612",
        "2026-07-06",
        "Qwen/Qwen3.6-35B-A3B",
        5.98,
        EngineShape(kv_cache_dtype="fp8", max_model_len=131072, max_num_seqs=1, max_num_batched_tokens=8192),
        567978,
        4.33,
    ),
    Cache(
        "https://github.com/noonghunna/club-3090/issues/652",
        "2026-07-09",
        "Qwen/Qwen3.6-35B-A3B",
        6.01,
        EngineShape(kv_cache_dtype="fp8", max_model_len=131072, max_num_seqs=1, max_num_batched_tokens=8192),
        569878,
        4.35,
    ),
)

# Profiled activation and CUDA graphs of a 64-layer hybrid with vision (Qwen3.6-27B) on an RTX 5090, by batch size:
# (max_num_batched_tokens, activation GiB, graphs GiB). vllm issue 52872, 2026-08-19.
ACTIVATIONS = ((8192, 2.84, 0.89), (4096, 2.42, 0.52), (3072, 2.32, 0.52), (2048, 2.21, 0.52))
