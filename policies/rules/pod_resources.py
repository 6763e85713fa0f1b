"""Limits and requests of containers: quantities that Kubernetes reads, and pairs that the API server takes.

A custom resource is accepted with anything in its pod templates; what is wrong is refused when the operator makes a pod. Source:
kubernetes 1.34, pkg/apis/core/validation. Not for: whether a pod fits a node (placement.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping, quantity
from policies.finding import Problem, Rule, error

from ._places import EFA
from ._values import amount

QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
SOURCE = "kubernetes v1.34: pkg/apis/core/validation/validation.go"
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_OTHERS = ("nvidia.com/gpu", EFA)
_QUALIFIED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_MIB = 2**20


def containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, container) of a pod, those that only start it included."""
    for key in ("containers", "initContainers"):
        for index, each in enumerate(map(mapping, items(pod.get(key)))):
            yield str(each.get("name") or f"{key}[{index}]"), each


def resources(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for name, container in containers(mapping(group.pod)):
                given = mapping(container.get("resources"))
                limits, requests = mapping(given.get("limits")), mapping(given.get("requests"))
                for resource in {**limits, **requests}:
                    pair = _plain(limits.get(resource)), _plain(requests.get(resource))
                    for message, mend in _problems(str(resource), *pair):
                        yield error(group.where, f"container '{name}'{message}", mend)


def limits(stack: Stack) -> Iterator[Problem]:
    """Apart from the others: a limit that is not known yet is none here and a wrong one there, so neither is certain."""
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for name, container in containers(mapping(group.pod)):
                given = mapping(container.get("resources"))
                limited = mapping(given.get("limits"))
                for resource, request in mapping(given.get("requests")).items():
                    if resource not in _STANDARD and limited.get(resource) is None and quantity(request) is not None:
                        yield error(
                            group.where,
                            f"container '{name}' requests {request} of {resource} without a limit: the API server refuses the pod",
                            f"set the limit to {request}",
                        )


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def no_resource(name: str) -> str | None:
    """What to do about a name that no resource can have; None for one that can."""
    if name in _STANDARD or name.startswith("hugepages-") or _QUALIFIED.fullmatch(name):
        return None
    near = [each for each in _OTHERS if name.lower().endswith(each.rsplit("/", 1)[-1])]
    near = near or list(closest_names(name, _STANDARD, 1))
    return f"use '{near[0]}'" if near else "use cpu, memory, or a name such as nvidia.com/gpu"


@lru_cache(maxsize=4096, typed=True)
def _problems(resource: str, limit: Any, request: Any) -> tuple[tuple[str, str], ...]:
    """(message after the container's name, mend) for one resource. Kept: a thousand pods ask for the same few."""
    if mend := no_resource(resource):
        return ((f" asks for '{resource}': no resource of Kubernetes, and names of others have a domain", mend),)
    stated = (("limit", limit), ("request", request))
    alone = [(f": {kind} {found[0]}", found[1]) for kind, value in stated if (found := _alone(resource, value))]
    return tuple(alone) or tuple(_together(resource, limit, request))


def _alone(resource: str, value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    text = str(value).strip()
    if isinstance(value, bool) or not QUANTITY.fullmatch(text):
        guess = re.sub(r"[bB]$", "", text.upper().replace("I", "i"))
        guess = guess if guess.endswith("i") or not guess[-1:].isalpha() else f"{guess}i"
        hint = guess if QUANTITY.fullmatch(guess) else "28Gi" if resource == "memory" else "2"
        return f"of {resource} is '{text}', no quantity of Kubernetes", f"write {hint}"
    number = quantity(value)
    if number is None:
        return None  # an exponent
    if number < 0:
        return f"of {resource} is {text}, less than 0", "give 0 or more"
    if resource not in _STANDARD and not number.is_integer():
        return (
            f"of {resource} is {text}: only CPU and memory may be parts, and the API server refuses the pod",
            "give a whole number; a part of a GPU is gpu.share with a pool's sharing (mig, time_slicing, mps, kai)",
        )
    if resource == "memory" and 0 < number < _MIB:
        mend = f"write {amount(number)}Gi" if number.is_integer() else "write MiB as Mi, GiB as Gi"
        return f"of memory is {text}, which is {amount(number)} bytes", mend
    return None


def _together(resource: str, limit: Any, request: Any) -> Iterator[tuple[str, str]]:
    most, least = quantity(limit), quantity(request)
    if least is None or least == most:
        return
    asked = f" requests {request} of {resource}"
    if resource in _STANDARD:
        if most is not None and least > most:
            yield (
                f"{asked} and is limited to {limit}: the API server refuses the pod",
                f"set the limit to {request}, or request at most {limit}",
            )
    elif most is not None:
        yield (
            f"{asked} and is limited to {limit}: such resources cannot be overcommitted",
            "make both the same, or leave the request out",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-resources",
        title="Limits and requests are quantities that go together",
        why=(
            "Only CPU and memory may be parts or be requested below their limit. GPUs, EFA interfaces and huge pages are whole numbers, limit and request the same. "
            "The custom resource is accepted with anything; the operator then makes pods that the API server refuses, for ever."
        ),
        check=resources,
        sources=(SOURCE, "volcano#822", "k8s-device-plugin#458"),
    ),
    Rule(
        id="pod-device-limits",
        title="Devices that are requested are limited as well",
        why="Kubernetes takes a request of GPUs, EFA interfaces or huge pages only beside a limit; the operator's pods are refused without.",
        check=limits,
        sources=(SOURCE,),
    ),
)
