"""Length of embeddings: shorter ones only of models that say that theirs can be cut.

Not for: whether a model embeds at all (model_use.py), or names of the pooler's settings (engine_values.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats

# Published without is_matryoshka and matryoshka_dimensions in config.json; the first was trained for shorter ones all the same.
_UNSAID = re.compile(r"(^|/)(qwen3-embedding-[\d.]+b|bge-m3)$", re.IGNORECASE)


def sizes(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        asked = whole(mapping(seat.args.get("pooler_config")).get("dimensions"))
        if asked is not None:
            yield from _asked(seat, asked)


def _asked(seat: Seat, asked: int) -> Iterator[Problem]:
    overrides = mapping(seat.args.get("hf_overrides"))
    allowed = items(overrides.get("matryoshka_dimensions"))
    known = seat.row is not None and _UNSAID.search(seat.engine.source) is not None
    where, refused = seat.engine.where, "every request to embed is refused"
    if allowed and asked not in allowed:
        yield error(
            where,
            f"pooler_config.dimensions is {asked} and hf_overrides.matryoshka_dimensions {', '.join(map(str, allowed))}: {refused}",
            "use one of them",
        )
    elif known and seat.row is not None and not 1 <= asked <= seat.row.hidden_size:
        yield error(
            where,
            f"pooler_config.dimensions is {asked}; allowed for {seat.row.name}: 1 to {seat.row.hidden_size}: {refused}",
            f"use at most {seat.row.hidden_size}, or leave it out",
        )
    elif known and not allowed and not switch(overrides.get("is_matryoshka")):
        yield warning(
            where,
            f"pooler_config.dimensions is {asked} and the config of {seat.engine.source} does not say that its embeddings can be cut: {refused} with 400",
            "set hf_overrides: {is_matryoshka: true} where the model was trained for it, or leave dimensions out",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="model-embedding-size",
        title="Embeddings are cut only where the model says so",
        why=(
            "vLLM reads is_matryoshka or matryoshka_dimensions from the model's config.json. Without one of them the server starts, and a length from pooler_config or from a "
            "client is answered with 400; Qwen3-Embedding was trained for shorter embeddings and does not say so."
        ),
        check=sizes,
        sources=(
            "QwenLM/Qwen3-Embedding#85",
            "vllm#23435",
            "mem0ai/mem0#3101",
            "vllm 0.29.0: pooling_params.py _set_default_parameters",
        ),
    ),
)
