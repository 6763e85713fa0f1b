"""RayService, RayCluster and RayJob as manifests: what KubeRay gets."""

from __future__ import annotations

import json
from typing import Any

from components.config import Job, deep_merge
from components.derive.request_path import head_answers
from components.derive.spec import ServiceSpec
from components.manifests import batch, ray_pods, serve_config
from components.manifests.load_balancer import network
from policies.catalog.ray_releases import TOKEN_AUTH_SINCE, has

API_VERSION = "ray.io/v1"
KIND = {"ray_service": "RayService", "ray_cluster": "RayCluster", "ray_job": "RayJob"}
UPGRADE = {"new_cluster": "NewCluster", "incremental": "NewClusterWithIncrementalUpgrade", "none": "None"}
MODELS_ANNOTATION = (
    "llm-serving/models"  # served name -> model of the catalog: lets anyone judge the manifest by itself
)


def manifest(spec: ServiceSpec) -> dict[str, Any]:
    """The custom resource of a service. The person's patch is merged last; what comes out is what is judged and applied."""
    body = {"ray_service": _service, "ray_cluster": cluster, "ray_job": _job}[spec.config.kind](spec)
    metadata: dict[str, Any] = {"name": spec.name, "namespace": spec.config.namespace}
    labels = {**_queue_labels(spec), **spec.config.labels}
    annotations = {**_annotations(spec), **spec.config.annotations}
    if labels:
        metadata["labels"] = dict(sorted(labels.items()))
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    whole = {"apiVersion": API_VERSION, "kind": KIND[spec.config.kind], "metadata": metadata, "spec": body}
    return patched(whole, spec.config.patch)


def patched(whole: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merge a patch; serveConfigV2 may be patched as a mapping (it is text on the wire)."""
    if not patch:
        return whole
    spec_patch = patch.get("spec")
    if isinstance(spec_patch, dict) and isinstance(spec_patch.get("serveConfigV2"), dict):
        inner = deep_merge(json.loads(whole["spec"].get("serveConfigV2", "{}")), spec_patch["serveConfigV2"])
        patch = {**patch, "spec": {**spec_patch, "serveConfigV2": serve_config.dump(inner)}}
    result: dict[str, Any] = deep_merge(whole, patch)
    return result


def cluster(spec: ServiceSpec) -> dict[str, Any]:
    """RayClusterSpec."""
    body: dict[str, Any] = {
        "rayVersion": spec.ray_version,
        "enableInTreeAutoscaling": spec.autoscaling,
        "headGroupSpec": ray_pods.head_group(spec),
        "workerGroupSpecs": [ray_pods.worker_group(spec, group) for group in spec.groups],
    }
    if spec.autoscaling:
        options = spec.config.autoscaling
        body["autoscalerOptions"] = {
            "version": options.version,
            "idleTimeoutSeconds": options.idle_timeout_seconds,
            "upscalingMode": options.upscaling_mode,
        }
    mode = spec.config.auth.mode or ("token" if has(spec.ray_version, TOKEN_AUTH_SINCE) else "disabled")
    if mode == "token":
        auth: dict[str, Any] = {"mode": "token"}
        if spec.config.auth.secret:
            auth["secretName"] = spec.config.auth.secret
        if spec.config.auth.kubernetes_tokens:
            auth["enableK8sTokenAuth"] = True
        body["authOptions"] = auth
    tolerance = _fault_tolerance(spec)
    if tolerance:
        body["gcsFaultToleranceOptions"] = tolerance
    return body


def _service(spec: ServiceSpec) -> dict[str, Any]:
    upgrade = spec.config.upgrade
    strategy: dict[str, Any] = {"type": UPGRADE[upgrade.strategy]}
    if upgrade.strategy == "incremental":
        strategy["clusterUpgradeOptions"] = {
            "gatewayClassName": spec.gateway_class or "",
            "stepSizePercent": upgrade.step_size_percent,
            "intervalSeconds": upgrade.interval_seconds,
            "maxSurgePercent": upgrade.max_surge_percent,
        }
    body: dict[str, Any] = {
        "serveConfigV2": serve_config.dump(serve_config.serve_config(spec)),
        "rayClusterConfig": cluster(spec),
        "upgradeStrategy": strategy,
        "excludeHeadPodFromServeSvc": not head_answers(spec),
    }
    service = _serve_service(spec)
    if service:
        body["serveService"] = service
    return body


def _serve_service(spec: ServiceSpec) -> dict[str, Any]:
    expose = spec.config.expose
    if expose.type == "ClusterIP":
        return {}
    metadata: dict[str, Any] = {"name": f"{spec.name}-serve-svc"}
    if expose.type == "LoadBalancer":
        metadata["annotations"] = network(expose.internal)
    port = {"name": "serve", "port": expose.port, "targetPort": expose.port}
    return {"metadata": metadata, "spec": {"type": expose.type, "ports": [port]}}


def _job(spec: ServiceSpec) -> dict[str, Any]:
    derived = batch.entrypoint(spec)
    job = spec.config.job or (Job() if derived else None)
    body: dict[str, Any] = {"rayClusterSpec": cluster(spec)}
    if job is not None:
        entrypoint = job.entrypoint or derived
        body.update(
            **({"entrypoint": entrypoint} if entrypoint else {}),
            submissionMode=job.submission_mode,
            shutdownAfterJobFinishes=job.shutdown_after_finish,
            backoffLimit=job.backoff_limit,
        )
        if job.shutdown_after_finish:
            body["ttlSecondsAfterFinished"] = job.ttl_seconds
        if job.active_deadline_seconds is not None:
            body["activeDeadlineSeconds"] = job.active_deadline_seconds
    return body


def _fault_tolerance(spec: ServiceSpec) -> dict[str, Any]:
    tolerance = spec.config.fault_tolerance
    if tolerance.backend == "none":
        return {}
    if tolerance.backend == "rocksdb":
        return {"backend": "rocksdb", "storage": {"size": f"{tolerance.storage_gib}Gi"}}
    options: dict[str, Any] = {"redisAddress": tolerance.redis_address or ""}
    if tolerance.redis_password is not None:
        ref = tolerance.redis_password
        options["redisPassword"] = {"valueFrom": {"secretKeyRef": {"name": ref.secret, "key": ref.key}}}
    return options


def _queue_labels(spec: ServiceSpec) -> dict[str, str]:
    """Queue and priority. They belong on the custom resource: KubeRay copies them to its clusters and pods."""
    labels: dict[str, str] = {}
    config = spec.config
    if spec.batch_scheduler == "kai":
        if config.queue:
            labels["kai.scheduler/queue"] = config.queue
        # KAI's own default for Ray is `train` (50, preemptible); a service that answers people is not training.
        labels["ray.io/priority-class-name"] = config.priority_class or (
            "train" if config.kind == "ray_job" else "inference"
        )
    elif spec.batch_scheduler == "volcano":
        if config.queue:
            labels["volcano.sh/queue-name"] = config.queue
        if config.priority_class:
            labels["ray.io/priority-class-name"] = config.priority_class
    elif spec.batch_scheduler == "yunikorn":
        labels["yunikorn.apache.org/app-id"] = spec.name
        labels["ray.io/gang-scheduling-enabled"] = "true"
        if config.queue:
            labels["yunikorn.apache.org/queue"] = config.queue
    elif spec.batch_scheduler == "scheduler-plugins":
        labels["ray.io/gang-scheduling-enabled"] = "true"
    return labels


def _annotations(spec: ServiceSpec) -> dict[str, str]:
    if not spec.engines:
        return {}
    models = {engine.name: engine.catalog_id for engine in spec.engines}
    return {MODELS_ANNOTATION: json.dumps(models, sort_keys=True)}
