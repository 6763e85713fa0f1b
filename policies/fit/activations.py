"""Memory beside weights and cache: the profile run's peak, CUDA graphs, and what the runtime takes.

For: estimate.py. vLLM measures these at start-up by running the model on max_num_batched_tokens dummy tokens and sampling
for max_num_seqs sequences; here they are computed from the shapes of the tensors that are alive at the peak.
Not for: anything exact. `error_band` says how far the sum has been from published logs (tests/policies/fit/logs.py).
"""

from policies.catalog.models.row import Model
from policies.fit.shape import GIB, EngineShape
from policies.fit.widths import dtype_bytes

_MIB = 1 << 20

# Bytes alive for one logit when the sampler runs: 16-bit logits, float32 copy, probabilities and scratch of top-k/top-p.
_LOGIT_BYTES = 12
# What kernels, cuBLAS and attention workspaces take on one GPU (0.3 to 0.7 GiB in logs), and buffers of NCCL and the
# custom all-reduce once GPUs talk to one another.
_RUNTIME = int(0.45 * GIB)
_RUNTIME_PARALLEL = int(0.25 * GIB)
# 0.44 GiB for 51 graphs and 0.73 GiB for 86 in logs (vllm PR 48214, PR 39559).
_GRAPH_BYTES = int(8.5 * _MIB)


def error_band(gpu_memory_bytes: int, shape: EngineShape) -> int:
    """How far the estimate of free cache memory may be off, in bytes, either way.

    0.6 GiB and 2 % of the GPU: covers every published log of 0.15 to 0.28 that the tests cite. Twice that with expert or
    data parallelism, whose buffers depend on the all-to-all backend and whose graphs vLLM over-deducts (vllm issue 45178).
    """
    band = int(0.6 * GIB + 0.02 * gpu_memory_bytes)
    return 2 * band if shape.enable_expert_parallel or shape.data_parallel_size > 1 else band


def activation_bytes(model: Model, shape: EngineShape, tokens: int, sequences: int, last_stage: bool) -> int:
    """Peak of the profile run on one GPU: one layer's tensors for `tokens`, then the sampler's for `sequences`."""
    tp = shape.tensor_parallel_size
    width = dtype_bytes(model, shape)
    hidden = model.hidden_size
    residual = 2 * tokens * hidden * width
    queries = model.attention_heads * (model.full_head_dim or model.head_dim)
    keys = 2 * max(1, model.kv_heads // tp) * (model.full_head_dim or model.head_dim)
    attention = tokens * (2 * queries / tp + keys) * width
    mlp = tokens * (model.mlp_matrices * model.intermediate_size / tp + hidden) * width
    layer = max(attention, mlp if not model.moe or model.moe.first_layer or model.moe.beside_dense else 0)
    if model.moe:
        moe = model.moe
        split = 1 if shape.enable_expert_parallel else tp * shape.data_parallel_size
        up = (model.mlp_matrices - 1) * moe.intermediate_size / split
        cache = max(up, hidden) + moe.intermediate_size / split  # fused_moe: caches 1 and 3 share memory, 2 is beside
        layer = max(layer, tokens * (moe.active * cache + 2 * hidden) * width)
    if model.linear_attention:
        la = model.linear_attention
        mixed = 2 * la.key_heads * la.key_head_dim + 3 * la.value_heads * la.value_head_dim
        layer = max(layer, tokens * 2 * mixed / tp * width)
    if model.mamba:
        layer = max(layer, tokens * 6 * model.mamba.heads * model.mamba.head_dim / tp * width)
    peak = layer
    if last_stage and not model.encoder_only and model.task in ("chat", "transcribe"):
        peak = max(peak, min(sequences, tokens) * model.vocab_size * _LOGIT_BYTES)
    return int(residual + peak + _multimodal_bytes(model, shape, tokens))


def _multimodal_bytes(model: Model, shape: EngineShape, tokens: int) -> int:
    """Encoder run and encoder cache: embeddings of one item of the largest size, and the tower's own activations."""
    largest = model.encoder.positions if model.encoder else model.image_tokens if model.vision_parameters else 0
    if not largest or shape.mm_items == 0:
        return 0
    items = max(1, min(shape.mm_items, tokens // largest))
    # A tower's activations for an item are about eight times its output: patches before merging, and an MLP of 4x.
    return items * largest * model.hidden_size * 2 * 9


def cuda_graph_bytes(model: Model, shape: EngineShape, tokens: int, sequences: int, capability: tuple[int, int]) -> int:
    """What vLLM sets aside for CUDA graphs (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS, on since 0.21).

    Captured sizes by vLLM's rule: 1, 2, 4, multiples of 8 to 256, then of 16, to twice max_num_seqs and at most 512 (1024
    on compute capability 10). Mixed batches get one graph a size, decode batches one more.
    """
    if shape.enforce_eager:
        return 0
    query = 1 + shape.num_speculative_tokens
    largest = min(sequences * query * 2, 1024 if capability[0] == 10 else 512, tokens)
    graphs = _sizes(largest)
    if not model.encoder_only:
        graphs += _sizes(min(largest, sequences * query))
    return graphs * _GRAPH_BYTES


def _sizes(largest: int) -> int:
    small = sum(size <= largest for size in (1, 2, 4))
    return small + len(range(8, min(largest + 1, 256), 8)) + len(range(256, largest + 1, 16))


def runtime_bytes(shape: EngineShape) -> int:
    """Memory outside PyTorch's allocator that start-up adds on one GPU."""
    return _RUNTIME + (_RUNTIME_PARALLEL if shape.gpus > 1 else 0)
