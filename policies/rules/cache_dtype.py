"""The number format of the KV cache, and GPUs that current builds have no kernels for.

Not for: dtype and quantisation of weights (dtype_quantisation.py), or attention kernels (attention.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.lookup import closest_names
from policies.catalog.quantizations import (
    CACHE_DTYPES,
)
from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._engines import on_gpus, seats, vllm_version
from ._values import before, version
from .dtype_quantisation import READ_IN, capability_text, gpu_capability

_PLAIN = ("auto", "bfloat16", "float16")


def cache_dtype(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given = seat.args.get("kv_cache_dtype")
        if given is None:
            continue
        name, where = str(given), seat.engine.where
        vllm = version(vllm_version(stack, seat.workload))
        if name not in CACHE_DTYPES and vllm is not None and vllm >= (0, 29):
            near = closest_names(name, CACHE_DTYPES, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            yield error(
                where,
                f"kv_cache_dtype '{name}' is none that vLLM {READ_IN} knows",
                f"{hint}allowed: {', '.join(CACHE_DTYPES)}",
            )
            continue
        if name.startswith("nvfp4") and seat.row is not None and seat.row.mla is not None:
            yield error(
                where,
                f"kv_cache_dtype {name} and {seat.row.name}, whose cache is latent (MLA): vLLM refuses to start",
                "use fp8 or auto",
            )
            continue
        encodes = seat.row is not None and (seat.row.encoder_only or seat.row.encoder is not None)
        if encodes and seat.row is not None and name not in _PLAIN:
            yield error(
                where,
                f"kv_cache_dtype {name} and {seat.row.name}, which has an encoder: attention of encoders takes no quantised keys and values, and the first batch fails",
                "leave it out",
            )
            continue
        number, gpu = gpu_capability(seat), seat.gpu
        if number is None or gpu is None:
            continue
        has = f"a {gpu.name} has {capability_text(number)}"
        if name.startswith("nvfp4") and number // 10 != 10:
            yield error(
                where, f"kv_cache_dtype {name} needs compute capability 10.x (B200, B300) and {has}", "use fp8 or auto"
            )
        elif name == "bfloat16" and number < 80:
            yield error(where, f"kv_cache_dtype bfloat16 needs compute capability 8.0 and {has}", "use auto or float16")
        elif name.startswith("fp8") and number < 75:
            yield error(
                where,
                f"kv_cache_dtype {name} has no attention kernel below compute capability 7.5 and {has}",
                "use auto",
            )
        elif name.startswith("fp8") and number < 80 and before(vllm_version(stack, seat.workload), "0.29"):
            yield warning(
                where,
                f"kv_cache_dtype {name} on compute capability {capability_text(number)} works with the FlashInfer attention backend only",
                "use auto, or a GPU of compute capability 8.0 or higher",
            )


def old_gpus(stack: Stack) -> Iterator[Problem]:
    """GPUs that current builds have no kernels for."""
    for seat in on_gpus(stack):
        number, gpu = gpu_capability(seat), seat.gpu
        if number is None or gpu is None or number >= 75:
            continue
        cuda = version(seat.workload.cuda_version or stack.versions.cuda)
        has = f"a {gpu.name} has compute capability {capability_text(number)}"
        if cuda is not None and cuda >= (13,):
            yield warning(
                seat.engine.where,
                f"CUDA 13 and PyTorch built with it have no code below compute capability 7.5 and {has}: such an image fails at the first kernel",
                'use a T4, A10G, L4 or newer GPU, or an image built with CUDA 12.6 for this GPU (versions.cuda: "12.6")',
            )
        elif seat.args.get("enable_chunked_prefill") is not False:
            yield warning(
                seat.engine.where,
                f"chunked prefill is on by default and its Triton kernels fail on compute capability {capability_text(number)} ({gpu.name})",
                "set enable_chunked_prefill: false, or use an A10G, L4, A100 or newer",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kv-cache-dtype",
        title="The KV cache dtype exists and the GPU has attention kernels for it",
        why="FP8 caches are storage only on A100 and work there; NVFP4 caches need Blackwell's kernels, BF16 compute capability 8.0.",
        check=cache_dtype,
        sources=("vllm#3965", "vllm#55048", "vllm 0.29.0: config/cache.py, v1/attention/backends"),
    ),
    Rule(
        id="gpu-too-old",
        title="Current builds have kernels for the GPU",
        why=(
            "CUDA 13 dropped Volta: wheels and images built with it start at compute capability 7.5. On images of CUDA 12 the Triton kernels of chunked prefill still fail "
            "on V100. What the image was built with decides, so this is a warning."
        ),
        check=old_gpus,
        sources=("ray#52377", "vllm PR#39878"),
    ),
)
