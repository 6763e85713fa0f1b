"""Values of engine arguments: of the kind that vLLM takes, in its range, among its choices; keys inside those that are mappings.

Not for: names (engine_args.py), or values judged against the GPU, the model or each other, which have rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.engine_configs import CONFIG_CHOICES, CONFIG_KEYS, CONFIG_LEAST, NESTED_KEYS
from policies.catalog.engine_values import CHOICES, READ_IN
from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import whole
from policies.finding import Problem, Rule, error, warning

from ._argument_kinds import LONGEST, allowed, listing
from ._engines import Seat, seats, vllm_version
from ._values import version


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


def keys(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        say = error if as_read(stack, seat) else warning
        for name, value in seat.args.items():
            known = CONFIG_KEYS.get(str(name))
            if known is None or not isinstance(value, Mapping):
                continue
            for key, choices in CONFIG_CHOICES.get(str(name), {}).items():
                if value.get(key) is not None and value[key] not in choices:
                    near = closest_names(str(value[key]), choices, 1)
                    yield say(
                        seat.engine.where,
                        f"{name}.{key} is {value[key]!r}; allowed: {listing(choices)}",
                        f"did you mean '{near[0]}'?" if near else "give one of these",
                    )
            for key, least in CONFIG_LEAST.get(str(name), {}).items():
                number = whole(value.get(key))
                if number is not None and number < least:
                    yield say(
                        seat.engine.where,
                        f"{name}.{key} is {number}; allowed: a whole number from {least}",
                        "give that, or leave it out",
                    )
            inside = [(f"{name}.{key}", value.get(key), its) for key, its in NESTED_KEYS.get(str(name), {}).items()]
            for path, given, its in [(str(name), value, known), *inside]:
                for message, mend in _unknown(path, given, its):
                    yield say(seat.engine.where, message, mend)


def _unknown(path: str, given: Any, known: frozenset[str]) -> Iterator[tuple[str, str]]:
    for key in sorted(set(map(str, given)) - known) if isinstance(given, Mapping) else ():
        near = closest_names(key, sorted(known), 1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        names = ", ".join(sorted(known)) if len(known) <= LONGEST else f"{len(known)} keys of vLLM's config"
        yield f"{path} has no key '{key}': vLLM refuses it", f"{hint}allowed: {names}"


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
        sources=(
            "vllm-project/recipes PR#521",
            "vllm 0.29.0: config/speculative.py, config/compilation.py and the like",
        ),
    ),
)
