"""What Ray and vLLM say to what a plan emits: everything that they refuse before an engine is loaded.

For: shapes and generated configs. What is not asked here: the cluster's resources, the weights, kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.plan import Planned
from local.engine.client import JudgeClient, Refused
from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import Engine, Workload
from policies.facts.quantities import items, mapping
from tests.engine import models

_OURS = ("model", "served_model_name")
# A judge that lacks something of a GPU machine (a kernel, a package) must fail the test, not count as a refusal.
_LACKING = ("ImportError", "ModuleNotFoundError", "RuntimeError")
_NO_KERNEL = "_OpNamespace"
# Known to be the judge's and not the config's: Triton (the second model runner), memory pools of CUDA, files of the model.
STRICTER = frozenset(
    (
        "allowed_headers",
        "allowed_methods",
        "allowed_origins",
        "attention_backend",
        "default_chat_template_kwargs",
        "default_mm_loras",
        "enable_auto_tool_choice",
        "device_ids",
        "linear_backend",
        "max_cudagraph_capture_size",
        "mamba_backend",
        "mm_encoder_attn_dtype",
        "mm_processor_device",
        "moe_backend",
        "reasoning_parser",
        "tool_call_parser",
        "video_pruning_method",
    )
)
"""Arguments whose rule knows more than is asked here: kernels, devices and inputs that the model does not use, a server that runs."""
NOT_HERE = (
    "cumem allocator is not supported on current platform",
    "requires Model Runner V2",
    "Model Runner V1 does not support",
    "must be passed to the ReasoningParser",
    "Cannot find an appropriate cached snapshot folder",
    "Invalid repository ID or local directory specified",
)


def refusals(judge: JudgeClient, planned: Planned) -> list[str]:
    """Each thing that upstream refuses of what the plan emits, in upstream's words."""
    found: list[str] = []
    for workload in planned.stack.workloads:
        for what, ask in _questions(judge, planned, workload):
            try:
                ask()
            except Refused as refusal:
                text = " ".join(str(refusal).split())
                if refusal.kind in _LACKING or _NO_KERNEL in text:
                    raise
                if not any(lack in text for lack in NOT_HERE):
                    found.append(f"{what}: {text}")
    return found


def _questions(judge: JudgeClient, planned: Planned, workload: Workload) -> Iterator[tuple[str, Any]]:
    if workload.kind == "RayService":
        yield "ServeDeploySchema", lambda: judge.serve_schema(dict(workload.serve_config))
        for app in workload.apps:
            yield f"application {app.name}", lambda app=app: judge.build_app(app.import_path, app.args)
    for engine in workload.engines:
        if workload.kind == "RayService":
            yield f"LLMConfig {engine.model_id}", lambda engine=engine: judge.llm_config(engine.llm_config)
        else:
            yield "command line", lambda: judge.command_line(*command_line(workload))
        if engine.device == "gpu" and engine.catalog_id in models.NAMES:
            yield f"engine {engine.model_id}", lambda engine=engine: engine_config(judge, planned, workload, engine)


def engine_config(judge: JudgeClient, planned: Planned, workload: Workload, engine: Engine) -> dict[str, Any]:
    """vLLM's own engine config for what Ray would start it with, on the GPU of the pool. Raises Refused."""
    folder, gpu = models.folder(engine.catalog_id), device(planned, engine)
    if workload.kind != "RayService":
        given = [word for word in command_line(workload) if not word.startswith("--model=")]
        return judge.server(f"--model={folder}", *given, gpu=gpu)
    arguments = judge.llm_config(engine.llm_config)["engine"]["kwargs"]
    arguments = {key: value for key, value in arguments.items() if key not in _OURS}
    return judge.engine_args(folder, gpu=gpu, **arguments)


def device(planned: Planned, engine: Engine) -> Mapping[str, Any] | None:
    """The GPU that the engine runs on, in the judge's terms."""
    groups = {group.name: group.pool for spec in planned.specs for group in spec.groups}
    pool = next((groups[name] for name in engine.groups if groups.get(name)), None)
    if pool is None:  # a Deployment, whose pods are its only group
        pool = next((group.pool for spec in planned.specs for group in spec.groups), None)
    try:
        row = gpus.get(pool.gpu or "") if pool is not None else None
    except UnknownRow:
        row = None
    if row is None:
        return None
    return {
        "name": f"NVIDIA {row.name}",
        "capability": list(row.compute_capability),
        "memory": row.cuda_memory_mib << 20,
    }


def command_line(workload: Workload) -> list[str]:
    """Arguments of the container that runs vLLM's server."""
    pod = mapping(mapping(mapping(workload.manifest.get("spec")).get("template")).get("spec"))
    return [str(word) for word in items(mapping(items(pod.get("containers"))[0]).get("args"))]
