"""What the API server refuses in a pod: the template around it is accepted, and then no pod of it is ever made.

The CRDs of KubeRay check types and required fields of pod templates and no more; the rest is checked when a pod is created.
Source of every check: kubernetes 1.34, pkg/apis/core/validation. Not for: pods on nodes (placement.py), privileges
(pod_security.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping, quantity, whole
from policies.finding import Problem, Rule, error, warning

from ._places import pods_of
from ._values import amount, listed

_QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_QUALIFIED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_CLAIMS = {"secret": "secretName", "configMap": "name", "persistentVolumeClaim": "claimName"}
_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
}
_PULL = ("Always", "IfNotPresent", "Never")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_MIB = 2**20


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in ("containers", "initContainers"):
        for index, each in enumerate(map(mapping, items(pod.get(key)))):
            yield str(each.get("name") or f"{key}[{index}]"), each


def resources(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in pods_of(workload):
            for name, container in _containers(mapping(group.pod)):
                given = mapping(container.get("resources"))
                limits, requests = mapping(given.get("limits")), mapping(given.get("requests"))
                for kind, values in (("limit", limits), ("request", requests)):
                    for resource, value in values.items():
                        yield from _quantity(f"{group.where}", f"container '{name}': {kind}", str(resource), value)
                for resource in {**limits, **requests}:
                    yield from _pair(group.where, name, str(resource), limits.get(resource), requests.get(resource))


def _quantity(where: str, what: str, resource: str, value: Any) -> Iterator[Problem]:
    if resource not in _STANDARD and not resource.startswith("hugepages-") and not _QUALIFIED.fullmatch(resource):
        others = ("nvidia.com/gpu", "vpc.amazonaws.com/efa")
        near = [n for n in others if resource.lower().endswith(n.rsplit("/", 1)[-1])] or closest_names(
            resource, _STANDARD, 1
        )
        yield error(
            where,
            f"{what} of '{resource}': no resource of Kubernetes, and names of others have a domain",
            f"use '{near[0]}'" if near else "use cpu, memory, or a name such as nvidia.com/gpu",
        )
        return
    if value is None:
        return
    text = str(value).strip()
    if isinstance(value, bool) or not _QUANTITY.fullmatch(text):
        near = re.sub(r"([KMGTP])(i?)[bB]$", r"\1i", text.upper().replace("I", "i")) if text[-1:] in "bBgm" else ""
        hint = near if _QUANTITY.fullmatch(near) else "28Gi" if resource == "memory" else "2"
        yield error(where, f"{what} of {resource} is '{text}', no quantity of Kubernetes", f"write {hint}")
        return
    number = quantity(value)
    if number is None:
        return  # an exponent
    if number < 0:
        yield error(where, f"{what} of {resource} is {text}, less than 0", "give 0 or more")
    elif not _sound(resource, number) and resource != "memory":
        yield error(
            where,
            f"{what} of {resource} is {text}: only CPU and memory may be parts, and the API server refuses the pod",
            "give a whole number; a part of a GPU is gpu.share with a pool's sharing (mig, time_slicing, mps, kai)",
        )
    elif not _sound(resource, number):
        yield error(
            where,
            f"{what} of memory is {text}, which is {amount(number)} bytes",
            f"write {amount(number)}Gi" if number.is_integer() else "write MiB as Mi, GiB as Gi",
        )


def _pair(where: str, name: str, resource: str, limit: Any, request: Any) -> Iterator[Problem]:
    most, least = quantity(limit), quantity(request)
    if any(number is not None and not _sound(resource, number) for number in (most, least)):
        return  # said already
    if resource in _STANDARD:
        if most is not None and least is not None and least > most:
            yield error(
                where,
                f"container '{name}' requests {request} of {resource} and is limited to {limit}: the API server refuses the pod",
                f"set the limit to {request}, or request at most {limit}",
            )
    elif least is not None and most is None:
        yield error(
            where,
            f"container '{name}' requests {request} of {resource} without a limit: the API server refuses the pod",
            f"set the limit to {request}",
        )
    elif least is not None and least != most:
        yield error(
            where,
            f"container '{name}' requests {request} of {resource} and is limited to {limit}: such resources cannot be overcommitted",
            "make both the same, or leave the request out",
        )


def _sound(resource: str, number: float) -> bool:
    return number >= (_MIB if resource == "memory" and number else 0) and (
        resource in _STANDARD or float(number).is_integer()
    )


def volumes(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in pods_of(workload):
            pod = mapping(group.pod)
            declared = [mapping(volume) for volume in items(pod.get("volumes"))]
            names = Counter(str(volume.get("name", "")) for volume in declared)
            for name, count in names.items():
                if not _NAME.fullmatch(name):
                    yield error(
                        group.where, f"volume name '{name}' is no DNS label", "use lower-case letters, digits and '-'"
                    )
                elif count > 1:
                    yield error(group.where, f"{count} volumes are called '{name}'", "give each a name of its own")
            for volume in declared:
                yield from _volume(group.where, volume)
            for name, container in _containers(pod):
                mounts = [mapping(mount) for mount in items(container.get("volumeMounts"))]
                for mount in mounts:
                    if str(mount.get("name", "")) not in names:
                        near = closest_names(str(mount.get("name", "")), tuple(names), 1)
                        yield error(
                            group.where,
                            f"container '{name}' mounts volume '{mount.get('name')}', which the pod does not have: no pod is made",
                            f"did you mean '{near[0]}'?" if near else "declare it under volumes, or take the mount out",
                        )
                twice = [path for path, n in Counter(str(m.get("mountPath")) for m in mounts).items() if n > 1]
                if twice:
                    yield error(
                        group.where, f"container '{name}' mounts {listed(twice)} twice", "keep one of the mounts"
                    )


def _volume(where: str, volume: Mapping[str, Any]) -> Iterator[Problem]:
    name = volume.get("name")
    kinds = [key for key, value in volume.items() if key != "name" and value is not None]
    if len(kinds) > 1:
        yield error(where, f"volume '{name}' is of several kinds: {listed(kinds)}", "keep one")
    for kind, key in _CLAIMS.items():
        if kind in volume and not mapping(volume[kind]).get(key):
            yield error(where, f"volume '{name}' of kind {kind} has no {key}", f"set {key}")
    size = mapping(volume.get("emptyDir")).get("sizeLimit")
    if size is not None and not _QUANTITY.fullmatch(str(size).strip()):
        yield error(where, f"sizeLimit of volume '{name}' is '{size}', no quantity of Kubernetes", "write 16Gi")


def fields(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in pods_of(workload):
            pod = mapping(group.pod)
            for key, allowed in _CHOICES.items():
                yield from _choice(group.where, key, pod.get(key), allowed)
            grace = whole(pod.get("terminationGracePeriodSeconds"))
            if grace is not None and grace < 0:
                yield error(group.where, f"terminationGracePeriodSeconds is {grace}, less than 0", "give 0 or more")
            for key in ("serviceAccountName", "priorityClassName", "runtimeClassName"):
                if pod.get(key) and not _SUBDOMAIN.fullmatch(str(pod[key])):
                    yield error(
                        group.where,
                        f"{key} '{pod[key]}' is no name of Kubernetes",
                        "use lower-case letters, digits, '-' and '.'",
                    )
            for given in map(mapping, items(pod.get("tolerations"))):
                yield from _toleration(group.where, given)
            names = Counter(name for name, _ in _containers(pod))
            for name, container in _containers(pod):
                if names[name] > 1:
                    yield error(
                        group.where, f"{names[name]} containers are called '{name}'", "give each a name of its own"
                    )
                yield from _choice(
                    group.where, f"container '{name}': imagePullPolicy", container.get("imagePullPolicy"), _PULL
                )
                yield from _container(group.where, name, container)


def _choice(where: str, key: str, value: Any, allowed: tuple[str, ...]) -> Iterator[Problem]:
    if value is not None and value not in allowed:
        near = closest_names(str(value), allowed, 1)
        yield error(
            where,
            f"{key} is '{value}'; allowed: {', '.join(allowed)}",
            f"did you mean '{near[0]}'?" if near else "give one of these",
        )


def _toleration(where: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    operator, key = given.get("operator") or "Equal", given.get("key")
    yield from _choice(where, f"effect of toleration '{key}'", given.get("effect") or None, _EFFECTS)
    if operator == "Exists" and given.get("value"):
        yield error(
            where, f"toleration '{key}' has operator Exists and value '{given['value']}'", "leave the value out"
        )
    if operator == "Equal" and not key:
        yield error(where, "a toleration without key has operator Equal", "give it operator Exists, or a key")


def _container(where: str, name: str, container: Mapping[str, Any]) -> Iterator[Problem]:
    for entry in map(mapping, items(container.get("env"))):
        variable = str(entry.get("name", ""))
        if not variable or "=" in variable:
            yield error(
                where,
                f"container '{name}' has an environment variable called '{variable}'",
                "give it a name without '='",
            )
        elif entry.get("value") is not None and not isinstance(entry["value"], str):
            yield error(
                where,
                f"environment variable {variable} is {entry['value']!r}, not text: the API server refuses the object",
                f'write "{str(entry["value"]).lower() if isinstance(entry["value"], bool) else entry["value"]}" in quotes',
            )
        elif entry.get("value") and entry.get("valueFrom"):
            yield error(where, f"environment variable {variable} has value and valueFrom", "keep one of them")
    for port in map(mapping, items(container.get("ports"))):
        number = whole(port.get("containerPort"))
        if number is None or not 1 <= number <= 65535:
            yield error(
                where, f"container '{name}': port {port.get('containerPort')}; allowed: 1 to 65535", "correct it"
            )
        if len(str(port.get("name") or "")) > 15:
            yield error(where, f"container '{name}': port name '{port['name']}' is over 15 characters", "shorten it")
    for probe in ("livenessProbe", "startupProbe"):
        successes = whole(mapping(container.get(probe)).get("successThreshold"))
        if successes not in (None, 0, 1):
            yield error(
                where,
                f"container '{name}': successThreshold of its {probe} is {successes} and must be 1",
                "leave it out",
            )
    repeated = [
        n for n, count in Counter(str(mapping(e).get("name")) for e in items(container.get("env"))).items() if count > 1
    ]
    if repeated:
        yield warning(
            where, f"container '{name}' sets {listed(repeated)} more than once: the last one counts", "keep one of them"
        )


_SOURCE = "kubernetes v1.34: pkg/apis/core/validation/validation.go"
RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-resources",
        title="Limits and requests are quantities that go together",
        why=(
            "Only CPU and memory may be parts or be requested below their limit. GPUs, EFA interfaces and huge pages are whole numbers, limit and request the same. "
            "The custom resource is accepted with anything; the operator then makes pods that the API server refuses, for ever."
        ),
        check=resources,
        sources=(_SOURCE, "volcano#822", "k8s-device-plugin#458"),
    ),
    Rule(
        id="pod-volumes",
        title="Mounts name volumes that the pod has",
        why="A mount of a volume that is not declared, or a volume without its source, makes every pod of the template invalid; KubeRay only logs it.",
        check=volumes,
        sources=(_SOURCE,),
    ),
    Rule(
        id="pod-fields",
        title="Fields of a pod have values that Kubernetes knows",
        why="Restart and pull policies, tolerations, ports, probes and environment are checked when a pod is made, not when its template is.",
        check=fields,
        sources=(_SOURCE,),
    ),
)
