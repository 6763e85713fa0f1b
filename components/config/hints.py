"""What to write in place of a value that is refused: the number that a text means, the list around one item, the nearest word.

For: sentences about mistakes (mistakes.py). Not for: taking such values. One spelling for each setting keeps files comparable.
"""

from __future__ import annotations

import difflib
import json
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

# What other tools call these settings.
_SYNONYMS = {"tp": "tensor", "pp": "pipeline", "dp": "data", "ep": "expert", "rayservice": "ray_service"}
_SYNONYMS |= {"newcluster": "new_cluster", "newclusterwithincrementalupgrade": "incremental", "deployment": "vllm"}
_SYNONYMS |= {"kai_scheduler": "kai", "pow2": "power_of_two", "warn": "warning", "eks": "aws"}
# A field by which a model can be said in one word or number, where it is not the one that has the word among its choices.
_SHORT = {"Model": "model", "Parallel": "tensor", "Lora": "path", "Gpu": "share"}
_GIB = {"gi": 1.0, "gib": 1.0, "mi": 1 / 1024, "mib": 1 / 1024, "ti": 1024.0, "tib": 1024.0}
_GIB |= {
    "g": 1e9 / 2**30,
    "gb": 1e9 / 2**30,
    "m": 1e6 / 2**30,
    "mb": 1e6 / 2**30,
    "t": 1e12 / 2**30,
    "tb": 1e12 / 2**30,
}
_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
# Bounds, by pydantic's kind of mistake, in the words of the other hints.
_BOUNDS = {
    "greater_than_equal": "at least {ge} is wanted",
    "less_than_equal": "at most {le} is wanted",
    "greater_than": "more than {gt} is wanted",
    "less_than": "less than {lt} is wanted",
    "too_short": "at least {min_length} is wanted",
    "too_long": "at most {max_length} are wanted",
    "string_too_short": "at least {min_length} character is wanted; leave the key out where nothing is meant",
    "string_too_long": "at most {max_length} characters are wanted",
    "string_pattern_mismatch": "text of the form {pattern} is wanted",
}
_AMOUNT = re.compile(r"\s*[$€]?\s*(\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*")


def nearest(given: str, allowed: Sequence[str]) -> str:
    """ "did you mean 'x'? " for the allowed word that `given` looks like, or "" where none does."""
    folded = re.sub(r"[^a-z0-9]+", "_", given.casefold()).strip("_")
    words = {word.casefold(): word for word in allowed}
    found = words.get(folded) or words.get(_SYNONYMS.get(folded) or _SYNONYMS.get(folded.replace("_", ""), ""))
    if found is None:
        close = difflib.get_close_matches(folded, words, n=1, cutoff=0.6)
        part = [word for word in words if word in folded.split("_")]
        found = words[close[0]] if close else words[part[0]] if part else None
    return f"did you mean '{found}'? " if found else ""


def instead(
    kind: str,
    given: Any,
    name: str,
    model: type[BaseModel] | None,
    members: Sequence[Any],
    context: Mapping[str, Any],
) -> str | None:
    """What is wanted for a mistake of pydantic's `kind` in the field `name`; None where pydantic's own words are as good."""
    if kind in ("tuple_type", "list_type"):
        return f"a list is wanted, e.g. [{_item(given)}]"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return _mapping(given, model, members)
    if kind == "literal_error":
        allowed = [word for member in members for word in typing.get_args(member) if isinstance(word, str)]
        return f"{nearest(str(given), allowed)}allowed: {', '.join(allowed)}" if allowed else None
    if kind == "string_type" and isinstance(given, (bool, int, float)):
        return f"text is wanted; write it in quotes, as it is meant: {json.dumps(str(given).lower())}"
    if kind in ("int_parsing", "float_parsing", "int_from_float", "int_type", "float_type"):
        return _number(given, name, "a whole number" if kind.startswith("int") else "a number")
    if kind in ("bool_parsing", "bool_type"):
        return "true or false is wanted"
    if kind == "less_than_equal" and context.get("le") == 1 and isinstance(given, (int, float)) and 1 < given <= 100:
        return f"a part of 1 is wanted: {given / 100:g}"
    return _BOUNDS[kind].format_map(context) if kind in _BOUNDS else None


def _item(given: Any) -> str:
    if isinstance(given, Mapping):
        return "{...}"
    return str(given) if isinstance(given, (str, int, float)) and "\n" not in str(given) else "a, b"


def _mapping(given: Any, model: type[BaseModel] | None, members: Sequence[Any]) -> str:
    if model is None:
        if isinstance(given, (list, tuple)) and given and isinstance(given[0], Mapping):
            named = str(given[0].get("name") or "NAME")
            rest = "..." if set(given[0]) == {"name", "value"} else "{...}"  # the value may be a secret
            return f"a mapping by name is wanted, e.g. {{{named}: {rest}}}"
        return "a mapping of keys is wanted"
    fields = model.model_fields
    if isinstance(given, (str, int, float)) and not isinstance(given, bool):
        fitting = [
            name for name, field in fields.items() if isinstance(given, str) and given in _choices(field.annotation)
        ]
        short = fitting[0] if len(fitting) == 1 else _SHORT.get(model.__name__)
        if short == "share" and not (isinstance(given, float) and 0 < given <= 1):
            short = None  # {gpu: L4} and {gpu: 1} are no shares
        if short:
            return f"a mapping of keys is wanted: {{{short}: {given}}}"
        if model.__name__ == "Replicas" and isinstance(given, int):
            return f"a mapping of keys is wanted: {{min: {given}, max: {given}}}"
    return f"a mapping of keys is wanted, of {', '.join(fields)}"


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Words that a field takes, where it takes only these."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return arguments
    return tuple(word for each in arguments for word in _choices(each))


def _number(given: Any, name: str, what: str) -> str:
    match = _AMOUNT.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return f"{what} is wanted"
    number, unit = float(match[1]), match[2].casefold()
    if unit == "%" and not name.endswith("_percent"):
        return f"a part of 1 is wanted: {number / 100:g}"
    if name.endswith("_gib"):
        scale, of = _GIB.get(unit), " of GiB"
    elif name.endswith(("_seconds", "_s")):
        scale, of = _SECONDS.get(unit), " of seconds"
    elif name == "cpu" or name.startswith("cpu_"):
        scale, of = {"m": 0.001}.get(unit), " of cores"
    else:
        scale, of = {"": 1.0, "%": 1.0}.get(unit), ""
    return f"{what}{of} is wanted" + (f": {number * scale:.4g}" if scale is not None else "")
