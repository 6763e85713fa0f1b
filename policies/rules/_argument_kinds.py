"""What is allowed as the value of an engine argument, where the one given is not. Shared by the rules on engine arguments.

Not for: judging (engine_values.py, engine_needs.py), or what vLLM takes (policies/catalog/engine_values.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from policies.catalog.engine_args import ENGINE_ARGS, FRONTEND_ARGS
from policies.catalog.engine_flags import COMMA_FLAGS, JSON_FLAGS, LIST_FLAGS, NO_FLAG, READABLE
from policies.catalog.engine_values import (
    ABOVE_LEAST,
    ANY_CASE,
    BELOW_MOST,
    CHOICES,
    FORMS,
    INTEGER_LISTS,
    INTEGERS,
    LIST_CHOICES,
    LISTS,
    LORA,
    MAPPINGS,
    MAPPINGS_OF,
    MOST,
    NO_TEXT,
    NOT_EMPTY,
    NULLABLE,
    NUMBERS,
    PLUGINS,
    SWITCHES,
    TEXT_OR_LIST,
    TEXT_OR_MAPPING,
    TEXT_OR_SWITCH,
    TEXTS,
    UNCHECKED,
)
from policies.facts.quantities import real, switch, whole

from ._engines import Seat
from ._list_values import MEMBERS

# Each has a rule that says more: parallel-*, topology-backend, gpu-memory-utilization, dtype-capability, quantisation-method,
# kv-cache-dtype, engine-argument-values.
_ELSEWHERE = frozenset(
    (
        "data_parallel_size",
        "distributed_executor_backend",
        "dtype",
        "gpu_memory_utilization",
        "kv_cache_dtype",
        "load_format",
        "max_lora_rank",
        "max_num_batched_tokens",
        "max_num_seqs",
        "pipeline_parallel_size",
        "quantization",
        "tensor_parallel_size",
    )
)
_BATCH = frozenset(("max_num_batched_tokens", "max_num_seqs"))  # there as numbers, here as text
_FRONTEND = frozenset(FRONTEND_ARGS) - frozenset(
    ENGINE_ARGS
)  # under Ray there is no HTTP server of vLLM's to configure
LONGEST = 12  # choices in a message
_UNIT = "kKmMgGtT"


def allowed(name: str, value: Any, seat: Seat) -> str | None:
    """What is allowed, where the value is not."""
    elsewhere = name in _ELSEWHERE and value is not None and not (name in _BATCH and isinstance(value, str))
    if elsewhere or (seat.ray and not _looked_at(name, seat)):
        return None
    if name == "max_model_len" and value is not None and seat.row is not None:
        return None  # fit-context-length knows what the model allows
    if name in PLUGINS and seat.args.get(PLUGINS[name]):
        return None  # a plugin may bring more
    if not seat.ray and name in NO_FLAG:
        return "nothing on the command line, which does not have it"
    if value is None:
        return None if name in NULLABLE or not _known(name) else "a value, not null"
    if name in SWITCHES:
        fits = switch(value) is not None if seat.ray else isinstance(value, bool)
        return None if fits else "true or false" if seat.ray else "the flag without a value, or its --no- form"
    if name in INTEGERS:
        return _number(name, value, seat.ray, INTEGERS[name], "a whole number")
    if name in NUMBERS:
        return _number(name, value, seat.ray, NUMBERS[name], "a number")
    if name in CHOICES:
        return _choice(name, value)
    if name in TEXTS or name in FORMS:
        fits = isinstance(value, str) or (not seat.ray and not isinstance(value, bool))
        form, described = FORMS.get(name, ("", "text"))
        return None if fits and (not form or re.fullmatch(form, str(value))) else described
    if name in TEXT_OR_SWITCH:
        return None if isinstance(value, str) or switch(value) is not None else "text, true or false"
    if name in MAPPINGS:
        return _mapping(name, value)
    if name in TEXT_OR_MAPPING:
        said = not seat.ray and not isinstance(value, (bool, Mapping))  # all that is said on a command line is text
        return None if said else _mapping(name, value, text=True)
    if name in LISTS or name in INTEGER_LISTS or name in TEXT_OR_LIST:
        return _list(name, value, seat.ray)
    return None


def _mapping(name: str, value: Any, text: bool = False) -> str | None:
    if text and isinstance(value, str):
        return None
    of = MAPPINGS_OF.get(name)
    what = f"{'text or ' if text else ''}a mapping{f' of {of}s' if of else ''}"
    if not isinstance(value, Mapping):
        return what
    if name == "limit_mm_per_prompt":
        return (
            None if all(map(_limit, value.values())) else f"{what} of whole numbers from 0, or of mappings with count"
        )
    kind: type = str if of == "text" else Mapping
    return what if of and any(not isinstance(each, kind) for each in value.values()) else None


def _limit(value: Any) -> bool:
    """Whether it limits pictures, films or recordings of a prompt; text is no number there (vllm 0.29.0: config/multimodal.py)."""
    count = whole(value.get("count", 0)) if isinstance(value, Mapping) else value
    return isinstance(count, int) and count >= 0


def _known(name: str) -> bool:
    return any(
        name in names
        for names in (
            SWITCHES,
            INTEGERS,
            NUMBERS,
            CHOICES,
            TEXTS,
            MAPPINGS,
            LISTS,
            INTEGER_LISTS,
            TEXT_OR_MAPPING,
            TEXT_OR_LIST,
        )
    )


def _looked_at(name: str, seat: Seat) -> bool:
    if name in LORA:
        return seat.args.get("enable_lora") is True
    return name not in UNCHECKED and (name not in _FRONTEND or name in PLUGINS)


def _number(name: str, value: Any, ray: bool, least: float | None, what: str) -> str | None:
    most = MOST.get(name)
    text = what
    if least is not None and most is not None:
        low, high = "over" if name in ABOVE_LEAST else "from", "below" if name in BELOW_MOST else "to"
        text += f" {low} {least:g} {high} {most:g}"
    elif least is not None:
        text += f" from {least:g}"
    if name == "max_model_len":
        text = "a whole number from 1, -1 or auto"
        if value in ("auto", -1):
            return None
    number = float(value) if isinstance(value, bool) and ray else _readable(name, value, ray)
    if number is None or (what == "a whole number" and not number.is_integer()):
        return text
    outside = (least is not None and number < least) or (most is not None and number > most)
    outside = outside or (name in ABOVE_LEAST and number == least) or (name in BELOW_MOST and number == most)
    return text if outside or (name == "max_model_len" and number < 1) else None


def _readable(name: str, value: Any, ray: bool) -> float | None:
    """The number that vLLM reads. On its command line "8k" is one for some; under Ray text is none for others."""
    if isinstance(value, str):
        if ray and name in NO_TEXT:
            return None
        if not ray and name in READABLE and value[-1:] in _UNIT:
            return real(value[:-1])
        if not ray and name in INTEGERS:  # text only where it is no whole number (facts/command_line.py): 1.048576e+06
            return None
    return real(value)


def _choice(name: str, value: Any) -> str | None:
    choices = CHOICES[name]
    given = str(value).upper() if name in ANY_CASE else value
    if isinstance(value, str) and (given in choices or (name in ANY_CASE and value == "auto")):
        return None
    return listing(choices)


def listing(choices: tuple[str, ...]) -> str:
    """Choices for a message, cut where there are many."""
    shown = ", ".join(choices[:LONGEST])
    return f"{shown} and {len(choices) - LONGEST} more" if len(choices) > LONGEST else shown


def _list(name: str, value: Any, ray: bool) -> str | None:
    whole_ones = name in INTEGER_LISTS
    what, fits = MEMBERS.get(name, ("a list of whole numbers" if whole_ones else "a list of texts", None))
    if isinstance(value, str) and name in TEXT_OR_LIST:
        return None
    if not isinstance(value, (list, tuple)):
        if ray or name in JSON_FLAGS or isinstance(value, (bool, Mapping)):
            return what
        value = str(value).split(",") if name in COMMA_FLAGS else [value]  # one word after a flag is a list of one
    elif not ray and not value and name in LIST_FLAGS:
        return "at least one value after the flag"
    if not value and name in NOT_EMPTY:
        return f"{what}, at least one"
    if fits is not None:
        return None if fits(value) else what
    if name == "lora_modules":
        named = all("=" in str(each) or {"name", "path"} <= set(_keys(each)) for each in value)
        return None if named else "a list of name=path, or of mappings with name and path"
    if whole_ones:
        return what if any(whole(each) is None for each in value) else None
    choices = LIST_CHOICES.get(name)
    if choices and any(part not in choices for each in value for part in str(each).split("," if not ray else None)):
        return f"a list of {', '.join(choices)}"
    return what if ray and any(not isinstance(each, (str, Mapping)) for each in value) else None


def _keys(value: Any) -> tuple[str, ...]:
    """Keys of a mapping, or of one in JSON."""
    try:
        return tuple(map(str, value if isinstance(value, Mapping) else json.loads(str(value))))
    except (json.JSONDecodeError, TypeError):
        return ()
