"""KServe's InferenceService and LLMInferenceService in the form of a Deployment, as far as KServe makes pods from what they say.

Not for: what a LLMInferenceServiceConfig of one's own puts under them, which only the cluster knows.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from . import pods
from .quantities import items, mapping, whole
from .records.values import Values
from .records.workloads import Workload

Reader: TypeAlias = Callable[[Values, str], Workload]  # of a Deployment, at this place

_CONTAINER = ("image", "command", "args", "env", "resources", "ports", "volumeMounts", "securityContext")
_CLAIMED = "serving.kserve.io/exp-dra-device-class"  # KServe gives the pods a claim for devices of this class
_ADDED = "VLLM_ADDITIONAL_ARGS"  # KServe's presets put it at the end of the command line
# Mount path -> volume, of the presets.
_MOUNTED: dict[str, dict[str, Any]] = {
    "/dev/shm": {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    "/home": {"name": "home", "emptyDir": {}},
    "/models": {"name": "model-cache", "emptyDir": {}},
    "/tmp": {"name": "tmp-dir", "emptyDir": {}},
}


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
    """Pods of KServe's LLMInferenceService, the first of a group where it has `worker`. Its presets start `vllm serve` in the first
    container, unless that has a command of its own, with the sizes of `parallelism` and what VLLM_ADDITIONAL_ARGS says (kserve: config/llmisvcconfig)."""
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
        sizes = _sizes(mapping(spec.get("parallelism")), several=bool(spec.get("worker")))
        words = [*(["--served-model-name", served] if served else []), *sizes]
        args = [*words, *map(str, items(main.get("args"))), *(word for text in added for word in _words(text))]
        main = {"name": "main", **main, "command": ["vllm", "serve", *([source] if source else [])], "args": args}
        pod = _with_mounts({**pod, "containers": [main, *others]})
    metadata = {key: mapping(spec.get(key)) for key in ("labels", "annotations")}
    return {"replicas": 1 if count is None else count, "template": {"metadata": metadata, "spec": pod}}


def _with_mounts(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod with what the presets mount, where it mounts nothing of its own."""
    main, *others = [*map(mapping, items(pod.get("containers")))] or [{"name": "main"}]
    mounts, volumes = items(main.get("volumeMounts")), items(pod.get("volumes"))
    paths, names = (
        {mapping(each).get(key) for each in given} for given, key in ((mounts, "mountPath"), (volumes, "name"))
    )
    more = {path: volume for path, volume in _MOUNTED.items() if path not in paths}
    added = [{"name": volume["name"], "mountPath": path} for path, volume in more.items()]
    return {
        **pod,
        "containers": [{**main, "volumeMounts": [*mounts, *added]}, *others],
        "volumes": [*volumes, *(volume for volume in more.values() if volume["name"] not in names)],
    }


def _words(text: str) -> list[str]:
    """The presets hand the variable to a shell (eval), which takes quotes away; what it would refuse is taken as it stands."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _sizes(parallelism: Values, *, several: bool) -> list[str]:
    """Arguments for the sizes. Over several pods vLLM is told as well which part of the whole is in the first of them."""
    found = []
    for key in ("tensor", "pipeline", "data"):
        size = whole(parallelism.get(key))
        found += [f"--{key}-parallel-size", str(size)] if size is not None and size > 1 else []
    if parallelism.get("expert") is True:
        found.append("--enable-expert-parallel")
    if several and _ranks(parallelism):
        local = whole(parallelism.get("dataLocal")) or 1
        found += ["--data-parallel-size-local", str(local), "--data-parallel-start-rank", "0"]
    elif several and pods_of(parallelism) > 1:
        found += ["--nnodes", str(pods_of(parallelism)), "--node-rank", "0"]
    return found


def _ranks(parallelism: Values) -> bool:
    return any(whole(parallelism.get(key)) for key in ("data", "dataLocal"))


def pods_of(parallelism: Values) -> int:
    """Pods of one replica over several nodes: as many as hold all ranks, else one for each stage (GetSize, llm_inference_service_types)."""
    if _ranks(parallelism):
        return max(1, (whole(parallelism.get("data")) or 1) // (whole(parallelism.get("dataLocal")) or 1))
    return whole(parallelism.get("pipeline")) or 1


def workload(manifest: Values, read: Reader, place: str) -> Workload:
    """An LLMInferenceService as one workload: its engine, and prefill's beside it, each over the pods that KServe makes of it."""
    spec = mapping(manifest.get("spec"))
    prefill = mapping(spec.get("prefill"))
    first = _engine(manifest, spec, read, place)
    if not prefill:
        return first
    metadata = {**mapping(manifest.get("metadata"))}
    beside = {"metadata": {**metadata, "name": f"{metadata.get('name')}-prefill"}}
    second = _engine(beside, {**prefill, "model": spec.get("model")}, read, f"{place}: prefill")
    return replace(
        first,
        groups=(*first.groups, *second.groups),
        engines=(
            *(replace(engine, role="decode") for engine in first.engines),
            *(replace(engine, role="prefill") for engine in second.engines),
        ),
    )


def _engine(manifest: Values, spec: Values, read: Reader, place: str) -> Workload:
    metadata = mapping(manifest.get("metadata"))
    if mapping(metadata.get("annotations")).get(_CLAIMED):
        claim = {"name": "devices", "resourceClaimTemplateName": metadata.get("name")}
        spec = {**spec, "template": {**mapping(spec.get("template")), "resourceClaims": [claim]}}
    made = read({"kind": "Deployment", "metadata": metadata, "spec": llm_server(spec)}, place)
    worker, leader = mapping(spec.get("worker")), made.groups[0]
    if not worker:
        return made
    size = pods_of(mapping(spec.get("parallelism")))
    counts = {"minReplicas": leader.min, "replicas": leader.replicas, "maxReplicas": leader.max}
    workers = pods.read(
        {"spec": _with_mounts(worker)}, name=f"{leader.name}-workers", where=f"{place}: workers", group=counts
    )
    groups = (leader, replace(workers, hosts=max(1, size - 1)))
    # A group of one pod has no workers: a config of one's own says how many there are, if it is no mistake.
    engines = (replace(each, groups=tuple(g.name for g in groups)) for each in made.engines) if size > 1 else ()
    return replace(made, groups=groups, engines=tuple(engines))
