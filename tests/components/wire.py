"""A resource's inputs, as Pulumi has them, made into a request of the AWS API, and judged by botocore's model of it.

Everything here is general: names are matched by letters alone, maps of tags become lists of pairs, numbers and booleans get
the type the model wants. An input that the API does not know is an error, as is a value outside an enumeration, a pattern or
a length. What differs from type to type is in cloud.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import ParamValidator


class NotInTheApi(AssertionError):
    """An input that the operation has no place for, or a value that its model refuses."""


def request(operation: Any, inputs: Mapping[str, Any], renames: Mapping[str, str], where: str) -> dict[str, Any]:
    """The operation's parameters. `renames` maps "path.to.input" to the API's name of the last part, or to "" to leave it out."""
    params = _structure(operation.input_shape, inputs, dict(renames), "", where)
    report = ParamValidator().validate(params, operation.input_shape)
    if report.has_errors():
        raise NotInTheApi(f"{where}: {report.generate_report()}")
    return params


def _structure(
    shape: StructureShape, inputs: Mapping[str, Any], renames: Mapping[str, str], path: str, where: str
) -> dict[str, Any]:
    members = {_letters(name): name for name in shape.members}
    found: dict[str, Any] = {}
    for key, value in inputs.items():
        here = f"{path}.{key}" if path else key
        name = renames.get(re.sub(r"\.\d+", "", here), key)
        if name == "" or value is None:
            continue
        member = members.get(_letters(name)) or members.get(_letters(name).removesuffix("s"))
        if member is None:
            raise NotInTheApi(f"{where}: {here}: {shape.name} has no such member; it has {', '.join(shape.members)}")
        found[member] = _value(shape.members[member], value, renames, here, where)
    return found


def _value(shape: Shape, value: Any, renames: Mapping[str, str], path: str, where: str) -> Any:
    if isinstance(shape, StructureShape):
        return _structure(shape, value, renames, path, where)
    if isinstance(shape, ListShape):
        if isinstance(value, Mapping):  # tags: a map here, a list of pairs there
            value = [{"Key": key, "Value": each} for key, each in sorted(value.items())]
        return [_value(shape.member, each, renames, f"{path}.{i}", where) for i, each in enumerate(value)]
    if isinstance(shape, MapShape):
        return {key: _value(shape.value, each, renames, f"{path}.{key}", where) for key, each in value.items()}
    return _scalar(shape, value, path, where)


def _scalar(shape: Shape, value: Any, path: str, where: str) -> Any:
    if shape.type_name in ("integer", "long"):
        if float(value) != int(value):
            raise NotInTheApi(f"{where}: {path}: {value} is no whole number")
        return int(value)
    if shape.type_name == "boolean":
        return value if isinstance(value, bool) else {"true": True, "false": False}[value]
    if shape.type_name == "string":
        text = value if isinstance(value, str) else str(value)
        enum = shape.metadata.get("enum")
        if enum and text not in enum:
            raise NotInTheApi(f"{where}: {path}: {text!r} is not one of {', '.join(enum)}")
        longest = shape.metadata.get("max")
        if longest is not None and len(text) > longest:
            raise NotInTheApi(f"{where}: {path}: {len(text)} characters, at most {longest} are allowed")
        pattern = shape.metadata.get("pattern")
        if pattern and not _matches(pattern, text):
            raise NotInTheApi(f"{where}: {path}: {text!r} does not match {pattern}")
        return text
    return value


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # Java's own escapes, such as \p{L}
        return True


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
