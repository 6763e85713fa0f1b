"""Names KubeRay and Kubernetes accept, and that stay apart.

Not for: names that turn into environment variables (services called vllm).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack, Workload
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed

# constant.go: 53 keeps room for pod suffixes; a RayService's or RayJob's cluster adds six characters.
LIMITS = {"RayCluster": 53, "RayService": 47, "RayJob": 47}
_GENERATED = "xxxxx"  # what the API server adds to a generateName
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_META_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def workload_names(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        limit = LIMITS.get(workload.kind, 63)
        stem = mapping(workload.manifest.get("metadata")).get("generateName")
        name = workload.name or (f"{stem}{_GENERATED}" if stem else "")
        if len(name) > limit:
            reason = ": its clusters and pods add to it" if workload.kind in LIMITS else ""
            yield error(
                workload.where,
                f"{workload.kind} name '{name}' has {len(name)} characters and may have {limit}{reason}",
                f"shorten it by {len(name) - limit}",
            )
        if not _DNS_1035.fullmatch(name):
            yield error(
                workload.where,
                f"{workload.kind} name '{name}' is no DNS label: lower-case letters, digits and '-', a letter first, no '-' last",
                f"call it '{_suggest(name)}'",
            )
        if not _DNS_1123.fullmatch(workload.namespace) or len(workload.namespace) > 63:
            yield error(
                workload.where,
                f"namespace '{workload.namespace}' is no DNS label of at most 63 characters",
                f"call it '{_suggest(workload.namespace)}'",
            )


def _suggest(name: str) -> str:
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"s-{plain}".rstrip("-")
    return plain[:47].rstrip("-")


def group_names(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if not workload.by_kuberay:
            continue
        names = [group.name for group in workload.groups]
        twice = {name for name in names if names.count(name) > 1} if len(names) < 200 else set()
        if twice:
            yield error(
                workload.where,
                f"worker groups {listed(twice)} occur more than once: KubeRay and the Ray autoscaler find a group by its name",
                "give each group a name of its own",
            )
        for group in workload.groups:
            if group.name == "headgroup":
                yield error(
                    group.where, "'headgroup' is the name KubeRay gives the head's group", "choose another name"
                )
            elif not group.name:
                yield error(group.where, "a worker group has no name", "give it a groupName")
            elif not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", group.name) or len(group.name) > 63:
                yield error(
                    group.where,
                    f"group name '{group.name}' is no label value of at most 63 characters, and pods carry it as label ray.io/group",
                    f"call it '{_suggest(group.name)}'",
                )
            elif "_" in group.name or "." in group.name:
                yield error(
                    group.where,
                    f"group name '{group.name}' becomes a part of pod names, which have lower-case letters, digits and '-'",
                    f"call it '{_suggest(group.name)}'",
                )


def unique(stack: Stack) -> Iterator[Problem]:
    seen: dict[tuple[str, str, str], Workload] = {}
    services: dict[tuple[str, str], str] = {}
    for workload in stack.workloads:
        key = (workload.kind, workload.namespace, workload.name)
        if key in seen:
            yield error(
                workload.where,
                f"{workload.kind} {workload.namespace}/{workload.name} exists twice",
                "give one of them another name or namespace",
            )
        seen[key] = workload
        if workload.by_kuberay:
            services[(workload.namespace, f"{workload.name}-head-svc")] = workload.where
        if workload.kind == "RayService":
            services[(workload.namespace, f"{workload.name}-serve-svc")] = workload.where
    for item in stack.of_kind("Service"):
        if (item.namespace, item.name) in services:
            yield error(
                item.where,
                f"KubeRay makes a Service of that name for {services[(item.namespace, item.name)]}",
                "choose another name",
            )


def truncated(stack: Stack) -> Iterator[Problem]:
    """Pod names are cut at 50 characters: groups that differ only after that look alike."""
    for workload in stack.workloads:
        if workload.kind not in LIMITS or len(workload.groups) < 2:
            continue
        prefix = len(workload.name) + (6 if workload.kind != "RayCluster" else 0) + 1
        heads: dict[str, str] = {}
        for group in workload.groups:
            cut = group.name[: max(0, 50 - prefix)]
            if cut in heads and heads[cut] != group.name:
                yield warning(
                    workload.where,
                    f"pod names are cut at 50 characters, so pods of groups '{heads[cut]}' and '{group.name}' have the same prefix",
                    "shorten the service's or the groups' names",
                )
            heads.setdefault(cut, group.name)


def metadata(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        yield from _metadata(workload.where, workload.labels, workload.annotations)
        for group in workload.pod_groups:
            yield from _metadata(group.where, group.labels, group.annotations)


def _metadata(where: str, labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> Iterator[Problem]:
    for kind, values in (("label", labels), ("annotation", annotations)):
        for key, value in values.items():
            if not _META_KEY.fullmatch(str(key)):
                yield error(
                    where,
                    f"{kind} '{key}' has no name that Kubernetes takes",
                    "use letters, digits, '-', '_' and '.', at most 63, with a domain and '/' before it where there is one",
                )
            elif value is not None and not isinstance(value, str):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                yield error(where, f"{kind} '{key}' is {value!r}, not text", f'write "{text}" in quotes')
            elif kind == "label" and value and not _LABEL_VALUE.fullmatch(value):
                yield error(
                    where,
                    f"label '{key}' has value '{value}', which no label can have",
                    "use letters, digits, '-', '_' and '.', at most 63, a letter or digit first and last",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="name-workload",
        title="Names are short DNS labels",
        why=(
            "KubeRay refuses RayCluster names over 53 characters and RayService and RayJob names over 47, since clusters, pods and Services add to them; "
            "Service names must start with a letter."
        ),
        check=workload_names,
        sources=(
            "kuberay#3083",
            "kuberay#3239",
            "kuberay#643",
            "kuberay#4100",
            "kuberay: controllers/ray/utils/constant.go",
        ),
    ),
    Rule(
        id="name-group",
        title="Worker groups have names of their own",
        why="Groups are matched by name in the custom resource, in pod labels and in the Ray autoscaler; pod names contain them.",
        check=group_names,
        sources=("kuberay: controllers/ray/utils/util.go PodName",),
    ),
    Rule(
        id="name-unique",
        title="No two things share a name",
        why="The second object of a name replaces or fights the first; KubeRay's own Services follow from the name of the service.",
        check=unique,
        sources=("kuberay: controllers/ray/utils/util.go GenerateHeadServiceName",),
    ),
    Rule(
        id="name-truncated",
        title="Pod names stay distinct",
        why="KubeRay cuts the prefix of pod names at 50 characters.",
        check=truncated,
        sources=("kuberay: controllers/ray/utils/util.go PodName",),
    ),
    Rule(
        id="name-metadata",
        title="Labels and annotations are ones that Kubernetes takes",
        why="The API server refuses a resource whose labels or annotations have another form; in a pod template it does so for each pod that the operator makes.",
        check=metadata,
        sources=("https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/",),
    ),
)
