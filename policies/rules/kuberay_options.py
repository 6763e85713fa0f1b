"""What KubeRay's own validation refuses in a cluster's autoscaler and authentication settings.

Source: controllers/ray/utils/validation.go at v1.7.0. Not for: the rest of the cluster (kuberay_cluster.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error

from ._values import before, literal, version
from .kuberay_cluster import SOURCE, cluster_spec, ray_workloads


def autoscaler(stack: Stack) -> Iterator[Problem]:
    for workload in ray_workloads(stack):
        head = workload.head
        switch = (literal(head.env, "RAY_enable_autoscaler_v2") or "") if head is not None else ""
        named = head is not None and "RAY_enable_autoscaler_v2" in head.env
        second = workload.autoscaler_version == "v2"
        if head is not None and not workload.autoscaling and switch in ("1", "true"):
            yield error(
                head.where,
                f"RAY_enable_autoscaler_v2={switch} without enableInTreeAutoscaling; KubeRay refuses it",
                "set autoscaling.enabled: true, or leave the variable out",
            )
        if head is not None and workload.autoscaling and workload.autoscaler_version and named:
            yield error(
                head.where,
                "autoscalerOptions.version and RAY_enable_autoscaler_v2 are both set; KubeRay refuses it",
                "keep autoscaling.version",
            )
        options = mapping(workload.autoscaler_options)
        idle = whole(options.get("idleTimeoutSeconds"))
        if idle is not None and idle < 0:
            yield error(workload.where, f"autoscalerOptions.idleTimeoutSeconds {idle} is less than 0", "give 0 or more")
        if any(mapping(e).get("name") == "KUBERAY_GEN_AUTOSCALER_START_CMD" for e in items(options.get("env"))):
            yield error(
                workload.where,
                "autoscalerOptions.env sets KUBERAY_GEN_AUTOSCALER_START_CMD, which KubeRay sets itself",
                "leave it out",
            )
        for group in workload.pod_groups:
            if workload.autoscaling and second and group.restart_policy not in (None, "", "Never"):
                yield error(
                    group.where,
                    f"restartPolicy {group.restart_policy} goes not with autoscaler v2, which counts a restarted pod as another one",
                    "leave restartPolicy out (Never)",
                )
            timeout = group.idle_timeout_seconds
            if timeout is not None and timeout < 0:
                yield error(group.where, f"idleTimeoutSeconds {timeout} is less than 0", "give 0 or more")
            elif timeout is not None and not second and switch not in ("1", "true"):
                yield error(
                    group.where,
                    "idleTimeoutSeconds of a group needs autoscalerOptions.version v2 to be stated",
                    "set autoscaling.version: v2, or use autoscaling.idle_timeout_seconds",
                )
        yield from _groups(workload, second or switch in ("1", "true"))


def _groups(workload: Workload, second: bool) -> Iterator[Problem]:
    raw = map(mapping, items(cluster_spec(workload).get("workerGroupSpecs")))
    for group, given in zip(workload.groups, raw, strict=False):
        if given.get("suspend") is True and workload.autoscaling:
            yield error(group.where, "a group cannot be suspended while Ray's autoscaler is on", "set maxReplicas: 0")
        priority = whole(given.get("priority"))
        if priority:
            if workload.ray_version is None or before(workload.ray_version, "2.56.0"):
                yield error(
                    group.where,
                    f"priority {priority} needs Ray 2.56 or newer and rayVersion is {workload.ray_version or 'not stated'}",
                    "leave priority out, or use a newer Ray",
                )
            elif not second:
                yield error(group.where, f"priority {priority} needs autoscaler v2", "set autoscaling.version: v2")


def token_auth(stack: Stack) -> Iterator[Problem]:
    for workload in ray_workloads(stack):
        where, given = workload.where, workload.ray_version
        kubernetes = mapping(workload.auth_options).get("enableK8sTokenAuth") is True
        if workload.auth_mode == "token":
            if version(given) is None:
                yield error(
                    where,
                    f"authOptions.mode token needs rayVersion, which is {given or 'not stated'}",
                    "set rayVersion to the image's Ray (ray_version), 2.52.0 or newer",
                )
            elif before(given, "2.52.0"):
                yield error(
                    where,
                    f"authOptions.mode token needs Ray 2.52.0 or newer and rayVersion is {given}",
                    "use a newer Ray, or set auth.mode: disabled and keep everyone off the head's ports",
                )
        if not kubernetes:
            continue
        if workload.kind in ("RayService", "RayJob"):
            yield error(
                where,
                f"Kubernetes token authentication is not supported for a {workload.kind}: KubeRay itself cannot reach the dashboard then",
                "leave auth.kubernetes_tokens out and use the token Secret",
            )
        elif workload.auth_mode != "token":
            yield error(where, "enableK8sTokenAuth needs authOptions.mode token", "set auth.mode: token")
        elif before(given, "2.55.0"):
            yield error(
                where, f"enableK8sTokenAuth needs Ray 2.55.0 or newer and rayVersion is {given}", "use a newer Ray"
            )
        if mapping(workload.auth_options).get("secretName"):
            yield error(
                where, "enableK8sTokenAuth and authOptions.secretName exclude each other", "leave auth.secret out"
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kuberay-autoscaler",
        title="Autoscaler settings go together",
        why="Autoscaler v2 needs pods that are never restarted in place and is named in one field; groups' own idle timeouts and priorities exist in v2 only.",
        check=autoscaler,
        sources=(SOURCE,),
    ),
    Rule(
        id="kuberay-token-auth",
        title="Token authentication has the Ray it needs",
        why="KubeRay refuses mode token without a rayVersion of 2.52.0 or newer. Kubernetes tokens need 2.55.0, and a RayService cannot use them.",
        check=token_auth,
        sources=(SOURCE, "kuberay#4562"),
    ),
)
