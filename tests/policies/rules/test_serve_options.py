"""Each test breaks one deployment option of an engine, or of the ingress in front of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies import rules
from policies.facts import ServeApp, Stack

from .engine_stacks import at, found, scaled, sentences, whole, with_engine

VALUES = ("serve-option-values", "error")


def options(given: Stack, **changes: Any) -> Stack:
    own = given.workloads[0].engines[0]
    merged = {**own.deployment_config, **changes}
    actor = merged.get("ray_actor_options")
    return with_engine(
        given, deployment_config=merged, **({"ray_actor_options": actor} if isinstance(actor, dict) else {})
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"graceful_shutdown_timeout_s": -1}, "graceful_shutdown_timeout_s is -1; allowed: a number from 0;"),
        ({"health_check_period_s": "often"}, "health_check_period_s is 'often'; allowed: a number over 0;"),
        ({"health_check_timeout_s": 0}, "health_check_timeout_s is 0; allowed: a number over 0;"),
        ({"max_ongoing_requests": 0}, "max_ongoing_requests is 0; allowed: a whole number from 1;"),
        ({"max_ongoing_requests": 1.5}, "max_ongoing_requests is 1.5; allowed: a whole number from 1;"),
        ({"max_queued_requests": 0}, "max_queued_requests is 0; allowed: a whole number from 1, or -1 for no limit;"),
        ({"max_surge_percent": 150}, "max_surge_percent is 150; allowed: a whole number from 0 to 100;"),
        ({"logging_config": {"level": "DEBUG"}}, "logging_config has no 'level': Serve refuses it;"),
        ({"logging_config": {"log_level": "LOUD"}}, "logging_config.log_level is 'LOUD'; allowed: CRITICAL, DEBUG,"),
        ({"request_router_config": {"max_backoff_s": 0}}, "request_router_config.max_backoff_s is 0;"),
        ({"ray_actor_options": {"num_gpu": 1}}, "did you mean 'num_gpus'?"),
        ({"ray_actor_options": {"num_cpus": "two"}}, "ray_actor_options.num_cpus is 'two'; allowed: a number from 0;"),
        ({"ray_actor_options": {"memory": -5}}, "ray_actor_options.memory is -5;"),
        (
            {"ray_actor_options": {"resources": {"GPU": 1}}},
            "ray_actor_options.resources has GPU: Ray refuses it there;",
        ),
        ({"ray_actor_options": {"resources": {"x": -1}}}, "ray_actor_options.resources.x is -1;"),
        ({"gang_scheduling_config": {"gang_size": 2}}, "leave gang_scheduling_config out"),
        ({"name": 3}, "name is 3; allowed: text;"),
    ],
)
def test_a_value_that_serve_refuses_is_refused(changes: dict[str, Any], says: str) -> None:
    given = options(whole(), **changes)
    assert VALUES in found(given)
    assert says in " ".join(sentences(given, VALUES[0]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"upscale_delay_s": -1}, "autoscaling_config.upscale_delay_s is -1; allowed: a number from 0;"),
        ({"metrics_interval_s": 0}, "autoscaling_config.metrics_interval_s is 0; allowed: a number over 0;"),
        ({"upscaling_factor": 0}, "autoscaling_config.upscaling_factor is 0; allowed: a number over 0;"),
        ({"aggregation_function": "median"}, "aggregation_function is 'median'; allowed: max, mean, min;"),
    ],
)
def test_autoscaling_values_that_serve_refuses_are_refused(changes: dict[str, Any], says: str) -> None:
    own = scaled().workloads[0].engines[0]
    given = options(scaled(), autoscaling_config={**own.deployment_config.get("autoscaling_config", {}), **changes})
    assert VALUES in found(given)
    assert says in " ".join(sentences(given, VALUES[0]))


def test_a_key_of_autoscaling_that_serve_ignores_is_a_warning() -> None:
    given = options(whole(), autoscaling_config={"min_replicas": 1, "max_replica": 3})
    (text,) = sentences(given, VALUES[0])
    assert "autoscaling_config has no 'max_replica': Serve ignores it; did you mean 'max_replicas'?" in text
    assert ("serve-option-values", "warning") in found(given)


@pytest.mark.parametrize(
    "changes",
    [
        {"graceful_shutdown_timeout_s": 0, "health_check_period_s": "20", "max_queued_requests": -1},
        {"logging_config": {"log_level": "debug", "encoding": "JSON", "enable_access_log": False}},
        {"logging_config": {"log_level": 20}},
        {"ray_actor_options": {"num_cpus": 0.5, "resources": {"special": 1}, "runtime_env": {"env_vars": {"A": "1"}}}},
        {"autoscaling_config": {"upscaling_factor": None, "aggregation_function": "MAX", "target_ongoing_requests": 8}},
        {"request_router_config": {"request_routing_stats_period_s": 5}},
        {"user_config": [1, 2], "rolling_update_percentage": 1, "max_constructor_retry_count": 3},
    ],
)
def test_values_that_serve_takes_pass(changes: dict[str, Any]) -> None:
    assert sentences(options(whole(), **changes), VALUES[0]) == []


def test_the_ingress_is_judged_as_well() -> None:
    given = whole()
    app = ServeApp(
        name="chat",
        import_path="m:f",
        route_prefix="/",
        args={"ingress_deployment_config": {"max_ongoing_requests": -3}},
    )
    given = replace(given, workloads=(replace(given.workloads[0], apps=(app,)),))
    said = [f.sentence() for f in rules.check(given) if f.rule == VALUES[0]]
    assert len(said) == 1
    assert said[0].startswith(
        "service 'chat': application 'chat': ingress_deployment_config.max_ongoing_requests is -3;"
    )


def test_no_replica_at_all_is_refused_and_scaling_from_zero_is_not() -> None:
    assert ("serve-replica-settings", "error") in found(options(whole(), num_replicas=0))
    assert ("serve-replica-settings", "error") not in found(at(scaled(), "2.60.0", "0.29.0"))


def test_an_accelerator_of_another_maker_is_no_gpu() -> None:
    assert ("accelerator-name", "error") in found(with_engine(whole(), accelerator_type="TPU-V4"))


def test_bundles_reserve_numbers() -> None:
    group = {"bundle_per_worker": {"GPU": 1, "CPU": -1}}
    given = with_engine(whole(), placement_group_config=group, bundles=(group["bundle_per_worker"],))
    assert "a bundle asks for -1 of CPU; allowed: a number from 0;" in " ".join(sentences(given, "serve-llm-placement"))
