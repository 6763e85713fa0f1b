"""Values of engine arguments: of the kind that vLLM takes, in its range, among its choices; keys inside those that are mappings.

Not for: names (engine_args.py), or values judged against the GPU, the model or each other, which have rules of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.engine_configs import CONFIG_KEYS
from policies.catalog.engine_flags import LIST_FLAGS, NO_FLAG, READABLE
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
    NULLABLE,
    NUMBERS,
    PLUGINS,
    READ_IN,
    SWITCHES,
    TEXT_OR_LIST,
    TEXT_OR_MAPPING,
    TEXTS,
    UNCHECKED,
)
from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import real, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats, vllm_version
from ._values import version

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
_YES, _NO = frozenset(("1", "on", "t", "true", "y", "yes")), frozenset(("0", "f", "false", "n", "no", "off"))  # pydantic's
_BATCH = frozenset(("max_num_batched_tokens", "max_num_seqs"))  # there as numbers, here as text
_LONGEST = 12  # choices in a message
_UNIT = "kKmMgGtT"


def kinds(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        say = error if as_read(stack, seat) else warning
        for name, value in seat.args.items():
            these = allowed(str(name), value, seat)
            if these is not None:
                yield say(
                    seat.engine.where,
                    f"engine argument {name} is {_shown(value)}; allowed: {these}",
                    _mend(str(name), value),
                )


def switched_on(text: str) -> bool | None:
    """What a text says as a switch; None where it is none."""
    low = text.lower()
    return low in _YES if low in _YES or low in _NO else None


def as_read(stack: Stack, seat: Seat) -> bool:
    """Whether it is the vLLM whose values the catalog has; another may have more choices."""
    return (version(vllm_version(stack, seat.workload)) or ())[:2] == version(READ_IN)


def _shown(value: Any) -> str:
    return {True: "true", False: "false", None: "null"}.get(value, repr(value)) if _plain(value) else repr(value)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _mend(name: str, value: Any) -> str:
    if value is None:
        return "leave it out"
    if isinstance(value, str) and name in CHOICES:
        near = closest_names(value, CHOICES[name], 1)
        return f"did you mean '{near[0]}'?" if near else "give one of these, or leave it out"
    return "give that, or leave it out"


def allowed(name: str, value: Any, seat: Seat) -> str | None:
    """What is allowed, where the value is not."""
    if (name in _ELSEWHERE and not (name in _BATCH and isinstance(value, str))) or (seat.ray and not _looked_at(name, seat)):
        return None
    if name == "max_model_len" and seat.row is not None:
        return None  # fit-context-length knows what the model allows
    if name in PLUGINS and seat.args.get(PLUGINS[name]):
        return None  # a plugin may bring more
    if not seat.ray and name in NO_FLAG:
        return "nothing on the command line, which does not have it"
    if value is None:
        return None if name in NULLABLE or not _known(name) else "a value, not null"
    if name in SWITCHES:
        fits = _switch(value) if seat.ray else isinstance(value, bool)
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
    if name in MAPPINGS:
        return _mapping(name, value)
    if name in TEXT_OR_MAPPING:
        return _mapping(name, value, text=True)
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
    kind: type = str if of == "text" else Mapping
    return what if of and any(not isinstance(each, kind) for each in value.values()) else None


def _known(name: str) -> bool:
    return any(
        name in names for names in (SWITCHES, INTEGERS, NUMBERS, CHOICES, TEXTS, MAPPINGS, LISTS, INTEGER_LISTS)
    )


def _looked_at(name: str, seat: Seat) -> bool:
    if name in LORA:
        return seat.args.get("enable_lora") is True
    return name not in UNCHECKED


def _switch(value: Any) -> bool:
    """As pydantic reads a bool: true, 1, "yes"."""
    if isinstance(value, str):
        return switched_on(value) is not None
    return isinstance(value, (bool, int, float)) and value in (0, 1)


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
    return real(value)


def _choice(name: str, value: Any) -> str | None:
    choices = CHOICES[name]
    given = str(value).upper() if name in ANY_CASE else value
    if isinstance(value, str) and (given in choices or (name in ANY_CASE and value == "auto")):
        return None
    shown = ", ".join(choices[:_LONGEST])
    return f"{shown} and {len(choices) - _LONGEST} more" if len(choices) > _LONGEST else shown


def _list(name: str, value: Any, ray: bool) -> str | None:
    whole_ones = name in INTEGER_LISTS
    what = "a list of whole numbers" if whole_ones else "a list of texts"
    if isinstance(value, str) and name in TEXT_OR_LIST:
        return None
    if not isinstance(value, (list, tuple)):
        if ray or isinstance(value, (bool, Mapping)):
            return what
        value = [value]  # one word after a flag is a list of one
    elif not ray and not value and name in LIST_FLAGS:
        return "at least one value after the flag"
    if whole_ones:
        return what if any(whole(each) is None for each in value) else None
    choices = LIST_CHOICES.get(name)
    if choices and any(part not in choices for each in value for part in str(each).split("," if not ray else None)):
        return f"a list of {', '.join(choices)}"
    return what if ray and any(not isinstance(each, (str, Mapping)) for each in value) else None


def keys(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        say = error if as_read(stack, seat) else warning
        for name, value in seat.args.items():
            known = CONFIG_KEYS.get(str(name))
            if known is None or not isinstance(value, Mapping):
                continue
            for key in sorted(set(map(str, value)) - known):
                near = closest_names(key, sorted(known), 1)
                hint = f"did you mean '{near[0]}'? " if near else ""
                listing = ", ".join(sorted(known)) if len(known) <= _LONGEST else f"{len(known)} keys of vLLM's config"
                yield say(
                    seat.engine.where,
                    f"{name} has no key '{key}': vLLM refuses it",
                    f"{hint}allowed: {listing}",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-argument-kinds",
        title="Engine arguments have values of vLLM's kind, range and choice",
        why=(
            "Ray hands engine_kwargs to vLLM as they are. vLLM's config classes read them when the engine starts, in the replica, on a GPU that is paid for, "
            "and refuse text where a number belongs, a number out of range, or a choice that does not exist. Null is a value too, and most arguments do not take it."
        ),
        check=kinds,
        sources=("vllm 0.29.0: engine/arg_utils.py, config/*.py, entrypoints/launchers/cli_args.py",),
    ),
    Rule(
        id="engine-argument-keys",
        title="Engine arguments that are mappings have vLLM's keys",
        why=(
            "speculative_config, compilation_config and others are config classes of vLLM that take no unknown key. A misspelt one stops the engine at its start, after "
            "the node, the image and often the download."
        ),
        check=keys,
        sources=("vllm 0.29.0: config/speculative.py, config/compilation.py and the like",),
    ),
)
