"""Programs from Debian and Ubuntu packages: unpacked into the cache, or installed where that is harmless.

Unpacked, because installing etcd-server or containerd starts services and can evict Docker's own containerd.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from local import cache, pins
from local.errors import LocalError
from local.progress import step


def unpack(package: str) -> Path:
    """The folder that a package's files were unpacked into, without installing it."""
    release = _release()
    found = cache.find(f"deb-{package}", release)
    return found or cache.ensure(f"deb-{package}", release, lambda folder: _unpack(package, folder))


def version(package: str) -> str:
    """The version of an unpacked package."""
    return (unpack(package) / "VERSION").read_text().strip()


def missing_programs() -> dict[str, str]:
    """Programs that PATH lacks, with the package that has each."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return {name: package for name, package in pins.INSTALLED_PACKAGES.items() if not shutil.which(name, path=path)}


def unavailable() -> list[str]:
    """What apt cannot offer of the packages that are still to be fetched, in a sentence each."""
    wanted = [name for name in pins.UNPACKED_PACKAGES if not cache.find(f"deb-{name}", _release())]
    wanted += sorted(set(missing_programs().values()))
    if not wanted:
        return []
    if not shutil.which("apt-get"):
        return [f"packages {', '.join(wanted)} are needed, and this machine has no apt-get"]
    command = ["apt-get", "download", "--print-uris"]
    if subprocess.run([*command, *wanted], capture_output=True, check=False).returncode:
        _update()
    answers = {name: subprocess.run([*command, name], capture_output=True, text=True, check=False) for name in wanted}
    return [f"package {name} cannot be had: {_tail(answer)}" for name, answer in answers.items() if answer.returncode]


def install(packages: list[str]) -> None:
    """Install packages with apt. Needs root."""
    if os.geteuid() != 0:
        raise LocalError(
            f"missing: {', '.join(packages)}, and installing needs root",
            fix=f"run as root, or install them first: sudo apt-get install {' '.join(packages)}",
        )
    _need_apt(packages)
    with cache.lock("apt"), step(f"installing {', '.join(packages)}"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", *packages]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if result.returncode:
            _update()
            result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if result.returncode:
            raise LocalError(
                f"apt-get could not install {', '.join(packages)}: {_tail(result)}",
                fix="check the network and /etc/apt/sources.list, then run again",
            )


def _release() -> str:
    fields = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return f"{fields.get('ID', 'linux')}-{fields.get('VERSION_ID', 'rolling')}".replace('"', "")


def _need_apt(packages: list[str]) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise LocalError(
            f"{', '.join(packages)} must come from Debian or Ubuntu packages, and this machine has no apt-get",
            fix="use Debian 12+ or Ubuntu 24.04+, or give a cluster of your own: make up KUBECONFIG=PATH",
        )


def _unpack(package: str, folder: Path) -> None:
    _need_apt([package])
    with cache.lock("apt"), step(f"fetching Debian package {package}"):
        command = ["apt-get", "download", package]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode:
            _update()
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if result.returncode:
            raise LocalError(
                f"apt-get could not fetch package {package}: {_tail(result)}",
                fix="check the network and /etc/apt/sources.list (Ubuntu: the universe component), then run again",
            )
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)
        found = subprocess.run(["dpkg-deb", "--field", archive, "Version"], capture_output=True, text=True, check=True)
        (folder / "VERSION").write_text(found.stdout)
        archive.unlink()


def _update() -> None:
    """Package lists are missing or old: fetch them. Only root can, so a failure is left to the next command."""
    subprocess.run(["apt-get", "update"], capture_output=True, check=False)


def _tail(result: subprocess.CompletedProcess[str]) -> str:
    return " ".join((result.stderr or result.stdout).split())[-400:]
