"""What a team states of an environment beyond its resources: versions, pools, queues and budgets that other stacks hold.

The configuration of the policy pack and of `python -m policies.judge`; its JSON schema is published with the pack.
Not for: our own program's config (components/config), which knows all of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow, closest_names
from policies.facts import Budget, NodePool, Queue, Sharing, Stack, Taint, Versions


class _Stated(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class StatedTaint(_Stated):
    """A taint of a pool's nodes."""

    key: str
    """Taint key, e.g. nvidia.com/gpu."""
    value: str = ""
    """Taint value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """Effect."""


class StatedSharing(_Stated):
    """How a GPU of a pool is given to more than one pod."""

    strategy: Literal["none", "mig", "time_slicing", "mps", "kai", "volcano_vgpu"] = "none"
    """Strategy."""
    replicas: int | None = Field(default=None, ge=1)
    """Slices of each GPU, for time_slicing and mps."""
    mig_strategy: Literal["single", "mixed"] = "single"
    """How MIG slices are advertised."""
    mig_profile: str | None = None
    """MIG profile, e.g. 1g.10gb."""
    rename_by_default: bool = False
    """Time-slicing advertises nvidia.com/gpu.shared."""
    fail_requests_greater_than_one: bool = True
    """A pod may ask for one slice only."""


class StatedPool(_Stated):
    """Nodes that another stack, or nobody's program, made."""

    gpu: str | None = None
    """GPU of the catalog, e.g. L4 or A100-80."""
    gpus_per_node: int = Field(default=0, ge=0)
    """GPUs of one node."""
    cpu: float | None = Field(default=None, gt=0)
    """CPU cores that pods can have on one node."""
    memory_gib: float | None = Field(default=None, gt=0)
    """Memory (GiB) that pods can have on one node."""
    min: int = Field(default=0, ge=0)
    """Fewest nodes."""
    max: int | None = Field(default=None, ge=0)
    """Most nodes; not limited when not given."""
    labels: dict[str, str] = {}
    """Labels that every node carries."""
    taints: tuple[StatedTaint, ...] = ()
    """Taints that every node carries."""
    sharing: StatedSharing = StatedSharing()
    """How its GPUs are shared."""
    spot: bool = False
    """Nodes can be taken away at any time."""
    efa: bool = False
    """Nodes have Elastic Fabric Adapters."""
    driver_version: str | None = None
    """NVIDIA driver on the nodes, e.g. 580.95.05."""
    price_usd_hour: float | None = Field(default=None, gt=0)
    """Price of one node."""


class StatedQueue(_Stated):
    """A queue that another stack made."""

    scheduler: Literal["kai", "volcano"]
    """Whose queue."""
    parent: str | None = None
    """Parent queue."""
    gpu_quota: float | None = None
    """GPUs it is sure of; -1 for no limit."""
    gpu_limit: float | None = None
    """GPUs it may have; -1 for no limit."""


class StatedVersions(_Stated):
    """Versions that no resource of the stack says."""

    kubernetes: str | None = None
    """Kubernetes, e.g. 1.34."""
    ray: str | None = None
    """Ray."""
    vllm: str | None = None
    """vLLM in the image."""
    python: str | None = None
    """Python in the image."""
    cuda: str | None = None
    """CUDA in the image."""
    kuberay: str | None = None
    """KubeRay operator."""
    kai: str | None = None
    """KAI Scheduler."""
    volcano: str | None = None
    """Volcano."""
    gpu_operator: str | None = None
    """GPU Operator."""
    karpenter: str | None = None
    """Karpenter."""


class StatedBudget(_Stated):
    """Ceilings of the environment."""

    usd_per_hour: float | None = Field(default=None, gt=0)
    """USD an hour, upgrades included."""
    gpus: dict[str, int] = {}
    """GPUs by kind."""
    vcpus: dict[str, int] = {}
    """EC2 vCPU quotas: G, P, Standard, G-spot, P-spot, Standard-spot."""


class Stated(_Stated):
    """Facts of an environment."""

    versions: StatedVersions = StatedVersions()
    """Versions."""
    batch_scheduler: Literal["none", "kai", "volcano", "yunikorn", "scheduler-plugins"] | None = None
    """Scheduler that KubeRay hands pods to."""
    gpu_sharing: bool | None = None
    """KAI's global.gpuSharing."""
    autoscaler: Literal["none", "karpenter", "cluster_autoscaler"] | None = None
    """What adds nodes."""
    gateway_class: str | None = None
    """GatewayClass for incremental upgrades."""
    zones: tuple[str, ...] = ()
    """Availability zones with subnets for nodes."""
    pools: dict[str, StatedPool] = {}
    """Node pools that the stack itself does not make, by name."""
    queues: dict[str, StatedQueue] = {}
    """Queues that the stack itself does not make, by name."""
    budget: StatedBudget = StatedBudget()
    """Ceilings."""
    models: dict[str, dict[str, Any]] = {}
    """Rows of models that the catalog does not have, by id."""


class StatedError(ValueError):
    """The statement cannot be read. `problems` has a sentence for each mistake."""

    user_facing = True

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def parse(values: Mapping[str, Any]) -> Stack:
    """The facts stated. Raises StatedError with every mistake."""
    try:
        return to_stack(Stated.model_validate(_whole(values)))
    except ValidationError as error:
        raise StatedError(sorted({_sentence(detail) for detail in error.errors(include_url=False)})) from None


def to_stack(stated: Stated) -> Stack:
    """The same as facts, to which those of resources are added."""
    return Stack(
        pools=tuple(_pool(name, pool) for name, pool in sorted(stated.pools.items())),
        queues=tuple(
            Queue(name=name, where=f"queue '{name}'", **queue.model_dump())
            for name, queue in sorted(stated.queues.items())
        ),
        versions=Versions(**stated.versions.model_dump()),
        budget=Budget(**stated.budget.model_dump()),
        batch_scheduler=stated.batch_scheduler,
        gpu_sharing_enabled=stated.gpu_sharing,
        autoscaler=stated.autoscaler,
        gateway_class=stated.gateway_class,
        zones=stated.zones,
        models=stated.models,
    )


def schema() -> dict[str, dict[str, Any]]:
    """JSON schema of each property, with nothing referred to: a policy's config schema has no place for definitions."""
    whole = Stated.model_json_schema()
    properties: dict[str, dict[str, Any]] = _inlined(whole["properties"], whole.get("$defs", {}))
    return properties


def _inlined(value: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if "$ref" in value:
            target = _inlined(definitions[value["$ref"].rsplit("/", 1)[-1]], definitions)
            return {**target, **_inlined({k: v for k, v in value.items() if k != "$ref"}, definitions)}
        return {key: _inlined(each, definitions) for key, each in value.items()}
    return [_inlined(each, definitions) for each in value] if isinstance(value, list) else value


def _pool(name: str, stated: StatedPool) -> NodePool:
    try:
        gpu = gpus.get(stated.gpu) if stated.gpu else None
    except UnknownRow:
        gpu = None  # a rule says so, with the closest names
    return NodePool(
        name=name,
        where=f"node pool '{name}'",
        kind="existing",
        gpu=gpu.name if gpu else stated.gpu,
        gpus_per_node=stated.gpus_per_node,
        gpu_mib=gpu.memory_mib if gpu else None,
        cpu_milli=round(stated.cpu * 1000) if stated.cpu else None,
        memory_mib=int(stated.memory_gib * 1024) if stated.memory_gib else None,
        min=stated.min,
        max=stated.max,
        spot=stated.spot,
        driver_version=stated.driver_version,
        efa=stated.efa,
        taints=tuple(Taint(**taint.model_dump()) for taint in stated.taints),
        labels=stated.labels,
        sharing=Sharing(**stated.sharing.model_dump()),
        price_usd_hour=stated.price_usd_hour,
    )


def _whole(value: Any) -> Any:
    """Whole numbers as int: policy configuration crosses the wire as floats."""
    if isinstance(value, Mapping):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sentence(detail: Any) -> str:
    path = [str(part) for part in detail["loc"]]
    where = ".".join(path)
    if detail["type"] == "extra_forbidden":
        allowed = sorted(_fields(path[:-1]))
        near = closest_names(path[-1], allowed, 1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        return f"{where}: unknown key; {hint}allowed: {', '.join(allowed)}"
    message = str(detail["msg"])
    return f"{where}: {detail['input']!r} was given; {message[0].lower()}{message[1:]}"


_MODELS: Mapping[tuple[str, ...], type[_Stated]] = {
    (): Stated,
    ("versions",): StatedVersions,
    ("budget",): StatedBudget,
    ("pools", "*"): StatedPool,
    ("pools", "*", "sharing"): StatedSharing,
    ("pools", "*", "taints", "*"): StatedTaint,
    ("queues", "*"): StatedQueue,
}


def _fields(path: list[str]) -> list[str]:
    """Keys allowed at a path."""
    for pattern, model in _MODELS.items():
        if len(pattern) == len(path) and all(p in ("*", q) for p, q in zip(pattern, path, strict=True)):
            return list(model.model_fields)
    return []
