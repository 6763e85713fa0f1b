"""A real one-node Kubernetes on this machine: `up`, `down`, `status`.

etcd, API server, controller manager, scheduler, kubelet, kube-proxy, containerd and CoreDNS run in namespaces of the
node's own (node.py), started from plain definitions (services.py) by its process 1 (init.py). `up` may be called at
any time: it does what is missing, mends what has died, and is quick when all is well.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local import cache
from local.cluster import node
from local.cluster.api import Api
from local.cluster.configs import PAUSE_IMAGE
from local.cluster.services import Plan, Service
from local.errors import LocalError
from local.progress import step
from local.settings import Settings, from_environment
from local.tools import NodePrograms, node_programs

_READY_S = 90.0

_DNS_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:coredns"},
    "rules": [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ],
}
_DNS_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "system:coredns"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
}


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A running local cluster."""

    settings: Settings
    programs: NodePrograms
    pid: int
    """Process id, on this machine, of the node's process 1."""

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.settings.kubeconfig

    def ctr(self, *arguments: str) -> list[str]:
        """Command line of containerd's client, on the images and containers that the kubelet sees."""
        return [str(self.programs.ctr), "--address", str(containerd_socket(self.settings)), "-n", "k8s.io", *arguments]

    def inside(self, *command: str) -> list[str]:
        """Command line that runs `command` in the node's namespaces."""
        return [*node.enter(self.pid), *command]


def containerd_socket(settings: Settings | None = None) -> Path:
    """The socket of the node's containerd, reachable from this machine."""
    return (settings or from_environment()).run / "containerd.sock"


def up(settings: Settings | None = None) -> Cluster:
    """Bring the cluster up, or mend it, and return it once its node is Ready. Raises LocalError."""
    settings = settings or from_environment()
    programs = node_programs()
    with cache.lock(f"cluster-{settings.name}"):
        pid = node.start(settings)
        node.link(settings, pid)
        plan = Plan(settings, programs)
        cluster = Cluster(settings=settings, programs=programs, pid=pid)
        with Api(settings.apiserver, plan.authority.pair, plan.admin) as api:
            _start(cluster, api, plan.storage(), "etcd and containerd")
            _import_pause(cluster)
            _start(cluster, api, plan.control_plane(), "API server")
            api.apply("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns", _DNS_ROLE)
            api.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:coredns", _DNS_BINDING)
            _start(cluster, api, plan.rest(), "controllers, kubelet, kube-proxy and DNS")
            _wait(
                lambda: _node_ready(api, settings.name),
                "node Ready",
                lambda: _logs(settings, ["kubelet", "containerd"]),
            )
            # Pods are refused before the controller manager has made their service account.
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            _wait(
                lambda: api.get(account) is not None,
                "default account",
                lambda: _logs(settings, ["kube-controller-manager"]),
            )
    return cluster


def current(settings: Settings | None = None) -> Cluster:
    """The running cluster, neither started nor mended. Raises LocalError when its node does not run."""
    settings = settings or from_environment()
    pid = node.find(settings)
    if pid is None:
        raise LocalError("the local cluster is not up", fix="make up")
    return Cluster(settings=settings, programs=node_programs(), pid=pid)


def down(settings: Settings | None = None, *, images: bool = False) -> None:
    """End the cluster and delete its state; its image store too when `images`. Leaves nothing else behind."""
    settings = settings or from_environment()
    with cache.lock(f"cluster-{settings.name}"), step(f"taking cluster '{settings.name}' down"):
        node.stop(settings)
        node.remove_state(settings, images=images)


def status(settings: Settings | None = None) -> dict[str, dict[str, Any]]:
    """Each service's pid inside the node (0: not running), restarts and last exit code; empty when the node is down."""
    settings = settings or from_environment()
    if node.find(settings) is None:
        return {}
    return _read_status(settings)


def _start(cluster: Cluster, api: Api, services: Sequence[Service], title: str) -> None:
    """Define services, have the node start them, and wait until each is well."""
    settings = cluster.settings
    for service in services:
        service.write(settings, cluster.programs)
    if all(_is_well(settings, api, service) for service in services):
        return
    with step(f"starting {title}"):
        node.reload(cluster.pid)
        for service in services:
            _wait(
                lambda service=service: _is_well(settings, api, service),  # type: ignore[misc]
                service.name,
                lambda service=service: _logs(settings, [service.name]),  # type: ignore[misc]
            )


def _is_well(settings: Settings, api: Api, service: Service) -> bool:
    """Whether the running process is of the wanted definition and says that it is well."""
    running = _read_status(settings).get(service.name, {})
    wanted = json.loads((settings.run / "services" / f"{service.name}.json").read_text())["digest"]
    if not running.get("pid") or running.get("digest") != wanted:
        return False
    if service.unix_socket:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(str(service.unix_socket))
            return True
        return False
    return api.well(service.health) if service.health else True


def _read_status(settings: Settings) -> dict[str, dict[str, Any]]:
    try:
        return dict(json.loads((settings.run / "status.json").read_text()))
    except FileNotFoundError:
        return {}


def _node_ready(api: Api, name: str) -> bool:
    found = api.get(f"/api/v1/nodes/{name}")
    conditions = found["status"].get("conditions", []) if found else []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def _import_pause(cluster: Cluster) -> None:
    """The sandbox image, which keeps a Pod's namespaces open: a static busybox that sleeps."""
    listed = subprocess.run(cluster.ctr("images", "list", "-q"), capture_output=True, text=True, check=True)
    if PAUSE_IMAGE not in listed.stdout.split():
        import_programs(
            cluster, PAUSE_IMAGE, {"bin/busybox": cluster.programs.busybox}, ["/bin/busybox", "sleep", "2147483647"]
        )


def import_programs(cluster: Cluster, name: str, programs: Mapping[str, Path], entrypoint: Sequence[str]) -> None:
    """Make an image of static programs, by their paths in it, and give it to the node's containerd."""
    from local.images import oci  # only where an image is made: the package loads what the engine's image needs

    layer = oci.Layer(trees=tuple(oci.Tree(source=source, target=target) for target, source in programs.items()))
    image = oci.Image(name=name, layers=(layer.blob(),), config={"Entrypoint": list(entrypoint)})
    with (cluster.settings.run / "import.tar").open("wb") as archive:
        oci.write_archive(archive, [image], {image.layers[0].digest: layer})
    subprocess.run(cluster.ctr("images", "import", archive.name), capture_output=True, check=True)
    Path(archive.name).unlink()


def _wait(done: Callable[[], bool], what: str, logs: Callable[[], str]) -> None:
    deadline = time.monotonic() + _READY_S
    while not done():
        if time.monotonic() > deadline:
            raise LocalError(
                f"{what} did not come up within {_READY_S:.0f} s:\n{logs()}",
                fix="look at the log; `make down`, then again",
            )
        time.sleep(0.1)


def _logs(settings: Settings, names: Sequence[str]) -> str:
    parts = []
    for name in names:
        path = settings.log / f"{name}.log"
        tail = path.read_text(errors="replace").splitlines()[-8:] if path.exists() else ["(no log)"]
        parts.append("\n".join([f"{path}:", *tail]))
    return "\n".join(parts)
