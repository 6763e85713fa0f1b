"""KubeRay operator: Helm values, and the flags its manager gets when it is installed from manifests. Pure.

Source: ray-project/kuberay v1.7.0 (helm-chart/kuberay-operator, ray-operator/main.go, ray-operator/pkg/features/features.go).
Not for: reading the manifests (kuberay_manifests.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import Environment
from components.manifests import monitoring
from components.versions import KUBERAY
from policies.facts import NodePool

SCHEDULER_NAMES = {
    "kai": "kai-scheduler",
    "scheduler-plugins": "scheduler-plugins",
    "volcano": "volcano",
    "yunikorn": "yunikorn",
}
"""Our word for a batch scheduler -> the operator's."""
INCREMENTAL_UPGRADE = "RayServiceIncrementalUpgrade"
EMBEDDED_STORAGE = "GCSFaultToleranceEmbeddedStorage"


def needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether a service is Ray's."""
    return any(service.kind != "vllm" for service in env.services.values())


def feature_gates(env: Environment) -> dict[str, bool]:
    """Gates that services need, and those set by hand over them. Others keep the operator's default.

    An operator that does not know a gate ends at its start, so only what is used is named.
    """
    gates: dict[str, bool] = {}
    services = env.services.values()
    if any(service.upgrade.strategy == "incremental" for service in services):
        gates[INCREMENTAL_UPGRADE] = True
    if any(service.fault_tolerance.backend == "rocksdb" for service in services):
        gates[EMBEDDED_STORAGE] = True
    return dict(sorted((gates | env.software.kuberay.feature_gates).items()))


def watch_namespaces(env: Environment) -> list[str]:
    """Namespaces the operator is held to; none: all."""
    return sorted(env.software.kuberay.watch_namespaces)


def version(env: Environment) -> str:
    """Release of the operator without v."""
    return (env.software.kuberay.version or KUBERAY.version).removeprefix("v")


def values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Helm values. For source manifests they say the same of what the manifests get."""
    result: dict[str, Any] = {
        "resources": resources(env),
        "metrics": {"enabled": True, "serviceMonitor": {"enabled": monitoring.installed(env)}},
    }
    scheduler = SCHEDULER_NAMES.get(env.software.batch_scheduler)
    if scheduler is not None:
        result["batchScheduler"] = {"name": scheduler}  # never `enabled` beside it: the operator refuses both
    gates = feature_gates(env)
    if gates:
        # The chart's list is replaced as a whole; a gate that is not named keeps the operator's default.
        result["featureGates"] = [{"name": name, "enabled": enabled} for name, enabled in gates.items()]
    namespaces = watch_namespaces(env)
    if namespaces:
        result["watchNamespace"] = namespaces
    if env.software.kuberay.image is not None:
        result["image"] = image_values(env.software.kuberay.image)
    return result


def resources(env: Environment) -> dict[str, dict[str, str]]:
    """CPU and memory of the operator: its chart reckons 1 MB for each Ray pod. Not the chart's CPU limit of 100m: a throttled
    operator answers its own probes late and is restarted while it writes."""
    pods = sum(_pods(service.worker.max, len(service.models)) for service in env.services.values())
    memory = 512 if pods <= 400 else 512 + pods
    return {"limits": {"cpu": "1", "memory": f"{memory}Mi"}, "requests": {"cpu": "100m", "memory": f"{memory}Mi"}}


def _pods(stated: int | None, models: int) -> int:
    return 1 + (stated if stated is not None else 4 * max(1, models))


def image_values(image: str) -> dict[str, str]:
    """ "host:5000/kuberay/operator:v1" -> repository and tag; a digest goes with the repository, as charts join by ":"."""
    if "@" in image:
        repository, digest = image.split("@", 1)
        return {"repository": f"{repository}@{digest.split(':', 1)[0]}", "tag": digest.split(":", 1)[1]}
    name = image.rsplit("/", 1)[-1]
    if ":" not in name:
        return {"repository": image}
    repository, tag = image.rsplit(":", 1)
    return {"repository": repository, "tag": tag}


def arguments(env: Environment) -> list[str]:
    """Flags of the manager for source manifests: the same choices as in the values."""
    flags = ["--enable-metrics"]
    gates = feature_gates(env)
    if gates:
        flags.append("--feature-gates=" + ",".join(f"{name}={str(on).lower()}" for name, on in gates.items()))
    scheduler = SCHEDULER_NAMES.get(env.software.batch_scheduler)
    if scheduler is not None:
        flags.append(f"--batch-scheduler={scheduler}")
    namespaces = watch_namespaces(env)
    if namespaces:
        flags.append("--watch-namespace=" + ",".join(namespaces))
    return flags
