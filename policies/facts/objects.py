"""Reader of Kubernetes objects: what runs a model or takes a GPU becomes a Workload, anything else an Object.

Not for: RayService, RayCluster and RayJob (ray.py) or vLLM's command line (vllm.py), which this hands manifests to; queues,
pools and releases have readers of their own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from policies.catalog import ray_releases

from . import kserve, pods, ray, vllm
from .quantities import items, mapping, whole
from .records.stack import Object
from .records.values import Values
from .records.workloads import PodGroup, Workload

_TEMPLATED = ("Deployment", "StatefulSet", "DaemonSet", "Job")
_GPU = re.compile(r"gpu|^nvidia\.com/mig-")  # generous: KubeRay's own test is stricter and belongs to the rules
_KAI = ("gpu-fraction", "gpu-memory")
_CLUSTER_SCOPED = frozenset(
    {
        "ClusterPolicy",
        "ClusterQueue",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterSecretStore",
        "CustomResourceDefinition",
        "DeviceClass",
        "EC2NodeClass",
        "GatewayClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "NodePool",
        "PersistentVolume",
        "PriorityClass",
        "Queue",
        "ResourceFlavor",
        "RuntimeClass",
        "StorageClass",
        "ValidatingWebhookConfiguration",
    }
)
# The image's tag says versions where nothing else does: rayproject/ray-llm:2.52.0-py311-cu128, vllm/vllm-openai:v0.11.2.
_PYTHON, _CUDA = re.compile(r"py(\d)(\d{1,2})(?![0-9])"), re.compile(r"cu(\d{2})(\d)(?![0-9])")
_VLLM = re.compile(r"(?:^|/)vllm(?:-openai(?:-cpu|-rocm)?|-cpu-release-repo)?:v?(\d+\.\d+(?:\.\d+)?)")

_RAY_LLM = re.compile(r"(?:^|/)ray-llm:(\d+\.\d+)\.\d+")


def is_workload(manifest: Values) -> bool:
    """Whether the object runs a model server of ours to judge, or takes a GPU."""
    if manifest.get("kind") in ray.KINDS and str(manifest.get("apiVersion", "")).startswith("ray.io/"):
        return True
    templated = _templated(manifest)
    if templated is None:
        return False
    # A DaemonSet with GPUs is what watches or prepares nodes (DCGM, a validator), unless it serves.
    return vllm.is_vllm(templated) or (manifest.get("kind") != "DaemonSet" and _takes_gpu(templated))


def workload(manifest: Values) -> Workload:
    """The workload of an object that `is_workload`."""
    versions = image_versions(_image(manifest))
    if manifest.get("kind") in ray.KINDS:
        return ray.read(manifest, versions=versions)
    kind = str(manifest.get("kind"))
    templated = _templated(manifest) or manifest
    place = where(manifest)
    size = _size(manifest) if kind == "LeaderWorkerSet" else 1
    added = _of_first_pod(manifest, size) if kind == "LeaderWorkerSet" else {}
    read = vllm.read(templated, where=place, versions=versions, added=added, hosts=size)
    if kind == "LeaderWorkerSet":
        groups = _leader_and_workers(manifest, read.groups[0], place)
        names = tuple(group.name for group in groups)
        read = replace(read, groups=groups, engines=tuple(replace(each, groups=names) for each in read.engines))
    elif kind == "LLMInferenceService":
        read = kserve.workload(manifest, lambda made, at: vllm.read(made, where=at, versions=versions), place)
    return replace(read, kind=kind, spec=mapping(manifest.get("spec")), manifest=manifest)


def read(manifest: Values) -> Object:
    """Any object, as declared."""
    name, namespace = _names(manifest)
    return Object(
        api_version=str(manifest.get("apiVersion", "")),
        kind=str(manifest.get("kind", "")),
        name=name,
        namespace=namespace,
        where=where(manifest),
        manifest=manifest,
    )


def where(manifest: Values) -> str:
    """The object's place in a message: "RayService default/chat", "GatewayClass istio"."""
    kind = str(manifest.get("kind", ""))
    name, namespace = _names(manifest)
    return f"{kind} {name}" if kind in _CLUSTER_SCOPED else f"{kind} {namespace}/{name}"


def image_versions(image: str) -> dict[str, str]:
    """python, cuda and vllm, as far as an image's name tells: {"python": "3.11", "cuda": "12.8"}."""
    found = {}
    tag = image.rsplit("/", 1)[-1]
    for name, pattern in (("python", _PYTHON), ("cuda", _CUDA)):
        match = pattern.search(tag.partition(":")[2])
        if match:
            found[name] = f"{match[1]}.{match[2]}"
    match, ray_llm = _VLLM.search(image), _RAY_LLM.search(image)
    if match:
        found["vllm"] = match[1]
    elif ray_llm and (release := ray_releases.BY_MINOR.get(ray_llm[1])) and release.pinned:
        found["vllm"] = release.vllm_first  # Ray's own image holds what ray[llm] pins
    return found


def _names(manifest: Values) -> tuple[str, str]:
    metadata = mapping(manifest.get("metadata"))
    return str(metadata.get("name") or metadata.get("generateName") or ""), str(metadata.get("namespace") or "default")


def _templated(manifest: Values) -> dict[str, Any] | None:
    """The object in the form of a Deployment: pod template and replicas; None for what has no pods."""
    kind, spec = str(manifest.get("kind", "")), mapping(manifest.get("spec"))
    head = {
        "apiVersion": manifest.get("apiVersion"),
        "kind": "Deployment",
        "metadata": mapping(manifest.get("metadata")),
    }
    if kind in _TEMPLATED:
        count = whole(spec.get("replicas" if kind != "Job" else "parallelism"))
        return {**head, "spec": {**spec, "replicas": 1 if count is None else count}}
    if kind == "CronJob":
        job = mapping(mapping(spec.get("jobTemplate")).get("spec"))
        return {**head, "spec": {**job, "replicas": whole(job.get("parallelism")) or 1}}
    if kind == "Pod":
        return {**head, "spec": {"replicas": 1, "template": {"metadata": manifest.get("metadata"), "spec": spec}}}
    if kind == "LeaderWorkerSet":
        # The leader starts the engine; without a template of its own it is like the workers.
        pods = mapping(spec.get("leaderWorkerTemplate"))
        template = pods.get("leaderTemplate") or pods.get("workerTemplate")
        return {**head, "spec": {"replicas": whole(spec.get("replicas")) or 1, "template": mapping(template)}}
    if kind == "InferenceService":
        return {**head, "spec": kserve.predictor(mapping(spec.get("predictor")))}
    if kind == "LLMInferenceService":
        return {**head, "spec": kserve.llm_server(spec)}
    return None


def _size(manifest: Values) -> int:
    """Pods of a replica of a LeaderWorkerSet."""
    return whole(mapping(mapping(manifest.get("spec")).get("leaderWorkerTemplate")).get("size")) or 1


def _of_first_pod(manifest: Values, size: int) -> dict[str, str]:
    """Variables that the controller of LeaderWorkerSets sets in the first pod of a replica (sigs.k8s.io/lws: pkg/utils/pod)."""
    name = _names(manifest)[0]
    return {"LWS_GROUP_SIZE": str(size), "LWS_LEADER_ADDRESS": f"{name}-0.{name}", "LWS_WORKER_INDEX": "0"}


def _leader_and_workers(manifest: Values, leader: PodGroup, place: str) -> tuple[PodGroup, ...]:
    """A replica of a LeaderWorkerSet is `size` pods: one group where all are alike, else the leader and the others."""
    of_group = mapping(mapping(manifest.get("spec")).get("leaderWorkerTemplate"))
    size = _size(manifest)
    if not of_group.get("leaderTemplate") or not of_group.get("workerTemplate"):
        return (replace(leader, hosts=size),)
    if size == 1:
        return (leader,)
    counts = {"minReplicas": leader.min, "replicas": leader.replicas, "maxReplicas": leader.max}
    workers = pods.read(
        mapping(of_group["workerTemplate"]), name=f"{leader.name}-workers", where=f"{place}: workers", group=counts
    )
    return (replace(leader, where=f"{place}: leader"), replace(workers, hosts=size - 1))


def _takes_gpu(templated: Values) -> bool:
    template = mapping(mapping(templated.get("spec")).get("template"))
    annotations = mapping(mapping(template.get("metadata")).get("annotations"))
    if any(key in annotations for key in _KAI):
        return True
    pod = mapping(template.get("spec"))
    containers = items(pod.get("containers"))
    return bool(pod.get("resourceClaims")) or any(
        _GPU.search(str(key))
        for container in map(mapping, containers)
        for key in mapping(mapping(container.get("resources")).get("limits"))
    )


def _image(manifest: Values) -> str:
    """Image of the first container: of a Ray cluster's head, or of the pods."""
    spec = mapping(manifest.get("spec"))
    for key in ("rayClusterConfig", "rayClusterSpec"):
        spec = mapping(spec[key]) if key in spec else spec
    if manifest.get("kind") in ray.KINDS:
        template = mapping(mapping(spec.get("headGroupSpec")).get("template"))
    else:
        template = mapping(mapping(mapping(_templated(manifest)).get("spec")).get("template"))
    containers = items(mapping(template.get("spec")).get("containers"))
    return str(mapping(containers[0]).get("image", "")) if containers else ""
