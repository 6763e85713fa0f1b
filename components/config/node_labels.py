"""Labels and taints of nodes as Kubernetes takes them: refused here, since a node that is given others never joins.

Not for: keys that belong to Kubernetes, EKS or Karpenter (policies/rules/pool_labels.py).
Source: apimachinery validation (IsQualifiedName, IsValidLabelValue); core validation of taints (unique by key and effect).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from .base import Labels, Taint

_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_KEY = "a key is [prefix/]name: the prefix a DNS name, the name up to 63 letters, digits, '-', '_' and '.'"
_VALUE = "a value is empty, or up to 63 letters, digits, '-', '_' and '.' that begins and ends with a letter or digit"


def is_key(text: str) -> bool:
    """Whether Kubernetes takes it as the key of a label or taint."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or _PREFIX.fullmatch(prefix) is None):
        return False
    return len(name) <= 63 and _WORD.fullmatch(name) is not None


def is_value(text: str) -> bool:
    """Whether Kubernetes takes it as the value of a label or taint."""
    return text == "" or (len(text) <= 63 and _WORD.fullmatch(text) is not None)


def each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names; ValueError when one is there twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is named twice; name each once")
    return names


def _labels(labels: Labels) -> Labels:
    for key, value in labels.items():
        _check("label", key, value)
    return labels


def _taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    for taint in taints:
        _check("taint", taint.key, taint.value)
    _unique((taint.key, taint.effect) for taint in taints)
    return taints


def _check(what: str, key: str, value: str) -> None:
    if not is_key(key):
        raise ValueError(f"{what} key '{key}' is none that Kubernetes takes; {_KEY}")
    if not is_value(value):
        raise ValueError(f"{what} {key} has value '{value}', which Kubernetes does not take; {_VALUE}")


def _unique(pairs: Iterable[tuple[str, str]]) -> None:
    seen: set[tuple[str, str]] = set()
    for key, effect in pairs:
        if (key, effect) in seen:
            raise ValueError(f"taint {key} with effect {effect} is given twice; Kubernetes takes one of each")
        seen.add((key, effect))


NodeLabels = Annotated[Labels, AfterValidator(_labels)]
NodeTaints = Annotated[tuple[Taint, ...], AfterValidator(_taints)]
