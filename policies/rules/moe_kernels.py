"""Kernels of expert layers that an engine is told to use: on GPUs that they run on, for weights that they read.

Not for: how experts are spread over GPUs (parallelism.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.moe_backends import FORMATS, MAJORS, OTHER_MAKERS
from policies.facts import Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, on_gpus
from ._values import a, listed
from .engine_values import as_read

_ONLINE = ("fp8", "fp8_per_block", "fp8_per_channel", "fp8_per_tensor")


def _format(seat: Seat) -> str | None:
    """Format of the experts' weights, where it is one of those that are judged."""
    asked = seat.args.get("quantization")
    if seat.row is None or (asked is not None and asked not in _ONLINE):
        return None
    method = seat.row.quantization.method if seat.row.quantization else asked
    return "16 bit" if method is None else "fp8" if method in _ONLINE else None


def kernels(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        name = seat.args.get("moe_backend") or mapping(seat.args.get("kernel_config")).get("moe_backend")
        if not isinstance(name, str) or seat.row is None or seat.row.moe is None:
            continue
        say = error if as_read(stack, seat) else warning
        if name in OTHER_MAKERS:
            yield say(seat.engine.where, f"moe_backend {name} is for AMD's GPUs: vLLM refuses to start", "leave it out")
            continue
        majors, gpu = MAJORS.get(name), seat.gpu
        if majors is not None and gpu is not None and gpu.compute_capability[0] not in majors:
            yield say(
                seat.engine.where,
                f"moe_backend {name} has no kernels for {a(gpu.name)} (compute capability {'.'.join(map(str, gpu.compute_capability))}; it runs on "
                f"{listed(f'{major}.x' for major in majors)}): vLLM refuses to start",
                "leave it out: vLLM takes what the GPU has",
            )
            continue
        kind = _format(seat)
        if (
            kind is not None
            and name not in FORMATS[kind]
            and name in {each for known in (MAJORS, FORMATS["fp8"]) for each in known}
        ):
            yield say(
                seat.engine.where,
                f"moe_backend {name} and {kind} experts of {seat.row.name}: vLLM has no such kernel and refuses to start",
                f"leave it out, or use one of {', '.join(FORMATS[kind][1:])}",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="moe-backend",
        title="Expert kernels run on the GPU and read the weights",
        why=(
            "A moe_backend that is named is used or refused, never replaced. Most are made for one generation of GPUs: TensorRT-LLM's and CuteDSL's for Blackwell, DeepGEMM's and "
            "CUTLASS' from Hopper, none of FlashInfer's for Ampere and Ada."
        ),
        check=kernels,
        sources=(
            "vllm PR#29144",
            "flashinfer-ai/flashinfer#1941",
            "NVIDIA/TensorRT-LLM PR#7101",
            "vllm 0.29.0: fused_moe/oracle, fused_moe/experts",
        ),
    ),
)
