"""Attention backends of vLLM: on which GPUs each runs, for which kind of attention, and which KV caches it reads.

For: rules on attention and the KV cache, and advice. Not for: which one vLLM chooses among those that are left.
Source: vllm 0.29.0, v1/attention/backends: supports_compute_capability, supports_sink, supports_mm_prefix and
supported_kv_cache_dtypes of each; Triton's FP8 by __init__ of its implementations.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.catalog.models.row import Model


@dataclass(frozen=True, slots=True)
class Backend:
    """`majors`: major compute capabilities it runs on. `sinks`: those on which it takes attention sinks (gpt-oss).

    caches: values of kv_cache_dtype. fp8: compute capabilities (x10) with which it takes those of FP8. prefix: whether
    tokens of an image may look at each other (Gemma 3).
    """

    majors: tuple[int, ...]
    mla: bool = False
    sparse: bool = False
    sinks: tuple[int, ...] = ()
    caches: tuple[str, ...] = ()
    fp8: range = range(75, 200)
    prefix: bool = False

    def reads(self, cache: str, capability: tuple[int, int]) -> bool:
        """Whether it reads a cache of kv_cache_dtype `cache` there."""
        number = capability[0] * 10 + capability[1]
        if cache == "bfloat16" and number < 80:
            return False
        return cache in self.caches and (not cache.startswith("fp8") or number in self.fp8)


_ANY, _AMPERE = (7, 8, 9, 10, 11, 12), (8, 9, 10, 11, 12)
_PLAIN = ("auto", "float16", "bfloat16")
_FP8 = (*_PLAIN, "fp8", "fp8_e4m3")
_PER_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
_TURBO = ("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc")
_NATIVE = range(89, 200)  # Triton has no FP8 (e4m3) below 8.9
BACKENDS: dict[str, Backend] = {
    "CUTLASS_MLA": Backend((10,), mla=True, caches=_FP8),
    "FLASHINFER": Backend(_AMPERE, sinks=(10, 12), caches=(*_FP8, "fp8_e5m2", "nvfp4", "nvfp4_4over6")),
    "FLASHINFER_MLA": Backend((10,), mla=True, caches=_FP8),
    "FLASHINFER_MLA_SPARSE": Backend((10,), mla=True, sparse=True, caches=_FP8),
    "FLASHINFER_MLA_SPARSE_SM120": Backend(
        (12,), mla=True, sparse=True, caches=("auto", "fp8", "fp8_e4m3", "fp8_ds_mla")
    ),
    "FLASHMLA": Backend((9, 10), mla=True, caches=_FP8),
    "FLASHMLA_SPARSE": Backend((9, 10), mla=True, sparse=True, caches=("auto", "bfloat16", "fp8", "fp8_ds_mla")),
    "FLASH_ATTN": Backend(_AMPERE, sinks=(9, 10), caches=_FP8, fp8=range(90, 110), prefix=True),
    "FLASH_ATTN_MLA": Backend((9,), mla=True, caches=_PLAIN),
    "FLASH_ATTN_MLA_SPARSE": Backend((9,), mla=True, sparse=True, caches=_PLAIN),
    "FLEX_ATTENTION": Backend(_ANY, caches=_PLAIN, prefix=True),
    "TOKENSPEED_MLA": Backend((10,), mla=True, caches=("fp8", "fp8_e4m3")),
    "TRITON_ATTN": Backend(_ANY, sinks=_ANY, caches=(*_FP8, "fp8_e5m2", *_PER_HEAD), fp8=_NATIVE, prefix=True),
    "TRITON_MLA": Backend(_ANY, mla=True, caches=_FP8, fp8=_NATIVE),
    "TURBOQUANT": Backend(_AMPERE, caches=_TURBO),
}
# can_return_lse_for_decode: what decode context parallel puts parts of the cache together by.
PARTS_BY_LSE: frozenset[str] = frozenset((
    "CUTLASS_MLA", "FLASHINFER", "FLASHINFER_MLA", "FLASHINFER_MLA_SPARSE", "FLASHMLA", "FLASHMLA_SPARSE", "FLASH_ATTN", "FLASH_ATTN_MLA", "TOKENSPEED_MLA",
    "TRITON_MLA",
))  # fmt: skip

# Known names that are not judged: of one model family, of the vision tower, or of a plugin.
NOT_JUDGED: tuple[str, ...] = (
    "CUSTOM",
    "CUTLASS_MSA",
    "FLASHINFER_MLA_SPARSE_DSV4",
    "FLASHMLA_SPARSE_DSV4",
    "FLASH_ATTN_DIFFKV",
    "HPC_ATTN",
    "MINIMAX_M3_SPARSE",
    "NO_ATTENTION",
    "TORCH_SDPA",
    "TRITON_ATTN_DIFFKV",
    "TRITON_MSA",
)
WITH_SINKS = "GptOssForCausalLM"
WITH_PREFIX = "Gemma3ForConditionalGeneration"


def fitting(
    model: Model | None, capability: tuple[int, int], *, latent: bool = True, images: bool = True
) -> dict[str, Backend]:
    """The backends that run there and have the model's kind of attention; of a model that is not known, all that run.

    latent, images: latent attention (MLA) and images are not switched off.
    """
    if model is None:
        return {name: each for name, each in BACKENDS.items() if capability[0] in each.majors}
    mla = latent and model.mla is not None
    sparse = mla and model.mla is not None and model.mla.indexer_heads > 0
    return {
        name: each
        for name, each in BACKENDS.items()
        if capability[0] in each.majors
        and (each.mla, each.sparse) == (mla, sparse)
        and (model.architecture != WITH_SINKS or capability[0] in each.sinks)
        and (not images or model.architecture != WITH_PREFIX or each.prefix)
    }


def readable(model: Model | None, cache: str, capability: tuple[int, int]) -> bool:
    """Whether any of them reads a KV cache of kv_cache_dtype `cache`."""
    return any(each.reads(cache, capability) for each in fitting(model, capability).values())
