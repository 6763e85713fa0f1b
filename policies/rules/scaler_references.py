"""Autoscalers and monitors that point at workloads and pods by name, label or port.

Kubernetes takes such an object whatever it points at; nothing happens then, and nothing says so. What is not seen may be there all
the same, so a miss is told only where something that it nearly names is seen. Not for: what a scaler asks (pod_scaling.py), whether a
Prometheus selects the monitor, or routes (object_references.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Object, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._selectors import asked, labels
from ._values import listed
from .pod_resources import containers

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_APPS = "apps/v1"
_VERSIONS = {
    "Deployment": _APPS,
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "ReplicaSet": _APPS,
    "StatefulSet": _APPS,
}
_WITHOUT_SCALE = ("RayCluster", "RayJob", "RayService")
Pods = Sequence[tuple[Workload, PodGroup, Mapping[str, str]]]


def scalers(stack: Stack) -> Iterator[Problem]:
    plain = {(w.namespace, w.kind, w.name): w for w in stack.workloads}
    for item in stack.of_kind(*_SCALERS):
        target = mapping(item.spec.get("scaleTargetRef"))
        kind, name = str(target.get("kind") or "Deployment"), str(target.get("name") or "")
        if kind in _WITHOUT_SCALE:
            yield error(
                item.where,
                f"it scales {kind} '{name}', which has no scale subresource: it never changes anything",
                "let Ray's autoscaler add pods (autoscaling, replicas.min and max of the models)",
            )
            continue
        if not name:
            continue  # a patch of kustomize
        yield from _served(item, kind, name, str(target.get("apiVersion") or ""))
        mine = plain.get((item.namespace, kind, name))
        if mine is None:
            names = [w.name for w in stack.workloads if w.namespace == item.namespace and w.kind == kind]
            near = closest_names(name, names, 1)
            if near:
                yield error(
                    item.where, f"{kind} '{name}' is not in namespace '{item.namespace}'", f"did you mean '{near[0]}'?"
                )
        elif item.kind == "HorizontalPodAutoscaler":
            yield from _requests(item, mine)


def _served(item: Object, kind: str, name: str, given: str) -> Iterator[Problem]:
    """KEDA looks a kind up by group and version, and takes apps/v1 where none is given; the HPA controller looks at the group alone."""
    wanted = _VERSIONS.get(kind)
    group, version = given.rpartition("/")[::2]
    if wanted is None or (not given and wanted == _APPS and item.kind == "ScaledObject"):
        return
    apart = group != wanted.rpartition("/")[0]
    if apart or (item.kind == "ScaledObject" and wanted != _APPS and version != wanted.rpartition("/")[2]):
        yield error(
            item.where,
            f"scaleTargetRef has {f'apiVersion {given}' if given else 'no apiVersion'} for {kind} '{name}', which is served as {wanted}: it is not found, and nothing is scaled",
            f"set scaleTargetRef.apiVersion: {wanted}",
        )


def _requests(item: Object, workload: Workload) -> Iterator[Problem]:
    """A share of the request needs a request in every container (a limit stands in for it)."""
    for metric in map(mapping, items(item.spec.get("metrics"))):
        resource = mapping(metric.get("resource"))
        name = str(resource.get("name"))
        if metric.get("type") != "Resource" or mapping(resource.get("target")).get("type") != "Utilization":
            continue
        lacking = []
        for group in workload.groups:
            for container in map(mapping, items(group.pod.get("containers"))):
                given = mapping(container.get("resources"))
                if name not in mapping(given.get("requests")) and name not in mapping(given.get("limits")):
                    lacking.append(str(container.get("name")))
        if lacking:
            yield error(
                item.where,
                f"it scales on a share of the requested {name} and {listed(lacking)} of '{workload.name}' request{'s' if len(lacking) == 1 else ''} none: "
                "the metric is never there",
                f"request {name} in every container, or scale on an AverageValue",
            )


def monitors(stack: Stack) -> Iterator[Problem]:
    plain = [(w, g, labels(w, g)) for w in stack.workloads if not w.by_kuberay for g in w.groups]
    for item in stack.of_kind("PodMonitor"):
        yield from _pod_monitor(item, plain)
    services = stack.of_kind("Service")
    for item in stack.of_kind("ServiceMonitor"):
        yield from _service_monitor(item, services)


def _spaces(item: Object) -> tuple[str, ...] | None:
    """Namespaces that a monitor looks at; None for all."""
    given = mapping(item.spec.get("namespaceSelector"))
    if given.get("any") is True:
        return None
    return tuple(map(str, items(given.get("matchNames")))) or (item.namespace,)


def _pod_monitor(item: Object, plain: Pods) -> Iterator[Problem]:
    wanted, spaces = asked(item.spec.get("selector")), _spaces(item)
    if not wanted or mapping(item.spec.get("selector")).get("matchExpressions"):
        return
    fitting = [(w, g) for w, g, given in plain if wanted.items() <= given.items()]
    mine = [(w, g) for w, g in fitting if spaces is None or w.namespace in spaces]
    if not mine and fitting:
        yield warning(
            item.where,
            f"it looks for pods in {listed(spaces or ())}, and those with its labels are in {listed(sorted({w.namespace for w, _ in fitting}))}: nothing is scraped",
            "name their namespace in namespaceSelector.matchNames",
        )
    elif not mine:
        near = [
            w.name for w, _, given in plain if w.namespace in (spaces or (w.namespace,)) and _one_apart(wanted, given)
        ]
        if near:
            yield error(
                item.where,
                f"no pod has {listed(f'{k}={v}' for k, v in sorted(wanted.items()))}: nothing is scraped",
                f"select the labels of the pods of '{near[0]}'",
            )
    for workload, group in mine:
        ports = [port for _, container in containers(group.pod) for port in items(container.get("ports"))]
        for port, names in _not_named(item.spec.get("podMetricsEndpoints"), ports):
            yield error(
                item.where,
                f"it scrapes port '{port}' by name, and pods of '{workload.name}' have {names}: nothing is scraped",
                "give the container's port that name, or name one that it has",
            )


def _not_named(endpoints: object, ports: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """(port that a monitor's endpoint names, names that there are) where no port has that name."""
    names = {str(mapping(port)["name"]) for port in ports if mapping(port).get("name")}
    for endpoint in map(mapping, items(endpoints)):
        asked_for = endpoint.get("port")
        if asked_for is not None and str(asked_for) not in names:
            yield str(asked_for), listed(sorted(names)) if names else "no named port"


def _one_apart(wanted: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Whether labels that are asked for and given differ in one value that looks like the other."""
    wrong = [(value, given[key]) for key, value in wanted.items() if key in given and given[key] != value]
    absent = [key for key in wanted if key not in given]
    return not absent and len(wrong) == 1 and bool(closest_names(wrong[0][0], [wrong[0][1]], 1))


def _service_monitor(item: Object, services: Sequence[Object]) -> Iterator[Problem]:
    wanted, spaces = asked(item.spec.get("selector")), _spaces(item)
    if not wanted or mapping(item.spec.get("selector")).get("matchExpressions"):
        return
    for service in services:
        given = {str(k): str(v) for k, v in service.labels.items()}
        if not wanted.items() <= given.items() or (spaces is not None and service.namespace not in spaces):
            continue
        for port, names in _not_named(item.spec.get("endpoints"), items(service.spec.get("ports"))):
            yield error(
                item.where,
                f"it scrapes port '{port}' by name, and Service '{service.name}' has {names}: nothing is scraped",
                "name the port of the Service",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="scaler-target",
        title="An autoscaler scales what is there, by what is there",
        why=(
            "An autoscaler of a workload that does not exist, or has no scale subresource, waits for ever. A share of the requested CPU or memory is a share of nothing "
            "where a container requests none."
        ),
        check=scalers,
        sources=(
            "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
            "kuberay: CRDs of v1.7.0 (subresources: status)",
            "llm-d/llm-d-autoscaling PR#1517",
            "keda: apis/keda/v1alpha1/gvkr.go",
        ),
    ),
    Rule(
        id="monitor-target",
        title="A monitor finds the pods' port by its name",
        why=(
            "The Prometheus Operator looks for the port's name in pods or Services, and in its own namespace unless told. A miss drops the targets without a word: "
            "dashboards stay empty, and scalers that ask Prometheus see no load."
        ),
        check=monitors,
        sources=("NVIDIA/nvcf#1694", "prometheus-operator#2833", "llm-d/llm-d-async#359", "kubeai-project/kubeai#391"),
    ),
)
