"""Disks of a pool: room for the system, the serving image and the weights that pods download.

Not for: where engines load weights from (model_access.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._engines import seats
from .pool_shape import used
from .startup_time import local, weights_mib

# A serving image with CUDA, torch and vLLM, unpacked (GiB); services state theirs in image.size_gib.
IMAGE_GIB = 12


SYSTEM_GIB = 20


def disk(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        # Bottlerocket's root disk is a data volume of its own, and images of one's own have any size.
        if (pool.ami_type or "").startswith("AL2023") and pool.root_disk_gib and pool.root_disk_gib < SYSTEM_GIB:
            yield error(
                pool.where,
                f"a root disk of {pool.root_disk_gib} GiB is smaller than the snapshot of EKS' AL2023 images, of {SYSTEM_GIB} GiB: EC2 refuses it",
                f"set root_disk_gib to {SYSTEM_GIB} or more, or leave it out",
            )
    suspects = {
        p.name: p for p in stack.pools if p.kind != "existing" and p.root_disk_gib is not None and used(stack, p)
    }
    weights = _weights(stack, suspects) if any(not pool.nvme_gb for pool in suspects.values()) else {}
    for pool in suspects.values():
        size, downloaded = pool.root_disk_gib or 0, weights.get(pool.name, 0.0)
        # Compressed layers and their unpacked form are on disk together while the image is pulled.
        least, right = IMAGE_GIB + IMAGE_GIB // 2 + 6 + downloaded, IMAGE_GIB * 2 + SYSTEM_GIB + downloaded
        besides = f" and {downloaded:.0f} GiB of weights" if downloaded else ""
        mend = f"set root_disk_gib to {math.ceil(right)}, or load weights from a volume"
        if pool.nvme_gb:
            if size < SYSTEM_GIB + 10:
                yield warning(
                    pool.where,
                    f"a root disk of {size} GiB holds the system and little more: image and weights fit only while the node's NVMe array is set up for containerd",
                    f"set root_disk_gib to {math.ceil(right)}",
                )
        elif size < least:
            yield error(
                pool.where,
                f"a root disk of {size} GiB does not hold the system, a serving image of about {IMAGE_GIB} GiB while it is unpacked{besides}, and the type has "
                "no local NVMe",
                mend,
            )
        elif size < right:
            yield warning(
                pool.where,
                f"a root disk of {size} GiB holds one serving image of about {IMAGE_GIB} GiB{besides}, and no second image in an upgrade",
                mend,
            )


def _weights(stack: Stack, pools: Mapping[str, NodePool]) -> dict[str, float]:
    """GiB of the largest checkpoint that pods of each pool download to disk; streaming loaders and mounted folders need none."""
    found: dict[str, float] = {}
    for seat in seats(stack):
        streamed = str(seat.args.get("load_format", "")).startswith(("runai_streamer", "tensorizer"))
        size = weights_mib(seat)
        if size is None or streamed or local(seat):
            continue
        for pool in seat.pools:
            if pool.name in pools:
                found[pool.name] = max(found.get(pool.name, 0.0), size / 1024)
    return found


RULES: tuple[Rule, ...] = (
    Rule(
        id="pool-disk",
        title="The root disk holds image and weights",
        why=(
            "A serving image unpacks to more than 10 GiB, and its compressed layers lie beside it during the pull. When the disk fills the kubelet evicts pods, "
            "and the image is pulled again."
        ),
        check=disk,
        sources=(
            "karpenter-provider-aws#4149",
            "karpenter-provider-aws#3692",
            "deepseek-using-vllm-on-eks#11",
            "amazon-eks-ami#1581",
            "cilium#43051",
        ),
    ),
)
