"""The same model by another kind of workload beside the stack's service, for a comparison: plain vLLM in a Deployment, without Ray.

Not the load itself (load.py) nor the comparison (compare.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from components.config import PROJECT
from local import endpoint, kubectl, stack

PLAIN = "plain"
"""Name of the service that is brought up beside the stack's."""


@contextmanager
def plain(service: str) -> Iterator[str]:
    """URL of a Deployment that serves what `service` of the local stack serves, for as long as the block runs."""
    config = yaml.safe_load((stack.REPO / "Pulumi.local.yaml").read_text())
    services = config["config"][f"{PROJECT}:services"]
    services[PLAIN] = without_ray(services[service])
    with tempfile.TemporaryDirectory() as name:
        changed = Path(name) / "Pulumi.local.yaml"
        changed.write_text(yaml.safe_dump(config))
        try:
            stack.up(config_file=changed)
            served = stack.outputs()["contract"]["endpoints"][PLAIN]
            with endpoint.reach(served["namespace"], served["service"], served["port"]) as url:
                yield url
        finally:
            stack.up()


def without_ray(service: dict[str, Any]) -> dict[str, Any]:
    """The same statement as kind vllm: what only Ray reads is left out."""
    models = {
        name: {key: value for key, value in model.items() if key != "ray_actor_options"}
        for name, model in service["models"].items()
    }
    worker = {key: value for key, value in service.get("worker", {}).items() if key != "resources"}
    rest = {key: value for key, value in service.items() if key != "head"}
    return {**rest, "kind": "vllm", "models": models, "worker": worker}


def at_rest(namespace: str, services: Sequence[str]) -> Table:
    """Pods of each service with the memory that they hold, as the kubelet counts it."""
    nodes = kubectl.read("nodes", "-o", "json")["items"]
    held: dict[str, int] = {}
    for node in nodes:
        summary = kubectl.read("--raw", f"/api/v1/nodes/{node['metadata']['name']}/proxy/stats/summary")
        for pod in summary["pods"]:
            if pod["podRef"]["namespace"] == namespace:
                held[pod["podRef"]["name"]] = pod.get("memory", {}).get("workingSetBytes", 0)
    table = Table(title="At rest", title_justify="left")
    for column in ("service", "pods", "memory (GiB)"):
        table.add_column(column, justify="left" if column == "service" else "right")
    for service in services:
        pods = [name for name in held if name.startswith(f"{service}-")]
        table.add_row(service, f"{len(pods)}", f"{sum(held[name] for name in pods) / 2**30:.1f}")
    return table
