"""Number formats of weights against the GPU: dtype and quantisation by compute capability.

Not for: the KV cache (cache_dtype.py), memory (fit.py), or quantisation groups against parallel sizes (parallelism.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.lookup import closest_names
from policies.catalog.quantizations import (
    BFLOAT16_ONLY,
    BY_NAME,
    DEPRECATED,
    DTYPES,
    NO_FLOAT16,
    ONLINE,
    QUANTIZATION_SETTINGS,
    READS_CHECKPOINT,
    REMOVED,
)
from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, on_gpus, seats, vllm_version
from ._values import before, version

READ_IN = "0.29"  # what vLLM takes was read in this version


def gpu_capability(seat: Seat) -> int | None:
    return seat.gpu.compute_capability[0] * 10 + seat.gpu.compute_capability[1] if seat.gpu else None


def capability_text(capability: int) -> str:
    return f"{capability // 10}.{capability % 10}"


def dtype(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given, where, row = seat.args.get("dtype", "auto"), seat.engine.where, seat.row
        name = str(given).lower()
        if name not in DTYPES:
            yield error(where, f"dtype is {given!r}; allowed: {', '.join(DTYPES)}", "use auto, bfloat16 or float16")
            continue
        float16 = name in ("half", "float16")
        if row is not None and float16 and row.architecture in NO_FLOAT16:
            yield error(
                where,
                f"dtype {name} and {row.name}: vLLM refuses float16 for this architecture, which overflows in it",
                "use bfloat16 on a GPU of compute capability 8.0 or higher (A10G, L4, A100 and newer)",
            )
        stored = row.quantization.method if row is not None and row.quantization else None
        method = str(seat.args.get("quantization") or stored or "")
        if method in BFLOAT16_ONLY and name not in ("auto", "bfloat16"):
            yield error(
                where,
                f"dtype {name} and quantization {method}, which computes in bfloat16 only: vLLM refuses to start",
                "leave dtype out",
            )
        capability = gpu_capability(seat)
        if not seat.on_gpu or capability is None or capability >= 80 or seat.gpu is None:
            continue
        gpu = f"a {seat.gpu.name} has compute capability {capability_text(capability)}"
        if name == "bfloat16":
            yield error(
                where,
                f"dtype bfloat16 needs compute capability 8.0 and {gpu}: vLLM refuses to start",
                "set dtype: half, or use an A10G, L4, A100 or newer",
            )
        elif name == "auto" and row is not None and row.dtype == "bfloat16" and row.architecture in NO_FLOAT16:
            yield warning(
                where,
                f"{row.name} is bfloat16, {gpu} without it, and the architecture does not run in float16: vLLM falls back to float32, twice "
                "the memory",
                "use an A10G, L4, A100 or newer",
            )


def methods(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given = seat.args.get("quantization")
        vllm = version(vllm_version(stack, seat.workload))
        if given is None or vllm is None or vllm < (0, 29):
            continue  # older versions know other methods
        name, where = str(given), seat.engine.where
        if name in DEPRECATED and seat.args.get("allow_deprecated_quantization") is not True:
            yield error(
                where,
                f"quantization {name} is deprecated and refused by vLLM {READ_IN} and newer",
                "use fp8 or compressed-tensors, or set allow_deprecated_quantization: true",
            )
        elif name in REMOVED:
            yield error(
                where,
                f"vLLM {READ_IN} and newer have no quantization {name} of their own",
                "use a checkpoint in awq, gptq, fp8 or compressed-tensors, or an image with the plugin (and switch this rule off)",
            )
        elif name not in BY_NAME:
            near = closest_names(name, BY_NAME, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            yield error(
                where,
                f"quantization '{name}' is none that vLLM {READ_IN} knows",
                f"{hint}allowed: {', '.join(BY_NAME)}",
            )
        elif seat.row is not None:
            yield from _against_checkpoint(seat, name)


def _against_checkpoint(seat: Seat, name: str) -> Iterator[Problem]:
    row = seat.row
    if row is None or seat.engine.source.casefold() != row.name.casefold():
        return  # weights from elsewhere: what is in them is not known here
    stored = row.quantization.method if row.quantization else None
    if stored is None and name not in ONLINE and not any(seat.args.get(other) for other in QUANTIZATION_SETTINGS):
        # a short name (Llama-2-13B) may stand for any checkpoint of the model; a repository of the hub is the one that it names
        named = seat.engine.catalog_id.casefold() == row.name.casefold()
        say = error if named and name in READS_CHECKPOINT else warning
        yield say(
            seat.engine.where,
            f"quantization {name} needs a checkpoint made by it and {row.name} is not quantised",
            f"give the {name} checkpoint as source, or use fp8, which quantises while it loads",
        )
    elif stored is not None and _family(stored) != _family(name) and name not in ONLINE:
        yield warning(
            seat.engine.where,
            f"quantization {name} and the checkpoint of {row.name} is {stored}: vLLM refuses a method that differs from the checkpoint's",
            "leave quantization out: it is read from the checkpoint",
        )


def _family(name: str) -> str:
    for family in ("awq", "gptq", "modelopt", "mxfp4"):
        if family in name:
            return family
    return name


def capability(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        number, gpu, row = gpu_capability(seat), seat.gpu, seat.row
        stored = row.quantization.method if row is not None and row.quantization else None
        method = BY_NAME.get(str(seat.args.get("quantization") or stored or ""))
        if method is None or number is None or gpu is None:
            continue
        where = seat.engine.where
        has = f"a {gpu.name} has compute capability {capability_text(number)}"
        if number < method.minimum:
            yield error(
                where,
                f"quantization {method.name} needs compute capability {capability_text(method.minimum)} and {has}: vLLM refuses to start",
                _other(method.name, number),
            )
        elif (
            method.name.startswith(("fp8", "fbgemm"))
            and number < 80
            and before(vllm_version(stack, seat.workload), "0.14")
        ):
            yield error(
                where,
                f"quantization {method.name} needs compute capability 8.0 in vLLM {vllm_version(stack, seat.workload)} and {has}",
                "use vLLM 0.29, an L4, or awq",
            )
        elif number < method.native:
            yield warning(
                where,
                f"quantization {method.name} runs weight-only on {has.removeprefix('a ').replace(' has', ', which has', 1)}: weights are smaller, "
                f"multiplications are in 16 bits and not faster (native from {capability_text(method.native)})",
                f"expect memory saved and no speed-up, or use a GPU of compute capability {capability_text(method.native)}",
            )


def _other(name: str, number: int) -> str:
    if number >= 60 and "awq" in name:
        return "use a GPTQ checkpoint, or a T4, A10G, L4 or newer GPU"
    if number < 75:
        return "use 16-bit weights (dtype: half) or a GPTQ checkpoint, or a newer GPU"
    return "use an A10G, L4, A100 or newer GPU"


RULES: tuple[Rule, ...] = (
    Rule(
        id="dtype-capability",
        title="The dtype is one the GPU and the model compute with",
        why="BF16 starts at compute capability 8.0: vLLM refuses it on T4 and V100. With dtype auto it falls back to float16, which Gemma 2 and 3 and GLM-4 cannot run in.",
        check=dtype,
        sources=("vllm 0.29.0: platforms/cuda.py check_if_supports_dtype, config/model.py",),
    ),
    Rule(
        id="quantisation-method",
        title="The quantisation method exists and matches the checkpoint",
        why="vLLM knows a fixed list of methods; all but the online ones need a checkpoint that was made by them.",
        check=methods,
        sources=("vllm 0.29.0: layers/quantization/__init__.py",),
    ),
    Rule(
        id="quantisation-capability",
        title="The GPU has kernels for the quantisation",
        why=(
            "Each method has a least compute capability, checked when the engine starts. FP8 and NVFP4 weights also run on older GPUs by unpacking them for each "
            "multiplication (weight-only): memory is saved, time is not."
        ),
        check=capability,
        sources=("vllm#1488", "vllm#4327", "vllm#6979", "vllm 0.29.0: get_min_capability of each method"),
    ),
)
