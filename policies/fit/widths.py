"""How many bytes vLLM stores for a weight or for a cached number, by dtype and quantisation method.

For: weights.py and kv_cache.py. Not for: which GPUs can compute with a type (policies/catalog/gpus.py, rules).
"""

from policies.catalog.models.row import Component, Mla, Model, Quantization
from policies.fit.shape import EngineShape

_DTYPE_BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}

# What a method given as `quantization` for an unquantised model means: (bits of a weight, group, components it leaves).
_PLAIN: tuple[Component, ...] = ("embedding", "lm_head", "vision")
_METHODS: dict[str, tuple[int, int | None, tuple[Component, ...]]] = {
    "awq": (4, 128, _PLAIN),
    "gptq": (4, 128, _PLAIN),
    "moe_wna16": (4, 128, _PLAIN),
    "bitsandbytes": (4, 64, _PLAIN),
    "mxfp4": (4, 32, (*_PLAIN, "attention")),
    "nvfp4": (4, 16, _PLAIN),
    "modelopt_fp4": (4, 16, _PLAIN),
    "mxfp8": (8, 32, _PLAIN),
    "experts_int8": (8, None, (*_PLAIN, "attention", "mlp", "shared_experts")),
}
_EIGHT_BITS = (8, None, _PLAIN)
_UNQUANTIZED = Quantization("none", 16, None, ())


def dtype_bytes(model: Model, shape: EngineShape) -> int:
    """Bytes of an activation and of an unquantised weight."""
    if shape.dtype != "auto":
        return _DTYPE_BYTES.get(shape.dtype, 2)
    return 2  # "auto" serves a float32 model in 16 bits


def quantization_of(model: Model, shape: EngineShape) -> Quantization:
    """How the weights are stored: as the checkpoint has them, else by the method asked for."""
    if model.quantization is not None:
        return model.quantization
    if shape.quantization is None:
        return _UNQUANTIZED
    method = shape.quantization.removesuffix("_marlin").removeprefix("auto_")
    bits, group, kept = _METHODS.get(method, _EIGHT_BITS)
    return Quantization(method, bits, group, kept)


def weight_bytes(component: Component, quantization: Quantization, plain: int) -> float:
    """Bytes of one weight of `component`, its share of scales and zero points included."""
    if quantization is _UNQUANTIZED or component in quantization.unquantized:
        return plain
    bits: float = quantization.weight_bits
    if group := quantization.group_size:
        if bits == 8 and quantization.method != "mxfp8":
            bits += 32 / (group * group)  # a float32 scale for each block of group x group
        elif quantization.method in ("mxfp4", "mxfp8", "nvfp4", "modelopt_fp4"):
            bits += 8 / group
        elif quantization.method in ("awq", "gptq"):
            bits += (16 + 4) / group  # scale and zero point
        else:
            bits += (32 if quantization.method == "bitsandbytes" else 16) / group
    return bits / 8


def kv_head_bytes(head_dim: int, kv_cache_dtype: str, plain: int) -> float:
    """Bytes of one key (or value) vector of one head in the cache.

    Per-token-head types keep a float32 scale beside each vector (vllm/v1/attention/backends/triton_attn.py); NVFP4 an
    FP8 scale for 16 numbers (vllm/utils/torch_utils.py nvfp4_kv_cache_full_dim).
    """
    kind = kv_cache_dtype
    if kind == "auto":
        return head_dim * plain
    if kind == "float32":
        return head_dim * 4
    if kind in ("bfloat16", "float16", "half"):
        return head_dim * 2
    if kind.endswith("per_token_head"):
        return (head_dim / 2 if kind.startswith("int4") else head_dim) + 4
    if kind.startswith("nvfp4"):
        return head_dim / 2 + head_dim / 16
    if kind.startswith("turboquant"):
        bits = 6.0 if "k8v4" in kind else 3.5 if "k3v4" in kind else 3.0 if "3bit" in kind else 4.0
        return head_dim * bits / 8 + 4
    return head_dim  # every fp8 form


def mla_token_bytes(mla: Mla, kv_cache_dtype: str, plain: int) -> int:
    """Bytes of one token in one MLA layer: the latent and the rotary key, and the indexer's key where there is one.

    With an indexer every FP8 type is DeepSeek's packed form of 656 bytes (352 for nvfp4_ds_mla); the indexer caches FP8
    with a float32 scale for 128 numbers (vllm/model_executor/layers/attention/mla_attention.py, deepseek_v2.py).
    """
    width = mla.kv_lora_rank + mla.qk_rope_head_dim
    if kv_cache_dtype == "fp8_ds_mla" or (mla.indexer_heads and kv_cache_dtype.startswith("fp8")):
        latent = 656
    elif kv_cache_dtype == "nvfp4_ds_mla":
        latent = 352
    else:
        latent = round(kv_head_bytes(width, kv_cache_dtype, plain))
    indexer = mla.indexer_head_dim + mla.indexer_head_dim // 128 * 4 if mla.indexer_heads else 0
    return latent + indexer
