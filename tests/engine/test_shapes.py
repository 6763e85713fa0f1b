"""Every way of using GPUs, judged by those who read what we emit: Ray's schema, LLMConfig and builders, vLLM's argument checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.config import parse
from components.derive.spec import EngineSpec, GroupSpec, ServiceSpec
from components.manifests import vllm
from components.plan import Planned, assemble
from components.plan.result import EnginePlan
from local.engine.client import JudgeClient
from policies.facts import Engine
from policies.facts.quantities import real
from tests.components.shapes import SHAPES
from tests.engine import models, upstream

pytestmark = pytest.mark.engine

PLANNED = {name: assemble(parse(shape), name) for name, shape in SHAPES.items()}
SERVED = [name for name, planned in PLANNED.items() if planned.specs[0].config.kind == "ray_service"]
ENGINES = [
    pytest.param(name, index, id=f"{name}-{engine.model_id}-{engine.role}")
    for name in SERVED
    for index, engine in enumerate(PLANNED[name].stack.workloads[0].engines)
]
SERVER = {"serve": "LLMServer", "prefill": "Prefill", "decode": "Decode", "data_parallel": "DPServer"}
"""How Ray's builders name the deployment of an engine."""
ENDLESS = 1e9  # Ray Serve LLM's target where none is given


def engine_of(shape: str, index: int) -> tuple[Engine, EngineSpec, ServiceSpec]:
    planned = PLANNED[shape]
    facts = planned.stack.workloads[0].engines[index]
    spec = planned.specs[0]
    return facts, next(e for e in spec.engines if (e.name, e.role) == (facts.model_id, facts.role)), spec


def plan_of(shape: str, index: int) -> EnginePlan:
    facts, _, _ = engine_of(shape, index)
    engines = PLANNED[shape].plan.services[0].engines
    return next(e for e in engines if (e.name, e.role) == (facts.model_id, facts.role))


def deployed(judge: JudgeClient, shape: str, engine: Engine) -> dict[str, Any]:
    """The deployment of an engine, as the real builder of our app makes it."""
    for app in PLANNED[shape].stack.workloads[0].apps:
        for deployment in judge.build_app(app.import_path, app.args)["deployments"]:
            if deployment["name"] == f"{SERVER[engine.role]}:{engine.model_id}":
                return dict(deployment)
    raise LookupError(engine.where)


@pytest.mark.parametrize("shape", SERVED)
def test_serve_takes_the_config_and_builds_the_app_by_its_import_path(judge: JudgeClient, shape: str) -> None:
    service = PLANNED[shape].manifests[PLANNED[shape].specs[0].name][0]
    config = json.loads(service["spec"]["serveConfigV2"])
    parsed = judge.serve_schema(config)
    assert [app["name"] for app in parsed["applications"]] == [app["name"] for app in config["applications"]]
    assert parsed["http_options"]["port"] == config["http_options"]["port"]
    built = [judge.build_app(app["import_path"], app["args"]) for app in config["applications"]]
    assert all(app["ingress"] in {deployment["name"] for deployment in app["deployments"]} for app in built)
    engines = PLANNED[shape].stack.workloads[0].engines
    names = {d["name"] for app in built for d in app["deployments"] if d["name"] != app["ingress"]}
    assert names == {f"{SERVER[engine.role]}:{engine.model_id}" for engine in engines}


@pytest.mark.parametrize("shape, index", ENGINES)
def test_rays_bundles_are_those_of_the_plan(judge: JudgeClient, shape: str, index: int) -> None:
    facts, engine, _ = engine_of(shape, index)
    plan = plan_of(shape, index)
    ray = judge.llm_config(facts.llm_config)
    bundles = ray["engine"]["bundles"]
    assert len(bundles) == plan.tensor_parallel * plan.pipeline_parallel
    assert [bundle.get("GPU", 0) for bundle in bundles] == [engine.worker_gpu] * engine.world
    # in the deployment the replica actor's own CPU is added to the first, and nothing to the GPUs
    deployment = deployed(judge, shape, facts)
    assert [bundle.get("GPU", 0) for bundle in deployment["bundles"]] == [engine.worker_gpu] * engine.world
    assert "num_gpus" not in deployment["ray_actor_options"]
    if facts.role == "data_parallel":  # gangs are placed as a whole
        assert (deployment["gang_size"], deployment["strategy"]) == (plan.data_parallel, None)
    else:
        assert deployment["strategy"] == ray["engine"]["strategy"] == (facts.strategy or "PACK")


@pytest.mark.parametrize("shape, index", ENGINES)
def test_one_replica_fits_the_pods_that_were_made_for_it(judge: JudgeClient, shape: str, index: int) -> None:
    facts, engine, spec = engine_of(shape, index)
    group = next(group for group in spec.groups if group.name == engine.group)
    bundles = deployed(judge, shape, facts)["bundles"]
    room = [_resources(PLANNED[shape], group) for _ in range(max(group.hosts, len(bundles) if group.shared else 1))]
    for bundle in sorted(bundles, key=lambda b: -sum(b.values())):
        asked = {name: amount for name, amount in bundle.items() if amount}
        home = next((pod for pod in room if all(pod.get(n, 0) >= a - 1e-9 for n, a in asked.items())), None)
        assert home is not None, (asked, room)
        for name, amount in asked.items():
            home[name] -= amount


@pytest.mark.parametrize("shape, index", ENGINES)
def test_workers_of_a_share_know_it_and_others_have_a_gpu(judge: JudgeClient, shape: str, index: int) -> None:
    facts, engine, _ = engine_of(shape, index)
    given = judge.llm_config(facts.llm_config)["engine"]["env_vars"].get("VLLM_RAY_PER_WORKER_GPUS")
    assert given == (f"{engine.worker_gpu:g}" if 0 < engine.worker_gpu < 1 else None)


@pytest.mark.parametrize("shape, index", ENGINES)
def test_serve_scales_between_the_replicas_of_the_plan(judge: JudgeClient, shape: str, index: int) -> None:
    facts, _, _ = engine_of(shape, index)
    plan = plan_of(shape, index)
    deployment = deployed(judge, shape, facts)
    scaling = deployment["autoscaling"]
    groups = plan.data_parallel  # Serve counts the ranks of a data-parallel group as replicas
    if plan.replicas_min == plan.replicas_max:
        assert deployment["num_replicas"] == plan.replicas_max * groups
    else:
        assert (scaling["min_replicas"], scaling["max_replicas"]) == (plan.replicas_min, plan.replicas_max)
        assert scaling["target_ongoing_requests"] < deployment["max_ongoing_requests"] < ENDLESS
    assert deployment["router"].rsplit(".", 1)[-1].rsplit(":", 1)[-1] in str(
        facts.router or "PowerOfTwoChoicesRequestRouter"
    )


@pytest.mark.parametrize("shape, index", [p for p in ENGINES if engine_of(*p.values)[0].catalog_id in models.NAMES])
def test_vllm_takes_the_engine_arguments_on_the_gpu_of_the_pool(judge: JudgeClient, shape: str, index: int) -> None:
    planned = PLANNED[shape]
    workload = planned.stack.workloads[0]
    facts = workload.engines[index]
    resolved = upstream.engine_config(judge, planned, workload, facts)
    assert resolved["max_model_len"] == facts.engine_args["max_model_len"]
    assert (resolved["tensor_parallel_size"], resolved["pipeline_parallel_size"]) == (facts.tensor, facts.pipeline)
    assert resolved["dtype"] == "torch.bfloat16"


def test_vllms_server_parses_the_command_line_of_a_deployment(judge: JudgeClient) -> None:
    planned = PLANNED["plain_vllm"]
    engine = planned.specs[0].engines[0]
    words = vllm.arguments(engine)
    assert upstream.command_line(planned.stack.workloads[0]) == words
    parsed = judge.command_line(*words)
    assert parsed["model"] == engine.source
    assert parsed["served_model_name"] == [engine.name]
    for key, value in engine.engine_args.items():
        if key != "gpu_memory_utilization":  # it is vLLM's default
            assert parsed[key] == value
    assert upstream.refusals(judge, planned) == []


def test_a_command_line_says_every_kind_of_value_as_vllm_reads_it(judge: JudgeClient) -> None:
    given = {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "engine_args": {
            "max_model_len": 8192,
            "enforce_eager": True,
            "enable_prefix_caching": False,
            "hf_overrides": {"max_position_embeddings": 32768},
            "limit_mm_per_prompt": {"image": 2},
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4},
            "structured_outputs_config": {"backend": "xgrammar"},
            "cudagraph_capture_sizes": [1, 2, 4],
            "allowed_origins": ["https://example.com"],
            "enable_auto_tool_choice": True,
            "tool_call_parser": "hermes",
            "chat_template": "{{ messages }}",
            "seed": 0,
        },
    }
    shape = {**SHAPES["plain_vllm"], "services": {"plain": {"kind": "vllm", "pool": "l4", "models": {"qwen": given}}}}
    planned = assemble(parse(shape))
    assert planned.plan.totals.errors == 0
    parsed = judge.command_line(*upstream.command_line(planned.stack.workloads[0]))
    for key in ("enforce_eager", "enable_prefix_caching", "hf_overrides", "tool_call_parser", "chat_template"):
        assert parsed[key] == given["engine_args"][key]  # type: ignore[index]
    assert parsed["cudagraph_capture_sizes"] == [1, 2, 4]
    assert parsed["allowed_origins"] == ["https://example.com"]
    assert upstream.refusals(judge, planned) == []


def _resources(planned: Planned, group: GroupSpec) -> dict[str, float]:
    """What Ray sees in one pod of the group: stated resources, else what KubeRay derives from the limits."""
    facts = next(each for each in planned.stack.workloads[0].groups if each.name == group.name)
    found: dict[str, Any] = {"CPU": (facts.cpu_milli or 0) / 1000, "GPU": facts.gpus}
    found |= {name: real(amount) for name, amount in facts.resources.items()}
    return {name: float(amount or 0) for name, amount in found.items()}
