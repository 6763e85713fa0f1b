"""What a namespace allows: quotas and ranges of resources, and the pod security standard that it enforces.

Admission refuses pods one by one when they are created; their owner only logs it. Judged where the namespace's objects are seen beside
its pods. Not for: queues of batch schedulers (queue_shares.py), or whether privileges are wise (pod_security.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, quantity
from policies.finding import Problem, Rule, error, warning

from ._places import pods_at_most, pods_at_rest
from ._values import amount, listed
from .pod_resources import containers

_COMPUTE = ("cpu", "memory")
_ENFORCE = "pod-security.kubernetes.io/enforce"
# Capabilities that the baseline standard lets containers add.
_BASELINE = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
_VOLUMES = frozenset(
    ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
)


def _by_namespace(stack: Stack, kind: str) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for item in stack.of_kind(kind, group="v1"):
        found.setdefault(item.namespace, []).append((item.where, item.spec))
    return found


def quotas(stack: Stack) -> Iterator[Problem]:
    given = _by_namespace(stack, "ResourceQuota")
    if not given:
        return
    defaults = {space for space, ranges in _by_namespace(stack, "LimitRange").items() if any(map(_defaults, ranges))}
    for space, found in sorted(given.items()):
        workloads = [workload for workload in stack.workloads if workload.namespace == space]
        for where, spec in found:
            if spec.get("scopes") or spec.get("scopeSelector"):
                continue
            for name, hard in sorted(mapping(spec.get("hard")).items()):
                yield from _uncounted(where, str(name))
                most = quantity(hard)
                if most is not None:
                    yield from _quota(where, str(name), str(hard), most, workloads)
                if space not in defaults:
                    yield from _unstated(where, str(name), workloads)


def _uncounted(where: str, name: str) -> Iterator[Problem]:
    """Extended resources, which have no limit apart from their request, are counted by requests. alone."""
    resource = name.removeprefix("limits.")
    if "/" in resource and not name.startswith("requests.") and not resource.startswith("count/"):
        if resource.rpartition(".")[2] == "storage" or "storageclass.storage.k8s.io/" in resource:
            return
        yield warning(
            where,
            f"it has {name}, which Kubernetes does not count: extended resources are counted as requests.{resource}, and it limits nothing",
            f"write requests.{resource}",
        )


def _defaults(entry: tuple[str, Mapping[str, Any]]) -> bool:
    return any(mapping(mapping(limit).get("default")) for limit in items(entry[1].get("limits")))


def _quota(where: str, name: str, shown: str, most: float, workloads: list[Workload]) -> Iterator[Problem]:
    kind = "limits" if name.startswith("limits.") else "requests"
    resource = name.removeprefix(f"{kind}.")
    if resource not in (*_COMPUTE, "pods") and "/" not in resource:
        return
    for count, say, when in ((pods_at_rest, error, "at rest"), (pods_at_most, warning, "at full load")):
        total = sum(
            _asked(group, kind, resource) * _pods(workload, group, count)
            for workload in workloads
            for group in workload.pod_groups
        )
        if total > most * (1 + 1e-9):
            names = listed(sorted(workload.name for workload in workloads))
            yield say(
                where,
                f"it allows {name} {shown}, and pods of {names} ask for {_amount(total, resource)} {when}: the API server refuses the last ones",
                f"raise {name} to {_amount(total, resource)}",
            )
            return


def _pods(workload: Workload, group: PodGroup, count: Callable[[Workload, PodGroup], int]) -> int:
    return 1 if group.head else count(workload, group)


def _asked(group: PodGroup, kind: str, resource: str) -> float:
    if resource == "pods":
        return 1.0
    total = 0.0
    for container in map(mapping, items(group.pod.get("containers"))):
        given = mapping(container.get("resources"))
        limits, requests = mapping(given.get("limits")), mapping(given.get("requests"))
        stated = limits.get(resource) if kind == "limits" else requests.get(resource, limits.get(resource))
        total += quantity(stated) or 0.0
    return total


def _amount(value: float, resource: str) -> str:
    return f"{amount(value / 2**30)}Gi" if resource == "memory" else amount(value)


def _unstated(where: str, name: str, workloads: list[Workload]) -> Iterator[Problem]:
    """A quota on a resource makes it compulsory in every container."""
    kind, _, resource = name.rpartition(".")
    if kind not in ("limits", "requests") or resource not in _COMPUTE:
        return
    for workload in workloads:
        for group in workload.pod_groups:
            for container, spec in containers(mapping(group.pod)):
                given = mapping(spec.get("resources"))
                stated = {
                    **mapping(given.get("limits")),
                    **(mapping(given.get("requests")) if kind == "requests" else {}),
                }
                if resource not in stated:
                    yield error(
                        group.where,
                        f"container '{container}' states no {kind[:-1]} of {resource}, which {where} makes compulsory: the API server refuses the pod",
                        f"state {kind}.{resource}, or give the namespace a LimitRange with defaults",
                    )
                    return


def ranges(stack: Stack) -> Iterator[Problem]:
    given = _by_namespace(stack, "LimitRange")
    for workload in stack.workloads if given else ():
        for where, spec in given.get(workload.namespace, ()):
            for limit in map(mapping, items(spec.get("limits"))):
                if limit.get("type") != "Container":
                    continue
                for group in workload.pod_groups:
                    yield from _range(where, limit, group)


def _range(where: str, limit: Mapping[str, Any], group: PodGroup) -> Iterator[Problem]:
    for container, spec in containers(mapping(group.pod)):
        given = mapping(spec.get("resources"))
        for name, value in mapping(limit.get("max")).items():
            most, stated = quantity(value), mapping(given.get("limits")).get(name)
            if most is not None and (quantity(stated) or 0.0) > most:
                yield error(
                    group.where,
                    f"container '{container}' has a limit of {stated} {name}, and {where} allows {value}: the API server refuses the pod",
                    f"raise max.{name} of the LimitRange, or ask for less",
                )


def security(stack: Stack) -> Iterator[Problem]:
    levels = {item.name: str(item.labels.get(_ENFORCE) or "") for item in stack.of_kind("Namespace")}
    for workload in stack.workloads:
        level = levels.get(workload.namespace, "")
        if level not in ("baseline", "restricted"):
            continue
        for group in workload.pod_groups:
            wrong = [*_baseline(group.pod), *(_restricted(group.pod) if level == "restricted" else ())]
            if wrong:
                yield error(
                    group.where,
                    f"namespace '{workload.namespace}' enforces {level}, and {', '.join(dict.fromkeys(wrong))}: the API server refuses the pods",
                    "take it out, or let the namespace enforce less",
                )


def _baseline(pod: Mapping[str, Any]) -> Iterator[str]:
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key) is True)
    for volume in map(mapping, items(pod.get("volumes"))):
        if "hostPath" in volume:
            yield f"volume '{volume.get('name')}' is a hostPath"
    for name, container in containers(pod):
        context = mapping(container.get("securityContext"))
        if context.get("privileged") is True:
            yield f"container '{name}' is privileged"
        more = sorted(
            {str(c).removeprefix("CAP_") for c in items(mapping(context.get("capabilities")).get("add"))} - _BASELINE
        )
        if more:
            yield f"container '{name}' adds {', '.join(more)}"


def _restricted(pod: Mapping[str, Any]) -> Iterator[str]:
    whole = mapping(pod.get("securityContext"))
    for volume in map(mapping, items(pod.get("volumes"))):
        kinds = [key for key in volume if key != "name" and key not in _VOLUMES and key != "hostPath"]
        if kinds:
            yield f"volume '{volume.get('name')}' is of kind {kinds[0]}"
    for name, container in containers(pod):
        context = mapping(container.get("securityContext"))
        capabilities = mapping(context.get("capabilities"))
        lacking = [
            what
            for what, there in (
                ("runAsNonRoot: true", context.get("runAsNonRoot", whole.get("runAsNonRoot")) is True),
                ("allowPrivilegeEscalation: false", context.get("allowPrivilegeEscalation") is False),
                ("capabilities.drop: [ALL]", "ALL" in [str(each) for each in items(capabilities.get("drop"))]),
                ("a seccompProfile", bool(context.get("seccompProfile") or whole.get("seccompProfile"))),
            )
            if not there
        ]
        if lacking:
            yield f"container '{name}' lacks {', '.join(lacking)}"


RULES: tuple[Rule, ...] = (
    Rule(
        id="namespace-quota",
        title="A namespace's quota holds its pods",
        why=(
            "A ResourceQuota refuses the pod that goes beyond it, and every pod with a container that does not state what the quota counts. Deployments, KubeRay and "
            "autoscalers then wait with fewer pods, and the reason is in an event of their owner."
        ),
        check=quotas,
        sources=("Project-HAMi/website PR#104", "https://kubernetes.io/docs/concepts/policy/resource-quotas/"),
    ),
    Rule(
        id="namespace-range",
        title="Containers are within the namespace's range",
        why="A LimitRange refuses containers larger than its maximum, which was made for web servers.",
        check=ranges,
        sources=("https://kubernetes.io/docs/concepts/policy/limit-range/",),
    ),
    Rule(
        id="namespace-security",
        title="Pods keep the pod security standard that their namespace enforces",
        why=(
            "A namespace that enforces baseline or restricted refuses pods that mount folders of the node, add IPC_LOCK for EFA, or do not say that they run as a user. "
            "Their controller is accepted, and makes none."
        ),
        check=security,
        sources=("https://kubernetes.io/docs/concepts/security/pod-security-standards/",),
    ),
)
