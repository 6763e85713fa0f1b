"""Models as the catalog has them: known, whole where given inline, and served at a length they are made for.

Not for: memory (fit.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from policies.catalog import models
from policies.catalog.lookup import UnknownRow
from policies.catalog.models.row import Model
from policies.facts import Stack
from policies.facts.quantities import mapping, real, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, on_gpus, seats

_READABLE = re.compile(r"(-?\d+(\.\d+)?)([kKmMgGtT]?)")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def length(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given, row = seat.args.get("max_model_len"), seat.row
        if given is None or given in ("auto", -1, "-1"):
            continue
        number = whole(given) if seat.ray else _tokens(given)
        if number is None or number < 1:
            yield error(
                seat.engine.where,
                f"max_model_len is {given!r}; allowed: a whole number of tokens, or auto",
                "give a number such as 8192",
            )
        elif row is not None and row.max_position_embeddings > 0:
            yield from _beyond(seat, row, number)


def _beyond(seat: Seat, row: Model, number: int) -> Iterator[Problem]:
    made_for, scaled = _positions(row, mapping(seat.args.get("hf_overrides")))
    if number <= made_for:
        return
    how = f"that hf_overrides scale {row.name} to" if scaled else f"that {row.name} is made for"
    mend = f"use at most {made_for}"
    if row.position_embeddings:
        outcome = "positions beyond are not in its table"
    else:
        outcome = "answers turn to noise where a text is longer"
        mend += ", or raise the factor" if scaled else ", or scale positions with hf_overrides"
    allowed = literal_env(seat, "VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1"
    yield (warning if allowed and not row.position_embeddings else error)(
        seat.engine.where,
        f"max_model_len {number} is more than the {made_for} tokens {how}: "
        + (f"VLLM_ALLOW_LONG_MAX_MODEL_LEN lets vLLM start, and {outcome}" if allowed else "vLLM refuses to start"),
        mend,
    )


def _positions(row: Model, overrides: dict[str, Any]) -> tuple[int, bool]:
    """Most tokens by the model's config as hf_overrides change it, and whether they do (vllm/config/model.py, _get_and_verify_max_len)."""
    changed = {**overrides, **mapping(overrides.get("text_config"))}
    stated = whole(changed.get("max_position_embeddings"))
    most = float(stated or row.max_position_embeddings)
    ropes = mapping(changed.get("rope_parameters") or changed.get("rope_scaling"))
    each = [mapping(rope) for rope in ropes.values() if isinstance(rope, dict)] or [ropes]
    for rope in (
        each if not row.architecture.startswith("Gemma3") else ()
    ):  # Gemma 3 states the length that it is scaled to
        kind, factor = rope.get("rope_type", rope.get("type")), real(rope.get("factor"))
        if kind in ("yarn", "linear", "dynamic") and factor:
            base = whole(rope.get("original_max_position_embeddings")) if kind == "yarn" else None
            return int((base or most) * factor), True
    return int(most), stated is not None


def _tokens(given: object) -> int | None:
    """vLLM's command line also takes 16k (1000s, 25.6k too) and 16K (1024s), and no 1e3 or 4096.0 (arg_utils.py human_readable_int)."""
    if not isinstance(given, str):
        return whole(given)
    found = _READABLE.fullmatch(given)
    if found is None or (found[2] and found[3] not in _DECIMAL):
        return None
    return int(float(found[1]) * (_DECIMAL.get(found[3]) or _BINARY.get(found[3]) or 1))


def known(stack: Stack) -> Iterator[Problem]:
    """Models that no row describes: said, because nothing about their memory is judged."""
    if not stack.complete:
        return
    for seat in on_gpus(stack):
        if seat.row is None and seat.engine.catalog_id not in stack.models:
            text = _miss(seat.engine.catalog_id)
            yield warning(
                seat.engine.where,
                f"{text}: its memory, divisibility and start-up time are not judged",
                "set `model` to a model of the catalog, pin it (python -m local.pin_model), or describe it under models",
            )


@lru_cache(maxsize=2048)
def _miss(name: str) -> str:
    try:
        models.get(name)
    except UnknownRow as miss:
        near = f" (did you mean {' or '.join(repr(n) for n in miss.closest)}?)" if miss.closest else ""
        return f"model {name!r} is not in the catalog{near}"
    return f"model {name!r} is not described"


def rows(stack: Stack) -> Iterator[Problem]:
    for name, row in stack.models.items():
        where = f"model '{name}'"
        if not isinstance(row, Mapping):
            yield error(where, f"its description is {row!r}, not a mapping", "give the figures of its config.json")
            continue
        try:
            models.from_mapping({"name": name, **row}, where)
        except models.InvalidModel as wrong:
            for problem in wrong.problems:
                yield error(where, problem, "correct the row; its figures are those of the model's config.json")


RULES: tuple[Rule, ...] = (
    Rule(
        id="fit-context-length",
        title="max_model_len is a length the model is made for",
        why=(
            "A length over the model's own is refused unless positions are scaled (hf_overrides). VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 only silences vLLM: positions that the "
            "model was never trained on give noise, and beyond a table of positions the GPU faults."
        ),
        check=length,
        sources=("vllm PR#44286", "SkyRL PR#561", "vllm 0.29.0: config/model.py _get_and_verify_max_len"),
    ),
    Rule(
        id="fit-model-known",
        title="The model is in the catalog",
        why="Without the figures of a model nothing about its memory can be judged; that is said rather than passed over.",
        check=known,
    ),
    Rule(
        id="fit-model-row",
        title="Model rows given inline are complete",
        why="A row with a missing or odd figure would be judged wrongly or not at all.",
        check=rows,
    ),
)
