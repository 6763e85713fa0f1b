"""What a pod says of its place: affinities, spreading, claims of devices; and how pods of jobs end. What the API server refuses.

Source of every check: kubernetes 1.34, pkg/apis/core/validation and pkg/apis/batch/validation. Not for: whether a selector finds a pool
(placement.py), or the other fields of a pod (pod_template.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error

from ._values import listed
from .pod_resources import containers

_NODE_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
_POD_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
_TOLERATIONS = ("Equal", "Exists", "Gt", "Lt")  # the last two since 1.35, behind a gate
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_SCHEDULE = re.compile(
    r"(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every \S+|(TZ=\S+ |CRON_TZ=\S+ )?\S+( \S+){4})"
)


def places(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            pod = mapping(group.pod)
            if not pod:
                continue
            yield from _affinity(group.where, mapping(pod.get("affinity")))
            for each in map(mapping, items(pod.get("tolerations"))):
                operator = each.get("operator")
                if operator and operator not in _TOLERATIONS:
                    yield error(
                        group.where,
                        f"operator of toleration '{each.get('key')}' is '{operator}'; allowed: Equal, Exists",
                        _near(operator, _TOLERATIONS[:2]),
                    )
            for each in map(mapping, items(pod.get("topologySpreadConstraints"))):
                yield from _spread(group.where, each)
            if pod.get("preemptionPolicy") == "Never" and not pod.get("priorityClassName"):
                yield error(
                    group.where,
                    "preemptionPolicy is Never and no priorityClassName is given: the policy comes from the class, and the API server refuses the pods",
                    "name a PriorityClass with preemptionPolicy: Never, and leave it out here",
                )


def _affinity(where: str, affinity: Mapping[str, Any]) -> Iterator[Problem]:
    node = mapping(affinity.get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    preferred = [mapping(each) for each in items(node.get("preferredDuringSchedulingIgnoredDuringExecution"))]
    terms = [
        *map(mapping, items(required.get("nodeSelectorTerms"))),
        *(mapping(each.get("preference")) for each in preferred),
    ]
    if required and not items(required.get("nodeSelectorTerms")):
        yield error(where, "its node affinity requires no term", "name a term, or leave it out")
    for term in terms:
        for each in map(mapping, items(term.get("matchExpressions"))):
            yield from _expression(where, each, _NODE_OPERATORS)
    for each in preferred:
        if not 1 <= (whole(each.get("weight")) or 0) <= 100:
            yield error(
                where, f"weight of a preferred node affinity is {each.get('weight')}; allowed: 1 to 100", "correct it"
            )
    for kind in ("podAffinity", "podAntiAffinity"):
        given = mapping(affinity.get(kind))
        near = [mapping(each) for each in items(given.get("requiredDuringSchedulingIgnoredDuringExecution"))]
        near += [
            mapping(mapping(each).get("podAffinityTerm"))
            for each in items(given.get("preferredDuringSchedulingIgnoredDuringExecution"))
        ]
        for term in near:
            if not term.get("topologyKey"):
                yield error(
                    where, f"a term of its {kind} has no topologyKey", "set topologyKey: kubernetes.io/hostname, say"
                )
            for each in map(mapping, items(mapping(term.get("labelSelector")).get("matchExpressions"))):
                yield from _expression(where, each, _POD_OPERATORS)


def _expression(where: str, given: Mapping[str, Any], operators: tuple[str, ...]) -> Iterator[Problem]:
    key, operator, values = given.get("key"), given.get("operator"), items(given.get("values"))
    if operator is not None and operator not in operators:
        yield error(
            where, f"operator on {key} is '{operator}'; allowed: {', '.join(operators)}", _near(operator, operators)
        )
    elif operator in ("In", "NotIn") and not values:
        yield error(where, f"{key} {operator} names no value", "name one")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield error(where, f"{key} {operator} has values", "leave the values out")


def _near(given: object, allowed: tuple[str, ...]) -> str:
    same = next((each for each in allowed if each.casefold() == str(given).casefold()), None)
    near = same or next(iter(closest_names(str(given), allowed, 1)), None)
    return f"write {near}" if near else f"use one of {', '.join(allowed)}"


def _spread(where: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    skew, way = whole(given.get("maxSkew")), given.get("whenUnsatisfiable")
    if skew is not None and skew < 1:
        yield error(where, f"maxSkew of a spread constraint is {given.get('maxSkew')}, less than 1", "give at least 1")
    if way is not None and way not in _UNSATISFIABLE:
        yield error(
            where, f"whenUnsatisfiable is '{way}'; allowed: {', '.join(_UNSATISFIABLE)}", _near(way, _UNSATISFIABLE)
        )
    if not given.get("topologyKey"):
        yield error(
            where, "a spread constraint has no topologyKey", "set topologyKey: topology.kubernetes.io/zone, say"
        )


def claims(stack: Stack) -> Iterator[Problem]:
    known = {(item.namespace, item.kind, item.name) for item in stack.objects if item.kind.startswith("ResourceClaim")}
    for workload in stack.workloads:
        for group in workload.pod_groups:
            pod = mapping(group.pod)
            entries = [mapping(each) for each in items(pod.get("resourceClaims"))]
            names = {str(entry.get("name")) for entry in entries}
            for container, spec in containers(pod):
                for each in map(mapping, items(mapping(spec.get("resources")).get("claims"))):
                    # What is not known yet has no name here, and a wrong one where it is guessed.
                    if each.get("name") and "None" not in names and str(each["name"]) not in names:
                        yield error(
                            group.where,
                            f"container '{container}' takes claim '{each.get('name')}', and the pod has {listed(sorted(names)) if names else 'no claims'}: no pod is made",
                            "declare it under resourceClaims of the pod",
                        )
            for entry in entries:
                both = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if entry.get(key)]
                if len(both) != 1:
                    yield error(
                        group.where,
                        f"claim '{entry.get('name')}' of the pod names {'two sources' if both else 'no source'}"
                        + (": Kubernetes 1.31 took out the field source" if entry.get("source") else ""),
                        "name a claim or a template, by resourceClaimName or resourceClaimTemplateName",
                    )
                    continue
                kind = "ResourceClaim" if both[0] == "resourceClaimName" else "ResourceClaimTemplate"
                there = [name for space, each, name in known if space == workload.namespace and each == kind]
                near = closest_names(str(entry[both[0]]), there, 1) if str(entry[both[0]]) not in there else ()
                if near:
                    yield error(
                        group.where,
                        f"{kind} '{entry[both[0]]}' is not there: its pods wait",
                        f"did you mean '{near[0]}'?",
                    )


def jobs(stack: Stack) -> Iterator[Problem]:
    for where, spec in _jobs(stack):
        pod = mapping(mapping(spec.get("template")).get("spec"))
        if pod and pod.get("restartPolicy") is None:
            yield error(
                where,
                "restartPolicy of its pods is not stated, which is Always: the API server refuses the job",
                "set Never or OnFailure",
            )


def job_values(stack: Stack) -> Iterator[Problem]:
    """Apart from the others: a policy that is not known yet is none there and a wrong one here, so neither is certain."""
    for where, spec in _jobs(stack):
        policy, schedule = mapping(mapping(spec.get("template")).get("spec")).get("restartPolicy"), spec.get("schedule")
        if policy is not None and policy not in ("Never", "OnFailure"):
            yield error(
                where,
                f"restartPolicy of its pods is '{policy}': the API server refuses the job",
                "set Never or OnFailure",
            )
        if schedule is not None and not _SCHEDULE.fullmatch(str(schedule)):
            yield error(
                where,
                f"schedule '{schedule}' is none of cron: five fields, or @daily and the like",
                "write it like 0 2 * * *",
            )


def _jobs(stack: Stack) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Specs of Kubernetes' Jobs and CronJobs; of a CronJob the job's, with its schedule."""
    found = [(w.where, w.kind, w.manifest) for w in stack.workloads]
    found += [(item.where, item.kind, item.manifest) for item in stack.of_kind("CronJob", "Job")]
    for where, kind, manifest in found:
        if kind not in ("CronJob", "Job") or mapping(manifest).get("apiVersion") != "batch/v1":
            continue
        spec = mapping(manifest.get("spec"))
        inner = mapping(mapping(spec.get("jobTemplate")).get("spec"))
        yield where, {**inner, "schedule": spec.get("schedule")} if kind == "CronJob" else spec


RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-places",
        title="Affinities, tolerations and spreading are ones that Kubernetes reads",
        why="Operators are words with capitals, weights are 1 to 100, terms of pod affinity need a topologyKey. KubeRay's CRDs take anything there; pods are refused.",
        check=places,
        sources=("kubernetes v1.34: pkg/apis/core/validation/validation.go", "kubernetes/kubernetes#123882"),
    ),
    Rule(
        id="pod-claims",
        title="Claims of devices are the pod's",
        why=(
            "With dynamic resource allocation a container takes a claim of its pod by name, and the pod's claim names a ResourceClaim or a template. A pod that names one that "
            "is not there waits."
        ),
        check=claims,
        sources=("https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",),
    ),
    Rule(
        id="job-pods",
        title="A job's pods end",
        why="Pods of a Job restart never or on failure; with the default, Always, the API server refuses the job, and a CronJob at each of its times.",
        check=jobs,
        sources=("kubernetes v1.34: pkg/apis/batch/validation/validation.go",),
    ),
    Rule(
        id="job-values",
        title="A job's restart policy and schedule are ones that Kubernetes takes",
        why="Jobs take Never and OnFailure, CronJobs a schedule of five fields or a name such as @daily. Anything else is refused when the object is created.",
        check=job_values,
        sources=("kubernetes v1.34: pkg/apis/batch/validation/validation.go",),
    ),
)
