"""Values of Ray Serve's deployment options: kind and range, as Serve's own config classes read them.

For: the rule on deployment options. Not for: which options exist (ray_releases.py), or how they go together.
Source: DeploymentConfig and ReplicaConfig (ray/serve/_private/config.py), AutoscalingConfig, RequestRouterConfig,
GangSchedulingConfig and BackpressureConfig (ray/serve/config.py), LoggingConfig (ray/serve/schema.py) of Ray 2.60.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """kind; least and most where there are any; above: the least itself is refused; null: may be null."""

    kind: Literal["whole", "number", "mapping", "text", "switch"]
    least: float | None = None
    most: float | None = None
    above: bool = False
    null: bool = False
    choices: tuple[str, ...] = ()


_COUNT = Option(kind="whole", least=1)
_FROM_ZERO = Option(kind="number", least=0)
_POSITIVE = Option(kind="number", least=0, above=True)
_FACTOR = Option(kind="number", least=0, above=True, null=True)
_MAPPING = Option(kind="mapping", null=True)

# num_replicas and the numbers of replicas are in rule serve-replica-settings, max_replicas_per_node in serve-llm-fields.
DEPLOYMENT: dict[str, Option] = {
    "autoscaling_config": _MAPPING,
    "gang_scheduling_config": _MAPPING,
    "graceful_shutdown_timeout_s": _FROM_ZERO,
    "graceful_shutdown_wait_loop_s": _FROM_ZERO,
    "health_check_period_s": _POSITIVE,
    "health_check_timeout_s": _POSITIVE,
    "logging_config": _MAPPING,
    "max_constructor_retry_count": _COUNT,
    "max_ongoing_requests": _COUNT,
    "max_surge_percent": Option(kind="whole", least=0, most=100),
    "name": Option(kind="text"),
    "ray_actor_options": _MAPPING,
    "rolling_update_percentage": Option(kind="number", least=0, most=1, above=True),
}
AUTOSCALING: dict[str, Option] = {
    "aggregation_function": Option(kind="text", choices=("max", "mean", "min")),
    "downscale_delay_s": _FROM_ZERO,
    "downscale_smoothing_factor": _FACTOR,
    "downscale_to_zero_delay_s": Option(kind="number", least=0, null=True),
    "downscaling_factor": _FACTOR,
    "look_back_period_s": _POSITIVE,
    "metrics_interval_s": _POSITIVE,
    "policy": Option(kind="mapping"),
    "smoothing_factor": _POSITIVE,
    "upscale_delay_s": _FROM_ZERO,
    "upscale_smoothing_factor": _FACTOR,
    "upscaling_factor": _FACTOR,
}
# Serve ignores any other key of autoscaling_config; these are judged by serve-replica-settings.
AUTOSCALING_COUNTS: tuple[str, ...] = ("initial_replicas", "max_replicas", "min_replicas", "target_ongoing_requests")
ROUTER: dict[str, Option] = {
    "backoff_multiplier": _POSITIVE,
    "initial_backoff_s": _POSITIVE,
    "max_backoff_s": _POSITIVE,
    "request_router_class": Option(kind="text"),
    "request_router_kwargs": Option(kind="mapping"),
    "request_routing_stats_period_s": _POSITIVE,
    "request_routing_stats_timeout_s": _POSITIVE,
}
LOGGING: dict[str, Option] = {  # takes no other key
    "additional_log_standard_attrs": Option(kind="text"),
    "enable_access_log": Option(kind="switch"),
    "encoding": Option(kind="text", choices=("JSON", "TEXT")),
    "log_level": Option(
        kind="text", choices=("CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARN", "WARNING")
    ),
    "logs_dir": Option(kind="text", null=True),
}
LOG_LEVELS: tuple[int, ...] = (0, 10, 20, 30, 40, 50)
ACTOR: dict[str, Option] = {  # takes no other key
    "accelerator_type": Option(kind="text", null=True),
    "fallback_strategy": _MAPPING,
    "label_selector": _MAPPING,
    "memory": Option(kind="number", least=0, null=True),
    "num_cpus": Option(kind="number", least=0, null=True),
    "num_gpus": Option(kind="number", least=0, null=True),
    "resources": _MAPPING,
    "runtime_env": _MAPPING,
}
OWN_NAMES: dict[str, str] = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
"""Resources that have an actor option of their own and are refused in `resources`."""
