"""KServe's InferenceService and LLMInferenceService in the form of a Deployment, as far as KServe makes pods from what they say.

Not for: what a LLMInferenceServiceConfig of one's own puts under them, which only the cluster knows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import pods
from .quantities import items, mapping, whole
from .records import Values, Workload

_CONTAINER = ("image", "command", "args", "env", "resources", "ports", "volumeMounts", "securityContext")
_ADDED = "VLLM_ADDITIONAL_ARGS"  # KServe's presets put it at the end of the command line
_SHM = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}  # of the presets


def predictor(given: Values) -> dict[str, Any]:
    """Pods of KServe's predictor: a pod spec, or a container that its `model` adds to (kserve: api/serving/v1beta1, PredictorSpec)."""
    model = mapping(given.get("model"))
    container = {key: model[key] for key in _CONTAINER if key in model}
    containers = given.get("containers") or ([{"name": "kserve-container", **container}] if model else [])
    count = whole(given.get("minReplicas"))
    metadata = {key: mapping(given.get(key)) for key in ("labels", "annotations")}
    return {
        "replicas": 1 if count is None else count,
        "template": {"metadata": metadata, "spec": {**given, "containers": containers}},
    }


def llm_server(spec: Values) -> dict[str, Any]:
    """Pods of KServe's LLMInferenceService. Its presets start `vllm serve` in the first container, unless that has a command of its
    own, with the sizes of `parallelism` and what VLLM_ADDITIONAL_ARGS says (kserve: config/llmisvc)."""
    pod, model, count = mapping(spec.get("template")), mapping(spec.get("model")), whole(spec.get("replicas"))
    main, *others = [*map(mapping, items(pod.get("containers")))] or [{}]
    if not main.get("command"):
        served = str(model.get("name") or "")
        source = str(model.get("uri") or served).removeprefix("hf://")
        added = [
            str(mapping(each).get("value") or "")
            for each in items(main.get("env"))
            if mapping(each).get("name") == _ADDED
        ]
        words = [*(["--served-model-name", served] if served else []), *_sizes(mapping(spec.get("parallelism")))]
        args = [*words, *map(str, items(main.get("args"))), *(word for text in added for word in text.split())]
        main = {"name": "main", **main, "command": ["vllm", "serve", *([source] if source else [])], "args": args}
        if not any(mapping(each).get("mountPath") == "/dev/shm" for each in items(main.get("volumeMounts"))):
            main["volumeMounts"] = [*items(main.get("volumeMounts")), {"name": "dshm", "mountPath": "/dev/shm"}]
            pod = {**pod, "volumes": [*items(pod.get("volumes")), _SHM]}
    metadata = {key: mapping(spec.get(key)) for key in ("labels", "annotations")}
    return {
        "replicas": 1 if count is None else count,
        "template": {"metadata": metadata, "spec": {**pod, "containers": [main, *others]}},
    }


def _sizes(parallelism: Values) -> list[str]:
    found = []
    for key in ("tensor", "pipeline", "data"):
        size = whole(parallelism.get(key))
        found += [f"--{key}-parallel-size", str(size)] if size is not None and size > 1 else []
    return [*found, *(["--enable-expert-parallel"] if parallelism.get("expert") is True else [])]


def with_other_pods(manifest: Values, read: Workload, place: str) -> Workload:
    """Its workers of several nodes and its prefill pods are groups beside the first. Engines over several nodes are left to KServe:
    how its presets start them differs from release to release."""
    spec = mapping(manifest.get("spec"))
    prefill = mapping(spec.get("prefill"))
    further = {
        "workers": spec.get("worker"),
        "prefill": prefill.get("template"),
        "prefill-workers": prefill.get("worker"),
    }
    groups = [
        pods.read(
            {"spec": mapping(pod)},
            name=f"{read.name}-{name}",
            where=f"{place}: {name.replace('-', ' ')}",
            group={"replicas": 1, "minReplicas": 1, "maxReplicas": 1},
        )
        for name, pod in further.items()
        if pod
    ]
    return replace(read, groups=(*read.groups, *groups), engines=() if spec.get("worker") else read.engines)
