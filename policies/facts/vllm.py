"""Reader of plain vLLM Deployments and StatefulSets: the command line becomes an Engine."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from policies.catalog.engine_args import ENGINE_ARGS, FRONTEND_ARGS, GONE, LATER, SERVER_ARGS
from policies.catalog.engine_flags import COMMA_FLAGS, JSON_FLAGS, LIST_FLAGS
from policies.catalog.engine_values import (
    CHOICES,
    FORMS,
    LISTS,
    SWITCHES,
    TEXT_OR_LIST,
    TEXT_OR_MAPPING,
    TEXT_OR_SWITCH,
    TEXTS,
)

from . import pods
from .quantities import items, mapping, whole
from .records import Engine, Values, Workload

KINDS = ("Deployment", "StatefulSet")
_MARKS = ("vllm.entrypoints", "vllm serve", "vllm/vllm-openai", "vllm-openai")


def is_vllm(manifest: Values) -> bool:
    """Whether the first container starts a vLLM server."""
    pod = mapping(mapping(mapping(manifest.get("spec")).get("template")).get("spec"))
    containers = items(pod.get("containers"))
    if manifest.get("kind") not in KINDS or not containers:
        return False
    main = mapping(containers[0])
    text = " ".join(map(str, [main.get("image", ""), *items(main.get("command")), *items(main.get("args"))]))
    return any(mark in text for mark in _MARKS)


def read(
    manifest: Values,
    *,
    where: str | None = None,
    versions: Mapping[str, str] | None = None,
    ready_timeout_seconds: int | None = None,
) -> Workload:
    """Read a Deployment that runs vLLM. Never raises on odd content."""
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
        engines=(_engine(main, group.env, place, name, replicas, annotations, bool(group.gpus)),)
        if is_vllm(manifest)
        else (),
        huggingface_token="HF_TOKEN" in group.env or "HUGGING_FACE_HUB_TOKEN" in group.env,
        ready_timeout_seconds=ready_timeout_seconds,
        spec=spec,
        manifest=manifest,
    )


def _engine(
    main: Values, env: Mapping[str, Any], place: str, group: str, replicas: int, annotations: Values, gpu: bool
) -> Engine:
    positional, args = command_line([*map(str, items(main.get("command"))), *map(str, items(main.get("args")))])
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
    gpu = gpu or whole(args.get("tensor_parallel_size")) not in (None, 1) or "gpu_memory_utilization" in args
    return Engine(
        where=f"{place}: model '{model_id}'",
        model_id=model_id,
        source=source,
        catalog_id=catalog,
        device="gpu" if gpu or "VLLM_CPU_KVCACHE_SPACE" not in env else "cpu",
        engine_args=args,
        tensor=max(1, whole(args.get("tensor_parallel_size")) or 1),
        pipeline=max(1, whole(args.get("pipeline_parallel_size")) or 1),
        data=max(1, whole(args.get("data_parallel_size")) or 1),
        expert=args.get("enable_expert_parallel") is True,
        env=env,
        min_replicas=replicas,
        max_replicas=replicas,
        kv_transfer=mapping(args["kv_transfer_config"]) if args.get("kv_transfer_config") else None,
        groups=(group,),
    )


def command_line(words: list[str]) -> tuple[str | None, dict[str, Any]]:
    """(positional model, engine arguments) of a vLLM command: `vllm serve M --x 1`, `python -m vllm.entrypoints... --x=1`,
    `sh -c "vllm serve ..."`. Flags become names with underscores, JSON and numbers become values."""
    flat: list[str] = []
    for word in words:
        flat.extend(_split(word) if ("vllm" in word and " " in word) else [word])
    positional: str | None = None
    args: dict[str, Any] = {}
    serving = False
    index = 0
    while index < len(flat):
        word = flat[index]
        index += 1
        if word == "serve":
            serving = True
        elif word.startswith("--"):
            key, equals, text = word[2:].partition("=")
            name = _full(_ALIASES.get(key, key).replace("-", "_"))
            if equals and name in COMMA_FLAGS:
                args[name] = [_value(each) for each in text.split(",")]
                continue
            if not equals and name in LIST_FLAGS:
                several: list[Any] = []
                while index < len(flat) and not flat[index].startswith("-"):
                    several.append(_read(name, flat[index]))
                    index += 1
                args[name] = several
                continue
            if not equals and name not in SWITCHES and index < len(flat) and not flat[index].startswith("-"):
                text, equals = flat[index], "="
                index += 1
            # a switch takes no value, and `--enforce-eager=true` is refused: the text stays, so that it can be told from the flag
            args[name] = True if not equals else _read(name, text)
        elif word.startswith("-") and len(word) == 3 and word[1:] in _ALIASES and index < len(flat):
            args[_ALIASES[word[1:]]] = _value(flat[index])
            index += 1
        elif serving and positional is None and "vllm" not in word and not word.startswith("-"):
            positional = word
    negated = [key for key, value in args.items() if key.startswith("no_") and value is True]
    for key in negated:
        del args[key]
        args[key.removeprefix("no_")] = False
    return positional, args


def _full(name: str) -> str:
    """argparse takes the beginning of a flag where only one flag begins so: `--tensor-parallel 2`."""
    if name in _FLAGS or name in GONE:
        return name
    begun = [flag for flag in _FLAGS if flag.startswith(name)]
    return begun[0] if len(begun) == 1 else name


# no JSON there: "1.0" is a revision
_TEXT = frozenset((*CHOICES, *FORMS, *LISTS, *TEXTS, *TEXT_OR_LIST, *TEXT_OR_SWITCH)) - JSON_FLAGS
_FLAGS = frozenset((*ENGINE_ARGS, *FRONTEND_ARGS, *SERVER_ARGS, *LATER))
_ALIASES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "q": "quantization",
}


_COMMAND = re.compile(r"vllm\s+serve|-m\s+vllm\.entrypoints")


def _split(script: str) -> list[str]:
    """Words of the vLLM command inside a shell script: from its name to the end of the command; the whole without one."""
    found = _COMMAND.search(script)
    text = (script[found.start() :] if found else script).replace("\\\n", " ").replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= set(";&|<>()"):
                break
            words.append(word)
    except ValueError:  # a quote that never closes
        return text.split()
    return words


def _read(name: str, text: str) -> Any:
    if name in SWITCHES or name in _TEXT or (name in TEXT_OR_MAPPING and not text.lstrip().startswith("{")):
        return text
    return _value(text)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
