"""Every engine argument with odd values: what vLLM refuses the plan calls an error, and what it takes the plan's kinds let pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.config import parse
from components.plan import Planned, assemble
from local.engine.client import JudgeClient, Refused
from policies.catalog.engine_args import ENGINE_ARGS, FRONTEND_ARGS
from policies.catalog.engine_configs import CONFIG_KEYS
from policies.catalog.engine_flags import NO_FLAG
from tests.components.shapes import SHAPES
from tests.engine import models, upstream

pytestmark = pytest.mark.engine

MODEL = models.NAMES[0]
VALUES: tuple[Any, ...] = (True, False, 1, 0, -1, 2.5, "2", "8k", "true", "no such", [], ["a"], [1], {}, {"a": 1}, None)
KINDS = ("engine-argument-kinds", "engine-argument-keys")
EMPTY = ([], {})  # off, to some arguments that are none of these
# Taken off by the reader, as no arguments of an engine; a template is text or a file of the image, which nobody here can see.
UNJUDGED = ("api_key", "chat_template", "host", "port")
OWN = ("model", "served_model_name")  # Ray's, by another rule


def planned(kind: str, arguments: dict[str, dict[str, Any]]) -> Planned:
    """One service for each name, with these engine arguments."""
    shape = SHAPES["plain_vllm" if kind == "vllm" else "whole_gpu"]
    service = {"kind": kind, "pool": "l4"}
    services = {
        name: {**service, "models": {"m": {"model": MODEL, "engine_args": {"max_model_len": 4096, **args}}}}
        for name, args in arguments.items()
    }
    return assemble(parse({**shape, "services": services}))


def cases(kind: str) -> dict[str, dict[str, Any]]:
    names = [name for name in ENGINE_ARGS if name not in OWN]
    if kind == "vllm":  # under Ray nothing looks at what configures vLLM's own HTTP server
        names += [name for name in FRONTEND_ARGS if name not in (*ENGINE_ARGS, *UNJUDGED)]
    return {f"s{i}-{j}": {name: value} for i, name in enumerate(names) for j, value in enumerate(VALUES)}


def errors(plan: Planned, *rules: str) -> dict[str, list[str]]:
    """service -> the errors about its engine, of these rules or of all that judge an engine's arguments."""
    found: dict[str, list[str]] = {}
    for finding in plan.plan.findings:
        if finding.severity == "error" and "model 'm'" in finding.place and (not rules or finding.rule in rules):
            found.setdefault(finding.place.split("'")[1], []).append(finding.sentence())
    return found


@pytest.mark.parametrize("kind", ["ray_service", "vllm"])
def test_vllm_and_the_plan_agree_on_the_values_of_every_argument(judge: JudgeClient, kind: str) -> None:
    given = cases(kind)
    plan = planned(kind, given)
    all_errors, kinds = errors(plan), errors(plan, *KINDS)
    gaps, refused_in_vain = [], []
    for workload in plan.stack.workloads:
        name = workload.name
        ((argument, value),) = given[name].items()
        said = _refusal(judge, plan, workload)
        if said is not None and any(lacking in said for lacking in upstream.NOT_HERE):
            continue
        if said is not None and name not in all_errors:
            gaps.append(f"{argument}={json.dumps(value)}: {said[:200]}")
        stricter = argument in upstream.STRICTER | NO_FLAG or value in EMPTY
        if said is None and name in kinds and not stricter:
            refused_in_vain.append(f"{argument}={json.dumps(value)}: {kinds[name][0]}")
    assert not gaps, "\n".join(gaps)
    assert not refused_in_vain, "\n".join(refused_in_vain)


def _refusal(judge: JudgeClient, plan: Planned, workload: Any) -> str | None:
    (engine,) = workload.engines
    gpu = {"name": "NVIDIA L4", "capability": [8, 9], "memory": 23 << 30}
    try:
        if workload.kind == "RayService":
            arguments = {"distributed_executor_backend": "ray", **engine.llm_config["engine_kwargs"]}
            judge.engine_args(models.folder(MODEL), gpu=gpu, **arguments)
        else:
            words = [word for word in upstream.command_line(workload) if not word.startswith("--model=")]
            judge.server(f"--model={models.folder(MODEL)}", *words, gpu=gpu)
    except Refused as refusal:
        return " ".join(str(refusal).split())
    return None


def test_keys_of_mappings_are_those_of_vllms_config_classes(judge: JudgeClient) -> None:
    names = sorted(CONFIG_KEYS)
    plan = planned("ray_service", {f"s{i}": {name: {"no_such_key": 1}} for i, name in enumerate(names)})
    found = errors(plan, "engine-argument-keys")
    for index, workload in enumerate(sorted(plan.stack.workloads, key=lambda w: int(w.name[1:]))):
        assert workload.name in found, names[index]
        with pytest.raises(Refused, match="no_such_key"):
            judge.engine_args(models.folder(MODEL), **workload.engines[0].engine_args)
