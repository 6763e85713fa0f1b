"""Public reports about objects of Karpenter, KEDA, DRA, Kueue, LeaderWorkerSet and others, as YAML: each broken, and mended."""

from __future__ import annotations

from typing import Any

import pytest

from .resources import objects, said
from .test_reports_of_aws import POOL
from .test_reports_of_objects import ENGINE, KEDA

SPARING = POOL.replace("  limits:", "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}\n  limits:")
BEHAVIOR = ENGINE + KEDA.replace(
    "  triggers:",
    "  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}}\n  triggers:",
)
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: single-gpu, namespace: serving}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: gpu, namespace: serving}
spec:
  resourceClaims: [{name: gpu0, resourceClaimTemplateName: single-gpu}]
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {claims: [{name: gpu0}]}}]
"""


def case(source: str, rule: str, mended: str, *pairs: tuple[str, str], severity: str = "error") -> Any:
    """`mended` is right, and wrong with the pairs replaced in it."""
    broken = mended
    for good, bad in pairs:
        assert good in broken, good
        broken = broken.replace(good, bad)
    return pytest.param(rule, severity, broken, mended, id=f"{source} {rule}")


SCHEMAS = (
    case("aws/karpenter-provider-aws#7319", "object-schema", SPARING, ("consolidateAfter: 10m}", "consolidateAfter: 10m, expireAfter: 168h}")),
    case("luminartech/helm-charts-public PR#380", "object-schema", SPARING, (", consolidateAfter: 10m}", "}")),
    case("a field that a newer Karpenter may have", "object-schema", SPARING, ("consolidateAfter: 10m}", "consolidateAfter: 10m, driftPolicy: Never}"), severity="warning"),
    case("kedacore/keda#2724", "object-schema", BEHAVIOR, ("{horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}}", "{behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}")),
    case("a number in quotes", "object-schema", BEHAVIOR, ("minReplicaCount: 1", 'minReplicaCount: "1"')),
    case("kubernetes-sigs/dra-driver-nvidia-gpu#713", "object-schema", CLAIM, ("exactly: {deviceClassName: gpu.nvidia.com}", "deviceClassName: gpu.nvidia.com")),
    case("kubernetes-sigs/dra-driver-nvidia-gpu#46", "object-schema", CLAIM, ("resource.k8s.io/v1\n", "resource.k8s.io/v1alpha2\n")),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), SCHEMAS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    assert (rule, severity) in said(*objects(broken))
    after = said(*objects(mended))
    assert {each for each, level in after if level == "error"} == set()
    assert rule not in {each for each, _ in after}
