"""Fields of objects beside the workloads that their schema does not have, values that it does not take, versions that are gone.

For: NodePools, ScaledObjects, queues, routes, stores, claims, monitors and Kubernetes' own. Not for: what makes pods
(pod_schema.py), Ray's objects (kuberay_schema.py), or what a webhook checks beyond the schema (rules on each kind).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.objects import Kind, kind
from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._schema import top

# apiVersion -> what to write. Kubernetes serves none of them any more, in any version that is supported.
_GONE: Mapping[str, str] = {
    "autoscaling/v2beta1": "autoscaling/v2",
    "autoscaling/v2beta2": "autoscaling/v2",
    "batch/v1beta1": "batch/v1",
    "extensions/v1beta1": "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1": "networking.k8s.io/v1",
    "policy/v1beta1": "policy/v1",
    "resource.k8s.io/v1alpha1": "resource.k8s.io/v1",
    "resource.k8s.io/v1alpha2": "resource.k8s.io/v1",
    "resource.k8s.io/v1alpha3": "resource.k8s.io/v1",
    "storage.k8s.io/v1beta1": "storage.k8s.io/v1",
}
_APPS = ("DaemonSet", "Deployment", "ReplicaSet")
_STILL = (
    "DeviceTaintRule",
    "IPAddress",
    "ServiceCIDR",
    "VolumeAttributesClass",
)  # kinds that one of these versions still has


def schema(stack: Stack) -> Iterator[Problem]:
    for where, manifest in _objects(stack):
        group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
        known = kind(group, str(manifest.get("kind", "")))
        shape = known.versions.get(version) if known else None
        if shape is None:
            yield from _version(where, manifest, known)
            continue
        for message, mend, certain in top(manifest, shape):
            yield (error if certain else warning)(where, message, mend)


def _objects(stack: Stack) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for item in stack.objects:
        yield item.where, item.manifest
    for workload in stack.workloads:
        if workload.kind == "LeaderWorkerSet":  # its pods are judged as others are; its own fields are here
            yield (
                workload.where,
                {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": workload.kind, "spec": workload.spec},
            )


def _version(where: str, manifest: Mapping[str, Any], known: Kind | None) -> Iterator[Problem]:
    given = str(manifest.get("apiVersion", ""))
    group, _, version = given.rpartition("/")
    if given in _GONE and manifest.get("kind") not in _STILL:
        now = "apps/v1" if manifest.get("kind") in _APPS else _GONE[given]
        yield error(where, f"Kubernetes no longer serves {given}", f"write it for {now}")
    elif known and version in known.unserved:
        newest = sorted(known.versions)[-1]
        yield error(
            where, f"{given} of {known.name} is no longer served ({known.source})", f"write it for {group}/{newest}"
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="object-schema",
        title="Objects have fields and values that their kind has, in a version that is served",
        why=(
            "A field of another place or of an older version is dropped by the API server, or refused where the client asks for strict validation, and what it was meant "
            "for never happens: nodes that never expire, a scaler without its behavior, a claim without a class. A value out of a field's choices and a version that is gone are refused."
        ),
        check=schema,
        sources=(
            "karpenter-provider-aws#7319",
            "kedacore/keda#2724",
            "dra-driver-nvidia-gpu#713",
            "https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
        ),
    ),
)
