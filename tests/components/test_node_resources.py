from __future__ import annotations

from typing import Any

import pytest

from components import node_pools
from components.config import parse
from components.node_resources import extended_resources


def pool(**fields: Any):
    (resolved,) = node_pools.resolve(parse({"node_pools": {"pool": fields}}))
    return resolved


@pytest.mark.parametrize(
    ("sharing", "resources"),
    [
        ({}, {"nvidia.com/gpu": 8}),
        ({"strategy": "kai"}, {"nvidia.com/gpu": 8}),
        ({"strategy": "time_slicing", "replicas": 4}, {"nvidia.com/gpu": 32}),
        ({"strategy": "time_slicing", "replicas": 4, "rename_by_default": True}, {"nvidia.com/gpu.shared": 32}),
        ({"strategy": "mps", "replicas": 2}, {"nvidia.com/gpu": 16}),
        ({"strategy": "mig", "mig_profile": "1g.10gb"}, {"nvidia.com/gpu": 56}),
        ({"strategy": "mig", "mig_profile": "all-1g.10gb"}, {"nvidia.com/gpu": 56}),
        ({"strategy": "mig", "mig_profile": "3g.40gb", "mig_strategy": "mixed"}, {"nvidia.com/mig-3g.40gb": 16}),
        ({"strategy": "mig", "mig_profile": "all-balanced"}, {}),
        ({"strategy": "volcano_vgpu"}, {"volcano.sh/vgpu-number": 80}),
    ],
)
def test_a_node_advertises_gpus_as_its_pool_shares_them(sharing, resources):
    assert extended_resources(pool(instance_types=["p5.48xlarge"], sharing=sharing)) == resources


def test_an_efa_node_advertises_its_interfaces_and_a_cpu_node_advertises_nothing():
    assert extended_resources(pool(instance_types=["p5.48xlarge"], efa=True)) == {
        "nvidia.com/gpu": 8,
        "vpc.amazonaws.com/efa": 32,
    }
    assert extended_resources(pool(instance_types=["m7i.large"])) == {}
