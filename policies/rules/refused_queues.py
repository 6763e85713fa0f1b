"""Objects of Volcano, Kueue, KAI and NVIDIA's drivers that their webhooks refuse beyond the schema, as tables.

Source of the rows: volcano ed72c7c8 (pkg/webhooks/admission), kueue ff69552e (pkg/webhooks, pkg/controller/jobframework, CEL of the
CRDs), gpu-operator a22dbf67 (CEL), dra-driver-nvidia-gpu 95932046 (api/nvidia.com/resource/v1beta1). Not for: whether
queues that are named are there (queues.py, kueue.py, scheduler_pods.py), or quantities that must fit into others (queue_shares.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping, quantity, whole
from policies.finding import Problem, Rule

from ._refusals import (
    Rows,
    Table,
    Values,
    choice,
    filled,
    form,
    known,
    needs,
    of_objects,
    one_of,
    together,
    unlike,
    within,
)

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_EVENTS = ("*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
_ACTIONS = (
    "AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob",
)  # fmt: skip
_TIERS = together("highestTierAllowed", "highestTierName")
_HOST = "kubernetes.io/hostname"


def _events(at: Values) -> tuple[str, str] | None:
    """Volcano: policies that react to the same, or to everything and something."""
    given = [
        str(event)
        for policy in map(mapping, items(at.get("policies")))
        for event in {*items(policy.get("events")), *([policy["event"]] if policy.get("event") else [])}
    ]
    twice = sorted({event for event in given if given.count(event) > 1})
    if twice:
        return f"several policies are for event {twice[0]}", "keep one"
    return ("a policy for * stands beside others", "keep it alone") if "*" in given and len(given) > 1 else None


def _policy(at: Values) -> tuple[str, str] | None:
    event = at.get("event") or at.get("events")
    if event and at.get("exitCode") is not None:
        return "it has event and exitCode", "keep one of them"
    if not event and at.get("exitCode") is None:
        return "it has neither event nor exitCode", "give one of them"
    return ("exitCode is 0, which is no failure", "give another") if whole(at.get("exitCode")) == 0 else None


def _after(at: Values) -> tuple[str, str] | None:
    given = [mapping(task).get("name") for task in items(at.get("tasks"))]
    names = {str(name) for name in given}
    if not all(map(known, given)):
        return None
    for task in map(mapping, items(at.get("tasks"))):
        for other in map(str, items(mapping(task.get("dependsOn")).get("name"))):
            if other == task.get("name"):
                return f"task '{other}' depends on itself", "leave it out of dependsOn"
            if other not in names and known(other):
                return f"task '{task.get('name')}' depends on '{other}', which is no task of the job", f"name one of {', '.join(sorted(names))}"  # fmt: skip
    return None


def _parts(at: Values) -> tuple[str, str] | None:
    given = mapping(at.get("partitionPolicy"))
    count, size, pods = whole(given.get("totalPartitions")), whole(given.get("partitionSize")), whole(at.get("replicas", 1))  # fmt: skip
    if count is None or size is None or pods is None or (count > 0 < size and count * size == pods):
        return None
    return f"partitionPolicy makes {count} x {size} of {pods} replicas", "let totalPartitions times partitionSize be the replicas"  # fmt: skip


def _hierarchy(at: Values) -> tuple[str, str] | None:
    names, weights = at.get("volcano.sh/hierarchy"), at.get("volcano.sh/hierarchy-weights")
    if not names or not weights or not known(f"{names}{weights}"):
        return None
    if len(str(names).split("/")) != len(str(weights).split("/")):
        return f"hierarchy '{names}' and hierarchy-weights '{weights}' differ in length", "give each level a weight"
    bad = [each for each in str(weights).split("/") if not (quantity(each) or 0) > 0]
    return (f"hierarchy-weights has '{bad[0]}'", "give numbers above 0") if bad else None


def _at_least_guaranteed(at: Values) -> tuple[str, str] | None:
    least, deserved = mapping(mapping(at.get("guarantee")).get("resource")), mapping(at.get("deserved"))
    for name in sorted({*least} & {*deserved}):
        low, high = quantity(least[name]), quantity(deserved[name])
        if low is not None and high is not None and high < low:
            return f"deserved {name} is {deserved[name]} and guaranteed {least[name]}", "let it deserve what it is guaranteed"  # fmt: skip
    return None


def _no_cohort(at: Values) -> tuple[str, str] | None:
    """Kueue: limits of what a queue borrows and lends, in a cohort and within its own."""
    cohort = at.get("cohortName") or at.get("cohort")
    for group in map(mapping, items(at.get("resourceGroups"))):
        for flavor in map(mapping, items(group.get("flavors"))):
            for given in map(mapping, items(flavor.get("resources"))):
                for key in ("borrowingLimit", "lendingLimit"):
                    if given.get(key) is not None and not cohort:
                        return f"{key} of {given.get('name')} is set and the queue is in no cohort", f"set cohortName, or leave {key} out"  # fmt: skip
                own, lent = quantity(given.get("nominalQuota")), quantity(given.get("lendingLimit"))
                if own is not None and lent is not None and lent > own:
                    return f"lendingLimit of {given.get('name')} is {given['lendingLimit']}, and its nominalQuota {given['nominalQuota']}", "lend at most the quota"  # fmt: skip
    return None


def _flavors(at: Values) -> tuple[str, str] | None:
    names = {
        str(mapping(flavor).get("name"))
        for group in map(mapping, items(at.get("resourceGroups")))
        for flavor in items(group.get("flavors"))
    }
    for check in map(mapping, items(mapping(at.get("admissionChecksStrategy")).get("admissionChecks"))):
        lost = [str(name) for name in items(check.get("onFlavors")) if str(name) not in names and known(name)]
        if lost and names:
            return f"admission check '{check.get('name')}' is for flavor '{lost[0]}', which the queue does not have", f"name one of {', '.join(sorted(names))}"  # fmt: skip
    return None


def _preemption(at: Values) -> tuple[str, str] | None:
    borrow = mapping(at.get("borrowWithinCohort")).get("policy", "Never")
    if at.get("reclaimWithinCohort", "Never") == "Never" and borrow != "Never" and known(borrow):
        return f"reclaimWithinCohort is Never and borrowWithinCohort.policy {borrow}", "set reclaimWithinCohort: Any, or leave borrowWithinCohort out"  # fmt: skip
    return None


def _levels(at: Values) -> tuple[str, str] | None:
    names = [mapping(level).get("nodeLabel") for level in items(at.get("levels"))]
    return (f"{_HOST} is not its last level", "put it last") if _HOST in names[:-1] else None


def _toleration(at: Values) -> tuple[str, str] | None:
    if not at.get("key") and at.get("operator") != "Exists":
        return "a toleration without key has operator Equal", "set operator: Exists, or give it a key"
    return ("operator Exists has a value", "leave the value out") if at.get("operator") == "Exists" and at.get("value") else None  # fmt: skip


def _sharing(at: Values) -> tuple[str, str] | None:
    """NVIDIA's DRA driver (sharing.go, validate.go)."""
    way = at.get("strategy")
    other = {"TimeSlicing": "mpsConfig", "MPS": "timeSlicingConfig"}.get(str(way))
    if other is None:
        return (f"strategy is '{way}'", "give TimeSlicing or MPS") if known(way) else None
    return (f"strategy {way} has {other}", f"leave {other} out") if at.get(other) else None


_OPAQUE = "devices.config[].opaque.parameters"
_CLAIM: Rows = (
    (f"{_OPAQUE}.sharing", _sharing),
    (f"{_OPAQUE}.sharing.timeSlicingConfig", choice("interval", "Default", "Short", "Medium", "Long")),
    (f"{_OPAQUE}.sharing.mpsConfig", within("defaultActiveThreadPercentage", 0, 100)),
    ("devices", unlike("requests", "name")),
    ("devices.requests[]", together("exactly", "firstAvailable")),
    ("devices.requests[].exactly", within("count", 1)),
    ("devices.requests[].exactly", lambda at: ("allocationMode All has a count", "leave count out") if at.get("allocationMode") == "All" and at.get("count") else None),
)  # fmt: skip
TABLE: Table = {
    ("Job", "batch.volcano.sh"): ("Volcano's webhook", (
        *((("spec", within(key, 0))) for key in ("maxRetry", "minAvailable", "ttlSecondsAfterFinished")),
        ("spec.networkTopology", _TIERS), ("spec.tasks[]", within("minAvailable", 0)), ("spec.tasks[]", _parts), ("spec", _after),
        ("spec.tasks[]", form("name", _LABEL, "lower-case letters, digits and '-'")), ("spec.tasks[].template.spec", filled("containers")),
        *((f"{at}{path}", check) for at in ("spec", "spec.tasks[]") for path, check in (
            ("", _events), (".policies[]", _policy), (".policies[]", choice("event", *_EVENTS)), (".policies[]", choice("action", *_ACTIONS)))),
        ("spec", unlike("volumes", "mountPath")), ("spec.volumes[]", filled("mountPath")), ("spec.volumes[]", one_of("volumeClaim", "volumeClaimName")),
    )),
    ("PodGroup", "scheduling.volcano.sh"): ("Volcano's webhook", (("spec.networkTopology", _TIERS), ("spec.subGroupPolicy[].networkTopology", _TIERS))),
    ("Queue", "scheduling.volcano.sh"): ("Volcano's webhook", (("metadata.annotations", _hierarchy), ("spec", _at_least_guaranteed))),
    ("HyperNode", "topology.volcano.sh"): ("Volcano's webhook", (
        ("spec", filled("members")), ("spec.members[].selector", one_of("exactMatch", "labelMatch", "regexMatch")),
    )),
    ("ClusterQueue", "kueue.x-k8s.io"): ("Kueue", (
        ("spec", _no_cohort), ("spec", _flavors), ("spec.preemption", _preemption),
        ("spec.flavorFungibility", needs("preference", "whenCanBorrow", "TryNextFlavor")), ("spec.flavorFungibility", needs("preference", "whenCanPreempt", "TryNextFlavor")),
        ("spec.resourceGroups[]", unlike("flavors", "name")), ("spec.fairSharing", within("weight", 0)),
        *(("spec.resourceGroups[].flavors[].resources[]", within(key, 0)) for key in ("nominalQuota", "borrowingLimit", "lendingLimit")),
    )),
    ("ResourceFlavor", "kueue.x-k8s.io"): ("Kueue", (
        ("spec", needs("topologyName", "nodeLabels")), ("spec.tolerations[]", _toleration), ("spec.tolerations[]", needs("tolerationSeconds", "effect", "NoExecute")),
        ("spec.nodeTaints[]", choice("effect", "NoSchedule", "PreferNoSchedule", "NoExecute")), ("spec", unlike("nodeTaints", "key", "effect")),
    )),
    ("Topology", "kueue.x-k8s.io"): ("Kueue", (("spec", unlike("levels", "nodeLabel")), ("spec", _levels))),
    ("Topology", "kai.scheduler"): ("KAI's webhook", (("spec", unlike("levels", "nodeLabel")), ("spec", unlike("levels", "alias")))),
    ("NVIDIADriver", "nvidia.com"): ("the API server", (
        ("spec", choice("driverType", "gpu", "vgpu", "vgpu-host-manager")),
        ("spec", lambda at: ("it is the default and has a nodeSelector", "leave one of them out") if at.get("default") is True and at.get("nodeSelector") else None),
    )),
    ("ResourceClaimTemplate", "resource.k8s.io"): ("the driver or the API server", tuple((f"spec.spec.{path}", check) for path, check in _CLAIM)),
    ("ResourceClaim", "resource.k8s.io"): ("the driver or the API server", tuple((f"spec.{path}", check) for path, check in _CLAIM)),
}  # fmt: skip


def objects(stack: Stack) -> Iterator[Problem]:
    return of_objects(TABLE, stack)


RULES: tuple[Rule, ...] = (
    Rule(
        id="scheduler-refused",
        title="Queues, jobs, topologies and claims are ones that the webhooks of schedulers and drivers take",
        why=(
            "Volcano, Kueue, KAI and NVIDIA's driver check conditions between fields that no schema has: limits of lending outside a cohort, a policy without event, two strategies of sharing. "
            "What breaks them is refused when it is applied, and a device's opaque parameters when a pod is to start."
        ),
        check=objects,
        sources=(
            "volcano ed72c7c8: pkg/webhooks/admission",
            "kueue ff69552e: pkg/webhooks/clusterqueue_webhook.go, apis/kueue/v1beta2",
            "dra-driver-nvidia-gpu 95932046: api/nvidia.com/resource/v1beta1/sharing.go",
            "gpu-operator a22dbf67: api/nvidia/v1alpha1/nvidiadriver_types.go",
        ),
    ),
)
