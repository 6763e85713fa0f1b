"""Pod templates of a Ray head and of a worker group: resources, GPUs, selectors, tolerations, environment."""

from __future__ import annotations

import math
from typing import Any

from components.config import PodShape, SecretKey, Volume
from components.config.pools import POOL_LABEL
from components.derive.spec import DEFAULT_CPU, DEFAULT_MEMORY_GIB, GroupSpec, ServiceSpec
from components.manifests import compute_domain, engine_logs
from components.manifests.pod_labels import labelled
from components.manifests.serve_config import GROUP_STOCK, group_resource
from components.node_pools import node_selector
from components.node_resources import EFA_RESOURCE, GPU_RESOURCE
from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool

CONTAINER = {"head": "ray-head", "worker": "ray-worker"}
# Names and ports that KubeRay gives a head without ports of its own (controllers/ray/utils/constant.go); one that is declared
# replaces them all.
SERVE_PORT = 8000
HEAD_PORTS = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080}


def head_group(spec: ServiceSpec) -> dict[str, Any]:
    """headGroupSpec. num-cpus and num-gpus 0: the head runs the control plane, and no replica, task or GPU (ray#29753)."""
    head = spec.head
    shape = spec.config.head
    env = {
        "NVIDIA_VISIBLE_DEVICES": "void"
    }  # a container without a GPU limit sees all GPUs of an NVIDIA node otherwise
    params = {"num-cpus": "0", "num-gpus": "0", **shape.ray_start_params}
    group: dict[str, Any] = {
        "rayStartParams": {k: v for k, v in sorted(params.items()) if not (shape.resources and _in_resources(k))},
        "serviceType": shape.service_type,
        "template": _template(spec, shape, "head", env, head.cpu, head.memory_gib, {}, head.pool, {}, head.pool_name),
    }
    if shape.resources:
        group["resources"] = dict(sorted(shape.resources.items()))
    return group


def _in_resources(param: str) -> bool:
    # KubeRay refuses both (controllers/ray/utils/validation.go): a person who sets `resources` owns all of them
    return param in ("num-cpus", "num-gpus", "memory", "resources")


def worker_group(spec: ServiceSpec, group: GroupSpec) -> dict[str, Any]:
    """One entry of workerGroupSpecs."""
    shape = spec.config.worker
    resources = _ray_resources(spec, group, group.cpu or DEFAULT_CPU)
    resources.update(shape.resources)
    own = any(_in_resources(param) for param in shape.ray_start_params)
    return {
        "groupName": group.name,
        "minReplicas": group.min,
        "replicas": group.replicas,
        "maxReplicas": group.max,
        "numOfHosts": group.hosts,
        "rayStartParams": dict(sorted(shape.ray_start_params.items())),
        **({} if own else {"resources": dict(sorted(resources.items()))}),
        "template": template(spec, group, "worker"),
    }


def template(spec: ServiceSpec, group: GroupSpec, role: str) -> dict[str, Any]:
    """Pod template of a worker group."""
    limits, annotations = _gpu_limits(group)
    cpu, memory = group.cpu or DEFAULT_CPU, group.memory_gib or DEFAULT_MEMORY_GIB
    env = {"FI_PROVIDER": "efa"} if EFA_RESOURCE in limits else {}
    made = _template(spec, spec.config.worker, role, env, cpu, memory, limits, group.pool, annotations, group.pool_name)
    return compute_domain.claimed(engine_logs.mounted(made, spec), spec, group)


def _ray_resources(spec: ServiceSpec, group: GroupSpec, cpu: float) -> dict[str, str]:
    """What one pod brings to Ray, so that the autoscaler knows it before a pod exists (KubeRay reads only keys that end in gpu)."""
    logical = max(1, int(cpu))
    if spec.config.worker.cpu is None:
        # Ray's CPUs are counters, not cores: small pods get as many as the bundles of the engines on them ask for.
        logical = max(logical, _bundle_cpus(spec, group))
    resources = {"CPU": f"{logical}"}
    if group.device == "gpu":
        resources["GPU"] = f"{group.gpus_per_pod}"
    for engine in spec.engines:
        stated = engine.config.accelerator_type
        if engine.group == group.name and stated and stated == _detected(group.pool):
            # LLMConfig adds a crumb of it to every bundle, and the autoscaler does not derive it from the group. Only the name
            # that Ray finds on the node by itself: another would promise what no node has.
            resources[f"accelerator_type:{stated}"] = "1"
    if len(spec.groups) > 1:
        resources[group_resource(group.name)] = GROUP_STOCK
    return resources


def _detected(pool: NodePool | None) -> str | None:
    """The accelerator type that Ray derives from the GPU's device name."""
    try:
        return gpus.get(pool.gpu).ray_auto_label if pool is not None and pool.gpu else None
    except UnknownRow:
        return None


def _bundle_cpus(spec: ServiceSpec, group: GroupSpec) -> int:
    """CPUs that the bundles of the engines that one pod holds ask for; Serve adds the replica actor's (one by default) to each
    engine's first bundle (llm_server.py, 2.60.0)."""
    most = 0.0
    for engine in spec.engines:
        if engine.group != group.name:
            continue
        workers = engine.world if group.device == "cpu" else int(group.gpus_per_pod / (engine.worker_gpu or 1.0) + 1e-6)
        actor = engine.config.ray_actor_options.get("num_cpus", 1)
        actors = max(1, workers // engine.world) * (float(actor) if isinstance(actor, (int, float)) else 1.0)
        most = max(most, workers * engine.config.cpu_per_worker + actors)
    return math.ceil(most)


def _gpu_limits(group: GroupSpec) -> tuple[dict[str, str], dict[str, str]]:
    """(container limits, pod annotations) that give the pod its GPUs, by the pool's sharing, and its network cards."""
    if group.device == "cpu":
        return {}, {}
    if group.spans_pods and group.pool is not None and group.pool.efa:
        # Without the devices NCCL falls back to TCP between the pods of a replica (aws-ofi-nccl#1063). A pod with a part of a
        # node's GPUs takes that part of its interfaces, so that the node's other GPUs can be used.
        interfaces, gpus_of_node = group.pool.efa_declared_interfaces or 1, group.pool.gpus_per_node or 1
        share = max(1, interfaces * min(group.gpus_per_pod, gpus_of_node) // gpus_of_node)
        return {GPU_RESOURCE: f"{group.gpus_per_pod}", EFA_RESOURCE: f"{share}"}, {}
    sharing = group.pool.sharing if group.pool else None
    count = f"{group.gpus_per_pod}"
    if group.gpu_fraction and sharing and sharing.strategy == "kai":
        return {}, {"gpu-fraction": f"{group.gpu_fraction:g}"}
    if sharing and sharing.strategy == "volcano_vgpu":
        memory = int(group.gpu_fraction * (group.pool.gpu_mib or 0)) if group.gpu_fraction and group.pool else 0
        limits = {"volcano.sh/vgpu-number": count}
        if memory:
            limits["volcano.sh/vgpu-memory"] = f"{memory}"
        return limits, {}
    if group.mig_profile and sharing and sharing.mig_strategy == "mixed":
        return {f"nvidia.com/mig-{group.mig_profile}": count}, {}
    if sharing and sharing.strategy == "time_slicing" and sharing.rename_by_default:
        return {"nvidia.com/gpu.shared": count}, {}
    return {GPU_RESOURCE: count}, {}


def _template(
    spec: ServiceSpec,
    shape: PodShape,
    role: str,
    env: dict[str, str],
    cpu: float,
    memory_gib: float,
    limits: dict[str, str],
    pool: NodePool | None,
    annotations: dict[str, str],
    pool_name: str | None,
) -> dict[str, Any]:
    config = spec.config
    quantities = {"cpu": quantity(cpu), "memory": f"{memory_gib:g}Gi", **limits}
    requests = dict(quantities)
    if not shape.cpu_limit:
        quantities.pop("cpu")
    container: dict[str, Any] = {
        "name": CONTAINER[role],
        "image": spec.image,
        "imagePullPolicy": config.image.pull_policy,
        "env": environment(spec, {**env, **spec.ray_env, **spec.environment.env, **config.env, **shape.env}),
        "resources": {"limits": dict(sorted(quantities.items())), "requests": dict(sorted(requests.items()))},
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    ports = _ports(spec, role)
    if ports:
        container["ports"] = ports
    pod: dict[str, Any] = {
        "containers": [container],
        "enableServiceLinks": False,
    }  # no VLLM_PORT=tcp://... (vllm#15613)
    if shape.shm_gib is not None:
        container["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}]
        pod["volumes"] = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shape.shm_gib:g}Gi"}}]
    for name, volume in sorted(config.volumes.items()):
        mount = {"name": name, "mountPath": volume.mount_path, **({"readOnly": True} if volume.read_only else {})}
        container.setdefault("volumeMounts", []).append(mount)
        pod.setdefault("volumes", []).append({"name": name, **_volume_source(volume)})
    # A pool that is not declared is selected all the same: the rule about selectors names it, and the closest that exists.
    derived = node_selector(pool) if pool else ({POOL_LABEL: pool_name} if pool_name else {})
    selector = shape.node_selector if shape.node_selector is not None else derived
    if selector:
        pod["nodeSelector"] = dict(sorted(selector.items()))
    tolerations = _tolerations(shape, pool)
    if tolerations:
        pod["tolerations"] = tolerations
    if config.service_account:
        pod["serviceAccountName"] = config.service_account
    merged = {**annotations, **shape.annotations}
    metadata: dict[str, Any] = {}
    if shape.labels:
        metadata["labels"] = dict(sorted(shape.labels.items()))
    if role == "head":
        # A drained head restarts the control plane, and without fault tolerance the whole service: autoscalers leave it alone.
        merged.setdefault("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")
        merged.setdefault("karpenter.sh/do-not-disrupt", "true")
    if merged:
        metadata["annotations"] = dict(sorted(merged.items()))
    return labelled({"metadata": metadata, "spec": pod}, spec)


def _volume_source(volume: Volume) -> dict[str, Any]:
    if volume.claim is not None:
        return {
            "persistentVolumeClaim": {"claimName": volume.claim, **({"readOnly": True} if volume.read_only else {})}
        }
    if volume.config_map is not None:
        return {"configMap": {"name": volume.config_map}}
    if volume.secret is not None:
        return {"secret": {"secretName": volume.secret}}
    if volume.host_path is not None:
        return {"hostPath": {"path": volume.host_path}}
    return dict(volume.source)


def _ports(spec: ServiceSpec, role: str) -> list[dict[str, Any]]:
    """Named ports, where the endpoint has another one than Serve's: KubeRay takes its Service's port from the head and the port that
    its readiness probe asks from the workers."""
    serve = spec.config.expose.port
    if serve == SERVE_PORT or spec.config.kind != "ray_service":
        return []
    named = {**(HEAD_PORTS if role == "head" else {}), "serve": serve}
    return [{"name": name, "containerPort": named[name]} for name in sorted(named)]


def environment(spec: ServiceSpec, values: dict[str, str]) -> list[dict[str, Any]]:
    """Environment entries, sorted by name; secrets only as references."""
    secrets: dict[str, SecretKey] = dict(spec.config.secret_env)
    if spec.config.huggingface_token is not None:
        secrets["HF_TOKEN"] = spec.config.huggingface_token
    entries: dict[str, dict[str, Any]] = {name: {"name": name, "value": value} for name, value in values.items()}
    for name, ref in secrets.items():
        entries[name] = {"name": name, "valueFrom": {"secretKeyRef": {"name": ref.secret, "key": ref.key}}}
    return [entries[name] for name in sorted(entries)]


def _tolerations(shape: PodShape, pool: NodePool | None) -> list[dict[str, str]]:
    """From the pool's taints; NoExecute and NoSchedule alike. A person's own list replaces them."""
    if shape.tolerations is not None:
        return [{k: v for k, v in toleration.model_dump().items() if v} for toleration in shape.tolerations]
    if pool is None:
        return []
    entries = []
    for taint in pool.taints:
        entry = {"key": taint.key, "operator": "Equal" if taint.value else "Exists", "effect": taint.effect}
        if taint.value:
            entry["value"] = taint.value
        entries.append(dict(sorted(entry.items())))
    return entries


def quantity(cores: float) -> str:
    """Kubernetes quantity of CPU cores: "2", "500m"."""
    milli = round(cores * 1000)
    return f"{milli // 1000}" if milli % 1000 == 0 else f"{milli}m"
