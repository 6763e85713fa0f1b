"""Whether an engine fits on its GPUs: memory by what takes it, tokens in the cache, and a verdict with an error band.

For: the plan, rules and advice. Not for: whether the GPU can compute with a type, or parallel sizes that vLLM refuses
(divisible.py).
The sum is vLLM's own (vllm/v1/worker/gpu_worker.py determine_available_memory): cache = gpu_memory_utilization x TOTAL
memory - weights - peak activation - runtime - CUDA graphs.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from policies.catalog.models.row import Model
from policies.fit import activations, kv_cache, weights
from policies.fit.shape import GIB, EngineShape, model_length, pipeline_layers, resolved_batch

Verdict = Literal["fits", "tight", "does_not_fit"]

# A process's CUDA context and what else is on a GPU before vLLM starts; vLLM refuses to start if free < share of total.
_CONTEXT = int(0.6 * GIB)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory of one GPU of an engine, on the pipeline rank that limits it. All sizes are bytes.

    pipeline_rank: the limiting rank. total: what a process sees of the GPU. budget: the part vLLM may use.
    weights, lora, activation, cuda_graphs, runtime: what is taken of the budget. available_kv: what is left of it for
    the cache; negative if the rest does not even fit. kv_per_token: cache growth a token in all of the rank's layers.
    state_per_sequence: state of linear-attention and Mamba layers. block_bytes: one block id in all of the rank's layers.
    required_kv: what one request of max_model_len needs. kv_tokens and max_concurrency: as vLLM logs them, for
    max_model_len tokens a request. largest_max_model_len: the most that fits, at most the model's own maximum.
    error_band: how far available_kv may be off either way. verdict: "fits" with the band to spare, "tight" inside it,
    "does_not_fit" beyond it.
    """

    pipeline_rank: int
    total: int
    budget: int
    weights: int
    lora: int
    activation: int
    cuda_graphs: int
    runtime: int
    available_kv: int
    kv_per_token: int
    state_per_sequence: int
    block_bytes: int
    required_kv: int
    kv_tokens: int
    max_concurrency: float
    max_model_len: int
    largest_max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    error_band: int
    verdict: Verdict

    @property
    def spare(self) -> int:
        """Bytes left after one request of max_model_len; negative by as much as is missing."""
        return self.available_kv - self.required_kv

    def concurrency(self, length: int) -> float:
        """Requests of `length` tokens that the cache holds at once, by bytes a token (windows and states ignored)."""
        return self.available_kv / (self.kv_per_token * length + self.state_per_sequence) if length > 0 else 0.0


@lru_cache(maxsize=8192)
def estimate(
    model: Model, gpu_memory_mib: int, shape: EngineShape, gpu: str = "", capability: tuple[int, int] = (9, 0)
) -> MemoryEstimate:
    """The memory of one engine on GPUs of `gpu_memory_mib` MiB each.

    gpu_memory_mib: what a process sees (Gpu.cuda_memory_mib, MigProfile.memory_mib), not the size sold. gpu: name, which
    decides batch defaults for A100. capability: compute capability, which decides the sizes of CUDA graphs.
    """
    ranks = rank_estimates(model, gpu_memory_mib, shape, gpu, capability)
    return min(ranks, key=lambda rank: (rank.max_concurrency, rank.spare))


def rank_estimates(
    model: Model, gpu_memory_mib: int, shape: EngineShape, gpu: str = "", capability: tuple[int, int] = (9, 0)
) -> tuple[MemoryEstimate, ...]:
    """The memory of each pipeline rank; their cache has as many blocks as the poorest rank's."""
    stages = pipeline_layers(model.layers, shape.pipeline_parallel_size, shape.pipeline_partition)
    total = gpu_memory_mib << 20
    tokens, sequences = resolved_batch(model, shape, gpu_memory_mib, gpu)
    layout = kv_cache.cache_layout(model, shape)
    in_flight = kv_cache.in_flight_tokens(shape, tokens)
    states = kv_cache.states_of_request(shape)
    graphs = activations.cuda_graph_bytes(model, shape, tokens, sequences, capability)
    runtime = activations.runtime_bytes(shape)
    band = activations.error_band(total, shape)
    caching = kv_cache.relevant(shape)
    out = []
    for rank, (first, last) in enumerate(stages):
        weight = weights.stage_weight_bytes(model, shape, first, last) - int(shape.cpu_offload_gb * GIB)
        lora = weights.lora_bytes(model, shape, first, last)
        activation = activations.activation_bytes(model, shape, tokens, sequences, last == model.layers)
        layers_block, per_token, state = kv_cache.stage_bytes(model, caching, first, last)
        if shape.draft_model is not None and last == model.layers:
            weight += weights.stage_weight_bytes(shape.draft_model, shape, 0, shape.draft_model.layers)
        draft = _draft_token_bytes(shape) if last == model.layers else 0
        taken = weight + lora + activation + graphs + runtime
        budget = int(total * shape.gpu_memory_utilization)
        available = budget - taken
        if shape.kv_cache_memory_bytes is not None:
            # vLLM believes the figure and fails later if the GPU is too small; what must fit then is the whole.
            available = min(shape.kv_cache_memory_bytes, total - _CONTEXT - taken)
        length = model_length(model, shape)
        block = layers_block + int(draft * shape.block_size) if layout else 0
        blocks = max(0, available) // block if block else 0
        usable = max(0, blocks - 1)  # vLLM keeps one block as the null block
        dcp = shape.decode_context_parallel_size
        largest = model.max_position_embeddings
        if layout and block:
            largest = kv_cache.largest_length(layout, usable, in_flight, states, -(-largest // dcp), tokens) * dcp
            largest = min(largest, model.max_position_embeddings)
        if shape.max_model_len == "auto":
            length = max(1, largest)
        needed = layout.request_blocks(-(-length // dcp), in_flight, states, tokens) if layout else 0
        required = (needed + 1) * block if layout and block else 0
        concurrency = blocks / needed if needed else float(sequences)
        # With "auto" vLLM takes the length from the memory: what must fit is the least that a request takes.
        spare = available - (2 * block if shape.max_model_len == "auto" else required)
        out.append(
            MemoryEstimate(
                pipeline_rank=rank,
                total=total,
                budget=budget,
                weights=weight,
                lora=lora,
                activation=activation,
                cuda_graphs=graphs,
                runtime=runtime,
                available_kv=available,
                kv_per_token=int(per_token + draft),
                state_per_sequence=state,
                block_bytes=block,
                required_kv=required,
                kv_tokens=int(concurrency * length) if needed else 0,
                max_concurrency=concurrency,
                max_model_len=length,
                largest_max_model_len=largest,
                max_num_batched_tokens=tokens,
                max_num_seqs=sequences,
                error_band=band,
                verdict="does_not_fit" if spare <= -band else "tight" if spare < band else "fits",
            )
        )
    return tuple(out)


def largest_utilization(gpu_memory_mib: int) -> float:
    """The highest gpu_memory_utilization with which vLLM starts on an otherwise empty GPU, to two places.

    A start fails if free memory is below the share of the total; a CUDA context alone takes about 0.6 GiB.
    """
    total = gpu_memory_mib << 20
    return int(100 * (total - _CONTEXT) / total) / 100


def _draft_token_bytes(shape: EngineShape) -> float:
    draft = shape.draft_model
    if draft is None:
        return 0
    return sum(kv_cache.token_bytes(draft, shape, draft.kind(layer)) for layer in range(draft.layers))
