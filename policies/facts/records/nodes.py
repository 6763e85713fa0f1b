"""Node pools, and how their GPUs are given to pods."""

from __future__ import annotations

from dataclasses import dataclass, field

from .values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def matches(self, taint: Taint) -> bool:
        """Kubernetes' own rule (k8s.io/api/core/v1 Toleration.ToleratesTaint)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How one GPU of a pool is given to more than one pod."""

    strategy: str = "none"  # none | mig | time_slicing | mps | kai | volcano_vgpu
    replicas: int | None = None
    mig_strategy: str = "single"
    mig_profile: str | None = None
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A node pool, whoever makes its nodes."""

    name: str
    where: str  # "node pool 'h100'"
    kind: str  # managed | karpenter | existing | self_managed
    instance_types: tuple[str, ...] = ()  # empty for existing pools
    gpu: str | None = None  # name in policies.catalog.gpus; None: no GPU
    gpus_per_node: int = 0
    gpu_mib: int | None = None  # memory of one GPU as the driver reports it
    cpu_milli: int | None = None  # what pods can have on one node
    memory_mib: int | None = None
    min: int = 0
    max: int | None = None
    desired: int | None = None
    fixed: bool = False  # Karpenter's static capacity: that many nodes, whether or not pods wait
    spot: bool = False
    reservation: str | None = None  # reservation id
    reservation_kind: str | None = None  # capacity_block | on_demand
    zones: tuple[str, ...] = ()  # empty: the cluster's
    zones_declared: bool = False
    ami_type: str | None = None  # EKS amiType, CUSTOM for an own AMI
    ami_id: str | None = None
    ami_release: str | None = None  # release of EKS' image, as declared
    driver_version: str | None = None
    efa: bool = False
    efa_declared_interfaces: int | None = None
    taints: tuple[Taint, ...] = ()
    labels: Values = field(default_factory=dict)  # labels nodes carry, llm-serving/pool included
    sharing: Sharing = Sharing()
    architecture: str = "x86_64"
    root_disk_gib: int | None = None
    nvme_gb: int | None = None
    hop_limit: int | None = None
    limits: Values = field(default_factory=dict)  # Karpenter
    price_usd_hour: float | None = None
    ignores_desired: bool = True  # later changes of desired size are left to the autoscaler
    announced: tuple[str, ...] = ()  # extended resources that tags of the group tell cluster-autoscaler of
