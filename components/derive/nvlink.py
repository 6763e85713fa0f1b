"""Where NVLink goes beyond the node (GB200 NVL72), and which pods need an IMEX channel for it.

Sources: NVIDIA/nccl, src/mnnvl.cc; vllm#16992 (vLLM turns NCCL's multi-node NVLink off where no channel is in the container);
Amazon EKS user guide, P6e-GB200 UltraServers. Not for the objects (manifests/compute_domain.py) or the driver (manifests/dra_driver.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.facts import NodePool
from policies.facts.nodes import nvlink_between_nodes


def joined_pools(pools: Sequence[NodePool]) -> tuple[NodePool, ...]:
    """Pools whose nodes NVLink joins."""
    return tuple(pool for pool in pools if nvlink_between_nodes(pool))


def claims_channel(stated: bool | None, pool: NodePool | None, *, device: str, spans_pods: bool) -> bool:
    """Whether the pods of a group claim a channel: as stated; else where one replica has several pods on such nodes.

    Not derived for replicas of one pod each: a node has one channel, and one pod can hold it.
    """
    if device != "gpu":
        return False
    if stated is not None:
        return stated
    return spans_pods and pool is not None and nvlink_between_nodes(pool)
