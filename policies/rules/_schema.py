"""Walk over an object beside its schema: fields that it does not have, values of another type, and what is missing.

For: rules on schemas (kuberay_schema.py, pod_schema.py). Not for: the schemas themselves (policies/catalog).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.catalog.lookup import closest_names
from policies.catalog.pod_schema import CONTAINER, POD, Shape
from policies.facts.quantities import real

from ._values import listed

_KIND = {str: "text", int: "a whole number", bool: "true or false", float: "a number"}
_LONGEST = 12
_META = ("apiVersion", "kind", "metadata", "status")
_MARKS = ("!", "?", "[]", "|", "~", "{}")
_SWITCHES = ("0", "1", "f", "false", "n", "no", "off", "on", "t", "true", "y", "yes")
Found = tuple[str, str, bool]  # message, mend, whether it is certain


def inside(values: Mapping[str, Any], shape: Shape, path: str, lax: bool = False) -> Iterator[Found]:
    """lax: as pydantic reads, where numbers and switches may be text and null is a value ("~" names fields that take it)."""
    yield from _Walk(lax=lax).inside(values, shape, path)


def top(manifest: Mapping[str, Any], shape: Shape) -> Iterator[Found]:
    """A whole object beside the shape of its fields. A name that is nowhere in it, and like none, may be newer than the shape: a doubt."""
    fields = {key: value for key, value in manifest.items() if key not in _META}
    yield from _Walk(root=shape).inside(fields, shape, "")


def places(name: str, shape: Any, path: str = "") -> Iterator[str]:
    """Where a shape has a field of this name."""
    if not isinstance(shape, Mapping):
        return
    for key, inner in shape.items():
        if key in ("[]", "{}"):
            yield from places(name, inner, path + ("[]" if key == "[]" else ".*"))
        elif key not in _MARKS:
            if key == name:
                yield path
            yield from places(name, inner, f"{path}.{key}" if path else key)


@dataclass(frozen=True, slots=True)
class _Walk:
    """root: the whole shape, where fields may have been put into a wrong place of it."""

    lax: bool = False
    root: Shape | None = None

    def inside(self, values: Mapping[str, Any], shape: Shape, path: str) -> Iterator[Found]:
        for name in shape.get("!", ()):
            if values.get(name) is None:
                yield f"{path or 'it'} has no {name}, which it must have", f"give it {name}", True
        for key, value in values.items():
            name = str(key)
            here = f"{path}.{name}" if path else name
            if name not in shape:
                if "*" not in shape:
                    yield _unknown(name, shape, path or "it", self.root)
            elif value is not None:
                yield from self.value(value, shape[name], here)
            elif self.lax and shape[name] is not None and name not in (*shape.get("~", ()), *shape.get("!", ())):
                yield f"{here} is null, which is a value here and refused", "give it one, or leave it out", True

    def value(self, value: Any, kind: Any, path: str) -> Iterator[Found]:
        if kind is None:
            return
        if isinstance(kind, tuple):
            if value not in kind:
                near = closest_names(str(value), kind, 1)
                yield (
                    f"{path} is {value!r}; allowed: {', '.join(kind)}",
                    f"did you mean '{near[0]}'?" if near else "give one of these",
                    True,
                )
        elif isinstance(kind, type):
            if not (_is(value, kind) or (self.lax and _reads(value, kind))):
                yield f"{path} is {value!r}; allowed: {_KIND[kind]}", _mend(value, kind), True
        elif "|" in kind and isinstance(value, kind["|"]):
            return
        elif "[]" in kind:
            if not isinstance(value, (list, tuple)):
                yield f"{path} is no list", "give a list", True
                return
            for index, each in enumerate(value):
                if each is not None:
                    yield from self.value(each, kind["[]"], f"{path}[{index}]")
        elif "{}" in kind and isinstance(value, Mapping):
            for name, each in value.items():
                yield from self.value(each, kind["{}"], f"{path}.{name}")
        elif isinstance(value, Mapping):
            yield from self.inside(value, kind, path)
        else:
            other = f" or {_KIND[kind['|']]}" if "|" in kind else ""
            yield f"{path} is {value!r}; allowed: a mapping{other}", f"give a mapping{other}", True


def _mend(value: Any, kind: type) -> str:
    if kind is str and not isinstance(value, (Mapping, list, tuple)):
        return f'write "{str(value).lower() if isinstance(value, bool) else value}" in quotes'
    if isinstance(value, str) and (value.isdigit() if kind is int else value in ("true", "false")):
        return "leave the quotes out"
    return "correct it, or leave it out"


def _is(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())  # numbers cross as floats
    return isinstance(value, (int, float)) if kind is float else isinstance(value, kind)


def _reads(value: Any, kind: type) -> bool:
    if kind is bool:
        return value in (0, 1) or (isinstance(value, str) and value.lower() in _SWITCHES)
    number = (float(value) if isinstance(value, bool) else real(value)) if isinstance(value, (str, bool)) else None
    return kind in (int, float) and number is not None and (kind is float or number.is_integer())


def _unknown(name: str, shape: Shape, path: str, root: Shape | None) -> Found:
    known = tuple(field for field in shape if field not in _MARKS)
    near = closest_names(name, known, 1)
    below = next((field for field in known if isinstance(shape[field], Mapping) and name in shape[field]), None)
    names = listed(known, _LONGEST) if len(known) <= _LONGEST else f"{len(known)} fields"
    if "?" in shape:
        return (
            f"{path} has no field '{name}': it is ignored without a word",
            f"did you mean '{near[0]}'?" if near else f"take it out; it has {names}",
            False,
        )
    # A newer Kubernetes may have fields of pods that are not in the list; a misspelt one looks like its neighbour.
    if below is not None:
        return f"{path} has no field '{name}'", f"it belongs one level down, into {path}.{below}", True
    elsewhere = tuple(places(name, root)) if root is not None and not near else ()
    if len(elsewhere) == 1:
        return f"{path} has no field '{name}'", f"it belongs into {elsewhere[0]}", True
    certain = bool(near) or not (root is not None or shape is POD or shape is CONTAINER)
    return (
        f"{path} has no field '{name}': the API server drops or refuses it",
        f"did you mean '{near[0]}'?" if near else f"take it out; it has {names}",
        certain,
    )
