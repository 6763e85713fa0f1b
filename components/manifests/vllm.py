"""Plain vLLM: a Deployment and a Service, without Ray, from the same statement. Right where one model fits one pod."""

from __future__ import annotations

import json
from typing import Any

from components.config import deep_merge
from components.derive.request_path import keep_alive_seconds
from components.derive.spec import EngineSpec, ServiceSpec
from components.derive.startup import ready_timeout
from components.manifests import ray_pods
from components.manifests.load_balancer import network
from components.manifests.pod_labels import SERVICE_LABEL
from components.manifests.vllm_scaling import scales
from policies.catalog.engine_flags import BARE_FLAGS, COMMA_FLAGS, LIST_FLAGS
from policies.catalog.engine_values import SWITCHES

PORT = 8000
KEEP_ALIVE = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
SCHEDULERS = {"kai": "kai-scheduler", "volcano": "volcano"}
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
# A switch as pydantic, which reads it under Ray, takes it; the command line has the flag alone.
_SWITCH = {text: text in ("true", "1", "yes", "on") for text in ("true", "1", "yes", "on", "false", "0", "no", "off")}


def manifests(spec: ServiceSpec) -> list[dict[str, Any]]:
    """[Deployment, Service] of a service of kind vllm with its one model; a patch is merged over the Deployment."""
    engine = spec.engines[0] if spec.engines else None
    labels = {"app.kubernetes.io/name": spec.name, **spec.config.labels}
    metadata: dict[str, Any] = {"name": spec.name, "namespace": spec.config.namespace, "labels": labels}
    annotations = dict(spec.config.annotations)
    if engine is not None:
        annotations.setdefault("llm-serving/models", json.dumps({engine.name: engine.catalog_id}, sort_keys=True))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "annotations": dict(sorted(annotations.items()))},
        "spec": {
            # a number stated beside an autoscaler would be set back by each update
            **({} if scales(spec) else {"replicas": engine.min_replicas if engine else 0}),
            "selector": {"matchLabels": {"app.kubernetes.io/name": spec.name}},
            "template": _template(spec, engine, labels),
        },
    }
    return [deep_merge(deployment, spec.config.patch), _service(spec, engine, metadata)]


def _service(spec: ServiceSpec, engine: EngineSpec | None, metadata: dict[str, Any]) -> dict[str, Any]:
    expose = spec.config.expose
    annotations = network(expose.internal) if expose.type == "LoadBalancer" else {}
    if engine is None or engine.min_replicas == 0:
        # Pulumi waits until a Service has a pod, and at zero it has none
        annotations["pulumi.com/skipAwait"] = "true"
    # the name KubeRay gives: clients need not know the kind
    named = {**metadata, "name": f"{spec.name}-serve-svc", **({"annotations": annotations} if annotations else {})}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": named,
        "spec": {
            "type": expose.type,
            "selector": {"app.kubernetes.io/name": spec.name},
            "ports": [{"name": "serve", "port": expose.port, "targetPort": PORT}],
        },
    }


def _template(spec: ServiceSpec, engine: EngineSpec | None, labels: dict[str, str]) -> dict[str, Any]:
    if engine is None or not spec.groups:
        return {"metadata": {"labels": labels}, "spec": {"containers": []}}
    template = ray_pods.template(spec, spec.groups[0], "worker")
    container = template["spec"]["containers"][0]
    container["name"] = "vllm"
    container["command"] = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    container["args"] = arguments(engine)
    container["env"] = sorted(
        [
            *container["env"],
            *({"name": k, "value": v} for k, v in engine.env.items() if k != "VLLM_RAY_PER_WORKER_GPUS"),
            *_api_key(spec),
            *_keep_alive(spec, container["env"]),
        ],
        key=lambda entry: str(entry["name"]),
    )
    container["ports"] = [{"name": "serve", "containerPort": PORT}]
    probe = {"httpGet": {"path": "/health", "port": PORT}}
    # the start-up probe covers download and load; liveness begins only when it has passed once
    container["startupProbe"] = {**probe, "periodSeconds": 10, "failureThreshold": max(6, ready_timeout(spec) // 10)}
    # a busy server misses a second, which is what a probe waits by default
    container["readinessProbe"] = {**probe, "periodSeconds": 5, "failureThreshold": 3, "timeoutSeconds": 5}
    container["livenessProbe"] = {**probe, "periodSeconds": 10, "failureThreshold": 6, "timeoutSeconds": 5}
    shm = _shared_memory(engine)
    if shm and not any(v["name"] == "dshm" for v in template["spec"].get("volumes", [])):
        container.setdefault("volumeMounts", []).append({"name": "dshm", "mountPath": "/dev/shm"})
        template["spec"].setdefault("volumes", []).append(
            {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": shm}}
        )
    if engine.max_replicas > 1:
        template["spec"]["topologySpreadConstraints"] = _spread(spec)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**labels, **metadata.get("labels", {})}
    _schedule(spec, metadata, template["spec"])
    return template


def _schedule(spec: ServiceSpec, metadata: dict[str, Any], pod: dict[str, Any]) -> None:
    """Queue and priority, where the batch scheduler places the pods: those that name a queue or take a part of a GPU of its.

    KAI reads labels of pods (docs/queues, docs/priority, v0.17.0), Volcano an annotation from which it makes the pod's PodGroup
    (pkg/controllers/podgroup/pg_controller_handler.go, v1.15.1). Each replica is placed by itself: a Deployment is no gang.
    """
    config, scheduler = spec.config, spec.batch_scheduler
    if scheduler not in SCHEDULERS or not (config.queue or any(group.gpu_fraction for group in spec.groups)):
        return
    pod["schedulerName"] = SCHEDULERS[scheduler]
    if scheduler == "kai":
        labels = {"priorityClassName": config.priority_class or "inference"}
        labels |= {"kai.scheduler/queue": config.queue} if config.queue else {}
        metadata["labels"] = dict(sorted({**metadata["labels"], **labels}.items()))
        return
    if config.queue:
        annotations = {**metadata.get("annotations", {}), VOLCANO_QUEUE: config.queue}
        metadata["annotations"] = dict(sorted(annotations.items()))
    if config.priority_class:
        pod["priorityClassName"] = config.priority_class


def _api_key(spec: ServiceSpec) -> list[dict[str, Any]]:
    """By reference, and by the environment: an argument would stand in the process list."""
    key = spec.config.api_keys.engine
    if key is None:
        return []
    return [{"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": key.secret, "key": key.key}}}]


def _keep_alive(spec: ServiceSpec, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """vLLM's server ends a connection after 5 s without a request, long before a load balancer or gateway that reuses it."""
    published = spec.config.expose.ingress is not None or spec.config.expose.gateway is not None
    named = {entry["name"] for entry in given} | {name for engine in spec.engines for name in engine.env}
    if not published or KEEP_ALIVE in named:
        return []
    return [{"name": KEEP_ALIVE, "value": str(keep_alive_seconds(spec.config))}]


def _spread(spec: ServiceSpec) -> list[dict[str, Any]]:
    """Replicas over zones, then over nodes, as far as there is room: a full pool is no reason to wait."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {SERVICE_LABEL: spec.name}},
            # pods of one version: the old ones of an update are on their way out
            "matchLabelKeys": ["pod-template-hash"],
        }
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]


def _shared_memory(engine: EngineSpec) -> str | None:
    """Size of /dev/shm, where vLLM's processes talk over it: a container's own has 64 MiB, and vLLM refuses to start in it.

    NCCL and the message queue of several workers; on a CPU the worker is a process of its own, and its queue alone takes 160 MiB.
    """
    if engine.ranks > 1:
        return "8Gi"
    alone = engine.config.device != "cpu" and engine.engine_args.get("distributed_executor_backend") != "mp"
    return None if alone else "1Gi"


def arguments(engine: EngineSpec) -> list[str]:
    """vLLM's command line: `--max-model-len=8192`; true is the bare flag, false its `--no-` form, mappings are JSON.

    Lists are JSON or words after their flag, as the argument has it (policies/catalog/engine_flags.py).
    """
    words = [f"--model={engine.source}", f"--served-model-name={engine.name}", f"--port={PORT}"]
    for key, value in sorted(engine.engine_args.items()):
        flag = "--" + key.replace("_", "-")
        switch = _SWITCH.get(str(value).lower()) if key in SWITCHES or isinstance(value, bool) else None
        if switch is True:
            words.append(flag)
        elif switch is False:
            words += [] if key in BARE_FLAGS else ["--no-" + key.replace("_", "-")]  # without a bare flag it is false
        elif isinstance(value, list) and key in LIST_FLAGS:
            texts = [each if isinstance(each, str) else json.dumps(each, sort_keys=True) for each in value]
            words += [flag, *texts] if texts else []
        elif isinstance(value, list) and key in COMMA_FLAGS:
            words.append(f"{flag}={','.join(map(str, value))}")
        elif isinstance(value, (dict, list)):
            words.append(f"{flag}={json.dumps(value, sort_keys=True)}")
        elif value is not None:
            words.append(f"{flag}={value}")
    return words
