"""Every field that a person may write about a service is read: vary it, and the plan, a manifest or a resource changes.

Fields are found by walking the config models, so a new one is tested when it is written. A field that matters in one kind of
service only, or beside another field, has its own start below; all others start from one model on one GPU.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from components.config import ConfigError, Model, Service, deep_merge, parse
from components.derive.unread import BY_KIND
from components.llm_service import LlmService
from components.plan import assemble, serial
from tests.components import fields
from tests.components.environments import WHOLE_GPU
from tests.components.program import run

Values = dict[str, Any]
SECRET = {"secret": "a", "key": "b"}
REDIS: Values = {"fault_tolerance": {"backend": "redis", "redis_address": "redis:6379"}}
ROUTE = {"host": "a.example.com", "tls_secret": "tls"}
JOB: Values = {"kind": "ray_job", "models": {"qwen": None}, "job": {"entrypoint": "python -m batch"}}
INCREMENTAL: Values = {"upgrade": {"strategy": "incremental", "gateway_class": "envoy"}}


def model(**changes: Any) -> Values:
    """Changes to the model of the service."""
    return {"models": {"qwen": changes}}


SCALED = model(replicas={"min": 1, "max": 3})
ADAPTERS = model(lora={"path": "s3://adapters/a"})

# Field -> what must be there for it to matter: changes to the service. A field of a part that must be whole starts from one.
START: dict[str, Values] = {
    "autoscaling.enabled": SCALED,
    "autoscaling.idle_timeout_seconds": SCALED,
    "autoscaling.upscaling_mode": SCALED,
    "autoscaling.version": SCALED,
    "create_service_account": {"service_account": "reader"},
    "expose.internal": {"expose": {"type": "LoadBalancer"}},
    "fault_tolerance.redis_address": REDIS,
    "fault_tolerance.redis_password": deep_merge(REDIS, {"fault_tolerance": {"redis_password": SECRET}}),
    "fault_tolerance.storage_gib": {"fault_tolerance": {"backend": "rocksdb"}},
    "api_keys.engine": {"kind": "vllm", "api_keys": {"engine": SECRET}},
    "api_keys.teams": {"expose": {"gateway": ROUTE}},
    "expose.gateway": {"expose": {"gateway": ROUTE}},
    "expose.gateway.gateway": {"expose": {"gateway": {"host": "a.example.com", "gateway": "a/b"}}},
    "expose.ingress": {"expose": {"ingress": {"host": "a.example.com", "class_name": "alb"}}},
    "expose.ingress.tls_secret": {"expose": {"ingress": {"host": "a.example.com", "class_name": "nginx"}}},
    "huggingface_token": {"huggingface_token": SECRET},
    "metrics.interval_seconds": {"metrics": {"pod_monitor": True}},
    "metrics.labels": {"metrics": {"pod_monitor": True}},
    "network.clients": {"network": {}},
    "scaling": deep_merge(SCALED, {"kind": "vllm"}),
    "scaling.wake_query": {"kind": "vllm", **model(replicas={"min": 0, "max": 3})},
    "scaling.metric": deep_merge(SCALED, {"kind": "vllm", "scaling": {"by": "hpa", "metric": "a"}}),
    "scaling.cpu_percent": deep_merge(
        SCALED,
        {
            "kind": "vllm",
            "pool": "cpu",
            "scaling": {"by": "hpa", "metric": "cpu"},
            **model(device="cpu", replicas={"max": 3}),
        },
    ),
    "secrets": {"secrets": {"other": {"store": "aws", "keys": {"other": {"name": "b"}}}}},
    "secret_env": {"secret_env": {"other": SECRET}},
    "volumes": {"volumes": {"other": {"mount_path": "/other", "claim": "a"}}},
    **{
        f"volumes.other.{name}": {"volumes": {"other": {"mount_path": "/other", name: source}}}
        for name, source in (("config_map", "a"), ("secret", "a"), ("host_path", "/a"), ("source", {"emptyDir": {}}))
    },
    "disruption_budget": model(replicas={"min": 2, "max": 2}),
    "tracing.protocol": {"tracing": {"otlp_endpoint": "http://otel:4318/v1/traces"}},
    "job": JOB,
    "upgrade.gateway_class": INCREMENTAL,
    "upgrade.interval_seconds": INCREMENTAL,
    "upgrade.max_surge_percent": INCREMENTAL,
    "upgrade.step_size_percent": INCREMENTAL,
    "models.gpu.headroom": model(gpu={"share": 0.9}),
    "models.gpu.mig": {"pool": "cut"},
    "models.kv_cache_gib": {"pool": "cpu", **model(device="cpu")},
    "models.lora": ADAPTERS,
    "models.disaggregation.prefill_replicas.downscale_to_zero_delay_s": model(
        disaggregation={"prefill_replicas": {"min": 0, "max": 3}}
    ),
    "models.disaggregation": model(disaggregation={"prefill_replicas": {"min": 1, "max": 3}}),
    "models.replicas.downscale_delay_s": SCALED,
    "models.replicas.downscale_to_zero_delay_s": model(replicas={"min": 0, "max": 3}),
    "models.replicas.initial": SCALED,
    "models.replicas.target_ongoing_requests": SCALED,
    "models.replicas.upscale_delay_s": SCALED,
}
# Those of them without which the field cannot be written at all.
PARTS = (
    *(
        "api_keys.engine",
        "expose.gateway",
        "expose.gateway.gateway",
        "expose.ingress",
        "fault_tolerance.redis_password",
    ),
    *("huggingface_token", "job", "models.disaggregation", "models.lora", "secret_env", "secrets", "volumes"),
    *(f"volumes.other.{name}" for name in ("config_map", "host_path", "secret", "source")),
)
# Field -> the value it is varied to, where its type does not say one.
VALUE: dict[str, Any] = {
    "app_args": {"ingress_deployment_config": {"max_ongoing_requests": 7}},
    "head.pool": "l4",
    "head.tolerations": [{"key": "a"}],
    "image.digest": "sha256:" + "0" * 64,
    "patch": {"metadata": {"labels": {"a": "b"}}},
    "pool": "cpu",
    "worker.tolerations": [],
    "api_keys.teams": ["keys"],
    "expose.gateway.gateway": "a/c",
    "expose.gateway.host": "b.example.com",
    "expose.gateway.paths": ["/v1/chat"],
    "expose.ingress.certificate_arn": "arn:aws:acm:us-east-1:123456789012:certificate/a",
    "expose.ingress.class_name": "nginx",
    "expose.ingress.host": "b.example.com",
    "expose.ingress.paths": ["/v1/chat"],
    "expose.ingress.source_ranges": ["10.0.0.0/8"],
    "network.clients": [{"namespace": "team"}],
    "network.egress": [{"namespace": "team"}],
    "network.metrics": [{"namespace": "team"}],
    "network.operators": [{"namespace": "team"}],
    "scaling.prometheus": "http://other:9090",
    "tracing.otlp_endpoint": "http://otel:4317",
    "scaling.cpu_percent": 60,
    "volumes.other.host_path": "/elsewhere",
    "volumes.other.mount_path": "/elsewhere",
    "volumes.other.source": {"hostPath": {"path": "/elsewhere"}},
    "models.deployment_config": {"health_check_period_s": 7},
    "models.engine_args": {"max_num_seqs": 7},
    "models.env": {"VLLM_LOGGING_LEVEL": "DEBUG"},
    "models.gpu.headroom": 0.2,
    "models.gpu.mig": "3g.40gb",
    "models.gpu.share": 0.9,
    "models.placement.bundle_per_worker": {"GPU": 1, "CPU": 3},
    "models.placement.bundles": [{"GPU": 1, "CPU": 3}],
    "models.pool": "cpu",
    "models.ray_actor_options": {"num_cpus": 3},
    "models.source": "s3://bucket/folder",
}
H100: Values = {"kind": "existing", "gpu": "H100", "gpus_per_node": 8, "cpu": 190, "memory_gib": 1900, "max": 2}
BASE: Values = deep_merge(
    WHOLE_GPU,
    {
        "node_pools": {
            "cut": {**H100, "sharing": {"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "1g.10gb"}}
        }
    },
)


def change(path: str, value: Any) -> Values:
    """Changes to the service that set the field at `path`."""
    for name in reversed(path.removeprefix("models.").split(".")):
        value = {name: value}
    return model(**value) if path.startswith("models.") else typing.cast(Values, value)


LEAVES: dict[str, FieldInfo] = dict(fields.leaves(Service, models=Model))
PATHS = list(LEAVES)
# Apps have tests of their own; for the namespace see below; `by` is never alone: the test of scaling.metric sets it.
ELSEWHERE = {"app", "create_namespace", "scaling.by"}
KINDS: dict[str, Values] = {
    "ray_service": {"kind": "ray_service"},
    "ray_cluster": {"kind": "ray_cluster"},
    "ray_job": {"kind": "ray_job", "job": {"entrypoint": "python -m batch"}},
    "ray_job of an app": {"kind": "ray_job", "app": "batch", "app_args": {"input": "/in.jsonl", "output": "/out"}},
    "vllm": {"kind": "vllm"},
}


REFUSED = ("refused", "refused")


def effect(service: Values) -> tuple[str, str, list[str]]:
    """(figures of the plan and findings, manifests, what is said to be read by nobody) of the base with a changed service."""
    return _effect(json.dumps(service))


@functools.lru_cache
def _effect(text: str) -> tuple[str, str, list[str]]:
    service = json.loads(text)
    software = {"batch_scheduler": "kai"} if {"queue", "priority_class"} & service.keys() else {}
    try:
        env = parse(deep_merge(BASE, {"software": software, "services": {"chat": service}}))
    except ConfigError as error:
        return *REFUSED, error.problems
    planned = assemble(env)
    said = [f.sentence() for f in planned.plan.findings if f.rule == "config-unread"]
    rest = tuple(f for f in planned.plan.findings if f.rule != "config-unread")
    return serial.dumps(dataclasses.replace(planned.plan, findings=rest)), repr(planned.manifests), said


def variations(path: str, base: Values) -> Iterator[tuple[str, str, list[str]]]:
    return (effect(deep_merge(base, change(path, value))) for value in fields.others(path, LEAVES[path], VALUE))


@pytest.mark.parametrize("path", sorted(set(PATHS) - ELSEWHERE))
def test_a_field_that_is_varied_changes_a_manifest_or_the_plan(path: str) -> None:
    figures, manifests, said = effect(fields.longest_start(START, path))
    assert said == []
    assert any(
        each[:2] not in ((figures, manifests), REFUSED) for each in variations(path, fields.longest_start(START, path))
    )


def named(path: str, said: list[str]) -> bool:
    """Whether a sentence names the field or a part that holds it."""
    parts = path.removeprefix("models.").split(".")
    prefixes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return any(re.search(rf"[ ,]{re.escape(prefix)}[ ,:]", text) for prefix in prefixes for text in said)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_nothing_reads_is_said(kind: str) -> None:
    """From the bare service of each kind: no field is ignored in silence."""
    silent = []
    for path in sorted(set(PATHS) - ELSEWHERE - {"disruption_budget"}):  # of one replica there is none to leave out
        parts = [value for key, value in START.items() if f"{path}.".startswith(key + ".") and key in PARTS]
        base = deep_merge(parts[-1] if parts else {}, KINDS[kind])
        said = effect(base)[2]
        if (
            effect(base)[:2] != REFUSED
            and all(each == effect(base) for each in variations(path, base))
            and not named(path, said)
        ):
            silent.append(path)
    assert silent == [], silent


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_is_said_to_be_unread_changes_no_object(kind: str) -> None:
    read = []
    for path in sorted(set(PATHS) - ELSEWHERE):
        for prefix in BY_KIND[kind]:
            if path == prefix or path.startswith(prefix + "."):
                base = deep_merge(fields.longest_start(START, path), KINDS[kind])
                read += [path for each in variations(path, base) if each[1] != effect(base)[1]]
    assert read == [], read


def test_a_namespace_is_made_where_it_is_asked_for() -> None:
    def namespaces(service: Values) -> int:
        planned = assemble(parse(deep_merge(BASE, {"services": {"chat": service}})))
        (spec,) = planned.specs
        made = run(lambda: LlmService("chat", spec=spec, manifests=planned.manifests["chat"], findings=[]))
        return len(made.of("kubernetes:core/v1:Namespace"))

    assert (namespaces({}), namespaces({"create_namespace": True})) == (0, 1)


def test_what_is_unread_is_said_with_what_to_do() -> None:
    mig = effect(model(gpu={"mig": "1g.10gb"}))[2]
    assert mig == [
        "service 'chat': model 'qwen': gpu.mig is read only with sharing.strategy: mig on node pool 'l4'; leave it out, or set "
        "sharing.strategy: mig on node pool 'l4' [config-unread]"
    ]
    two = effect({"kind": "vllm", "models": {"second": {"model": "Qwen/Qwen2.5-1.5B-Instruct"}}})[2]
    assert two == [
        "service 'chat': kind vllm does not read models.second: nothing comes of it; leave it out, or use kind: ray_service, which "
        "has them [config-unread]"
    ]
    assert (
        effect({"upgrade": {"strategy": "new_cluster"}, "expose": {"internal": True}})[2] == []
    )  # the defaults, written out
