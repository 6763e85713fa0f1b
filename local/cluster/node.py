"""The node: namespaces of its own for processes, mounts and network, a link to this machine, and control groups.

What the node's programs do to mounts, addresses, firewall rules and kernel settings stays inside, and ends with it.
Nothing is recorded in a pid file: the node is the process whose command line names its folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from local.cluster import cgroups
from local.errors import LocalError
from local.settings import Settings

_INIT = Path(__file__).with_name("init.py")
_NETWORK_NAMESPACE_FLAGS = ("--mount", "--pid", "--net")
KUBELET_FOLDER = Path("/var/lib/kubelet")
# Folders that the kubelet and the CNI library insist on. On this machine they are made empty, to mount the node's own
# over them in its namespace, and removed again. By the name of the folder below the cluster's state.
_INSISTED = {"kubelet": KUBELET_FOLDER, "cni": Path("/var/lib/cni")}


def find(settings: Settings) -> int | None:
    """Process id, on this machine, of the node's process 1; None when the node does not run."""
    for pid in _processes(settings):
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        inner = next((line.split() for line in lines if line.startswith("NSpid:")), [])
        if len(inner) > 2 and inner[-1] == "1":
            return pid
    return None


def _processes(settings: Settings | None) -> list[int]:
    """The node's process 1 and its waiting parent on this machine; those of every node for None."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if len(arguments) < 2:
            continue
        script, run = (os.fsdecode(word) for word in arguments[-2:])
        # The same node whichever checkout started it.
        if Path(script).parts[-3:] == _INIT.parts[-3:] and (settings is None or run == str(settings.run)):
            found.append(int(entry.name))
    return found


def start(settings: Settings) -> int:
    """Start the node, or find it running; returns its process id on this machine."""
    running = find(settings)
    if running:
        return running
    stop(settings)
    own = [settings.state / name for name in ("pod-logs", *_INSISTED)]
    for folder in (settings.run / "services", settings.log, *own, *_INSISTED.values()):
        folder.mkdir(parents=True, exist_ok=True)
    settings.state.chmod(0o700)
    (settings.run / "status.json").unlink(missing_ok=True)
    for stale in (settings.run / "services").glob("*.json"):
        stale.unlink()
    procs = [str(folder / "cgroup.procs") for folder in cgroups.make(settings)]
    node = {
        "cgroup_procs": procs,
        "tmpfs": ["/run"],
        "binds": [
            *([str(settings.state / name), str(folder)] for name, folder in _INSISTED.items()),
            [str(settings.state / "pod-logs"), "/var/log"],
        ],
        "folders": ["/run/netns", "/run/lock"],
        # The kubelet and kube-proxy want these; those that the network namespace does not own are left alone.
        "sysctls": {"net.ipv4.ip_forward": "1"},
    }
    (settings.run / "node.json").write_text(json.dumps(node))
    command = ["unshare", *_NETWORK_NAMESPACE_FLAGS, "--fork", "--kill-child", "--mount-proc"]
    command += [sys.executable, "-I", "-S", str(_INIT), str(settings.run)]
    with (settings.log / "node.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        pid = find(settings)
        if pid and (settings.run / "status.json").exists():
            return pid
        time.sleep(0.02)
    tail = (settings.log / "node.log").read_text()[-600:].strip()
    stop(settings)
    raise LocalError(
        f"the node's namespaces could not be made: {tail or 'no message'}",
        fix="this needs root with CAP_SYS_ADMIN and CAP_NET_ADMIN (in a container: --privileged)",
    )


def link(settings: Settings, pid: int) -> None:
    """Join the node to this machine by a pair of network devices, and route Pod and Service addresses to it."""
    length = settings.node_network.prefixlen
    if not Path(f"/sys/class/net/{settings.host_link}").exists():
        _ip("link", "add", settings.host_link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("address", "replace", f"{settings.host_address}/{length}", "dev", settings.host_link)
    _ip("link", "set", settings.host_link, "up")
    inside = enter(pid)
    _ip("link", "set", "lo", "up", prefix=inside)
    _ip("address", "replace", f"{settings.node_address}/{length}", "dev", "eth0", prefix=inside)
    _ip("link", "set", "eth0", "up", prefix=inside)
    _ip("route", "replace", "default", "via", str(settings.host_address), prefix=inside)
    for network in (settings.pod_network, settings.service_network):
        _ip("route", "replace", str(network), "via", str(settings.node_address), "dev", settings.host_link)


def enter(pid: int) -> list[str]:
    """The start of a command line that runs the rest inside the node."""
    return ["nsenter", "--target", str(pid), *_NETWORK_NAMESPACE_FLAGS, "--"]


def reload(pid: int) -> None:
    """Have the node read its service definitions again."""
    os.kill(pid, signal.SIGHUP)


def stop(settings: Settings) -> None:
    """End the node with all that runs in it, and take away its link and control groups. Safe at any time."""
    for pid in _processes(settings):
        _kill(pid)
    for folder in cgroups.existing(settings):
        for procs in folder.rglob("cgroup.procs"):
            for line in procs.read_text().split():
                _kill(int(line))
    _wait(lambda: not _processes(settings), "its processes do not end")
    if Path(f"/sys/class/net/{settings.host_link}").exists():
        subprocess.run(["ip", "link", "delete", settings.host_link], capture_output=True, check=False)
    _wait(lambda: not Path(f"/sys/class/net/{settings.host_link}").exists(), f"device {settings.host_link} stays")
    for folder in cgroups.existing(settings):
        _wait(lambda folder=folder: cgroups.remove(folder), f"control group {folder} cannot be removed")  # type: ignore[misc]
    if not _processes(None):  # removing a folder would drop what another node has mounted over it
        for folder in _INSISTED.values():
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _wait(done: Callable[[], bool], problem: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise LocalError(f"the node could not be taken down: {problem}", fix="run `make down` again")
        time.sleep(0.02)


def _ip(*arguments: str, prefix: Sequence[str] = ()) -> None:
    result = subprocess.run([*prefix, "ip", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise LocalError(
            f"`ip {' '.join(arguments)}` failed: {result.stderr.strip()}", fix="run `make down`, then again"
        )


def remove_state(settings: Settings, *, images: bool) -> None:
    """Delete the cluster's files; its image store only when `images`."""
    if not settings.state.is_dir():
        return
    for entry in settings.state.iterdir():
        if entry.name == "containerd" and not images:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if not any(settings.state.iterdir()):
        settings.state.rmdir()
        if not any(settings.state_root.iterdir()):
            settings.state_root.rmdir()
