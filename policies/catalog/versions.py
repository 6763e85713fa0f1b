"""Which versions go together: cluster software and Kubernetes, KubeRay's fields and gates by release.

For: rules, and the tests that hold components/versions.py to this table.
Not for: Ray and vLLM (ray_releases.py), or CUDA and the driver (rules/drivers.py). No row means: nothing is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

CHECKED_ON = "2026-11-30"


@dataclass(frozen=True, slots=True)
class Support:
    """From version `since` of `component` on (until its next row), Kubernetes `first` to `last` are supported or validated."""

    component: str  # chart name
    since: str
    first: str
    last: str
    source: str


_KAI = "kai-scheduler/KAI-Scheduler v0.17.0: SUPPORT.md"
_VOLCANO = "volcano-sh/volcano v1.15.1: README.md, Kubernetes compatibility"
_ENVOY = "envoyproxy/gateway: site/content/en/news/releases/matrix.md"
_KARPENTER = "karpenter-provider-aws 1d92708: docs/upgrading/compatibility.md"

COMPATIBILITY: tuple[Support, ...] = (
    Support("gateway-helm", "1.6", "1.30", "1.33", _ENVOY),
    Support("gateway-helm", "1.7", "1.32", "1.35", _ENVOY),
    Support("gateway-helm", "1.9", "1.33", "1.36", _ENVOY),
    Support("kai-scheduler", "0.14", "1.31", "1.35", _KAI),
    Support("kai-scheduler", "0.16", "1.28", "1.36", _KAI),
    # Upper ends: Karpenter names the first release for each Kubernetes minor, and no lower end.
    Support("karpenter", "1.0.5", "1.25", "1.31", _KARPENTER),
    Support("karpenter", "1.2", "1.25", "1.32", _KARPENTER),
    Support("karpenter", "1.5", "1.25", "1.33", _KARPENTER),
    Support("karpenter", "1.6", "1.25", "1.34", _KARPENTER),
    Support("karpenter", "1.9", "1.25", "1.35", _KARPENTER),
    Support("karpenter", "1.13", "1.25", "1.36", _KARPENTER),
    Support("volcano", "1.12", "1.21", "1.32", _VOLCANO),
    Support("volcano", "1.13", "1.23", "1.33", _VOLCANO),
    Support("volcano", "1.14", "1.23", "1.34", _VOLCANO),
    Support("volcano", "1.15", "1.23", "1.35", _VOLCANO),
)

# Kubernetes minors that EKS makes clusters of, extended support included; newer ones may have come since CHECKED_ON. 1.31 left
# extended support on 2026-11-26 (docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html; endoflife.date/amazon-eks).
EKS_FIRST, EKS_LAST = "1.32", "1.36"
# End of EKS' standard support of each minor; extended support ends a year later (same pages; 1.36:
# aws-samples/sample-aws-genai-ops-demos PR#86, 2026-08-03).
EKS_STANDARD_UNTIL: Mapping[str, str] = {
    "1.32": "2026-03-23",
    "1.33": "2026-07-29",
    "1.34": "2026-12-02",
    "1.35": "2027-03-27",
    "1.36": "2027-08-02",
}

# Fields of the cluster spec (spec of a RayCluster, rayClusterConfig, rayClusterSpec) and of the kinds' own specs, by the
# KubeRay minor that brought them: the CRDs of tags v1.2.2, v1.3.2, v1.4.2, v1.5.1, v1.6.1 and v1.7.0 compared. [] is a list.
KUBERAY_CLUSTER_FIELDS: Mapping[str, tuple[str, ...]] = {
    "1.3": (
        "gcsFaultToleranceOptions",
        "managedBy",
        "workerGroupSpecs[].idleTimeoutSeconds",
        "workerGroupSpecs[].suspend",
    ),
    "1.4": ("autoscalerOptions.version",),
    "1.5": (
        "authOptions",
        "headGroupSpec.labels",
        "headGroupSpec.resources",
        "workerGroupSpecs[].labels",
        "workerGroupSpecs[].resources",
    ),
    "1.6": ("authOptions.enableK8sTokenAuth", "authOptions.secretName", "upgradeStrategy"),
    "1.7": (
        "autoscalerOptions.args",
        "autoscalerOptions.command",
        "gcsFaultToleranceOptions.backend",
        "gcsFaultToleranceOptions.storage",
        "headGroupSpec.ingressOptions",
        "historyServerOptions",
        "networkPolicy",
        "tlsOptions",
        "workerGroupSpecs[].priority",
    ),
}
KUBERAY_OWN_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "RayJob": {
        "1.3": ("managedBy",),
        "1.5": ("deletionStrategy",),
        "1.6": ("preRunningDeadlineSeconds",),
    },
    "RayService": {
        "1.3": ("excludeHeadPodFromServeSvc", "upgradeStrategy"),
        "1.5": ("rayClusterDeletionDelaySeconds", "upgradeStrategy.clusterUpgradeOptions"),
        "1.6": ("managedBy",),
        "1.7": ("suspend",),
    },
}
# Fields of Karpenter's objects by the minor that brought them: the CRDs of tags v1.0.0 to v1.14.1 compared (pkg/apis/crds).
KARPENTER_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "EC2NodeClass": {
        "1.3": ("capacityReservationSelectorTerms",),
        "1.4": ("amiSelectorTerms[].ssmParameter",),
        "1.5": ("blockDeviceMappings[].ebs.volumeInitializationRate",),
        "1.8": ("capacityReservationSelectorTerms[].instanceMatchCriteria", "ipPrefixCount"),
        "1.11": ("networkInterfaces", "placementGroupSelector"),
        "1.13": ("connectionTracking", "cpuOptions"),
    },
    "NodePool": {"1.8": ("replicas",)},
}
# Feature gates by the KubeRay minor that has them (ray-operator/pkg/features/features.go of the same tags).
KUBERAY_GATES: Mapping[str, str] = {
    "GCSFaultToleranceEmbeddedStorage": "1.7",
    "KubernetesWAS": "1.7",
    "RayClusterHistoryServer": "1.7",
    "RayClusterMTLS": "1.7",
    "RayClusterNetworkPolicy": "1.7",
    "RayClusterStatusConditions": "1.2",
    "RayCronJob": "1.6",
    "RayJobDeletionPolicy": "1.3",
    "RayMultiHostIndexing": "1.5",
    "RayServiceIncrementalUpgrade": "1.5",
    "SidecarSubmitterRestart": "1.7",
}


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version: "v1.15.1" -> (1, 15, 1). Letters after them are left out; () for what is none."""
    found: list[int] = []
    for part in text.removeprefix("v").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


@lru_cache(maxsize=256)
def support(component: str, version: str) -> Support | None:
    """The row for a component's version; None for components without rows and for versions older than their first."""
    given = numbers(version)
    rows = [row for row in COMPATIBILITY if row.component == component and numbers(row.since) <= given]
    return max(rows, key=lambda row: numbers(row.since)) if rows else None
