"""What a node group's launch template says, as plain data: disks, network cards, metadata, reservation. Pure.

Sources: EC2 user guide "Maximize network bandwidth on instances with multiple network cards" (read 2026-11), EKS user guide
"Capacity Blocks for ML in managed node groups" (2024-12), karpenter-provider-aws 1d92708 (CEL rules of networkInterfaces).
Not for: user data (see user_data.py), or the resource itself (see components/gpu_node_pool.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from components.manifests.user_data import has_local_disks, is_bottlerocket
from policies.facts import NodePool

# On these the first network card has no EFA: 17 cards, 16 EFA interfaces (Karpenter's zz_generated.vpclimits.go).
FAMILIES_WITHOUT_EFA_ON_CARD_0 = frozenset({"p6-b300"})
# On these the cards of one GPU share its bandwidth: one interface for each GPU is all of it (EC2 user guide, P6e-GB200).
EFA_CARDS = {"p6e-gb200": (1, 5, 9, 13)}
# gp3 gives 125 MiB/s unless told: a 12 GiB image takes two minutes to write. Its 3000 IOPS carry up to 750 MiB/s.
GPU_DISK_THROUGHPUT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInterface:
    """One network interface: card and device index, and "interface" (ENA, the primary one) or "efa-only"."""

    card: int
    device: int
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The volume that holds images and pods. GiB; MiB/s, None for the volume type's own."""

    device: str
    size_gib: int
    throughput: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTemplate:
    """A launch template, without what only AWS knows (security groups, placement group, user data with an endpoint).

    instance_type: set for a capacity block only, where EKS wants it here and not in the node group.
    market: "capacity-block" or None. reservation: id that instances are started in.
    """

    instance_type: str | None
    image_id: str | None
    disk: Disk
    hop_limit: int
    interfaces: tuple[NetworkInterface, ...]
    market: str | None
    reservation: str | None


def launch_template(pool: NodePool) -> LaunchTemplate:
    """The launch template of a managed pool."""
    block = pool.reservation_kind == "capacity_block"
    return LaunchTemplate(
        instance_type=pool.instance_types[0] if block else None,
        image_id=pool.ami_id,
        disk=disk(pool),
        hop_limit=pool.hop_limit or 1,
        interfaces=network_interfaces(pool),
        market="capacity-block" if block else None,
        reservation=pool.reservation,
    )


def disk(pool: NodePool) -> Disk:
    """The root volume; of Bottlerocket the second volume, since the first holds the read-only system."""
    slow_is_fine = pool.gpu is None or has_local_disks(pool)
    return Disk(
        device="/dev/xvdb" if is_bottlerocket(pool) else "/dev/xvda",
        size_gib=pool.root_disk_gib or 20,
        throughput=None if slow_is_fine else GPU_DISK_THROUGHPUT,
    )


def network_interfaces(pool: NodePool) -> tuple[NetworkInterface, ...]:
    """ENA on the first card, EFA on every card that has it; () for a pool without EFA, whose one interface EKS makes.

    EFA-only interfaces take no address of the subnet; a p5.48xlarge with 32 full ones would take 33 and more.
    """
    if not pool.efa or not pool.efa_declared_interfaces:
        return ()
    family = pool.instance_types[0].split(".", 1)[0]
    first = 1 if family in FAMILIES_WITHOUT_EFA_ON_CARD_0 else 0
    cards = EFA_CARDS.get(family, range(first, first + pool.efa_declared_interfaces))
    efa = tuple(NetworkInterface(card=card, device=1 if card == 0 else 0, type="efa-only") for card in cards)
    return (NetworkInterface(card=0, device=0, type="interface"), *efa)


def capacity_type(pool: NodePool) -> str:
    """capacityType of the EKS API."""
    if pool.reservation_kind == "capacity_block":
        return "CAPACITY_BLOCK"
    return "SPOT" if pool.spot else "ON_DEMAND"
