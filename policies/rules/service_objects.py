"""Services and controllers of plain pods: selectors that find the pods, and ports on which the engine listens.

Not for: who can reach a Service (exposure.py), or the Services that KubeRay makes itself (serve_ports.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._selectors import asked, labels
from ._values import listed
from .serve_ports import listening

_CONTROLLERS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_SUFFIXES = ("-engine-service", "-service", "-svc", "-server")


def _template_labels(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Labels of the pods of an object: of its template, or its own for a Pod."""
    spec = mapping(manifest.get("spec"))
    source = manifest if manifest.get("kind") == "Pod" else mapping(spec.get("template"))
    return {str(k): str(v) for k, v in mapping(mapping(source.get("metadata")).get("labels")).items()}


def controllers(stack: Stack) -> Iterator[Problem]:
    for where, manifest in _manifests(stack):
        if manifest.get("kind") not in _CONTROLLERS:
            continue
        selector, given = mapping(mapping(manifest.get("spec")).get("selector")), _template_labels(manifest)
        missed = {k: v for k, v in asked(selector).items() if given.get(k) != v}
        if missed:  # a label that is not there may be one that is not known yet
            yield (error if missed.keys() & given.keys() else warning)(
                where,
                f"its selector asks for {listed(f'{k}={v}' for k, v in missed.items())} and its pods have {_said(given)}: the API server refuses it",
                "give the template's labels what the selector asks for",
            )


def _manifests(stack: Stack) -> Iterator[tuple[str, Mapping[str, Any]]]:
    known = set()
    for workload in stack.workloads:
        if not workload.by_kuberay and workload.manifest:
            known.add(id(workload.manifest))
            yield workload.where, workload.manifest
    for item in stack.objects:
        if id(item.manifest) not in known:
            yield item.where, item.manifest


def _said(given: Mapping[str, str]) -> str:
    return listed(f"{k}={v}" for k, v in given.items()) if given else "no labels"


class _Pods:
    """Labels of all pods that are seen, and the plain engines among them, by namespace."""

    def __init__(self, stack: Stack) -> None:
        self.all: dict[str, list[dict[str, str]]] = {}
        self.engines: dict[str, list[tuple[Workload, PodGroup, dict[str, str]]]] = {}
        for workload in stack.workloads:
            for group in workload.pod_groups:
                given = labels(workload, group)
                self.all.setdefault(workload.namespace, []).append(given)
                if workload.engines and not workload.by_kuberay:
                    self.engines.setdefault(workload.namespace, []).append((workload, group, given))
        for item in stack.objects:
            if item.kind == "Pod" or "template" in item.spec:
                self.all.setdefault(item.namespace, []).append(_template_labels(item.manifest))


def services(stack: Stack) -> Iterator[Problem]:
    found = stack.of_kind("Service", group="v1")
    if not found or all(workload.by_kuberay for workload in stack.workloads):
        return
    pods = _Pods(stack)
    for item in found:
        spec = item.spec
        selector = {str(k): str(v) for k, v in mapping(spec.get("selector")).items()}
        near = pods.engines.get(item.namespace, ())
        if not selector or spec.get("type") == "ExternalName" or not near:
            continue
        mine = [(w, g) for w, g, given in near if selector.items() <= given.items()]
        if mine and spec.get("clusterIP") == "None" and mine[0][0].kind == "StatefulSet":
            continue  # it gives pods names; whoever uses one brings the port
        if mine:
            yield from _ports(item, spec, mine[0][1])
        elif not any(selector.items() <= given.items() for given in pods.all.get(item.namespace, ())):
            yield from _lost(item, selector, near)


def _lost(item: Object, selector: dict[str, str], near: Any) -> Iterator[Problem]:
    """A Service that finds no pod and was meant for an engine: it has its name, or shares one of its labels."""
    for workload, _, given in near:
        named = workload.name in (item.name, *(item.name.removesuffix(suffix) for suffix in _SUFFIXES))
        if named or selector.items() & given.items():
            missed = {k: v for k, v in selector.items() if given.get(k) != v}
            yield (error if named and missed.keys() & given.keys() else warning)(
                item.where,
                f"it selects {listed(f'{k}={v}' for k, v in missed.items())}, and the pods of '{workload.name}' have {_said(given)}: the Service has no endpoint",
                "select labels that the pods have",
            )
            return


def _ports(item: Object, spec: Mapping[str, Any], group: PodGroup) -> Iterator[Problem]:
    containers = [mapping(c) for c in items(group.pod.get("containers"))]
    names = {str(mapping(p).get("name")) for c in containers for p in items(c.get("ports"))}
    beside = {whole(mapping(p).get("containerPort")) for c in containers[1:] for p in items(c.get("ports"))}
    engine = {
        str(mapping(p).get("name")): whole(mapping(p).get("containerPort"))
        for p in items(mapping(containers[0] if containers else {}).get("ports"))
    }
    listens = listening(group)
    reached = False
    numbers = []
    for port in map(mapping, items(spec.get("ports"))):
        target = port.get("targetPort", port.get("port"))
        number = whole(target)
        if number is None:
            if str(target) not in names:
                yield error(
                    item.where,
                    f"its port {port.get('port')} leads to '{target}', and the pods have {'ports ' + listed(sorted(names)) if names else 'no named port'}: "
                    "nothing answers there",
                    f"lead to the engine's port{f' ({listens})' if listens else ''} by number, or give that name to the container's port",
                )
                return
            number = engine.get(str(target))
        numbers.append(number)
        reached = reached or number is None or number == listens or number in beside
    if listens is not None and numbers and not reached:
        yield error(
            item.where,
            f"its ports lead to {listed(map(str, numbers))} and the engine listens on {listens}: connections are refused",
            f"set targetPort: {listens}, or --port",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="service-pods",
        title="A Service finds the engine's pods and its port",
        why=(
            "A selector is compared with the labels of pods, not with the name of a Deployment, and targetPort with what a process listens on, not with what the container "
            "declares. A Service without endpoints, or with a port nobody listens on, is accepted and refuses every connection."
        ),
        check=services,
        sources=("https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/",),
    ),
    Rule(
        id="workload-selector",
        title="A controller's selector matches its own pods",
        why="The API server compares spec.selector with the labels of the template and refuses the object where they differ.",
        check=controllers,
        sources=("kubernetes v1.34: pkg/apis/apps/validation/validation.go",),
    ),
)
