"""A stack as a whole: what it has beside node pools and workloads, and all of it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from ..quantities import mapping
from .nodes import NodePool, Sharing
from .values import Values
from .workloads import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue of KAI or Volcano. GPUs in GPUs, CPU in milli-cores, memory in MiB; -1 unlimited, None not stated."""

    name: str
    where: str
    scheduler: str  # kai | volcano
    parent: str | None = None
    gpu_quota: float | None = None
    gpu_limit: float | None = None
    cpu_quota: float | None = None
    cpu_limit: float | None = None
    memory_quota: float | None = None
    memory_limit: float | None = None
    capability: Values = field(default_factory=dict)  # Volcano, as declared
    guarantee: Values = field(default_factory=dict)  # Volcano, as declared
    priority: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Helm release or chart."""

    name: str
    where: str
    chart: str
    version: str | None
    repository: str | None
    namespace: str | None
    values: Values  # merged: ours or whoever's
    kind: str = (
        "release"  # release (helm.v3.Release) | chart (helm.v3/v4 Chart: no hooks) | manifests (no chart at all)
    )
    values_known: bool = True  # False: only the chart and its version are seen, from labels of what it rendered
    atomic: bool | None = None
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """Any other Kubernetes object, for rules about names, exposure and secrets."""

    api_version: str
    kind: str
    name: str
    namespace: str
    where: str
    manifest: Values

    @property
    def spec(self) -> Values:
        return mapping(self.manifest.get("spec"))

    @property
    def labels(self) -> Values:
        return mapping(mapping(self.manifest.get("metadata")).get("labels"))

    @property
    def annotations(self) -> Values:
        return mapping(mapping(self.manifest.get("metadata")).get("annotations"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsResource:
    """Any AWS resource, for rules about security groups, roles, subnets. template: of a node group, its launch template's properties.
    doors: of a file system, what its security groups let in; None where not all of it is seen."""

    type: str
    name: str
    where: str
    props: Values
    template: Values | None = None
    doors: tuple[Values, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions as declared; None where not known."""

    kubernetes: str | None = None
    ray: str | None = None
    vllm: str | None = None
    python: str | None = None
    cuda: str | None = None
    kuberay: str | None = None
    kai: str | None = None
    volcano: str | None = None
    gpu_operator: str | None = None
    karpenter: str | None = None
    pulumi_kubernetes: str | None = None
    pulumi_aws: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    usd_per_hour: float | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    vcpus: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the plan reckons for one service: filled by the plan, empty at the policy pack's door."""

    workload: str  # Workload.where
    pool: str
    gpus_min: float
    gpus_max: float
    gpus_upgrade: float
    nodes_min: int
    nodes_max: int
    nodes_upgrade: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Settings of the config that nothing reads: by the kind of the service, or for want of another setting."""

    where: str
    fields: tuple[str, ...]
    kind: str | None = None
    needs: str = ""
    certain: bool = False  # what was asked for would be missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Everything there is to judge. At the pack's door parts are missing: a rule that needs one says nothing without it."""

    workloads: tuple[Workload, ...] = ()
    pools: tuple[NodePool, ...] = ()
    queues: tuple[Queue, ...] = ()
    releases: tuple[Release, ...] = ()
    objects: tuple[Object, ...] = ()
    aws: tuple[AwsResource, ...] = ()
    versions: Versions = Versions()
    budget: Budget = Budget()
    uses: tuple[Use, ...] = ()
    batch_scheduler: str | None = None  # none | kai | volcano | yunikorn | scheduler-plugins; None: not known
    gpu_sharing_enabled: bool | None = None  # KAI's global.gpuSharing
    gpu_sharing: Sharing = field(default_factory=Sharing)  # that the device plugin gives nodes which choose no other
    autoscaler: str | None = None  # none | karpenter | cluster_autoscaler; None: not known
    gateway_class: str | None = None  # GatewayClass that is there
    cluster: str | None = None  # aws | existing
    cluster_made: bool = False  # True where this stack makes the cluster, so that it has no nodes but the pools'
    zones: tuple[str, ...] = ()  # zones with private subnets, where declared
    complete: bool = False  # True at the plan's door: what is not here does not exist
    fresh: bool = False  # the cluster is made here: nothing is on it that the stack does not install
    namespaces: tuple[str, ...] = ()  # namespaces that services of this stack make, one for each that does
    present: tuple[str, ...] = ()  # charts whose software is said to be there already
    models: Mapping[str, Any] = field(default_factory=dict)  # further model rows, by id
    unread: tuple[Unread, ...] = ()  # of our own config; nothing at the pack's door
    _by_kind: Mapping[str, list[tuple[int, Object]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[str, list[tuple[int, Object]]] = {}
        for place, item in enumerate(self.objects):
            found.setdefault(item.kind, []).append((place, item))
        object.__setattr__(self, "_by_kind", found)

    def of_type(self, kind: str) -> tuple[AwsResource, ...]:
        """Resources of AWS of a type, in their order."""
        return tuple(each for each in self.aws if each.type == kind)

    def of_kind(self, *kinds: str, group: str = "") -> tuple[Object, ...]:
        """Objects of these kinds, in their order; of API versions that begin with `group` where one is given."""
        found = [each for kind in kinds for each in self._by_kind.get(kind, ())]
        return tuple(item for _, item in sorted(found, key=itemgetter(0)) if item.api_version.startswith(group))
