"""What the API server refuses in a pod: the template around it is accepted, and then no pod of it is ever made.

The CRDs of KubeRay check types and required fields of pod templates and no more; the rest is checked when a pod is created.
Source of every check: kubernetes 1.34, pkg/apis/core/validation. Not for: limits and requests (pod_resources.py), privileges
(pod_security.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import listed
from .pod_resources import QUANTITY, SOURCE, containers

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_PUT_IN = re.compile(r"(?<!\$)\$\(([A-Za-z_]\w*)\)")
_KEY = re.compile(r"[-._A-Za-z0-9]+")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)
# KubeRay adds them where the cluster has what they are for (controllers/ray/common/pod.go, utils/constant.go); a container beside
# Ray's may mount them.
_MADE_BY_KUBERAY = ("gcs-storage", "ray-logs", "ray-tls", "ray-token", "shared-mem")
CLUSTERS = ("RayCluster", "RayJob", "RayService")
_CLAIMS = {"secret": "secretName", "configMap": "name", "persistentVolumeClaim": "claimName"}
_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
}
_PULL = ("Always", "IfNotPresent", "Never")
_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def volumes(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            pod = mapping(group.pod)
            declared = [mapping(volume) for volume in items(pod.get("volumes"))]
            names = Counter(str(volume.get("name", "")) for volume in declared)
            made = _MADE_BY_KUBERAY if workload.kind in CLUSTERS else ()
            for name, count in names.items():
                if not _NAME.fullmatch(name):
                    yield error(
                        group.where, f"volume name '{name}' is no DNS label", "use lower-case letters, digits and '-'"
                    )
                elif count > 1:
                    yield error(group.where, f"{count} volumes are called '{name}'", "give each a name of its own")
            for volume in declared:
                yield from _volume(group.where, volume)
            for name, container in containers(pod):
                mounts = [mapping(mount) for mount in items(container.get("volumeMounts"))]
                for mount in mounts:
                    if str(mount.get("name", "")) not in names and str(mount.get("name", "")) not in made:
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
    if size is not None and not QUANTITY.fullmatch(str(size).strip()):
        yield error(where, f"sizeLimit of volume '{name}' is '{size}', no quantity of Kubernetes", "write 16Gi")


def fields(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
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
            names = Counter(name for name, _ in containers(pod))
            for name, container in containers(pod):
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


def _reference(where: str, variable: str, source: Mapping[str, Any]) -> Iterator[Problem]:
    for kind in ("secretKeyRef", "configMapKeyRef"):
        if kind not in source:
            continue
        ref = mapping(source[kind])
        name, key = str(ref.get("name") or ""), str(ref.get("key") or "")
        what = "Secret" if kind == "secretKeyRef" else "ConfigMap"
        if not _SUBDOMAIN.fullmatch(name):
            yield error(
                where,
                f"environment variable {variable} is from {what} '{name}', which no {what} can be called",
                "use lower-case letters, digits, '-' and '.'",
            )
        if not _KEY.fullmatch(key):
            yield error(
                where,
                f"environment variable {variable} is from key '{key}' of {what} '{name}', and keys have letters, digits, '-', '_' and '.'",
                "correct the key",
            )


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
        elif entry.get("valueFrom"):
            yield from _reference(where, variable, mapping(entry["valueFrom"]))
        if entry.get("value") and entry.get("valueFrom"):
            yield error(where, f"environment variable {variable} has value and valueFrom", "keep one of them")
    yield from _order(where, container)
    image = container.get("image")
    if image and not _IMAGE.fullmatch(str(image)):
        yield error(
            where,
            f"container '{name}': '{image}' is no image reference: the kubelet answers InvalidImageName",
            "write registry/repository:tag, the repository in lower case",
        )
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


def _order(where: str, container: Mapping[str, Any]) -> Iterator[Problem]:
    """$(NAME) in a value is put in only where NAME stands further up."""
    names = [str(mapping(entry).get("name")) for entry in items(container.get("env"))]
    for at, entry in enumerate(map(mapping, items(container.get("env")))):
        for name in _PUT_IN.findall(entry["value"]) if isinstance(entry.get("value"), str) else ():
            if name in names[at + 1 :] and name not in names[:at]:
                yield error(
                    where,
                    f"environment variable {names[at]} uses $({name}), which the container sets only after it: the text stays as it is",
                    f"put {name} before {names[at]}",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-volumes",
        title="Mounts name volumes that the pod has",
        why="A mount of a volume that is not declared, or a volume without its source, makes every pod of the template invalid; KubeRay only logs it.",
        check=volumes,
        sources=(SOURCE,),
    ),
    Rule(
        id="pod-fields",
        title="Fields of a pod have values that Kubernetes knows",
        why="Restart and pull policies, tolerations, ports, probes and environment are checked when a pod is made, not when its template is.",
        check=fields,
        sources=(SOURCE,),
    ),
)
