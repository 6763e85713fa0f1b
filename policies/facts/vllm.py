"""Reader of plain vLLM Deployments and StatefulSets: the command line becomes an Engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from . import pods
from .command_line import command_line
from .quantities import items, mapping, whole
from .records.values import EMPTY, Values
from .records.workloads import Engine, Workload
from .variables import filled_in, is_script, without_open

KINDS = ("Deployment", "StatefulSet")
_CPU_BUILD = re.compile(r"(?:^|[/_.:-])cpu(?=[_.:@-]|$)[^/]*$")  # vllm/vllm-openai-cpu:v0.23.0, vllm-cpu-env
_MARKS = ("vllm.entrypoints", "vllm serve", "vllm/vllm-openai", "vllm-openai")
_IMAGE = re.compile(r"(?:^|/)vllm-openai")  # not of a page that talks to one: rag-with-vllm-openai


def is_vllm(manifest: Values) -> bool:
    """Whether the first container starts a vLLM server."""
    pod = mapping(mapping(mapping(manifest.get("spec")).get("template")).get("spec"))
    containers = items(pod.get("containers"))
    if manifest.get("kind") not in KINDS or not containers:
        return False
    main = mapping(containers[0])
    command = " ".join(map(str, [*items(main.get("command")), *items(main.get("args"))]))
    if items(main.get("command")):  # in place of the image's own: `sleep infinity` in vLLM's image serves nothing
        return any(mark in command for mark in _MARKS)
    return bool(_IMAGE.search(str(main.get("image", "")))) or any(mark in command for mark in _MARKS)


def read(
    manifest: Values,
    *,
    where: str | None = None,
    versions: Mapping[str, str] | None = None,
    ready_timeout_seconds: int | None = None,
    added: Mapping[str, str] = EMPTY,
    hosts: int = 1,
) -> Workload:
    """Read a Deployment that runs vLLM. Never raises on odd content. added: variables that a controller sets; hosts: pods of a replica."""
    metadata, spec = mapping(manifest.get("metadata")), mapping(manifest.get("spec"))
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace") or "default")
    kind = str(manifest.get("kind", "Deployment"))
    place = where or f"{kind} {namespace}/{name}"
    template = mapping(spec.get("template"))
    replicas = pods.ints(spec.get("replicas"), 1)
    group = pods.read(
        template,
        name=name,
        where=f"{place}: pods",
        group={"minReplicas": replicas, "replicas": replicas, "maxReplicas": replicas},
    )
    main = mapping(next(iter(items(mapping(template.get("spec")).get("containers"))), {}))
    annotations = mapping(metadata.get("annotations"))
    known = versions or {}
    return Workload(
        kind=kind,
        name=name,
        namespace=namespace,
        where=place,
        labels=mapping(metadata.get("labels")),
        annotations=annotations,
        vllm_version=known.get("vllm"),
        cuda_version=known.get("cuda"),
        python_version=known.get("python"),
        groups=(group,),
        engines=(_engine(main, group.env, place, name, replicas, annotations, added, group.gpus * hosts),)
        if is_vllm(manifest)
        else (),
        huggingface_token="HF_TOKEN" in group.env or "HUGGING_FACE_HUB_TOKEN" in group.env,
        ready_timeout_seconds=ready_timeout_seconds,
        spec=spec,
        manifest=manifest,
    )


def words(container: Values) -> list[str]:
    """The command line, with what the image starts where the container brings no command."""
    command, args = ([str(word) for word in items(container.get(key))] for key in ("command", "args"))
    return [*(command or (() if {"serve", "vllm"} & {*args[:2]} else ("vllm", "serve"))), *args]


def _engine(
    main: Values,
    env: Mapping[str, Any],
    place: str,
    group: str,
    replicas: int,
    annotations: Values,
    added: Mapping[str, str],
    gpus: float,
) -> Engine:
    started = words(main)
    positional, given = command_line(filled_in(started, {**added, **env}))
    args = without_open(given, shell=any(map(is_script, started)))
    source = str(args.pop("model", None) or positional or "")
    served = args.pop("served_model_name", None)
    model_id = str(served[0] if isinstance(served, list) and served else served or source)
    catalog = model_id
    try:
        catalog = str(mapping(json.loads(str(annotations.get("llm-serving/models", "{}")))).get(model_id, source))
    except json.JSONDecodeError:
        catalog = source
    for key in ("port", "host", "api_key"):
        args.pop(key, None)
    gpu = bool(gpus) or whole(args.get("tensor_parallel_size")) not in (None, 1) or "gpu_memory_utilization" in args
    cpu = any(name.startswith("VLLM_CPU_") for name in env) or bool(_CPU_BUILD.search(str(main.get("image", ""))))
    sizes = _sizes(given, args, int(gpus))
    return Engine(
        where=f"{place}: model '{model_id}'",
        model_id=model_id,
        source=source,
        catalog_id=catalog,
        device="gpu" if gpu or not cpu else "cpu",
        engine_args=args,
        tensor=sizes["tensor"],
        pipeline=sizes["pipeline"],
        data=sizes["data"],
        expert=args.get("enable_expert_parallel") is True,
        env=env,
        min_replicas=replicas,
        max_replicas=replicas,
        kv_transfer=mapping(args["kv_transfer_config"]) if args.get("kv_transfer_config") else None,
        groups=(group,),
    )


def _sizes(given: Values, args: Values, gpus: int) -> dict[str, int]:
    """Parallel sizes. One that is given and not known is taken to use the GPUs that the others leave."""
    found, left = {}, gpus
    for name in ("pipeline", "data", "tensor"):
        size = whole(args.get(f"{name}_parallel_size")) or 1
        found[name] = max(1, size)
        left //= found[name]
    for name in ("tensor", "data", "pipeline"):
        key = f"{name}_parallel_size"
        if key in given and key not in args and left > 1:
            found[name], left = left, 1
    return found
