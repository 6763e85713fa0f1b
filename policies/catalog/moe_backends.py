"""Kernels of expert layers (moe_backend): on which GPUs each runs, and for which weights vLLM has it.

For: the rule about them (rules/moe_kernels.py). Not for: which one vLLM chooses by itself.
Source: vllm 0.29.0 and 0.32, model_executor/layers/fused_moe/oracle (the mappings of moe_backend for each format) and
experts/*.py (_supports_current_device of each kernel).
"""

from __future__ import annotations

# Major compute capabilities; a backend that is not here runs on all, or is not judged.
MAJORS: dict[str, tuple[int, ...]] = {
    "b12x": (12,),
    "cutlass": (9, 10, 11, 12),
    "deep_gemm": (9, 10, 12),
    "deep_gemm_mega_moe": (10,),
    "flashinfer_b12x": (12,),
    "flashinfer_cutedsl": (10,),
    "flashinfer_cutlass": (9, 10, 12),
    "flashinfer_moe_ep_cutedsl": (10,),
    "flashinfer_moe_ep_mega_cutedsl": (10,),
    "flashinfer_moe_ep_mega_deep_gemm": (10,),
    "flashinfer_trtllm": (10,),
}
OTHER_MAKERS: tuple[str, ...] = ("aiter", "aiter_mega_moe", "aiter_triton_mxfp4_bf16", "flydsl", "rdna3")  # AMD's
# Backends by the format of the experts' weights.
FORMATS: dict[str, tuple[str, ...]] = {
    "16 bit": ("auto", "batched_triton", "flashinfer_cutlass", "flashinfer_trtllm", "triton"),
    "fp8": ("auto", "cutlass", "deep_gemm", "flashinfer_cutlass", "flashinfer_trtllm", "hpc", "humming", "marlin", "triton"),
}  # fmt: skip
