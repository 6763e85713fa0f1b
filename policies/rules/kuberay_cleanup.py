"""What a Ray cluster leaves behind when it is deleted.

Not for: what KubeRay refuses (kuberay_cluster.py, kuberay_options.py), or what a deletion interrupts (disruption.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, warning

from ._values import releases
from .kuberay_cluster import ray_workloads


def redis_token(stack: Stack) -> Iterator[Problem]:
    """The job that clears Redis is made of the head's pod, so it wants the token's Secret too; its owner is the cluster that goes."""
    if any(_no_cleanup(release.values) for release in releases(stack, "kuberay-operator")):
        return
    for workload in ray_workloads(stack):
        options, auth = workload.fault_tolerance, workload.auth_options
        annotated = str(workload.annotations.get("ray.io/ft-enabled", "")).lower() == "true"
        redis = annotated if options is None else options.get("backend") != "rocksdb"
        stated = workload.head is not None and "RAY_AUTH_TOKEN" in workload.head.env
        own = stated or auth.get("secretName") or auth.get("enableK8sTokenAuth") is True
        background = workload.annotations.get("pulumi.com/deletionPropagationPolicy") == "background"
        if redis and workload.auth_mode == "token" and not own and not background:
            yield warning(
                workload.where,
                "its state is in Redis and its token in a Secret that KubeRay makes: whoever deletes it in the foreground (Pulumi and Argo CD do) has Kubernetes delete "
                "the Secret first, and the job that clears Redis waits five minutes for it in vain; the state stays in Redis",
                "set auth.secret to a Secret with key auth_token",
            )


def _no_cleanup(values: Mapping[str, Any]) -> bool:
    env = [mapping(each) for each in items(values.get("env"))]
    return any(e.get("name") == "ENABLE_GCS_FT_REDIS_CLEANUP" and str(e.get("value")).lower() == "false" for e in env)


RULES: tuple[Rule, ...] = (
    Rule(
        id="kuberay-redis-token",
        title="The job that clears Redis outlives the token's Secret",
        why=(
            "KubeRay holds a cluster that is deleted until a job has removed its keys from Redis. The job's pod is the head's, and takes RAY_AUTH_TOKEN from the Secret that "
            "KubeRay made and the cluster owns. A foreground deletion removes what is owned first: the pod never starts, the job ends after 300 s, and the keys stay."
        ),
        check=redis_token,
        sources=(
            "kuberay v1.7.0: controllers/ray/raycluster_controller.go (createAuthSecret, buildRedisCleanupJob)",
            "kuberay#4767",
            "pulumi-kubernetes#3011",
        ),
    ),
)
