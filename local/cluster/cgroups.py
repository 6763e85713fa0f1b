"""The control groups under which a cluster runs, in version 1's hierarchies or in version 2's one.

They say which processes are the cluster's whatever became of their parents, and how much of the processors it may claim.
"""

from __future__ import annotations

from pathlib import Path

from local.errors import LocalError
from local.settings import Settings

_ROOT = Path("/sys/fs/cgroup")
# By default a control group weighs as much as one process of this machine: beside a busy program or two the whole
# cluster would starve, leases would run out and controllers restart (seen at load 20). Eight processes' worth, and within
# the cluster twice what the Pods have, so that the control plane answers while they compute.
_CLUSTER_WEIGHT = 800
_NODE_WEIGHT = 400


def hierarchies() -> list[Path]:
    """Mount points of the control group hierarchies: one (version 2), or one a controller (version 1)."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return sorted(path.parent for path in _ROOT.glob("*/cgroup.procs") if not path.parent.is_symlink())


def existing(settings: Settings) -> list[Path]:
    """The cluster's control groups that are there, one a hierarchy."""
    folders = [root / settings.cgroup.lstrip("/") for root in hierarchies()]
    return [folder for folder in folders if folder.is_dir()]


def make(settings: Settings) -> list[Path]:
    """Make the cluster's control groups; returns the ones for the node's own processes."""
    try:
        return [_make(root, settings) for root in hierarchies()]
    except OSError as error:
        raise LocalError(
            f"control groups cannot be made: {error}",
            fix="run on the machine itself, or in a container with its own cgroup",
        ) from error


def _make(root: Path, settings: Settings) -> Path:
    folder = root / settings.cgroup.lstrip("/")
    own = folder / "node"
    for made in (folder, own):
        made.mkdir(exist_ok=True)
        # Version 1: a new cpuset is empty, and a process cannot join it before it has CPUs and memory nodes.
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (made / name).exists() and root != _ROOT:
                (made / name).write_text((made.parent / name).read_text())
    if root == _ROOT:
        wanted = " ".join(f"+{name}" for name in (root / "cgroup.controllers").read_text().split())
        for parent in (root, folder):
            (parent / "cgroup.subtree_control").write_text(wanted)
    _weigh(folder, _CLUSTER_WEIGHT)
    _weigh(own, _NODE_WEIGHT)
    return own


def _weigh(folder: Path, weight: int) -> None:
    """Set a control group's share of the processors, where its hierarchy deals with them; 100 is a process of this machine."""
    for name, value in (("cpu.weight", weight), ("cpu.shares", weight * 1024 // 100)):
        if (folder / name).exists():
            (folder / name).write_text(str(value))


def remove(folder: Path) -> bool:
    """Remove a control group with those below it; False while the kernel still counts an ended process in one."""
    try:
        for below in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
            below.rmdir()
        folder.rmdir()
    except FileNotFoundError:
        return not folder.exists()
    except OSError:
        return False
    return True
