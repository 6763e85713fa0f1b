"""Ports by name: a port given as text is a name to Kubernetes, and a name has a letter.

Source: kubernetes 1.34, apimachinery validation (IsValidPortName), pkg/apis/core/validation (ValidatePortNumOrName). Not for: whether
the port is the one that a process listens on (serve_ports.py, service_objects.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from .pod_resources import SOURCE, containers

_NAME = re.compile(r"(?=[-0-9]*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_ASKS = ("httpGet", "tcpSocket")


def names(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for name, container in containers(mapping(group.pod)):
                yield from _container(f"container '{name}'", group.where, container)
        service = mapping(workload.serve_service)
        yield from _service(f"{workload.where}: serveService", mapping(service.get("spec")))
    for item in stack.of_kind("Service"):
        yield from _service(item.where, item.spec)


def _container(what: str, where: str, container: Mapping[str, Any]) -> Iterator[Problem]:
    for port in map(mapping, items(container.get("ports"))):
        given = port.get("name")
        if given is not None and len(str(given)) <= 15 and not _NAME.fullmatch(str(given)):
            yield error(where, f"{what}: port name '{given}' is none that Kubernetes takes", _MEND)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        for kind in _ASKS:
            yield from _asked(
                where, f"{what}: its {probe}", mapping(mapping(container.get(probe)).get(kind)).get("port")
            )
    hooks = mapping(container.get("lifecycle"))
    for hook in ("postStart", "preStop"):
        for kind in _ASKS:
            yield from _asked(
                where, f"{what}: its {hook} hook", mapping(mapping(hooks.get(hook)).get(kind)).get("port")
            )


_MEND = "use lower-case letters, digits and '-', at least one letter, up to 15 characters"


def _asked(where: str, what: str, port: object) -> Iterator[Problem]:
    if isinstance(port, str) and not _NAME.fullmatch(port):
        number = port.strip()
        mend = f"write {number} without quotes" if number.isdigit() else _MEND
        why = "text is the name of a port, and a name has a letter" if number.isdigit() else "it is no name of a port"
        yield error(where, f"{what} asks port '{port}': {why}, so the API server refuses the object", mend)


def _service(where: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    for port in map(mapping, items(spec.get("ports"))):
        yield from _asked(where, f"its port {port.get('port')}", port.get("targetPort"))


RULES: tuple[Rule, ...] = (
    Rule(
        id="port-names",
        title="A port given as text is a name",
        why=(
            "Probes, hooks and Services take a number or the name of a container's port. A number in quotes is taken for a name, and names need a letter: the API server "
            "refuses the object, or every pod of the template."
        ),
        check=names,
        sources=(SOURCE,),
    ),
)
