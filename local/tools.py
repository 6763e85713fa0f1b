"""The programs of the local environment: found on PATH, built from Go modules, or unpacked from Debian packages.

`ensure()` makes them be there; `environment()` is how anything else (a shell, the Pulumi engine, a test) gets to them.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

from local import builds, cache, debs, gobuild, gotools, pins
from local.files import write_private
from local.gobuild import GoBuild
from local.settings import from_environment

REPOSITORY = Path(__file__).resolve().parent.parent
_SYSTEM_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True, kw_only=True)
class NodePrograms:
    """What runs on the node."""

    kubernetes: Path
    """Folder of kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kube-proxy."""
    coredns: Path
    etcd: Path
    containerd: Path
    """Its shim and ctr lie beside it."""
    runc: Path
    cni_plugins: Path
    """Folder of the CNI plugins."""
    busybox: Path
    """Statically linked."""

    @property
    def ctr(self) -> Path:
        """containerd's own client, to import images with."""
        return self.containerd.with_name("ctr")

    def path(self) -> str:
        """PATH for the node's services."""
        folders = [self.containerd.parent, self.runc.parent]
        return os.pathsep.join([*map(str, folders), "/usr/local/sbin", "/usr/local/bin", *_SYSTEM_PATH])


def node_programs() -> NodePrograms:
    """Find, fetch or build what the node needs (minutes from an empty cache). Needs root where apt must install."""
    missing = debs.missing_programs()
    if missing:
        debs.install(sorted(set(missing.values())))
    unpacked = {package: debs.unpack(package) for package in pins.UNPACKED_PACKAGES}
    return NodePrograms(
        kubernetes=gobuild.ensure(builds.KUBERNETES),
        coredns=gobuild.ensure(builds.COREDNS) / "coredns",
        etcd=unpacked["etcd-server"] / "usr/bin/etcd",
        containerd=unpacked["containerd"] / "usr/bin/containerd",
        runc=unpacked["runc"] / "usr/sbin/runc",
        cni_plugins=unpacked["containernetworking-plugins"] / "usr/lib/cni",
        busybox=unpacked["busybox-static"] / "bin/busybox",
    )


def state() -> Path:
    """What the tools keep for this user: `$XDG_STATE_HOME/llm-serving-stack`, else `~/.local/state/llm-serving-stack`."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / cache.NAME


def ensure() -> None:
    """Make kubectl, the Pulumi CLI, its Kubernetes provider and a Python language host be on `environment()`'s PATH.

    What PATH has and fits is used; the rest is built (minutes from an empty cache).
    """
    _link("kubectl", _kubectl_on_path() or gobuild.ensure(builds.KUBECTL) / "kubectl")
    _place_pulumi(_pulumi_on_path() or gobuild.ensure(builds.PULUMI) / "pulumi")
    provider = "pulumi-resource-kubernetes"
    _link(provider, _provider_installed() or gobuild.ensure(builds.PULUMI_KUBERNETES) / provider)
    gotools.fetch_module("kuberay")  # its manifests
    _language_host()


def to_build(*, own_cluster: bool) -> list[GoBuild]:
    """What `ensure()`, and `node_programs()` for a cluster of our own, would have to build."""
    on_path = {
        builds.KUBECTL: _kubectl_on_path,
        builds.PULUMI: _pulumi_on_path,
        builds.PULUMI_KUBERNETES: _provider_installed,
    }
    ours = set(builds.NODE) if own_cluster else set()
    missing = [build for build in builds.BUILDS if build in {*ours, *on_path} and not gobuild.is_built(build)]
    return [build for build in missing if build in ours or not on_path[build]()]


def environment(kubeconfig: Path | None = None) -> dict[str, str]:
    """The caller's environment, so changed that plain `pulumi` and `kubectl` work on the local cluster.

    `kubeconfig` names another cluster; without it, the one that the last `up` was given, else the local one.
    """
    given = dict(os.environ)
    first = [str(_bin()), str(Path(sys.executable).parent)]
    rest = [folder for folder in given.get("PATH", os.defpath).split(os.pathsep) if folder not in first]
    ours = {
        "PATH": os.pathsep.join([*first, *rest]),
        "KUBECONFIG": str(kubeconfig or given_kubeconfig() or from_environment().kubeconfig),
        "PULUMI_HOME": str(state() / "pulumi-home"),
        "PULUMI_BACKEND_URL": f"file://{state() / 'pulumi-state'}",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Pulumi.local.yaml names it: the operator's published manifests, in its Go module.
        "KUBERAY_MANIFESTS": str(gotools.module_folder("kuberay") / "config" / "default"),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    for folder in ("pulumi-home", "pulumi-state"):
        (state() / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    given.setdefault("PULUMI_CONFIG_PASSPHRASE", "")  # the local stack has no secret that outlives its cluster
    return given | ours


def changed_environment() -> Mapping[str, str]:
    """What `environment()` changes, by name: the lines that a shell must export."""
    return {name: value for name, value in environment().items() if os.environ.get(name) != value}


def remember_kubeconfig(path: Path | None) -> None:
    """Note the kubeconfig that `up` was given, for the commands after it; None for the local cluster."""
    target = state() / "kubeconfig-given"
    target.unlink(missing_ok=True)
    if path:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(str(path.resolve()))


def given_kubeconfig() -> Path | None:
    """The kubeconfig that the last `up` was given."""
    target = state() / "kubeconfig-given"
    return Path(target.read_text()) if target.exists() else None


def forget_stack(stack: str) -> None:
    """Forget what Pulumi noted of a stack whose cluster is gone; other stacks of the file backend are left alone."""
    noted = state() / "pulumi-state" / ".pulumi"
    for pattern in (f"*/**/{stack}", f"*/**/{stack}.*"):
        for path in list(noted.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def trim() -> None:
    """Delete the intermediate files of builds (7 GiB) once everything is built and nobody builds."""
    with cache.lock_if_free("go") as alone:
        if alone and not to_build(own_cluster=True):
            gobuild.remove_build_cache()


def _bin() -> Path:
    return state() / "bin"


def _link(name: str, target: Path) -> None:
    link = _bin() / name
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    part = link.with_name(f".{name}.{os.getpid()}")
    part.symlink_to(target)
    part.replace(link)


def _place_pulumi(target: Path) -> None:
    """The CLI itself, not a link to it: it takes the language host that lies beside it, and warns of one found on PATH."""
    placed = _bin() / "pulumi"
    if not placed.is_symlink() and placed.exists() and filecmp.cmp(placed, target):
        return
    placed.parent.mkdir(parents=True, exist_ok=True)
    part = placed.with_name(f".pulumi.{os.getpid()}")
    try:
        part.hardlink_to(target)
    except OSError:  # another disk
        shutil.copy2(target, part)
    part.replace(placed)


def _own_path() -> str:
    """PATH without our own folder of links."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if folder != str(_bin()))


def _version_of(*command: str) -> tuple[int, ...]:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(r"v(\d+)\.(\d+)\.(\d+)", result.stdout)
    return tuple(map(int, match.groups())) if match else ()


def _kubectl_on_path() -> Path | None:
    """The kubectl on PATH when it is within one minor version of the cluster, as Kubernetes' skew policy asks."""
    found = shutil.which("kubectl", path=_own_path())
    if not found:
        return None
    has, wanted = _version_of(found, "version", "--client"), int(pins.KUBERNETES.split(".")[1])
    return Path(found) if len(has) > 1 and has[0] == 1 and abs(has[1] - wanted) <= 1 else None


def _pulumi_on_path() -> Path | None:
    found = shutil.which("pulumi", path=_own_path())
    return Path(found) if found and _version_of(found, "version")[:2] >= pins.PULUMI_MINIMUM else None


def _provider_installed() -> Path | None:
    """The Kubernetes provider on PATH, or among the user's Pulumi plugins at the Python SDK's version."""
    name = "pulumi-resource-kubernetes"
    on_path = shutil.which(name, path=_own_path())
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    plugin = home / "plugins" / f"resource-kubernetes-v{installed_version('pulumi-kubernetes')}" / name
    return Path(on_path) if on_path else plugin if plugin.exists() else None


def _language_host() -> None:
    """The official Python language host where there is one, else ours."""
    name = "pulumi-language-python"
    official = shutil.which(name, path=_own_path())
    if official:
        _link(name, Path(official))
        return
    script = _bin() / name
    ours = REPOSITORY / "local" / "language_host" / "bin" / name
    # By this interpreter, whatever `python3` is on the PATH of the person who calls pulumi.
    text = f"#!{sys.executable}\nimport runpy\nrunpy.run_path({str(ours)!r}, run_name='__main__')\n"
    if script.is_symlink() or not script.exists() or script.read_text() != text:
        script.unlink(missing_ok=True)
        write_private(script, text.encode())
    script.chmod(0o700)
