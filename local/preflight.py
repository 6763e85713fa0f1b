"""Everything that can stop `up`, asked before anything is started, and all of it said at once.

A check looks and changes nothing. Not for what goes wrong later: the step that meets it says so.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from pathlib import Path

import httpx

from local import cache, debs, gotools, pins, progress, tools
from local.cluster import node
from local.errors import LocalError
from local.settings import Settings

_GIB = 1024**3
# Measured on Debian 12 (x86-64): sources 4.4, builds 7.2, programs and engine 5.5, uv 4.4 GiB; image store 7.9 GiB.
CACHE_GIB = 24
"""Space for sources, builds, the engine environment and what uv keeps; asked for only until the cache has them."""
STATE_GIB = 12
"""Space for the image store, container files and logs."""
MEMORY_GIB = 10
"""Free memory for the control plane, the Ray head, one worker and the model."""


@dataclass(frozen=True)
class Obstacle:
    """One thing in the way."""

    problem: str
    fix: str


def check(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Raise LocalError that lists all obstacles; with `kubeconfig` only those that matter for a cluster of another kind."""
    found = list(_own_cluster(settings) if kubeconfig is None else _given_cluster(kubeconfig))
    found += fetchable(own_cluster=kubeconfig is None)
    if kubeconfig is None and not found:
        found += [Obstacle(problem, "check the network and /etc/apt/sources.list") for problem in debs.unavailable()]
    if found:
        lines = [f"{entry.problem}\n  to fix: {entry.fix}" for entry in found]
        raise LocalError(
            "\n".join(["this machine is not ready:", *lines]), fix="the above, then run again; nothing was started"
        )


def _own_cluster(settings: Settings) -> Iterator[Obstacle]:
    if platform.system() != "Linux":
        yield Obstacle(f"the local cluster needs Linux, this is {platform.system()}", _OTHER_CLUSTER)
        return
    if os.geteuid() != 0:
        yield Obstacle(
            "the local cluster needs root (namespaces, mounts, control groups)", f"sudo make up, or {_OTHER_CLUSTER}"
        )
        return
    yield from free_space(settings)
    if node.find(settings) is None:
        yield from namespaces()
        yield from free_memory()
        yield from free_networks(settings, host_routes())


_OTHER_CLUSTER = "use a cluster of your own: make up KUBECONFIG=PATH"


def _given_cluster(kubeconfig: Path) -> Iterator[Obstacle]:
    if not kubeconfig.is_file():
        yield Obstacle(f"kubeconfig '{kubeconfig}' is not a file", "give the path of a kubeconfig file")


def free_space(settings: Settings) -> Iterator[Obstacle]:
    """Too little disk for what is still to be made."""
    wanted = {settings.state_root: STATE_GIB}
    if tools.to_build(own_cluster=True):
        wanted[cache.root()] = CACHE_GIB
    by_device: dict[int, tuple[int, list[Path]]] = {}
    for path, gib in wanted.items():
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        total, paths = by_device.get(there.stat().st_dev, (0, []))
        by_device[there.stat().st_dev] = (total + gib, [*paths, path])
    for gib, paths in by_device.values():
        there = next(parent for parent in (paths[0], *paths[0].parents) if parent.exists())
        free = shutil.disk_usage(there).free / _GIB
        if free < gib:
            names = " and ".join(map(str, paths))
            yield Obstacle(
                f"{free:.1f} GiB of disk are free for {names}, {gib} GiB are needed",
                "free some, or set XDG_CACHE_HOME or LLM_LOCAL_STATE to folders on a bigger disk",
            )


def free_memory() -> Iterator[Obstacle]:
    """Too little memory."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024 / _GIB
    if free < MEMORY_GIB:
        yield Obstacle(
            f"{free:.1f} GiB of memory are free, {MEMORY_GIB} GiB are needed for Ray and the model",
            "end other programs, or use a bigger machine",
        )


def namespaces() -> Iterator[Obstacle]:
    """This root cannot make namespaces (a container without privileges)."""
    if shutil.which("unshare") is None:
        return  # to be installed, if need be
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode and "ip" not in debs.missing_programs():
        yield Obstacle(
            f"namespaces cannot be made here: {result.stderr.strip()}",
            f"run on the machine itself or in a container with --privileged, or {_OTHER_CLUSTER}",
        )


def host_routes() -> list[tuple[IPv4Network, str]]:
    """This machine's IPv4 routes: network and device; the default route is left out."""
    if shutil.which("ip") is None:
        return []
    result = subprocess.run(["ip", "-json", "-4", "route", "show"], capture_output=True, text=True, check=False)
    rows = json.loads(result.stdout or "[]")
    named = [(row["dst"], str(row.get("dev", "?"))) for row in rows if row["dst"] != "default"]
    return [(IPv4Network(ip_network(network)), device) for network, device in named]


def free_networks(settings: Settings, routes: list[tuple[IPv4Network, str]]) -> Iterator[Obstacle]:
    """A network of ours holds, or is, one that this machine reaches otherwise.

    A wider route (a VPN's 10.0.0.0/8) is no obstacle: ours are more specific and win for their own addresses alone.
    """
    own = {
        "LLM_LOCAL_NODE_NETWORK": settings.node_network,
        "LLM_LOCAL_POD_NETWORK": settings.pod_network,
        "LLM_LOCAL_SERVICE_NETWORK": settings.service_network,
    }
    for variable, network in own.items():
        for route, device in routes:
            if route.subnet_of(network) and device != settings.host_link:
                yield Obstacle(
                    f"network {network} of the local cluster is taken: this machine reaches {route} through {device}",
                    f"give another one, for instance {variable}={_free_like(network, routes)}",
                )


def _free_like(network: IPv4Network, routes: list[tuple[IPv4Network, str]]) -> IPv4Network:
    for candidate in IPv4Network("10.0.0.0/8").subnets(new_prefix=network.prefixlen):
        if candidate[0] > network[-1] and not any(
            candidate.overlaps(route) for route, _ in routes if route.prefixlen > 8
        ):
            return candidate
    return network


def fetchable(*, own_cluster: bool) -> Iterator[Obstacle]:
    """Something that is still to be fetched cannot be."""
    yield from _go_proxy_answers([pins.GO_MODULES[build.module] for build in tools.to_build(own_cluster=own_cluster)])


def _go_proxy_answers(modules: list[pins.GoModule]) -> Iterator[Obstacle]:
    proxies = gotools.proxies()
    if not proxies:
        return  # sources come straight from their repositories or from a folder: their own step will tell
    for pin in dict.fromkeys(modules):
        problem = ""
        for proxy in proxies:
            url = f"{proxy.rstrip('/')}/{gotools.escaped(pin.path)}/@v/{pin.version}.info"
            try:
                answer = httpx.get(url, timeout=15, follow_redirects=True)
                problem = "" if answer.status_code == 200 else f"HTTP {answer.status_code}"
            except httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
            if not problem:
                break
        if problem:
            yield Obstacle(
                f"Go module {pin.path} {pin.version} cannot be fetched: {problem}",
                "check the network and `go env GOPROXY`",
            )


def report(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Check, and say that all is well. Raises LocalError."""
    with progress.step("preflight"):
        check(settings, kubeconfig)
