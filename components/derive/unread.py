"""What a person stated about a service and nothing reads: fields of another kind of service, or beside a field that is not set.

For: the rule that says so (policies/rules/unread.py). Not for: whether what is read is right. That these tables are neither too
short nor too long is held by tests/components/test_service_fields.py, which varies every field in every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from components.config import Replicas
from components.derive.spec import EngineSpec, ServiceSpec
from policies.facts import Unread
from serve_apps import APPS

_SCALING = (
    *("initial", "max_ongoing_requests", "max_queued_requests", "target_ongoing_requests"),
    *("upscale_delay_s", "downscale_delay_s", "downscale_to_zero_delay_s"),
)
_PUBLISHED = ("expose.gateway", "expose.ingress", "expose.internal", "expose.type")
_PATH = ("expose.direct_streaming", "expose.proxy")
_ENGINES_OF_OTHERS = (
    *("api_keys", "app_args", *_PUBLISHED, *_PATH),
    *("logs.access", "ready_timeout_seconds", "scaling", "tracing", "upgrade"),
    *(
        f"models.{name}"
        for name in (
            *("accelerator_type", "cpu_per_worker", "deployment_config", "engine_args", "env", "experimental"),
            *("gpu.headroom", "kv_cache_gib", "lora", "parallel.expert", "placement", "ray_actor_options", "routing"),
            "source",
            *(f"disaggregation.{n}" for n in ("connector", "decode_port_base", "prefill_port_base")),
            "disaggregation.prefill_engine_args",
            *(f"{replicas}.{n}" for replicas in ("replicas", "disaggregation.prefill_replicas") for n in _SCALING),
        )
    ),
)
# Kind -> fields (with all below them) that its objects do not have. Models of a shared cluster or a job only size its pods: their
# engines are brought by apps of others, or by the job's own program.
BY_KIND: dict[str, tuple[str, ...]] = {
    "ray_service": ("job", "scaling"),
    "ray_cluster": ("job", *_ENGINES_OF_OTHERS),
    "ray_job": _ENGINES_OF_OTHERS,
    # an app of serve_apps/ that is a job has an engine of its own, and nothing of Serve
    "ray_job of an app": (
        *("api_keys", *_PUBLISHED, *_PATH, "logs.access", "ready_timeout_seconds", "scaling", "upgrade"),
        *(f"models.replicas.{name}" for name in _SCALING),
        *(f"models.disaggregation.{n}" for n in ("connector", "decode_port_base", "prefill_port_base")),
        "models.disaggregation.prefill_engine_args",
        *(f"models.disaggregation.prefill_replicas.{name}" for name in _SCALING),
    ),
    "vllm": (
        *("app_args", "auth", "fault_tolerance", "head", "job", "upgrade", *_PATH),
        *(f"autoscaling.{name}" for name in ("idle_timeout_seconds", "upscaling_mode", "version")),
        *("network.metrics", "network.operators", "worker.ray_start_params", "worker.resources"),
        *(f"worker.{name}" for name in ("hosts", "min", "replicas", "max")),
        *(f"models.{name}" for name in ("accelerator_type", "cpu_per_worker", "deployment_config", "experimental")),
        *(f"models.{name}" for name in ("lora.path", "placement", "ray_actor_options", "routing.options")),
        *(
            f"models.replicas.{name}"
            for name in ("initial", "max_ongoing_requests", "max_queued_requests", "surge_percent")
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Beside:
    """Fields that are read only beside others. `read` judges the service; of a model's fields, the service and its engine."""

    fields: tuple[str, ...]
    needs: str
    read: Callable[[ServiceSpec], bool]


@dataclass(frozen=True, slots=True)
class BesideModel:
    fields: tuple[str, ...]
    needs: str
    read: Callable[[EngineSpec], bool]


def _serves(spec: ServiceSpec) -> bool:
    """Whether engines are the stack's own; a shared cluster and a job by hand bring theirs."""
    return spec.config.kind in ("ray_service", "vllm") or APPS[spec.config.app].kind == "job"


BESIDE: tuple[Beside, ...] = (
    Beside(
        tuple(f"upgrade.{n}" for n in ("gateway_class", "interval_seconds", "max_surge_percent", "step_size_percent")),
        "upgrade.strategy: incremental",
        lambda spec: spec.config.upgrade.strategy == "incremental",
    ),
    Beside(("expose.internal",), "expose.type: LoadBalancer", lambda spec: spec.config.expose.type == "LoadBalancer"),
    Beside(
        ("fault_tolerance.redis_address", "fault_tolerance.redis_password"),
        "fault_tolerance.backend: redis",
        lambda spec: spec.config.fault_tolerance.backend == "redis",
    ),
    Beside(
        ("fault_tolerance.storage_gib",),
        "fault_tolerance.backend: rocksdb",
        lambda spec: spec.config.fault_tolerance.backend == "rocksdb",
    ),
    Beside(
        ("autoscaling.idle_timeout_seconds", "autoscaling.upscaling_mode", "autoscaling.version"),
        "a model whose replicas.max is over replicas.min (or autoscaling.enabled)",
        lambda spec: spec.autoscaling,
    ),
    Beside(("create_service_account",), "service_account", lambda spec: spec.config.service_account is not None),
    Beside(
        ("autoscaling.enabled", "scaling"),
        "replicas.max over replicas.min of its model",
        lambda spec: spec.config.kind != "vllm" or any(e.min_replicas != e.max_replicas for e in spec.engines),
    ),
    Beside(("tracing.protocol",), "tracing.otlp_endpoint", lambda spec: spec.config.tracing.otlp_endpoint is not None),
    Beside(
        ("logs.level",),
        "logs.format: json",
        lambda spec: _serves(spec) or spec.config.logs.format == "json",
    ),
    Beside(
        ("metrics.interval_seconds", "metrics.labels"),
        "metrics.pod_monitor: true",
        lambda spec: spec.config.metrics.pod_monitor,
    ),
    Beside(
        tuple(f"network.{name}" for name in ("clients", "egress", "metrics", "operators")),
        "network.enabled: true",
        lambda spec: spec.config.network.enabled,
    ),
    Beside(
        ("queue",),
        "software.batch_scheduler kai, volcano or (Ray) yunikorn",
        lambda spec: (
            spec.batch_scheduler in ("kai", "volcano")
            or (spec.batch_scheduler == "yunikorn" and spec.config.kind != "vllm")
        ),
    ),
    Beside(
        ("priority_class",),
        "software.batch_scheduler kai or volcano (plain vLLM: and queue)",
        lambda spec: (
            spec.batch_scheduler in ("kai", "volcano") and (spec.config.kind != "vllm" or bool(spec.config.queue))
        ),
    ),
    Beside(
        ("job.ttl_seconds",),
        "job.shutdown_after_finish: true",
        lambda spec: spec.config.job is None or spec.config.job.shutdown_after_finish,
    ),
)


def _prefill(engine: EngineSpec) -> Replicas | None:
    apart = engine.config.disaggregation
    return apart.prefill_replicas if apart is not None else None


def _scaled(of: Callable[[EngineSpec], Replicas | None], *, to_zero: bool = False) -> Callable[[EngineSpec], bool]:
    """Whether the replicas scale (from nothing); replicas that are not there are not judged."""

    def read(engine: EngineSpec) -> bool:
        found = of(engine)
        return found is None or (found.min != found.max and (found.min == 0 or not to_zero))

    return read


_REPLICAS: tuple[tuple[str, Callable[[EngineSpec], Replicas | None]], ...] = (
    ("replicas", lambda engine: engine.config.replicas),
    ("disaggregation.prefill_replicas", _prefill),
)
BESIDE_MODEL: tuple[BesideModel, ...] = (
    BesideModel(("kv_cache_gib",), "device: cpu", lambda engine: engine.config.device == "cpu"),
    BesideModel(("gpu.share",), "device: gpu", lambda engine: engine.config.device == "gpu"),
    BesideModel(("gpu.headroom",), "a GPU that is shared", lambda engine: engine.shared),
    *(
        BesideModel(
            tuple(
                f"{path}.{name}"
                for name in ("initial", "target_ongoing_requests", "upscale_delay_s", "downscale_delay_s")
            ),
            f"{path}.max over {path}.min",
            _scaled(of),
        )
        for path, of in _REPLICAS
    ),
    *(
        BesideModel(
            (f"{path}.downscale_to_zero_delay_s",),
            f"{path}.min: 0 and a larger max",
            _scaled(of, to_zero=True),
        )
        for path, of in _REPLICAS
    ),
)


def unread(spec: ServiceSpec) -> Iterator[Unread]:
    """What the service states in vain, and what cannot be as stated."""
    kind, where = spec.config.kind, spec.where
    prefixes = BY_KIND["ray_job of an app" if kind == "ray_job" and APPS[spec.config.app].kind == "job" else kind]
    stated = frozenset(_stated(spec.config, skip=("models",)))
    gone = _under(stated, frozenset(prefixes))
    yield from _of_kind(where, gone, kind)
    for beside in BESIDE:
        fields = [path for path in sorted(stated - gone) if _in(path, beside.fields)]
        if fields and not beside.read(spec):
            yield Unread(where=where, fields=tuple(fields), needs=beside.needs)
    for engine in {engine.name: engine for engine in reversed(spec.engines)}.values():
        place = f"{where}: model '{engine.name}'"
        of_model = frozenset(_stated(spec.config.models[engine.name]))
        gone = _under(of_model, frozenset(p.removeprefix("models.") for p in prefixes if p.startswith("models.")))
        yield from _of_kind(place, gone, kind)
        for each in BESIDE_MODEL:
            fields = [path for path in sorted(of_model - gone) if _in(path, each.fields)]
            if fields and not each.read(engine):
                yield Unread(where=place, fields=tuple(fields), needs=each.needs)
        yield from _slice(place, engine)
    yield from _one_engine(spec)


def _of_kind(where: str, fields: frozenset[str], kind: str) -> Iterator[Unread]:
    # Keys guard something: who states them where nobody asks for one believes a door shut that is open.
    keys = _under(fields, frozenset({"api_keys"}))
    for found, certain in ((keys, True), (fields - keys, False)):
        if found:
            yield Unread(where=where, fields=tuple(sorted(found)), kind=kind, certain=certain)


def _slice(where: str, engine: EngineSpec) -> Iterator[Unread]:
    """A MIG profile where the nodes advertise no slices: the pod would get a whole GPU, and the plan counts what it gets."""
    pool = engine.pool
    if engine.config.gpu.mig is not None and pool is not None and pool.sharing.strategy != "mig":
        yield Unread(where=where, fields=("gpu.mig",), needs=f"sharing.strategy: mig on {pool.where}", certain=True)


def _one_engine(spec: ServiceSpec) -> Iterator[Unread]:
    """Plain vLLM is one engine in one Deployment: a second one would be left out without a word."""
    if spec.config.kind != "vllm":
        return
    names = sorted(spec.config.models)
    if len(names) > 1:
        yield Unread(where=spec.where, fields=tuple(f"models.{n}" for n in names[1:]), kind="vllm", certain=True)
    for name in names:
        if spec.config.models[name].disaggregation is not None:
            place = f"{spec.where}: model '{name}'"
            yield Unread(where=place, fields=("disaggregation",), kind="vllm", certain=True)


def _stated(config: BaseModel, skip: tuple[str, ...] = (), path: str = "") -> Iterator[str]:
    """Dotted paths of what was written and differs from the default."""
    fields = type(config).model_fields
    for name in config.model_fields_set:
        value = getattr(config, name)
        if name in skip or value == fields[name].default:
            continue
        if isinstance(value, BaseModel):
            yield from _stated(value, (), f"{path}{name}.")
        else:
            yield path + name


def _under(paths: frozenset[str], prefixes: frozenset[str]) -> frozenset[str]:
    return frozenset(path for path in paths if _in(path, prefixes))


def _in(path: str, prefixes: frozenset[str] | tuple[str, ...]) -> bool:
    if path in prefixes:
        return True
    parts = path.split(".")
    return any(".".join(parts[:length]) in prefixes for length in range(1, len(parts)))
