"""How large root volumes must be: the system, the serving image twice, and the weights of the models on the pool. Pure.

Not for: nodes with local NVMe, where images and weights land on that (manifests/user_data.py), beyond the system's own need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from components.config import Environment
from policies.fit.engine import find

GPU_GIB = 100
"""Smallest root volume of a GPU node: system, driver and an unpacked engine image of 12 GiB, with room to replace it."""
CPU_GIB = 50
"""Smallest one of a node without GPU: the serving image (a Ray head runs it too), twice in an upgrade."""
SYSTEM_GIB = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskNeeds:
    """What the services ask of disks: the largest image, and weights by pool ("" for services that name none). GiB."""

    image: float
    weights: Mapping[str, float]


def disk_needs(env: Environment) -> DiskNeeds:
    """One pass over the services. A model that no catalog has counts nothing: a rule speaks of it."""
    weights: dict[str, float] = {}
    for service in env.services.values():
        for name, model in service.models.items():
            row = find(model.model or name, env.models)
            if row is not None:
                pool = model.pool or service.pool or ""
                weights[pool] = weights.get(pool, 0.0) + (row.checkpoint_bytes or row.parameters * 2) / 2**30
    return DiskNeeds(
        image=max((service.image.size_gib for service in env.services.values()), default=0.0), weights=weights
    )


def root_disk_gib(pool: str, needs: DiskNeeds, *, gpu: bool, local_disks: bool) -> int:
    """Size of the pool's root volume in whole tens of GiB.

    Twice the image: the old and the new one lie side by side in an upgrade (karpenter-provider-aws#4149).
    """
    least = GPU_GIB if gpu else CPU_GIB
    if local_disks:
        return least
    weights = needs.weights.get(pool, 0.0) + (needs.weights.get("", 0.0) if gpu else 0.0)
    return max(least, math.ceil((2 * needs.image + SYSTEM_GIB + weights) / 10) * 10)
