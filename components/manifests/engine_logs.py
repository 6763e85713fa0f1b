"""Logs of the engines as JSON: vLLM's logging config in a ConfigMap, mounted where VLLM_LOGGING_CONFIG_PATH says. Pure.

Sources: vllm 0.29.0, logger.py and entrypoints/launchers/cli_args.py (uvicorn reads the same file); python-json-logger is one of
vLLM's requirements. Not for Serve's own logs, which serveConfigV2 sets (serve_config.py).
"""

from __future__ import annotations

import json
from typing import Any

from components.derive.spec import ServiceSpec

FOLDER, FILE = "/etc/llm-serving/logging", "logging.json"
_VOLUME = "engine-logging"


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """The ConfigMap, where logs are JSON."""
    if spec.config.logs.format != "json":
        return []
    metadata = {"name": f"{spec.name}-logging", "namespace": spec.config.namespace}
    content = json.dumps(config(spec.config.logs.level), indent=1, sort_keys=True) + "\n"
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {FILE: content}}]


def config(level: str) -> dict[str, Any]:
    """logging.config.dictConfig: vLLM's and uvicorn's loggers to standard output, an object a line."""
    logger = {"handlers": ["stdout"], "level": level, "propagate": False}
    fields = ("asctime", "levelname", "name", "process", "filename", "lineno", "message")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {"()": "pythonjsonlogger.json.JsonFormatter", "fmt": " ".join(f"%({name})s" for name in fields)}
        },
        "handlers": {"stdout": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stdout"}},
        "loggers": {"uvicorn": logger, "vllm": logger},
    }


def mounted(template: dict[str, Any], spec: ServiceSpec) -> dict[str, Any]:
    """The pod template of an engine with the file and its name in the environment, where logs are JSON."""
    if spec.config.logs.format != "json":
        return template
    pod = template["spec"]
    first, *others = pod["containers"]
    env = [*first["env"], {"name": "VLLM_LOGGING_CONFIG_PATH", "value": f"{FOLDER}/{FILE}"}]
    container = {
        **first,
        "env": sorted(env, key=lambda entry: str(entry["name"])),
        "volumeMounts": [*first.get("volumeMounts", []), {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}],
    }
    volume = {"name": _VOLUME, "configMap": {"name": f"{spec.name}-logging"}}
    return {
        **template,
        "spec": {**pod, "containers": [container, *others], "volumes": [*pod.get("volumes", []), volume]},
    }
