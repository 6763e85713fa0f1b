"""CUDA of the image against the NVIDIA driver of the nodes.

Not for: which AMI carries which driver (catalog/amis.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import NodePool, Stack, Workload
from policies.finding import Problem, Rule, error, warning

from ._engines import seats
from ._values import dig, releases, true, version
from .versions import image_of

# Least driver of a CUDA major (minor version compatibility), and the driver each minor shipped with (CUDA release notes).
_LEAST = {11: 450, 12: 525, 13: 580}
_SHIPPED = {
    (12, 0): 525,
    (12, 1): 530,
    (12, 2): 535,
    (12, 3): 545,
    (12, 4): 550,
    (12, 5): 555,
    (12, 6): 560,
    (12, 8): 570,
    (12, 9): 575,
    (13, 0): 580,
    (13, 1): 590,
    (13, 2): 595,
}
# GPUs that came after a driver branch (AWS: G7 needs 595, quoted in NVIDIA/aicr PR 2743).
_GPU_LEAST = {"RTX-PRO-4500": 595}


def cuda(stack: Stack) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for seat in seats(stack):
        if not seat.on_gpu:
            continue
        for pool in seat.pools:
            key = (seat.workload.where, pool.name)
            if key not in seen:
                seen.add(key)
                yield from _judge(seat.workload, pool, _cuda_of(seat.workload, stack), _by_operator(stack, pool))


def _cuda_of(workload: Workload, stack: Stack) -> str | None:
    for group in workload.groups:
        found = image_of(group.image).cuda
        if found:
            return found
    return workload.cuda_version or stack.versions.cuda


def _by_operator(stack: Stack, pool: NodePool) -> str | None:
    """The driver that the GPU Operator installs on nodes that state none."""
    if pool.driver_version is not None or pool.kind != "existing":
        return None
    for release in releases(stack, "gpu-operator"):
        if true(dig(release.values, "driver", "enabled"), True) and version(dig(release.values, "driver", "version")):
            return str(dig(release.values, "driver", "version"))
    return None


def _judge(workload: Workload, pool: NodePool, text: str | None, installed: str | None) -> Iterator[Problem]:
    stated = pool.driver_version or installed
    driver, wanted = version(stated), version(text)
    if driver is None or wanted is None or not wanted:
        return
    least = _LEAST.get(wanted[0])
    if least is not None and driver[0] < least:
        yield error(
            workload.where,
            f"its image has CUDA {text}, which needs driver {least} or newer, and {pool.where} has driver {stated}",
            f"use nodes with driver {least} (for EKS 1.33 and newer the NVIDIA AMIs have 580), or an image of CUDA {_newest_for(driver[0])}",
        )
        return
    shipped = _SHIPPED.get((wanted[0], wanted[1] if len(wanted) > 1 else 0))
    if shipped is not None and driver[0] < shipped:
        yield warning(
            workload.where,
            f"its image has CUDA {text}, which came with driver {shipped}, and {pool.where} has driver {stated}: minor versions are compatible, but some "
            "images insist on theirs (NVIDIA_REQUIRE_CUDA) and PTX of that version does not compile",
            f"use nodes with driver {shipped}, or an image of CUDA {_newest_for(driver[0])}",
        )


def _newest_for(driver: int) -> str:
    fitting = [minor for minor, shipped in _SHIPPED.items() if shipped <= driver]
    return ".".join(map(str, max(fitting))) if fitting else "11.8"


def gpu(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        least, driver = _GPU_LEAST.get(pool.gpu or ""), version(pool.driver_version)
        if pool.ami_type not in (None, "CUSTOM"):
            continue  # pool-type-ami speaks of those
        if least is not None and driver is not None and driver[0] < least:
            yield error(
                pool.where,
                f"a {pool.gpu} needs driver {least} or newer and the nodes have {pool.driver_version}",
                f"use an AMI with driver {least} (ami_id and driver_version), or another instance type",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="driver-cuda",
        title="The nodes' driver runs the image's CUDA",
        why=(
            "Each CUDA major needs a least driver: 525 for 12, 580 for 13. Inside a major older drivers run newer minors, except for images that check "
            "(NVIDIA_REQUIRE_CUDA) and for code that is compiled from PTX at run time."
        ),
        check=cuda,
        sources=("vllm#21979", "gpustack#5886", "cirruslabs/linux-image-templates#64"),
    ),
    Rule(
        id="driver-gpu",
        title="The nodes' driver knows the GPU",
        why="A GPU that came after a driver branch is not seen by it: the device plugin advertises nothing and pods stay pending.",
        check=gpu,
        sources=("NVIDIA/aicr PR#2743",),
    ),
)
