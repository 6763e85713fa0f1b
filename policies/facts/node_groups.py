"""Reader of EKS node groups and self-managed groups of nodes, with their launch templates, into NodePool facts.

Defaults are EKS's own (botocore: CreateNodegroup): t3.medium, ON_DEMAND, the standard AMI whatever the instance type, 20 GiB.
Not for: Karpenter's pools (karpenter.py).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any

from policies.catalog.instances import Instance

from . import nodes, sharing
from .aws import AUTO_SCALING_TAG, SUBNET, Found
from .quantities import items, mapping, whole
from .records.nodes import NodePool, Taint
from .records.values import Values
from .wire import Resource

_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_DEFAULT_TYPE, _DEFAULT_DISK_GIB = "t3.medium", 20
_CLUSTER_TAG = re.compile(r"(kubernetes\.io/cluster/|k8s\.io/cluster-autoscaler/(enabled|node-template/))")
_LABEL_TAG = "k8s.io/cluster-autoscaler/node-template/label/"
_TAINT_TAG = "k8s.io/cluster-autoscaler/node-template/taint/"
_RESOURCE_TAG = "k8s.io/cluster-autoscaler/node-template/resources/"


def managed(resource: Resource, found: Found) -> NodePool:
    """A managed node group as a pool, joined with its launch template and the subnets it depends on."""
    props = resource.props
    reference = mapping(props.get("launchTemplate"))
    refers = props.get("launchTemplate") is not None or resource.is_unknown("launchTemplate")
    template = found.launch_template(resource, "launchTemplate", reference) if refers else None
    spec = template.props if template else {}
    types = _instance_types(resource, template, refers)
    rows = nodes.rows(types)
    ami_id = str(spec["imageId"]) if spec.get("imageId") else None
    ami_type = _ami_type(resource, template, refers, rows, ami_id)
    scaling = mapping(props.get("scalingConfig"))
    labels = {str(k): str(v) for k, v in mapping(props.get("labels")).items()}
    # The name that people use for the pool; Pulumi's own is always there.
    name = labels.get("llm-serving/pool") or str(props.get("nodeGroupName") or resource.name)
    if props.get("nodeGroupName"):
        labels.setdefault("eks.amazonaws.com/nodegroup", str(props["nodeGroupName"]))
    capacity = props.get("capacityType")
    block = capacity == "CAPACITY_BLOCK" or _market(spec) == "capacity-block"
    low = whole(scaling.get("minSize"))
    return NodePool(
        name=name,
        where=f"node pool '{name}'",
        kind="managed",
        instance_types=types,
        min=low or 0,
        max=whole(scaling.get("maxSize")),
        desired=whole(scaling.get("desiredSize")),
        spot=capacity == "SPOT" or _market(spec) == "spot",
        reservation_kind="capacity_block" if block else ("on_demand" if _reservation(spec) else None),
        reservation=_reservation(spec),
        zones=_zones(resource, "subnetIds", found),
        ami_type=ami_type,
        ami_id=ami_id,
        ami_release=str(props["releaseVersion"]) if props.get("releaseVersion") else None,
        driver_version=nodes.driver(ami_type),
        announced=_announced(found),
        taints=tuple(_taint(mapping(taint)) for taint in items(props.get("taints"))),
        labels=dict(sorted(labels.items())),
        ignores_desired=_ignores_desired(resource),
        **_from_template(resource, template, refers, rows),
    )


def self_managed(resource: Resource, found: Found) -> NodePool | None:
    """A self-managed group of a cluster's nodes as a pool; None for a group that no tag ties to a cluster."""
    props = resource.props
    tags = {str(t.get("key")): str(t.get("value", "")) for t in map(mapping, items(props.get("tags")))}
    if not any(_CLUSTER_TAG.match(key) for key in tags):
        return None
    mixed = mapping(props.get("mixedInstancesPolicy"))
    nested = mapping(mixed.get("launchTemplate"))
    reference = mapping(props.get("launchTemplate")) or mapping(nested.get("launchTemplateSpecification"))
    prop = "mixedInstancesPolicy" if mixed else "launchTemplate"
    template = found.launch_template(resource, prop, reference)
    spec = template.props if template else {}
    overrides = [mapping(o).get("instanceType") for o in items(nested.get("overrides"))]
    types = tuple(str(t) for t in overrides if t) or ((str(spec["instanceType"]),) if spec.get("instanceType") else ())
    rows = nodes.rows(types)
    distribution = mapping(mixed.get("instancesDistribution"))
    base = whole(distribution.get("onDemandPercentageAboveBaseCapacity"))
    return NodePool(
        name=resource.name,
        where=f"node pool '{resource.name}'",
        kind="self_managed",
        instance_types=types,
        min=whole(props.get("minSize")) or 0,
        max=whole(props.get("maxSize")),
        desired=whole(props.get("desiredCapacity")),
        spot=_market(spec) == "spot" or (bool(mixed) and base is not None and base < 100),
        reservation=_reservation(spec),
        reservation_kind="capacity_block" if _market(spec) == "capacity-block" else None,
        zones=_zones(resource, "vpcZoneIdentifiers", found),
        ami_type="CUSTOM",
        ami_id=str(spec["imageId"]) if spec.get("imageId") else None,
        taints=tuple(
            _taint_tag(k.removeprefix(_TAINT_TAG), v) for k, v in sorted(tags.items()) if k.startswith(_TAINT_TAG)
        ),
        labels={k.removeprefix(_LABEL_TAG): v for k, v in sorted(tags.items()) if k.startswith(_LABEL_TAG)},
        announced=_resources(tags),
        ignores_desired="desiredCapacity" in resource.ignore_changes or "desiredCapacity" not in props,
        **_from_template(resource, template, True, rows),
    )


def _announced(found: Found) -> tuple[str, ...]:
    """Resources of which some tag of the stack tells cluster-autoscaler. EKS names the group that a tag is on, so whose it is cannot be seen."""
    tags = [mapping(each.props.get("tag")) for each in found.of_type(AUTO_SCALING_TAG)]
    return _resources({str(tag.get("key")): str(tag.get("value", "")) for tag in tags})


def _resources(tags: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(key.removeprefix(_RESOURCE_TAG) for key in tags if key.startswith(_RESOURCE_TAG)))


def _instance_types(resource: Resource, template: Resource | None, refers: bool) -> tuple[str, ...]:
    stated = tuple(map(str, items(resource.props.get("instanceTypes"))))
    if stated or resource.is_unknown("instanceTypes"):
        return stated
    if template is not None:
        if template.props.get("instanceType"):
            return (str(template.props["instanceType"]),)
        return (
            ()
            if template.is_unknown("instanceType") or template.props.get("instanceRequirements")
            else (_DEFAULT_TYPE,)
        )
    return () if refers else (_DEFAULT_TYPE,)


def _ami_type(
    resource: Resource, template: Resource | None, refers: bool, rows: Sequence[Instance], ami_id: str | None
) -> str | None:
    if refers and template is None and resource.props.get("amiType") == "CUSTOM":
        return None  # which image is in the template, and that is of another stack
    if resource.props.get("amiType"):
        return str(resource.props["amiType"])
    if ami_id is not None:
        return "CUSTOM"
    if resource.is_unknown("amiType") or (template.is_unknown("imageId") if template else refers):
        return None
    # EKS takes the standard image for GPU types too, unless told ("make sure to also specify an applicable GPU AMI type").
    return "AL2023_x86_64_STANDARD" if rows and all(row.architecture == "x86_64" for row in rows) else None


def _from_template(
    resource: Resource, template: Resource | None, refers: bool, rows: Sequence[Instance]
) -> dict[str, Any]:
    """Hardware, and what the template says of disks, interfaces and metadata."""
    spec = template.props if template else {}
    interfaces = [str(mapping(i).get("interfaceType", "")) for i in items(spec.get("networkInterfaces"))]
    efa = [each for each in interfaces if each.startswith("efa")]
    facts = nodes.hardware(rows)
    facts["efa"] = bool(efa)
    facts["efa_declared_interfaces"] = len(efa) or None
    facts["hop_limit"] = whole(mapping(spec.get("metadataOptions")).get("httpPutResponseHopLimit"))
    facts["root_disk_gib"] = _disk_gib(resource, template, refers)
    user_data = _user_data(spec)
    facts["nvme_gb"] = nodes.nvme_gb(rows) if uses_local_disks(user_data) else None
    facts["sharing"] = sharing.of_bottlerocket(user_data)
    return facts


def _disk_gib(resource: Resource, template: Resource | None, refers: bool) -> int | None:
    """GiB of the largest volume (of Bottlerocket the second one holds images). A custom image brings its own size."""
    stated = whole(resource.props.get("diskSize"))
    if stated is not None:
        return stated
    if template is None:
        return None if refers or resource.is_unknown("diskSize") else _DEFAULT_DISK_GIB
    sizes = [
        whole(mapping(mapping(m).get("ebs")).get("volumeSize"))
        for m in items(template.props.get("blockDeviceMappings"))
    ]
    known = [size for size in sizes if size is not None]
    if known:
        return max(known)
    unsaid = not sizes and not template.is_unknown("blockDeviceMappings")
    return (
        _DEFAULT_DISK_GIB
        if unsaid and not template.props.get("imageId") and not template.is_unknown("imageId")
        else None
    )


def uses_local_disks(user_data: str) -> bool:
    """Whether user data makes the local disks one volume for images and pods (nodeadm, Bottlerocket, others)."""
    return any(word in user_data for word in ("localStorage", "ephemeral-storage", "RAID0"))


def _user_data(spec: Values) -> str:
    """User data as text: a launch template holds it in base64."""
    given = str(spec.get("userData") or "")
    try:
        return base64.b64decode(given, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return given


def _market(spec: Values) -> str | None:
    given = mapping(spec.get("instanceMarketOptions")).get("marketType")
    return str(given) if given else None


def _reservation(spec: Values) -> str | None:
    target = mapping(mapping(spec.get("capacityReservationSpecification")).get("capacityReservationTarget"))
    given = target.get("capacityReservationId") or target.get("capacityReservationResourceGroupArn")
    return str(given) if given else None


def _zones(resource: Resource, prop: str, found: Found) -> tuple[str, ...]:
    """Zones of the subnets that a group takes from this stack; () unless all are known."""
    subnets = found.sources(resource, prop, SUBNET)
    zones = [str(each.props.get("availabilityZone") or "") for each in subnets]
    return tuple(sorted(set(zones))) if zones and all(zones) else ()


def _taint(taint: Values) -> Taint:
    effect = str(taint.get("effect") or "NO_SCHEDULE")
    return Taint(
        key=str(taint.get("key", "")), value=str(taint.get("value") or ""), effect=_EFFECTS.get(effect, effect)
    )


def _taint_tag(key: str, text: str) -> Taint:
    value, _, effect = text.rpartition(":")
    return Taint(key=key, value=value, effect=effect or "NoSchedule")


def _ignores_desired(resource: Resource) -> bool:
    ignored = {"scalingConfig.desiredSize", "scalingConfig"} & set(resource.ignore_changes)
    return bool(ignored) or "desiredSize" not in mapping(resource.props.get("scalingConfig"))
