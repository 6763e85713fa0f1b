"""Node pools: where GPUs come from, and how a GPU of the pool is shared."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from .base import Json, Name, NonNegative, Positive, PositiveFloat, Strict
from .node_labels import NodeLabels, NodeTaints, each_once

Sharing = Literal["none", "mig", "time_slicing", "mps", "kai", "volcano_vgpu"]


POOL_LABEL = "llm-serving/pool"
"""Label that every node of a pool carries; its value is the pool's name."""
Names = Annotated[tuple[str, ...], AfterValidator(each_once)]


def _profile(text: str) -> str:
    """A MIG profile as NVIDIA writes it: "3G.40GB" and "nvidia.com/mig-3g.40gb" are 3g.40gb; names of configurations stay."""
    plain = text.removeprefix("nvidia.com/mig-")
    return plain.lower() if re.fullmatch(r"(all-)?\d+g\.\d+gb\S*", plain, re.IGNORECASE) else plain


MigProfile = Annotated[str, AfterValidator(_profile), Field(min_length=1)]
DriverVersion = Annotated[str, Field(pattern=r"^\d+(\.\d+){0,2}$")]


class GpuSharing(Strict):
    """How one GPU of the pool is given to more than one pod. One field; the services on the pool follow."""

    strategy: Sharing = "none"
    """none: a pod gets whole GPUs (replicas may still share one inside a pod by Ray fractions); mig, time_slicing, mps: by
    the device plugin; kai: KAI fractions; volcano_vgpu: HAMi vGPU."""
    replicas: Positive | None = None
    """Slices that time_slicing or mps advertises for each GPU."""
    mig_strategy: Literal["single", "mixed"] = "single"
    """How MIG slices are advertised: single as nvidia.com/gpu, mixed as nvidia.com/mig-<profile>."""
    mig_profile: MigProfile | None = None
    """MIG profile all GPUs of the pool are cut into, e.g. 1g.10gb, or a mig-parted config name such as all-balanced."""
    rename_by_default: bool = False
    """Time-slicing: advertise nvidia.com/gpu.shared instead of nvidia.com/gpu."""
    fail_requests_greater_than_one: bool = True
    """Refuse pods that ask more than one shared GPU: two slices are not two GPUs."""


class _Pool(Strict):
    sharing: GpuSharing = GpuSharing.model_construct()
    """How one GPU is shared between pods."""
    labels: NodeLabels = {}
    """Further node labels; llm-serving/pool is always set."""
    taints: NodeTaints | None = None
    """Node taints; GPU pools get nvidia.com/gpu=present:NoSchedule when this is not given."""
    min: NonNegative = 0
    """Fewest nodes."""
    max: NonNegative = 1
    """Most nodes."""


class ExistingPool(_Pool):
    """Nodes that are there already; states what the plan must know of them."""

    kind: Literal["existing"]
    """existing"""
    gpu: str | None = None
    """GPU of the catalog, e.g. L4 or A100-80; none for a CPU pool."""
    gpus_per_node: NonNegative = 0
    """GPUs of one node."""
    cpu: PositiveFloat
    """CPU cores that pods can have on one node."""
    memory_gib: PositiveFloat
    """Memory (GiB) that pods can have on one node."""
    node_selector: NodeLabels | None = None
    """Labels that select the nodes; llm-serving/pool: <name> when not given."""
    spot: bool = False
    """Nodes can be taken away at any time."""
    driver_version: DriverVersion | None = None
    """NVIDIA driver on the nodes, e.g. 580.95.05; judged against the image's CUDA."""
    efa: bool = False
    """Nodes have Elastic Fabric Adapters and their device plugin."""
    price_usd_hour: PositiveFloat | None = None
    """Price of one node, for the cost of the plan."""
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    """CPU architecture of the nodes."""


class Reservation(Strict):
    """A capacity block or an on-demand capacity reservation (ODCR)."""

    id: str = Field(pattern="^cr-[0-9a-f]+$")
    """Reservation id, cr-..."""
    kind: Literal["capacity_block", "on_demand"]
    """capacity_block is bought for a period; on_demand is an ODCR."""


class AwsPool(_Pool):
    """EC2 nodes: an EKS managed node group, or a Karpenter NodePool with its EC2NodeClass."""

    kind: Literal["managed", "karpenter"] = "managed"
    """managed: EKS managed node group; karpenter: NodePool and EC2NodeClass."""
    instance_types: Names = Field(min_length=1)
    """EC2 types. More than one only with spot, Karpenter or when all have the same GPUs."""
    capacity: Literal["on_demand", "spot"] = "on_demand"
    """Purchase option; a reservation is given by `reservation`."""
    reservation: Reservation | None = None
    """Capacity block or ODCR the nodes come from."""
    ami: str | None = Field(default=None, min_length=1)
    """EKS amiType; derived from the instance types (NVIDIA AMI for GPUs, standard for none, ARM where the type is ARM)."""
    ami_id: str | None = Field(default=None, pattern=r"^ami-[0-9a-f]+$")
    """A custom AMI, built on AL2023 (`ami` is then CUSTOM); states its driver in `driver_version`."""
    ami_release: str | None = None
    """Release of the AMI (managed: 1.35.2-20261101, karpenter: v20261101); derived: the newest when nodes are made."""
    driver_version: DriverVersion | None = None
    """NVIDIA driver of the AMI; derived from the AMI."""
    desired: NonNegative | None = None
    """Nodes at creation; later changes belong to the autoscaler. Derived: `min`."""
    zones: Names | None = Field(default=None, min_length=1)
    """Availability zones; derived: all of the cluster's, for EFA its first. A reservation's zone must be given."""
    efa: bool = False
    """Give every network card of the type an EFA interface, and let the nodes talk to each other over them."""
    placement_group: str | None = Field(default=None, min_length=1, max_length=255)
    """Existing cluster placement group, such as the one an ODCR was made in; derived: one is made for EFA without reservation."""
    root_disk_gib: int | None = Field(default=None, ge=1, le=65536)
    """Root volume; derived from images and weights of the services on the pool."""
    max_unavailable: int = Field(default=1, ge=1, le=100)
    """Nodes of the group that may be replaced at once in an update."""
    node_repair: bool = True
    """EKS or Karpenter replaces nodes whose health fails, by the conditions of EKS' node monitoring agent (GPU errors too)."""
    limits: Json = {}
    """Karpenter NodePool limits; derived: max x GPUs, CPU and memory of the largest type."""
    hop_limit: int = Field(default=1, ge=1, le=64)
    """IMDSv2 hop limit. Pods use Pod Identity and do not need 2."""

    @model_validator(mode="after")
    def _fields_of_the_other_kind(self) -> AwsPool:
        if self.kind == "managed" and self.limits:
            raise ValueError("limits are Karpenter's; leave them out: a managed node group stops at max")
        if self.kind == "managed" and len(self.instance_types) > 20:
            raise ValueError(f"EKS takes 20 instance types and {len(self.instance_types)} are given; give fewer")
        if self.kind == "karpenter" and self.desired:
            raise ValueError(
                "desired belongs to managed node groups; leave it out: Karpenter starts nodes for pods that wait"
            )
        return self

    @model_validator(mode="after")
    def _the_pools_own_label(self) -> AwsPool:
        if POOL_LABEL in self.labels:
            raise ValueError(f"label {POOL_LABEL} is set by the stack, to the pool's name; leave it out")
        return self

    @model_validator(mode="after")
    def _what_a_custom_image_says(self) -> AwsPool:
        if self.ami_id is not None and self.ami_release is not None:
            raise ValueError("ami_id is one image and ami_release chooses among EKS' own; leave one out")
        if self.driver_version is not None and self.ami_id is None and self.ami_release is None:
            raise ValueError(
                "driver_version is a statement about an image that ami_id or ami_release names; "
                "leave it out: the driver of EKS' newest image is known"
            )
        return self

    @model_validator(mode="after")
    def _a_placement_group_lies_in_one_zone(self) -> AwsPool:
        if self.placement_group is not None and len(self.zones or ()) != 1:
            raise ValueError(
                f"placement_group '{self.placement_group}' lies in one zone, and zones names {len(self.zones or ())}; "
                "set zones to the zone of the group: nodes in another one are refused"
            )
        return self


def _pool_kind(value: Any) -> str:
    kind = value.get("kind", "managed") if isinstance(value, dict) else getattr(value, "kind", "managed")
    return "existing" if kind == "existing" else "managed"


Pool = Annotated[
    Annotated[ExistingPool, Tag("existing")] | Annotated[AwsPool, Tag("managed")], Discriminator(_pool_kind)
]
Pools = dict[Name, Pool]
