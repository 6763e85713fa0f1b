"""Names by which pods of a StatefulSet find each other: the Service that gives them, and addresses that use them.

Not for: Services that lead clients to engines (service_objects.py), or Ray's own addresses (ray_start.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, Stack, Workload
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error, warning

from ._selectors import labels, matches
from .pod_resources import containers

_GATES = ("readinessProbe", "startupProbe")


def names(stack: Stack) -> Iterator[Problem]:
    sets = [workload for workload in stack.workloads if workload.kind == "StatefulSet" and workload.groups]
    if not sets:
        return
    services = {(item.namespace, item.name): item for item in stack.of_kind("Service")}
    for workload in sets:
        yield from _set(workload, services)


def _set(workload: Workload, services: Mapping[tuple[str, str], Object]) -> Iterator[Problem]:
    given = str(workload.spec.get("serviceName") or "")
    known = labels(workload, workload.groups[0])
    heads = [
        item
        for (space, _), item in sorted(services.items())
        if space == workload.namespace
        and _headless(item)
        and item.spec.get("selector")
        and matches({"matchLabels": item.spec["selector"]}, known)
    ]
    asked = [*_addresses(workload)]
    if not asked:
        return
    own = services.get((workload.namespace, given))
    if heads and (not given or own is None):
        yield error(
            workload.where,
            f"its pods are asked for by name ({asked[0][0]}) and serviceName {f'{given!r} is not there' if given else 'is not given'}: they have no names in DNS",
            f"set serviceName: {heads[0].name}",
        )
        return
    for address, service, space in asked:
        if service != given or space not in ("", workload.namespace):
            yield error(
                workload.where,
                f"its pods ask for {address}, and their own names end in .{given}.{workload.namespace}.svc: nothing answers to that name",
                f"write {workload.name}-0.{given}, which is found in any namespace",
            )
    if own is not None and _headless(own) and own.spec.get("publishNotReadyAddresses") is not True and _gated(workload):
        yield warning(
            own.where,
            f"pods of '{workload.name}' look for each other by its names before they are ready, and it has names of ready pods alone: none of them becomes ready",
            "set publishNotReadyAddresses: true",
        )


def _headless(item: Object) -> bool:
    return item.spec.get("clusterIP") == "None"


def _gated(workload: Workload) -> bool:
    """Whether a pod is ready only after something has been asked."""
    first = workload.groups[0].main_container
    return any(first.get(key) for key in _GATES)


def _addresses(workload: Workload) -> Iterator[tuple[str, str, str]]:
    """(address, Service, namespace or "") of the set's own pods, in words and environment of their containers."""
    own = re.compile(
        rf"\b{re.escape(workload.name)}-\d+\.([a-z][a-z0-9-]*)(?:\.([a-z0-9][a-z0-9-]*))?(?:\.svc[a-z.-]*)?(?=[^a-z0-9.-]|$)"
    )
    for _, container in containers(mapping(workload.groups[0].pod)):
        for text in _texts(container):
            for match in own.finditer(text):
                yield match[0], match[1], match[2] or ""


def _texts(container: Mapping[str, Any]) -> Iterator[str]:
    for key in ("command", "args"):
        yield from map(str, container.get(key) or ())
    for entry in container.get("env") or ():
        if isinstance(mapping(entry).get("value"), str):
            yield str(mapping(entry)["value"])


RULES: tuple[Rule, ...] = (
    Rule(
        id="stable-names",
        title="Pods that look for each other by name have names",
        why=(
            "A pod of a StatefulSet is <set>-<n>.<serviceName> in DNS, where that headless Service is there. It has names of ready pods alone unless publishNotReadyAddresses is set, and pods "
            "of one engine are ready only after they have found each other."
        ),
        check=names,
        sources=(
            "vllm-project/aibrix PR#1441",
            "sonatype/nxrm3-ha-repository#51",
            "ai-dynamo/dynamo PR#8183",
            "https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#stable-network-id",
        ),
    ),
)
