"""The command of a job app: its arguments, derived from the service's one model and what a person adds. Plain data in, plain data out."""

from __future__ import annotations

import json
import shlex
from typing import Any

from components.derive.spec import ServiceSpec
from components.manifests import serve_config
from serve_apps import APPS

# What a RayService's engine has and a job's has not: derived values are left out, a person's own go in and are refused by the app.
_OF_SERVE = ("deployment_config", "lora_config", "experimental_configs")


def entrypoint(spec: ServiceSpec) -> str | None:
    """`python -m serve_apps.<app> '<JSON>'`; None where the service's app is none that runs as a job."""
    app = APPS[spec.config.app]
    if app.kind != "job":
        return None
    # Sorted and without spaces: the same config gives the same command.
    text = json.dumps(arguments(spec), sort_keys=True, separators=(",", ":"))
    return f"python -m {app.import_path} {shlex.quote(text)}"


def arguments(spec: ServiceSpec) -> dict[str, Any]:
    """The app's arguments. Without exactly one engine `llm_config` is missing, which the plan says."""
    args: dict[str, Any] = {}
    if len(spec.engines) == 1:
        (engine,) = spec.engines
        config = serve_config.llm_config(engine, spec.ray_version)
        model = engine.config
        stated = {
            "deployment_config": model.deployment_config or model.ray_actor_options or model.routing.options,
            "lora_config": model.lora,
            "experimental_configs": model.experimental,
        }
        args["llm_config"] = {k: v for k, v in config.items() if k not in _OF_SERVE or stated[k]}
        # From no engine at all is Ray's autoscaler's business, which adds pods; a job that runs has one.
        args["concurrency"] = [max(1, engine.min_replicas), engine.max_replicas]
    return {**args, **spec.config.app_args}
