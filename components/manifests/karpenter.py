"""Karpenter's NodePool and EC2NodeClass of a pool, as plain manifests (karpenter.sh/v1, karpenter.k8s.aws/v1). Pure.

Source: karpenter-provider-aws 1d92708 (website/content/en/docs/concepts, pkg/apis/crds).
Not for: Karpenter itself (chart and roles are elsewhere).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import AwsPool
from components.manifests.launch_template import disk, network_interfaces
from components.manifests.user_data import has_local_disks, is_bottlerocket, karpenter_user_data
from policies.facts import NodePool


def node_class(
    pool: NodePool,
    config: AwsPool,
    *,
    role: Any,
    subnet_ids: Sequence[Any],
    security_group_ids: Sequence[Any],
    placement_group: Any,
    tags: dict[str, str],
) -> dict[str, Any]:
    """The EC2NodeClass: which image, disks and network the nodes start with. Role, ids and group are text that may not be known yet."""
    spec: dict[str, Any] = {
        **_ami(pool, config),
        "role": role,
        "subnetSelectorTerms": [{"id": each} for each in subnet_ids],
        "securityGroupSelectorTerms": [{"id": each} for each in security_group_ids],
        "blockDeviceMappings": [_disk(pool)],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": pool.hop_limit or 1,
        },
        "tags": {**tags, "llm-serving/pool": pool.name},
    }
    if has_local_disks(pool):
        spec["instanceStorePolicy"] = "RAID0"
    interfaces = network_interfaces(pool)
    if interfaces:
        spec["networkInterfaces"] = [
            {"networkCardIndex": each.card, "deviceIndex": each.device, "interfaceType": each.type}
            for each in interfaces
        ]
    if placement_group is not None:
        spec["placementGroupSelector"] = {"name": placement_group}
    if pool.reservation is not None:
        spec["capacityReservationSelectorTerms"] = [{"id": pool.reservation}]
    user_data = karpenter_user_data(pool)
    if user_data is not None:
        spec["userData"] = user_data
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": pool.name},
        "spec": spec,
    }


def node_pool(pool: NodePool, config: AwsPool) -> dict[str, Any]:
    """The NodePool: which instances, how many at most, and when a node may go."""
    requirements = [
        _in("node.kubernetes.io/instance-type", sorted(pool.instance_types)),
        _in("karpenter.sh/capacity-type", [capacity_type(pool)]),
        _in("kubernetes.io/arch", ["arm64" if pool.architecture == "arm64" else "amd64"]),
    ]
    if pool.zones:
        requirements.append(_in("topology.kubernetes.io/zone", sorted(pool.zones)))
    template: dict[str, Any] = {
        "metadata": {"labels": dict(pool.labels)},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
            "requirements": requirements,
            # Expiry drains by force, whatever a budget says; a node that serves a model goes by drift or when it is empty.
            "expireAfter": "Never" if pool.gpu else "720h",
        },
    }
    if pool.taints:
        template["spec"]["taints"] = [
            {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})
            for taint in pool.taints
        ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": pool.name},
        "spec": {
            "template": template,
            "limits": dict(pool.limits),
            "disruption": {
                # Moving an engine costs minutes of download and load: GPU nodes go only when nothing runs on them.
                "consolidationPolicy": "WhenEmpty" if pool.gpu else "WhenEmptyOrUnderutilized",
                "consolidateAfter": "10m" if pool.gpu else "2m",
                "budgets": [{"nodes": str(config.max_unavailable)}],
            },
        },
    }


def capacity_type(pool: NodePool) -> str:
    """Value of karpenter.sh/capacity-type."""
    if pool.reservation is not None:
        return "reserved"
    return "spot" if pool.spot else "on-demand"


def _ami(pool: NodePool, config: AwsPool) -> dict[str, Any]:
    family = "bottlerocket" if is_bottlerocket(pool) else "al2023"
    if pool.ami_id is not None:
        return {"amiFamily": "AL2023", "amiSelectorTerms": [{"id": pool.ami_id}]}
    # One alias covers every type: Karpenter takes the NVIDIA variant for types with GPUs by itself.
    return {"amiSelectorTerms": [{"alias": f"{family}@{config.ami_release or 'latest'}"}]}


def _disk(pool: NodePool) -> dict[str, Any]:
    wanted = disk(pool)
    ebs: dict[str, Any] = {
        "volumeSize": f"{wanted.size_gib}Gi",
        "volumeType": "gp3",
        "encrypted": True,
        "deleteOnTermination": True,
    }
    if wanted.throughput is not None:
        ebs["throughput"] = wanted.throughput
    return {"deviceName": wanted.device, "ebs": ebs}


def _in(key: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": values}
