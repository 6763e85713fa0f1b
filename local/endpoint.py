"""How this machine reaches a Service of the cluster: by its address where kube-proxy runs here, by port-forward anywhere else."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from local import kubectl, tools
from local.errors import LocalError


@contextmanager
def reach(namespace: str, service: str, port: int) -> Iterator[str]:
    """A base URL (http://host:port) of the Service, for as long as the block runs."""
    address = cluster_ip(namespace, service)
    if _connects(address, port):
        yield f"http://{address}:{port}"
        return
    with _forward(namespace, service, port) as local_port:
        yield f"http://127.0.0.1:{local_port}"


def cluster_ip(namespace: str, service: str) -> str:
    """The Service's address. Raises LocalError when it is not there."""
    return str(kubectl.read_one("service", namespace, service)["spec"]["clusterIP"])


def _connects(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def _forward(namespace: str, service: str, port: int) -> Iterator[int]:
    process = subprocess.Popen(
        ["kubectl", "-n", namespace, "port-forward", f"service/{service}", f":{port}", "--address", "127.0.0.1"],
        env=tools.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if not found:
            raise LocalError(
                f"service {namespace}/{service} cannot be reached: {line.strip() or 'port-forward ended'}",
                fix="see whether the service is running: `make status`",
            )
        yield int(found.group(1))
    finally:
        process.terminate()
        process.wait(timeout=10)
