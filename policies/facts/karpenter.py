"""Reader of Karpenter's NodePool (karpenter.sh/v1), joined with the EC2NodeClass it names, into a NodePool fact.

Requirements are matched against the catalog's types by the labels that Karpenter gives nodes (karpenter-provider-aws 1d92708,
website/content/en/docs/concepts/scheduling.md and pkg/providers/instancetype/types.go). Karpenter starts the type that the
waiting pods need, so room is that of the largest type, unlike a node group, which starts whichever it gets.
Not for: EKS Auto Mode's NodeClass, which says nothing of images and disks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from policies.catalog import gpus, instances
from policies.catalog.instances import Instance

from . import nodes, sharing
from .quantities import items, mapping, mib, quantity, whole
from .records.nodes import NodePool, Taint
from .records.values import Values

TYPE, CAPACITY, ZONE = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type", "topology.kubernetes.io/zone"
_AWS = "karpenter.k8s.aws/instance-"
_FAMILY = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)")
_ROOT = {
    "bottlerocket": "/dev/xvdb"
}  # of Bottlerocket the second volume holds images; the first is the read-only system
# What Karpenter gives a node whose class says nothing (EC2NodeClass defaults).
_DEFAULT_DISK_GIB, _DEFAULT_HOP_LIMIT = 20, 1


def is_pool(manifest: Values) -> bool:
    """Whether the object is a NodePool of Karpenter on AWS (EKS Auto Mode has the same kind). Other clouds' types are not in the catalog."""
    if manifest.get("kind") != "NodePool" or not str(manifest.get("apiVersion", "")).startswith("karpenter.sh/"):
        return False
    template = mapping(mapping(manifest.get("spec")).get("template"))
    group = mapping(mapping(template.get("spec")).get("nodeClassRef")).get("group")
    return not str(group).startswith("karpenter.") or group == "karpenter.k8s.aws"


def is_class(manifest: Values) -> bool:
    """Whether the object is an EC2NodeClass."""
    return manifest.get("kind") == "EC2NodeClass" and str(manifest.get("apiVersion", "")).startswith(
        "karpenter.k8s.aws/"
    )


def read(manifest: Values, classes: Mapping[str, Values]) -> NodePool:
    """The pool. `classes` are EC2NodeClass objects by name; without the one it names, image, disk and hop limit are not stated."""
    name = str(mapping(manifest.get("metadata")).get("name", ""))
    spec = mapping(manifest.get("spec"))
    template = mapping(spec.get("template"))
    nodes_of = mapping(template.get("spec"))
    requirements = [mapping(each) for each in items(nodes_of.get("requirements"))]
    given_class = classes.get(str(mapping(nodes_of.get("nodeClassRef")).get("name", "")))
    class_spec = mapping(mapping(given_class).get("spec"))
    limits = mapping(spec.get("limits"))
    types = _within(limits, _types(requirements))
    named = _values(requirements, TYPE)
    capacity = _values(requirements, CAPACITY) or ("on-demand",)
    zones = _values(requirements, ZONE)
    terms = map(mapping, items(class_spec.get("capacityReservationSelectorTerms")))
    reservation = next((str(term["id"]) for term in terms if term.get("id")), None)
    if reservation is None and capacity == ("reserved",):
        reservation = "of its EC2NodeClass"  # chosen by tags, or not known yet
    static = whole(spec.get("replicas"))
    efa = _efa(class_spec, types, zones)
    facts: dict[str, Any] = {
        **nodes.hardware(types, efa=efa),
        # The type that fits is started, so the largest counts.
        "gpus_per_node": max((row.gpus for row in types), default=0),
        "cpu_milli": max((row.allocatable_cpu_millis for row in types), default=None),
        "memory_mib": max((row.allocatable_memory_mib for row in types), default=None),
        **(_class(class_spec, types) if class_spec else {}),
    }
    same_gpu = len({row.gpu for row in types}) <= 1
    return NodePool(
        name=name,
        where=f"node pool '{name}'",
        kind="karpenter",
        instance_types=named or (tuple(row.name for row in types) if same_gpu and types and types[0].gpu else ()),
        min=static or 0,
        max=static if static is not None else _most_nodes(limits, types),
        fixed=static is not None,
        spot="spot" in capacity,
        reservation=reservation,
        zones=zones,
        zones_declared=bool(zones),
        efa=efa,
        taints=_taints(nodes_of),
        labels=_labels(name, template, requirements, types),
        limits=limits,
        **facts,
    )


def _values(requirements: Sequence[Values], key: str) -> tuple[str, ...]:
    """Values of an In requirement; () without one."""
    for each in requirements:
        if each.get("key") == key and each.get("operator") == "In":
            return tuple(map(str, items(each.get("values"))))
    return ()


def node_labels(row: Instance) -> dict[str, str]:
    """Labels of a node of that type by which a NodePool can ask for it."""
    match = _FAMILY.match(row.family)
    found = {
        TYPE: row.name,
        "kubernetes.io/arch": "arm64" if row.architecture == "arm64" else "amd64",
        "kubernetes.io/os": "linux",
        _AWS + "family": row.family,
        _AWS + "size": row.name.partition(".")[2],
        _AWS + "cpu": str(row.vcpu),
        _AWS + "memory": str(int(row.memory_gib * 1024)),
        _AWS + "hypervisor": "" if row.name.partition(".")[2].startswith("metal") else "nitro",
    }
    if match:
        found |= {_AWS + "category": match["category"], _AWS + "generation": match["generation"]}
    if row.nvme_gb:
        found[_AWS + "local-nvme"] = str(row.nvme_gb)
    if row.gpu and row.ec2_gpu_count:  # a type whose count EC2 gives as 0 has none of these labels
        found[_AWS + "gpu-manufacturer"] = "nvidia"
        found[_AWS + "gpu-count"] = str(row.ec2_gpu_count)
        found[_AWS + "gpu-memory"] = str(row.ec2_gpu_memory_mib)
        found[_AWS + "gpu-name"] = gpus.get(row.gpu).karpenter_name or ""
    return found


_OF_TYPES = frozenset({"node.kubernetes.io/instance-type", "kubernetes.io/arch", "kubernetes.io/os"})


def _types(requirements: Sequence[Values]) -> tuple[Instance, ...]:
    """Catalog rows that the requirements leave; () where they do not speak of types."""
    speaking = [r for r in requirements if r.get("key") in _OF_TYPES or str(r.get("key", "")).startswith(_AWS)]
    if not any(r.get("key") == TYPE or str(r.get("key", "")).startswith(_AWS) for r in speaking):
        return ()
    offered = [row for row in instances.INSTANCES if row.karpenter]
    if _values(requirements, TYPE):
        offered = list(nodes.rows(_values(requirements, TYPE)))  # a type named by hand is judged, offered or not
    return tuple(row for row in offered if all(_meets(node_labels(row), r) for r in speaking))


def _meets(labels: Mapping[str, str], requirement: Values) -> bool:
    key, operator = str(requirement.get("key", "")), requirement.get("operator")
    values = [str(v) for v in items(requirement.get("values"))]
    has = labels.get(key)
    match operator:
        case "In":
            return has in values
        case "NotIn":
            return has not in values
        case "Exists":
            return has is not None
        case "DoesNotExist":
            return has is None
        case "Gt" | "Gte" | "Lt" | "Lte":
            number, bound = quantity(has), quantity(values[0]) if values else None
            if number is None or bound is None:
                return False
            return {"Gt": number > bound, "Gte": number >= bound, "Lt": number < bound, "Lte": number <= bound}[
                operator
            ]
    return True


def _within(limits: Values, types: tuple[Instance, ...]) -> tuple[Instance, ...]:
    """Types of which one node stays inside the limits; all of them where none does."""
    cpu, gpu = quantity(limits.get("cpu")), quantity(limits.get("nvidia.com/gpu"))
    fitting = tuple(row for row in types if (cpu is None or row.vcpu <= cpu) and (gpu is None or row.gpus <= gpu))
    return fitting or types


def _most_nodes(limits: Values, types: Sequence[Instance]) -> int | None:
    """Nodes after which a limit stops Karpenter, if they are of the smallest type."""
    if not types:
        return whole(limits.get("nodes"))
    memory = quantity(limits.get("memory"))
    per_node = (
        ("cpu", quantity(limits.get("cpu")), min(row.vcpu for row in types)),
        ("memory", memory, min(row.memory_gib for row in types) * 2**30),
        ("nvidia.com/gpu", quantity(limits.get("nvidia.com/gpu")), min(row.gpus for row in types)),
        ("nodes", quantity(limits.get("nodes")), 1),
    )
    counts = [int(limit // one) for _, limit, one in per_node if limit is not None and one]
    return min(counts) if counts else None


def _labels(name: str, template: Values, requirements: Sequence[Values], types: Sequence[Instance]) -> dict[str, str]:
    """Labels that every node of the pool has: its template's, and what its requirements leave one value for."""
    labels = {str(k): str(v) for k, v in mapping(mapping(template.get("metadata")).get("labels")).items()}
    for each in requirements:
        values = items(each.get("values"))
        if each.get("operator") == "In" and len(values) == 1:
            labels.setdefault(str(each.get("key")), str(values[0]))
    shared = [node_labels(row) for row in types]
    for key in (_AWS + "gpu-name", _AWS + "gpu-count", _AWS + "family"):
        values_of = {each.get(key) for each in shared}
        if len(values_of) == 1 and None not in values_of:
            labels.setdefault(key, str(next(iter(values_of))))
    labels.setdefault("karpenter.sh/nodepool", name)
    return dict(sorted(labels.items()))


def _taints(spec: Values) -> tuple[Taint, ...]:
    return tuple(
        Taint(key=str(t.get("key", "")), value=str(t.get("value") or ""), effect=str(t.get("effect") or "NoSchedule"))
        for t in map(mapping, items(spec.get("taints")))
    )


def _efa(spec: Values, types: Sequence[Instance], zones: Sequence[str]) -> bool:
    """Whether nodes come with EFA: declared, or left to Karpenter, which adds the interfaces for pods that ask for them."""
    declared = [str(i.get("interfaceType", "")) for i in map(mapping, items(spec.get("networkInterfaces")))]
    if declared:
        return any(each.startswith("efa") for each in declared)
    return bool(types) and all(row.efa_interfaces for row in types) and len(zones) == 1


def _class(spec: Values, types: Sequence[Instance]) -> dict[str, Any]:
    """Fields that the EC2NodeClass states."""
    terms = [mapping(term) for term in items(spec.get("amiSelectorTerms"))]
    alias = next((str(t["alias"]) for t in terms if t.get("alias")), None)
    system, _, release = (alias or "").partition("@")
    ami_id = next((str(t["id"]) for t in terms if t.get("id")), None)
    custom = bool(terms) and alias is None
    ami_type = "CUSTOM" if custom else nodes.ami_name(system, types)
    return {
        "ami_type": ami_type,
        "ami_id": ami_id,
        "ami_release": release if release not in ("", "latest") else None,
        "driver_version": None if custom else nodes.driver(ami_type),
        "root_disk_gib": _disk_gib(spec, system or str(spec.get("amiFamily", "")).lower()),
        # Only a RAID of the local disks holds images and pods; else they are there and nobody uses them.
        "nvme_gb": nodes.nvme_gb(types) if spec.get("instanceStorePolicy") == "RAID0" else None,
        "sharing": sharing.of_bottlerocket(str(spec.get("userData") or "")),
        "hop_limit": whole(mapping(spec.get("metadataOptions")).get("httpPutResponseHopLimit")) or _DEFAULT_HOP_LIMIT,
    }


def _disk_gib(spec: Values, system: str) -> int | None:
    mappings = [mapping(each) for each in items(spec.get("blockDeviceMappings"))]
    if not mappings:
        return _DEFAULT_DISK_GIB
    wanted = _ROOT.get(system, "/dev/xvda")
    root = [m for m in mappings if m.get("rootVolume") is True or m.get("deviceName") == wanted] or mappings[:1]
    size = mib(mapping(root[0].get("ebs")).get("volumeSize"))
    return size // 1024 if size is not None else None
