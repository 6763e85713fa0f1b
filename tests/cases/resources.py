"""Resources as other programs declare them, and what the rules say of them: YAML of Kubernetes, properties of AWS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from components.config import deep_merge
from policies.facts import Stack
from policies.facts.ray import LOADER
from policies.facts.stack import EMPTY, reading
from policies.facts.wire import Resource, manifests, resource
from policies.rules import check

from .report import told

Found = set[tuple[str, str]]
GROUP, TEMPLATE, CLUSTER = (
    "aws:eks/nodeGroup:NodeGroup",
    "aws:ec2/launchTemplate:LaunchTemplate",
    "aws:eks/cluster:Cluster",
)
_BASE: dict[str, dict[str, Any]] = {
    GROUP: {
        "clusterName": "llm",
        "nodeRoleArn": "arn:aws:iam::123456789012:role/node",
        "subnetIds": ["subnet-0a"],
        "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 0},
        "instanceTypes": ["p5.48xlarge"],
        "amiType": "AL2023_x86_64_NVIDIA",
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
        "launchTemplate": {"id": "lt-1", "version": "1"},
    },
    TEMPLATE: {
        "id": "lt-1",
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200}}],
    },
    CLUSTER: {"version": "1.35", "vpcConfig": {"endpointPublicAccess": False, "endpointPrivateAccess": True}},
}


def aws(kind: str, **props: Any) -> Resource:
    """A resource of AWS with further properties; None deletes one."""
    merged: Any = deep_merge(_BASE.get(kind, {}), props)
    ignored = ["scalingConfig.desiredSize"] if kind == GROUP else []
    name = kind.rpartition(":")[2].lower()
    return resource(kind, name, merged, urn=f"urn:{name}", ignore_changes=ignored)


def objects(text: str) -> list[Resource]:
    """Resources of a YAML text."""
    return manifests(yaml.load_all(text, Loader=LOADER), "objects.yaml")


def case(
    source: str, rule: str, mended: str, *pairs: tuple[str, str], severity: str = "error", beside: str = ""
) -> Any:
    """Parameters of `twins`: `mended` is right, and wrong with the pairs replaced in it; `beside` stands before both."""
    broken = mended
    for good, bad in pairs:
        assert good in broken, good
        broken = broken.replace(good, bad)
    return pytest.param(rule, severity, beside + broken, beside + mended, id=f"{source} {rule}")


def twins(rule: str, severity: str, broken: Iterable[Resource], mended: Iterable[Resource]) -> None:
    """What was reported is said of the broken resources; of the mended ones nothing of the kind, and no error at all."""
    told(rule, severity, said(*broken), said(*mended))


def said(*resources: Resource, known: Stack = EMPTY) -> Found:
    """(rule, severity) of all findings."""
    return {(f.rule, f.severity) for f in check(reading(resources, known).stack)}
