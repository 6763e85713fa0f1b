from __future__ import annotations

import pytest

from components.manifests.launch_template import Disk, capacity_type, disk, launch_template, network_interfaces
from policies.catalog.instances import gpu_instances
from tests.components.manifests.pools import pool


def test_a_plain_pool_has_one_interface_which_eks_makes() -> None:
    assert network_interfaces(pool(instance_types=["g6.2xlarge"])) == ()


def test_efa_goes_on_every_card_beside_the_primary_interface() -> None:
    cards = [
        (each.card, each.device, each.type)
        for each in network_interfaces(pool(instance_types=["p4d.24xlarge"], efa=True))
    ]
    assert cards == [
        (0, 0, "interface"),
        (0, 1, "efa-only"),
        (1, 0, "efa-only"),
        (2, 0, "efa-only"),
        (3, 0, "efa-only"),
    ]


def test_the_first_card_of_a_p6_b300_has_no_efa() -> None:
    cards = [
        (each.card, each.device, each.type)
        for each in network_interfaces(pool(instance_types=["p6-b300.48xlarge"], efa=True))
    ]
    assert cards == [(0, 0, "interface"), *[(card, 0, "efa-only") for card in range(1, 17)]]


def test_a_p6e_gb200_has_one_efa_interface_for_each_gpu() -> None:
    cards = [
        (each.card, each.device, each.type)
        for each in network_interfaces(pool(instance_types=["p6e-gb200.36xlarge"], efa=True))
    ]
    assert cards == [(0, 0, "interface"), *[(card, 0, "efa-only") for card in (1, 5, 9, 13)]]


@pytest.mark.parametrize("row", [row for row in gpu_instances() if row.efa_interfaces], ids=lambda row: row.name)
def test_every_type_with_efa_gets_one_primary_interface_and_no_card_twice(row) -> None:
    """The rules that Karpenter's CRD states for networkInterfaces, and EC2 for launch templates."""
    found = network_interfaces(pool(instance_types=[row.name], efa=True))
    assert [(each.card, each.device) for each in found if each.type == "interface"] == [(0, 0)]
    assert len({(each.card, each.device) for each in found}) == len(found)
    efa_cards = [each.card for each in found if each.type == "efa-only"]
    assert len(efa_cards) == len(set(efa_cards)) == row.efa_interfaces


def test_a_capacity_block_is_named_with_its_type_in_the_template() -> None:
    block = {"id": "cr-0a", "kind": "capacity_block"}
    spec = launch_template(pool(instance_types=["p5.48xlarge"], reservation=block, zones=["us-east-1a"]))
    assert (spec.instance_type, spec.market, spec.reservation) == ("p5.48xlarge", "capacity-block", "cr-0a")
    assert capacity_type(pool(instance_types=["p5.48xlarge"], reservation=block)) == "CAPACITY_BLOCK"


def test_an_odcr_is_a_target_and_no_market() -> None:
    odcr = pool(instance_types=["p5.48xlarge"], reservation={"id": "cr-0a", "kind": "on_demand"})
    spec = launch_template(odcr)
    assert (spec.instance_type, spec.market, spec.reservation) == (None, None, "cr-0a")
    assert capacity_type(odcr) == "ON_DEMAND"


def test_capacity_types_are_those_of_the_eks_api() -> None:
    assert capacity_type(pool(instance_types=["g6.xlarge"], capacity="spot")) == "SPOT"
    assert capacity_type(pool(instance_types=["g6.xlarge"])) == "ON_DEMAND"


def test_the_disk_is_fast_where_images_and_weights_land_on_it() -> None:
    assert disk(pool(instance_types=["g5g.xlarge"])) == Disk(device="/dev/xvda", size_gib=100, throughput=500)
    assert disk(pool(instance_types=["g6.2xlarge"])) == Disk(device="/dev/xvda", size_gib=100, throughput=None)
    assert disk(pool(instance_types=["m7i.large"])) == Disk(device="/dev/xvda", size_gib=50, throughput=None)
    assert disk(pool(instance_types=["g6.2xlarge"], root_disk_gib=300)).size_gib == 300


def test_bottlerocket_keeps_images_on_its_second_volume() -> None:
    assert disk(pool(instance_types=["g6.2xlarge"], ami="BOTTLEROCKET_x86_64_NVIDIA")).device == "/dev/xvdb"


def test_the_hop_limit_is_one_unless_it_is_given() -> None:
    assert launch_template(pool(instance_types=["g6.2xlarge"])).hop_limit == 1
    assert launch_template(pool(instance_types=["g6.2xlarge"], hop_limit=2)).hop_limit == 2
