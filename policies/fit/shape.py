"""The engine arguments that decide memory, in vLLM's own names, and the defaults vLLM gives them.

For: every estimate in this package. Not for: engine arguments in general (serve_apps checks those against vLLM).
"""

from dataclasses import dataclass
from typing import Literal

from policies.catalog.models.row import Model

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class EngineShape:
    """The engine arguments of one engine that decide its memory. Defaults are vLLM's (0.29 to 0.33).

    dtype: "auto" is the model's own (16 bits for a float32 model). quantization: None takes the checkpoint as it is; a
    method on an unquantised model means the sibling checkpoint of that method ("awq", "gptq") or quantising at load
    ("fp8"). max_model_len: None is the model's own maximum, "auto" (vLLM: -1) the most that fits.
    max_num_seqs, max_num_batched_tokens: None takes vLLM's default for the GPU (see `batch_defaults`).
    lora_slots: max_loras of an engine with LoRA, 0 without. draft_model: of speculative decoding, with
    num_speculative_tokens. cpu_offload_gb: GiB of weights a GPU that are kept in host memory.
    kv_cache_memory_bytes: overrides gpu_memory_utilization. mm_items: most images a prompt may hold, 0 for none.
    pipeline_partition: VLLM_PP_LAYER_PARTITION, layers of each pipeline rank. hybrid_cache: layers with a window keep no
    more than it; without vLLM's hybrid KV cache manager every layer keeps all tokens.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    decode_context_parallel_size: int = 1
    dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    max_model_len: int | Literal["auto"] | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool = False
    enable_prefix_caching: bool = True
    gpu_memory_utilization: float = 0.92
    block_size: int = 16
    lora_slots: int = 0
    lora_rank: int = 16
    draft_model: Model | None = None
    num_speculative_tokens: int = 0
    cpu_offload_gb: float = 0.0
    kv_cache_memory_bytes: int | None = None
    mm_items: int = 1
    pipeline_partition: tuple[int, ...] = ()
    hybrid_cache: bool = True

    @property
    def gpus(self) -> int:
        """GPUs of one engine with all its data-parallel ranks."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size


def batch_defaults(gpu_memory_mib: int, gpu: str = "") -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) that vLLM's API server takes on a GPU (EngineArgs.get_batch_defaults).

    A100 is named, not measured: it has the memory for the larger defaults and does not get them (vllm PR 17885).
    """
    if gpu_memory_mib >= 160 * 1024:
        return 16384, 1024
    if gpu_memory_mib >= 70 * 1024 and "A100" not in gpu.upper():
        return 8192, 1024
    return 2048, 256


def resolved_batch(model: Model, shape: EngineShape, gpu_memory_mib: int, gpu: str = "") -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) after vLLM's adjustments to the defaults."""
    tokens, seqs = batch_defaults(gpu_memory_mib, gpu)
    sequences = shape.max_num_seqs if shape.max_num_seqs is not None else seqs
    if shape.max_num_batched_tokens is not None:
        tokens = shape.max_num_batched_tokens
    else:
        tokens = min(tokens, sequences * model_length(model, shape))
    if shape.max_num_seqs is None:
        sequences = min(sequences, tokens)
    return tokens, sequences


def model_length(model: Model, shape: EngineShape) -> int:
    """max_model_len as far as it is known before memory is: "auto" counts as the model's maximum."""
    asked = shape.max_model_len
    return max(1, asked) if isinstance(asked, int) else model.max_position_embeddings


def pipeline_layers(layers: int, stages: int, partition: tuple[int, ...] = ()) -> tuple[tuple[int, int], ...]:
    """(first layer, one past the last) of each pipeline rank, by vLLM's rule (vllm/distributed/utils.py get_pp_indices).

    What does not divide evenly goes to the ranks before the last, one layer each, from the back. A partition that does
    not add up is ignored here: `divisibility` reports it.
    """
    if len(partition) == stages and sum(partition) == layers:
        counts = list(partition)
    else:
        counts = [layers // stages] * stages
        for i in range(2, layers % stages + 2):
            counts[-i] += 1
    ends, total = [], 0
    for count in counts:
        ends.append((total, total + count))
        total += count
    return tuple(ends)
