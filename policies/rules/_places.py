"""Where pods can land: the node pools that a pod's selector and tolerations leave, and the GPUs it takes there.

For: every rule about pods on nodes. Not for: judging. A label nobody can know beforehand (from Node Feature Discovery, say)
matches every pool, so that rules speak only of what is certain.
"""

from __future__ import annotations

from collections.abc import Iterable

from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import Engine, NodePool, PodGroup, Stack, Taint, Workload
from policies.facts.quantities import items, mapping, quantity, real, whole

from ._kept import per_stack

# Labels that Kubernetes, EKS, Karpenter or NVIDIA's feature discovery put on nodes: no pool declares them.
_SET_BY_OTHERS = ("kubernetes.io", "k8s.io", "eks.amazonaws.com", "karpenter", "nvidia.com", "k8s.aws", "amazonaws.com")
_GPU_LABELS = ("nvidia.com/gpu.product", "karpenter.k8s.aws/instance-gpu-name")
_ARCHITECTURE = {"x86_64": "amd64", "arm64": "arm64"}
# Volcano's vGPU memory resource is in MiB; KAI's annotations are read by its admission webhook.
VGPU_NUMBER, VGPU_MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"

EFA = "vpc.amazonaws.com/efa"


class Places:
    """Pools by what selects them. One index for a stack, built in one pass over its pools.

    What is found for a pod is kept by the identity of its record: the index lives no longer than the stack it was made from.
    """

    def __init__(self, stack: Stack) -> None:
        self._pools = stack.pools
        self._by_label: dict[tuple[str, str], list[NodePool]] = {}
        for pool in stack.pools:
            for key, value in pool.labels.items():
                self._by_label.setdefault((str(key), str(value)), []).append(pool)
        self._by_selector: dict[tuple[tuple[str, str], ...], tuple[NodePool, ...]] = {}
        self._selected: dict[int, tuple[NodePool, ...]] = {}
        self._open: dict[int, tuple[NodePool, ...]] = {}

    def selected(self, group: PodGroup) -> tuple[NodePool, ...]:
        """Pools whose nodes the pod's nodeSelector matches (all of them without one)."""
        found = self._selected.get(id(group))
        if found is None:
            found = self._selected[id(group)] = self._match(group)
        return found

    def _match(self, group: PodGroup) -> tuple[NodePool, ...]:
        selector = tuple(sorted((str(k), str(v)) for k, v in group.node_selector.items()))
        found = self._by_selector.get(selector)
        if found is None:
            own = [self._by_label[pair] for pair in selector if pair in self._by_label]
            candidates = min(own, key=len) if own else self._pools
            found = tuple(pool for pool in candidates if all(_carries(pool, key, value) for key, value in selector))
            self._by_selector[selector] = found
        return found

    def open(self, group: PodGroup) -> tuple[NodePool, ...]:
        """Selected pools whose taints the pod tolerates."""
        found = self._open.get(id(group))
        if found is None:
            found = tuple(pool for pool in self.selected(group) if not untolerated(group, pool))
            self._open[id(group)] = found
        return found

    def home(self, group: PodGroup) -> NodePool | None:
        """The one pool that the pod is sent to, where a selector leaves exactly one."""
        if not group.node_selector:
            return None
        selected = self.selected(group)
        return selected[0] if len(selected) == 1 else None


@per_stack
def places(stack: Stack) -> Places:
    """The index of a stack."""
    return Places(stack)


def _carries(pool: NodePool, key: str, value: str) -> bool:
    if key in pool.labels:
        return str(pool.labels[key]) == value
    if key == "kubernetes.io/arch":
        return _ARCHITECTURE.get(pool.architecture, value) == value
    if key == "node.kubernetes.io/instance-type":
        return not pool.instance_types or value in pool.instance_types
    if key == "karpenter.sh/nodepool":
        return pool.kind == "karpenter" and pool.name == value
    if key == "karpenter.sh/capacity-type":
        return pool.kind == "karpenter"
    if key == "topology.kubernetes.io/zone":
        return not pool.zones or value in pool.zones
    if key in _GPU_LABELS:
        return _of_gpu(pool, key, value)
    return any(part in key.split("/")[0] for part in _SET_BY_OTHERS) and "/" in key


def _of_gpu(pool: NodePool, key: str, value: str) -> bool:
    """Labels that GPU Feature Discovery and Karpenter make from the GPU: true unless the pool's GPU is known to be another."""
    if not pool.gpus_per_node:
        return False
    try:
        own = gpus.get(pool.gpu or "")
        if key == "karpenter.k8s.aws/instance-gpu-name":
            return own.karpenter_name in (None, value)
        named = gpus.get(value.removesuffix("-SHARED").split("-MIG-")[0])
    except UnknownRow:
        return True
    return named.name == own.name


def untolerated(group: PodGroup, pool: NodePool) -> tuple[Taint, ...]:
    """Taints of the pool that keep the pod away (PreferNoSchedule does not)."""
    return tuple(
        taint
        for taint in pool.taints
        if taint.effect != "PreferNoSchedule" and not any(t.matches(taint) for t in group.tolerations)
    )


def engine_groups(workload: Workload, engine: Engine) -> tuple[PodGroup, ...]:
    """Worker groups that can carry an engine: those made for it, else all (with GPUs, for an engine that needs one)."""
    if engine.groups:
        return tuple(group for group in workload.groups if group.name in engine.groups)
    if engine.device == "cpu":
        return workload.groups
    return tuple(group for group in workload.groups if ray_gpus(group) > 0)


def pods_at_rest(workload: Workload, group: PodGroup) -> int:
    """Pods of a group at the fewest: minReplicas under Ray's autoscaler, else what KubeRay makes of `replicas`; times hosts."""
    low = group.min or 0
    if not workload.autoscaling:
        low = desired(group)
    return low * max(1, group.hosts)


def pods_at_most(workload: Workload, group: PodGroup) -> int:
    """Pods of a group at full load."""
    high = desired(group)
    if workload.autoscaling:
        high = max(group.max if group.max is not None else high, group.min or 0)
    return high * max(1, group.hosts)


def desired(group: PodGroup) -> int:
    """Replicas KubeRay makes: `replicas` held between min and max (util.go GetWorkerGroupDesiredReplicas)."""
    low = group.min or 0
    if group.replicas is None or group.replicas < low:
        return low
    return min(group.replicas, group.max) if group.max is not None else group.replicas


def fraction(group: PodGroup) -> float | None:
    """KAI's gpu-fraction of a pod (times its devices); None without the annotation, or when it is no number."""
    part = real(group.annotations.get("gpu-fraction"))
    if part is None:
        return None
    return part * (whole(group.annotations.get("gpu-fraction-num-devices")) or 1)


def asks_kai_share(group: PodGroup) -> bool:
    """Whether a pod asks KAI for a part of a GPU."""
    return "gpu-fraction" in group.annotations or "gpu-memory" in group.annotations


_CHIPS = ("aws.amazon.com/neuron", "google.com/tpu", "gpu.intel.com/", "habana.ai/gaudi", "huawei.com/Ascend")


def other_chips(group: PodGroup) -> bool:
    """Whether a pod asks for a chip of another maker."""
    containers = [mapping(mapping(each).get("resources")) for each in items(group.pod.get("containers"))]
    asked = [str(key) for each in containers for key in (*mapping(each.get("limits")), *mapping(each.get("requests")))]
    return any(key.startswith(_CHIPS) for key in asked)


def asks_otherwise(group: PodGroup) -> bool:
    """Whether a pod asks for a chip of another maker, or for GPUs by claims (dynamic resource allocation)."""
    return bool(items(group.pod.get("resourceClaims"))) or other_chips(group)


def requested_gpus(group: PodGroup) -> float:
    """GPUs as the scheduler counts them for one pod: limits, else KAI's fraction."""
    return group.gpus or fraction(group) or 0.0


def ray_gpus(group: PodGroup) -> float:
    """GPUs that one pod brings to Ray: stated in `resources` or num-gpus, else what KubeRay reads or ray start finds."""
    for stated in (mapping(group.resources).get("GPU"), mapping(group.ray_start_params).get("num-gpus")):
        number = real(stated)
        if number is not None:
            return number
    if group.gpus:
        return group.gpus
    return 1.0 if asks_kai_share(group) else 0.0


def physical_gpus(group: PodGroup, pool: NodePool) -> float:
    """Physical GPUs of `pool` that one pod takes."""
    part = fraction(group)
    if part is not None:
        return part
    if not group.gpus:
        return 0.0
    return group.gpus * _of_a_gpu(group, pool)


def _of_a_gpu(group: PodGroup, pool: NodePool) -> float:
    sharing = pool.sharing
    if sharing.strategy in ("time_slicing", "mps"):
        return 1 / max(1, sharing.replicas or 1)
    if sharing.strategy == "volcano_vgpu":
        memory = quantity(group.limits.get(VGPU_MEMORY))
        return min(1.0, memory / pool.gpu_mib) if memory and pool.gpu_mib else 1.0
    if sharing.strategy == "mig":
        name = (group.gpu_resource or "").removeprefix("nvidia.com/mig-")
        profile = name if name and name != group.gpu_resource else sharing.mig_profile
        return 1 / max(1, mig_instances(pool, profile))
    return 1.0


def mig_instances(pool: NodePool, profile: str | None) -> int:
    """Instances of a MIG profile that one GPU of the pool holds; 1 where that is not known."""
    try:
        return gpus.get(pool.gpu or "").mig_profile((profile or "").removeprefix("all-")).max_instances
    except UnknownRow:
        return 1


def node_part(group: PodGroup, pool: NodePool) -> float:
    """Part of a node of `pool` that one pod takes: the largest of GPU, CPU, memory and EFA interfaces. Over 1: it fits on none."""
    parts = [0.0]
    if pool.gpus_per_node:
        parts.append(physical_gpus(group, pool) / pool.gpus_per_node)
    if group.cpu_milli and pool.cpu_milli:
        parts.append(group.cpu_milli / pool.cpu_milli)
    if group.memory_mib and pool.memory_mib:
        parts.append(group.memory_mib / pool.memory_mib)
    if pool.efa_declared_interfaces and (interfaces := whole(group.limits.get(EFA))):
        parts.append(interfaces / pool.efa_declared_interfaces)
    return max(parts)


def nodes_at_least(parts: Iterable[tuple[float, int]]) -> int:
    """A lower bound on the nodes for `(part of a node, pods)`: their sum, and one for each pod over half a node."""
    total, big = 0.0, 0
    for part, pods in parts:
        total += part * pods
        big += pods if part > 0.5 else 0
    whole_nodes = int(total) + (1 if total - int(total) > 1e-6 else 0)
    return max(whole_nodes, big)


def engine_pods(workload: Workload, engine: Engine) -> int:
    """Pods one replica of an engine needs at once, from the GPUs its pods bring."""
    per_pod = max((ray_gpus(group) for group in engine_groups(workload, engine)), default=0.0)
    if engine.device == "cpu" or per_pod <= 0:
        return 1
    return max(1, -int(-(engine.world * engine.share) // per_pod))
