"""Context parallel: copies of KV heads to spread the cache over, kernels that put parts of it together, and connectors that carry them.

Not for: the other parallel sizes (parallelism.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.attention_backends import BACKENDS, PARTS_BY_LSE
from policies.facts import Stack
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error

from ._engines import Seat, seats
from .kv_connectors import carriers


def context(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        yield from _kernels(seat)
        yield from _carried(seat)
        row, size = seat.row, whole(seat.args.get("decode_context_parallel_size"))
        if size is None or size <= 1:
            continue
        where, tensor_size = seat.engine.where, seat.engine.tensor
        if tensor_size % size:
            yield error(
                where,
                f"decode_context_parallel_size {size} does not divide tensor parallel {tensor_size}",
                f"use one of {', '.join(str(v) for v in range(1, tensor_size + 1) if tensor_size % v == 0)}",
            )
        elif row is not None and row.mla is None and tensor_size // max(1, row.kv_heads) < size:
            most = max(1, tensor_size // max(1, row.kv_heads))
            yield error(
                where,
                f"decode_context_parallel_size {size} needs {size} copies of each KV head and tensor parallel {tensor_size} of "
                f"{row.kv_heads} KV heads makes {most}",
                f"use at most {most}" if most > 1 else "leave it out",
            )
        elif row is not None and row.mla is None and (row.attention_heads // max(1, row.kv_heads)) % size:
            each = row.attention_heads // max(1, row.kv_heads)
            yield error(
                where,
                f"decode_context_parallel_size {size} does not divide the {each} query heads of each KV head of {row.name}: vLLM refuses to start",
                f"use one of {', '.join(str(v) for v in range(1, size) if each % v == 0)}",
            )


def _kernels(seat: Seat) -> Iterator[Problem]:
    """Both kinds of context parallel need attention kernels that can put parts together."""
    name = seat.args.get("attention_backend") or mapping(seat.args.get("attention_config")).get("backend")
    decode, prefill = (whole(seat.args.get(f"{each}_context_parallel_size")) or 1 for each in ("decode", "prefill"))
    if decode > 1 and isinstance(name, str) and name in BACKENDS and name not in PARTS_BY_LSE:
        yield error(
            seat.engine.where,
            f"decode_context_parallel_size {decode} and attention_backend {name}, which returns no sums to put parts together by: vLLM refuses to start",
            f"leave attention_backend out, or use one of {', '.join(sorted(PARTS_BY_LSE))}",
        )
    if prefill > 1 and seat.row is not None and seat.row.mla is None:
        yield error(
            seat.engine.where,
            f"prefill_context_parallel_size {prefill} and {seat.row.name}, which has no latent attention: no other kernel of vLLM's takes it, and it refuses to start",
            "leave it out",
        )


def _carried(seat: Seat) -> Iterator[Problem]:
    """NIXL carries a cache that is whole on every rank, or cut over all of them (VllmConfig.__post_init__)."""
    if "NixlConnector" not in carriers(seat.engine):
        return
    decode, prefill = (whole(seat.args.get(f"{each}_context_parallel_size")) or 1 for each in ("decode", "prefill"))
    latent = seat.row is None or seat.row.mla is not None
    if prefill > 1:
        yield error(
            seat.engine.where,
            f"prefill_context_parallel_size {prefill} and NixlConnector do not go together: vLLM refuses to start",
            "leave it out",
        )
    if decode > 1 and (decode != seat.engine.tensor or not latent):
        sizes = f"1 or {seat.engine.tensor}" if latent else "1, for a model without latent attention"
        yield error(
            seat.engine.where,
            f"decode_context_parallel_size {decode} and NixlConnector, which carries a cache that is whole on every rank or cut over all of them; allowed: {sizes}",
            "leave it out, or set it to the tensor parallel size" if latent else "leave it out",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="parallel-context",
        title="Context parallel fits the copies of KV heads, the attention kernels and what carries the cache",
        why=(
            "It spreads the cache over GPUs that would otherwise hold copies of the same KV heads, so there must be that many copies, and a kernel that gives what "
            "the parts are put together by. vLLM finds that after it has loaded the weights."
        ),
        check=context,
        sources=(
            "vllm PR#43053",
            "vllm PR#50611",
            "vllm 0.29.0: config/model.py verify_with_parallel_config, config/vllm.py, v1/worker/cp_utils.py",
        ),
    ),
)
