"""Parallel sizes against the model: what vLLM can cut and what it cannot, with the values that work.

Not for: whether pods and nodes hold the result (topology.py), or memory (fit.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.architectures import NO_PIPELINE
from policies.facts import Stack
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error, warning
from policies.fit import divisible

from ._engines import RAY_KINDS, Seat, literal_env, positive, seats, vllm_version
from ._values import a, before

# fused_moe/oracle/fp8.py refine_fp8_moe_block_shape: in 0.29.0, not in what was reported of 0.28 (vllm#54178).
_FINER_SINCE = "0.29"
_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def numbers(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        for name in _SIZES:
            given = seat.args.get(name)
            if seat.ray and isinstance(given, str) and positive(given) is not None:
                yield error(
                    seat.engine.where,
                    f"{name} is the text '{given}'; Ray multiplies it with the other sizes before vLLM reads it, and the replica never starts",
                    f"write the number without quotes: {given}",
                )
            elif given is not None and positive(given) is None:
                yield error(
                    seat.engine.where, f"{name} is {given!r}; allowed: a whole number from 1", "give a number of GPUs"
                )


def tensor(stack: Stack) -> Iterator[Problem]:
    for seat, found in _refused(stack):
        if found.argument == "tensor_parallel_size":
            yield error(
                seat.engine.where,
                f"tensor parallel {found.given} does not suit {found.model}: {found.reason}; valid: {', '.join(map(str, found.valid))}",
                _mend(seat, found.valid),
            )
    for seat in seats(stack):
        block = divisible.finer_blocks(seat.row, seat.shape) if seat.row is not None else None
        why = _not_finer(stack, seat) if block else None
        if why and seat.row is not None:
            yield error(
                seat.engine.where,
                f"tensor parallel {seat.engine.tensor} cuts through blocks of {seat.row.name}'s FP8 experts, which vLLM reads as blocks of {block} {why}",
                "set parallel.expert: true, which leaves experts whole, or a smaller parallel.tensor",
            )


def _not_finer(stack: Stack, seat: Seat) -> str | None:
    """Why blocks that tensor parallel cuts through are not read in finer ones; None where they are."""
    vllm = vllm_version(stack, seat.workload)
    if before(vllm, _FINER_SINCE):
        return f"from {_FINER_SINCE} on, and this is {vllm}"
    kernels = seat.args.get("moe_backend") or mapping(seat.args.get("kernel_config")).get("moe_backend")
    if kernels not in (None, "auto", "triton"):
        return f"with the kernels of triton only, and moe_backend is {kernels}"
    if seat.gpu is not None and seat.gpu.compute_capability < (8, 9):
        return f"on GPUs that compute in FP8 only, and {a(seat.gpu.name)} does not"
    return None


def _refused(stack: Stack) -> Iterator[tuple[Seat, divisible.Problem]]:
    for seat in seats(stack):
        if seat.row is not None and seat.ranks * seat.engine.pipeline > 1:
            for found in divisible.divisibility(seat.row, seat.shape):
                yield seat, found


def _mend(seat: Seat, valid: tuple[int, ...]) -> str:
    size = seat.engine.tensor
    best = max((v for v in valid if v < size and size % v == 0), default=1)
    if best > 1:
        return f"set parallel.tensor: {best} with {size // best} replicas (or pipeline: {size // best}) on the same {size} GPUs"
    smaller = max((v for v in valid if v < size), default=1)
    if smaller > 1:
        return f"set parallel.tensor: {smaller} (or 1 with {size} replicas, where the model fits one GPU)"
    return "set parallel.tensor: 1, with replicas or pipeline parallel for the other GPUs"


def pipeline(stack: Stack) -> Iterator[Problem]:
    for seat, found in _refused(stack):
        if found.argument == "pipeline_parallel_size":
            yield error(
                seat.engine.where,
                f"pipeline parallel {found.given} is more than the {max(found.valid, default=1)} layers of {found.model}",
                f"set parallel.pipeline to at most {max(found.valid, default=1)}",
            )
    for seat in seats(stack):
        row, stages = seat.row, seat.engine.pipeline
        if row is not None and stages > 1 and row.architecture in NO_PIPELINE:
            yield error(
                seat.engine.where,
                f"pipeline parallel {stages} and {row.name}, a {row.architecture}, which vLLM does not cut by layers: it refuses to start",
                "set parallel.pipeline: 1",
            )
        partition = literal_env(seat, "VLLM_PP_LAYER_PARTITION")
        if partition is None:
            continue
        counts = [whole(part) for part in partition.split(",")]
        known = [count for count in counts if count is not None and count >= 0]
        if len(known) != len(counts) or len(known) != stages or (row is not None and sum(known) != row.layers):
            layers = f" that add up to {row.layers}" if row is not None else ""
            yield error(
                seat.engine.where,
                f"VLLM_PP_LAYER_PARTITION is '{partition}'; allowed: {stages} whole numbers{layers}, one for each pipeline stage",
                "correct it, or leave it out",
            )


def expert(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row, engine = seat.row, seat.engine
        if seat.args.get("enable_eplb") is True and not engine.expert:
            yield error(
                engine.where, "enable_eplb balances experts and expert parallel is off", "set parallel.expert: true"
            )
        elif seat.args.get("enable_eplb") is True and engine.tensor * engine.data <= 1:
            yield error(
                engine.where,
                "enable_eplb balances experts between ranks and there is one: vLLM refuses to start",
                "leave enable_eplb out",
            )
            continue
        spare = whole(mapping(seat.args.get("eplb_config")).get("num_redundant_experts"))
        if spare and seat.args.get("enable_eplb") is not True:
            yield error(
                engine.where,
                f"eplb_config asks for {spare} redundant experts and enable_eplb is not set: vLLM refuses to start",
                "set enable_eplb: true, or leave num_redundant_experts out",
            )
        if row is None or not engine.expert:
            continue
        if row.moe is None:
            yield error(
                engine.where,
                f"expert parallel is on and {row.name} has no experts: vLLM refuses to start",
                "set parallel.expert: false",
            )
        elif engine.tensor * engine.data > row.moe.experts:
            ranks = engine.tensor * engine.data
            yield error(
                engine.where,
                f"{ranks} ranks (tensor {engine.tensor} x data {engine.data}) share {row.moe.experts} experts: some get none",
                f"use at most {row.moe.experts} ranks",
            )
        elif seat.args.get("enable_eplb") is True:
            yield from _even(seat, row.moe.experts)


def _even(seat: Seat, experts: int) -> Iterator[Problem]:
    ranks = seat.engine.tensor * seat.engine.data
    spare = whole(mapping(seat.args.get("eplb_config")).get("num_redundant_experts", 0))
    if spare is None or spare < 0 or (experts + spare) % ranks == 0:
        return
    yield error(
        seat.engine.where,
        f"enable_eplb shares {experts + spare} experts ({experts} and {spare} more) over {ranks} ranks, which does not come out even: vLLM refuses "
        "to start",
        f"set eplb_config: {{num_redundant_experts: {spare + -(experts + spare) % ranks}}}",
    )


def data(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine, row = seat.engine, seat.row
        if engine.data <= 1:
            continue
        if seat.workload.kind in RAY_KINDS and engine.role == "serve":
            yield error(
                engine.where,
                f"data_parallel_size {engine.data} is set in an app whose placement group holds one rank of {engine.world} "
                f"GPU{'s' if engine.world > 1 else ''}: the other ranks find none",
                "set parallel.data instead (the app then uses Ray's data-parallel builder)",
            )
        if row is not None and row.moe is None:
            yield warning(
                engine.where,
                f"data parallel {engine.data} of {row.name}, which has no experts, is the same as {engine.data} replicas that start, "
                "fail and scale together",
                f"use replicas: {engine.data} with parallel.data: 1",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="parallel-numbers",
        title="Parallel sizes are whole numbers from 1",
        why="Ray multiplies the sizes for the placement group, vLLM divides the model by them; text, zero and fractions fail in either.",
        check=numbers,
    ),
    Rule(
        id="parallel-tensor",
        title="Tensor parallel divides heads, widths and quantisation groups",
        why=(
            "Each GPU gets whole attention heads, whole or copied KV heads, an equal part of each MLP, and whole quantisation groups. vLLM refuses anything else "
            "while it builds the model, after the node has started and the image is pulled."
        ),
        check=tensor,
        sources=(
            "vllm#414",
            "vllm#596",
            "vllm#11797",
            "vllm#2419",
            "vllm#1816",
            "vllm#54178",
            "vllm 0.29.0: config/model.py, layers/linear.py, fused_moe/oracle/fp8.py",
        ),
    ),
    Rule(
        id="parallel-pipeline",
        title="A pipeline stage has at least one layer",
        why="Layers are dealt out to the stages, by VLLM_PP_LAYER_PARTITION where it is given, which must name each stage and add up to all layers.",
        check=pipeline,
        sources=("vllm 0.29.0: distributed/utils.py get_pp_indices",),
    ),
    Rule(
        id="parallel-expert",
        title="Expert parallel is for models with experts",
        why=(
            "vLLM refuses expert parallel for a model without experts, and a rank without an expert has nothing to do. Balancing (enable_eplb) needs as many "
            "experts, redundant ones counted, on each rank."
        ),
        check=expert,
        sources=(
            "vllm 0.29.0: config/model.py _verify_with_expert_parallelism, layers/fused_moe/layer.py",
            "vllm#30075",
        ),
    ),
    Rule(
        id="parallel-data",
        title="Data parallel goes through Ray's data-parallel builder, and pays for models with experts",
        why=(
            "The plain builder reserves GPUs for one rank; further ranks need the gang that build_dp_openai_app makes. Ranks run in step and restart together, which is the "
            "price for sharing experts; without experts replicas do the same without it."
        ),
        check=data,
        sources=("ray 2.60.0: data_parallel/dp_server.py", "vllm 0.29.0: config/parallel.py"),
    ),
)
