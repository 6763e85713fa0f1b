"""Fields of a Serve config (serveConfigV2) and of the arguments that Ray's LLM builders take, and their types.

For: misspelt fields, which Serve ignores or refuses, and values that it refuses. Not for: options of deployments
(serve_options.py), or fields of an LLMConfig (ray_releases.py).
Source: ray 2.60.0: serve/schema.py, llm/_internal/serve (core/ingress/builder.py, serving_patterns).
"""

from __future__ import annotations

from .pod_schema import NUMBER, SWITCH, TEXT, WHOLE, Shape

READ_IN = (2, 60)
# "*": any field. "?": a field that is not here is ignored, not refused. "~": fields that may be null. "|": or a text.
_ANY: Shape = {"*": None}
_DEPLOYMENT: Shape = {
    "?": None,
    "~": ("user_config",),
    **dict.fromkeys(
        (
            "autoscaling_config", "backpressure_config", "deployment_actors", "gang_scheduling_config", "num_replicas",
            "placement_group_bundle_label_selector", "placement_group_bundles", "request_router_config",
        )
    ),
    **dict.fromkeys(("logging_config", "ray_actor_options", "user_config"), _ANY),
    **dict.fromkeys(
        (
            "graceful_shutdown_timeout_s", "graceful_shutdown_wait_loop_s", "health_check_period_s", "health_check_timeout_s",
            "rolling_update_percentage",
        ),
        NUMBER,
    ),
    **dict.fromkeys(("max_ongoing_requests", "max_queued_requests", "max_replicas_per_node", "max_surge_percent"), WHOLE),
    "name": TEXT,
    "placement_group_strategy": TEXT,
}  # fmt: skip
SERVE: Shape = {
    "?": None,
    "!": ("applications",),
    "~": ("controller_options", "logging_config", "target_capacity", "tracing_config"),
    "applications": {
        "[]": {
            "?": None,
            "~": ("autoscaling_policy", "logging_config", "route_prefix"),
            "args": _ANY,
            "autoscaling_policy": _ANY,
            "deployments": {"[]": _DEPLOYMENT},
            "external_scaler_enabled": SWITCH,
            "host": None,
            "import_path": TEXT,
            "logging_config": _ANY,
            "name": TEXT,
            "port": None,
            "route_prefix": TEXT,
            "runtime_env": _ANY,
        }
    },
    "controller_options": _ANY,
    "grpc_options": {
        "?": None,
        "~": ("request_timeout_s",),
        "enable_reflection": SWITCH,
        "grpc_servicer_functions": {"[]": TEXT},
        "port": WHOLE,
        "request_timeout_s": NUMBER,
    },
    "http_options": {
        "?": None,
        "~": ("request_timeout_s", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_keyfile_password"),
        **dict.fromkeys(
            ("host", "root_path", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_keyfile_password"), TEXT
        ),
        **dict.fromkeys(("keep_alive_timeout_s", "port"), WHOLE),
        "request_timeout_s": NUMBER,
    },
    "logging_config": _ANY,
    "proxy_location": TEXT,
    "target_capacity": NUMBER,
    "tracing_config": _ANY,
}
_LLM: Shape = {
    "*": None,
    "~": ("lora_config", "placement_group_config", "runtime_env"),
    **dict.fromkeys(("deployment_config", "engine_kwargs", "experimental_configs", "lora_config"), _ANY),
    "runtime_env": {"*": None, "env_vars": _ANY},
    "log_engine_metrics": SWITCH,
    "placement_group_config": {"*": None, "bundles": {"[]": _ANY}},
    "model_loading_config": {"~": ("model_source", "tokenizer_source"), "model_id": TEXT, "model_source": {"|": TEXT, "bucket_uri": TEXT, "extra_files": None, "~": ("bucket_uri",)}, "tokenizer_source": TEXT},
}  # fmt: skip
_LLM_OR_FILE: Shape = {**_LLM, "|": TEXT}  # a text is the path of a YAML file in the image or the working_dir
_INGRESS: Shape = {
    "ingress_cls_config": {"ingress_cls": None, "ingress_extra_kwargs": _ANY, "~": ("ingress_extra_kwargs",)},
    "ingress_deployment_config": _ANY,
}
BUILDERS: dict[str, Shape] = {
    "ray.serve.llm:build_dp_openai_app": {"!": ("llm_config",), "~": ("ingress_deployment_config",), "llm_config": _LLM_OR_FILE, **_INGRESS},
    "ray.serve.llm:build_openai_app": {"!": ("llm_configs",), "llm_configs": {"[]": _LLM_OR_FILE}, **_INGRESS},
    "ray.serve.llm:build_pd_openai_app": {"!": ("decode_config", "prefill_config"), "~": ("ingress_deployment_config",), "decode_config": _LLM_OR_FILE, "prefill_config": _LLM_OR_FILE, **_INGRESS},
}  # fmt: skip
