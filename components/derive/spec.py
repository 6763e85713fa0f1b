"""What a service comes to, layer by layer: engines, worker groups, head. Everything that the manifests render is here.

Not for: rendering (components/manifests) or judging (policies/rules).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from components.config import Environment, Model, Service
from policies.facts import NodePool

# A worker pod, only where neither the pool nor the person says what a node has.
DEFAULT_CPU = 4.0
DEFAULT_MEMORY_GIB = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """One engine deployment of a service."""

    name: str  # name clients use
    where: str
    config: Model
    role: str  # serve | prefill | decode | data_parallel
    catalog_id: str
    source: str
    pool: NodePool | None
    pool_name: str | None
    group: str  # worker group
    groups_differ: bool  # the service has several groups: bundles ask for the group's own resource
    worker_gpu: float  # GPU of one Ray bundle
    memory_share: float  # part of the device vLLM sees that this engine worker may fill, before head-room
    shared: bool  # other engines may be on the same physical GPU
    utilization: float | None  # gpu_memory_utilization, None for CPU
    min_replicas: int
    max_replicas: int
    cold_seconds: int | None  # until a further replica answers, its node included; None for an unknown model
    engine_args: dict[str, Any]  # derived, then the person's own
    env: dict[str, str]

    @property
    def world(self) -> int:
        return self.config.parallel.tensor * self.config.parallel.pipeline

    @property
    def ranks(self) -> int:
        """Engine workers of one Serve replica group: world x data parallel."""
        return self.world * self.config.parallel.data


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """One worker group: pods of one shape on one pool."""

    name: str
    pool: NodePool | None
    pool_name: str | None
    device: str  # gpu | cpu
    gpus_per_pod: int
    hosts: int
    shared: bool  # bundles are fractions of a GPU
    gpu_fraction: float | None  # KAI fraction or vGPU memory share of a pod
    mig_profile: str | None
    spans_pods: bool  # workers of one replica exchange tensors from pod to pod
    compute_domain: bool  # pods claim an IMEX channel, for NVLink between nodes
    min: int  # replicas of the group (of `hosts` pods each)
    replicas: int
    max: int
    physical_gpus: float  # physical GPUs that one pod takes
    pods_per_node: int
    cpu: float | None
    memory_gib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSpec:
    """The Ray head."""

    pool: NodePool | None
    pool_name: str | None
    cpu: float
    memory_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """A service, derived."""

    name: str
    where: str
    config: Service
    environment: Environment
    engines: tuple[EngineSpec, ...]
    groups: tuple[GroupSpec, ...]
    head: HeadSpec
    image: str
    ray_version: str
    vllm_version: str
    python_version: str
    cuda_version: str
    autoscaling: bool
    ray_env: dict[str, str]
    """Derived environment of every Ray container."""
    batch_scheduler: str
    gateway_class: str | None
