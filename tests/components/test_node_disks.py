from __future__ import annotations

from typing import Any

from components import node_pools
from components.config import parse


def root_disk(instance_type: str, services: dict[str, Any], **fields: Any) -> int | None:
    env = parse(
        {
            "cluster": {"kind": "aws", "region": "us-east-1"},
            "node_pools": {"pool": {"instance_types": [instance_type], **fields}},
            "services": services,
        }
    )
    (pool,) = node_pools.resolve(env)
    return pool.root_disk_gib


LLAMA = {"models": {"llama": {"model": "meta-llama/Llama-3.3-70B-Instruct"}}}


def test_a_gpu_node_without_local_disks_holds_image_twice_and_the_weights_of_its_models() -> None:
    # 2 x 12 GiB image + 20 GiB system + 131 GiB weights
    assert root_disk("g5g.16xlarge", {"chat": LLAMA | {"pool": "pool"}}) == 180
    assert root_disk("g5g.16xlarge", {"chat": LLAMA}) == 180  # the only pool there is
    assert root_disk("g5g.16xlarge", {"chat": LLAMA | {"pool": "other"}}) == 100
    assert root_disk("g5g.16xlarge", {"chat": LLAMA | {"pool": "pool", "image": {"size_gib": 30}}}) == 220


def test_images_and_weights_land_on_local_disks_where_there_are_some() -> None:
    assert root_disk("g6.48xlarge", {"chat": LLAMA | {"pool": "pool"}}) == 100


def test_a_cpu_node_holds_the_image_of_the_ray_heads() -> None:
    assert root_disk("m7i.large", {}) == 50
    assert root_disk("m7i.large", {"chat": LLAMA | {"image": {"size_gib": 30}}}) == 80


def test_a_size_that_is_given_is_taken_and_an_unknown_model_asks_for_nothing() -> None:
    assert root_disk("g5g.xlarge", {"chat": LLAMA}, root_disk_gib=64) == 64
    assert root_disk("g5g.xlarge", {"chat": {"models": {"x": {"model": "some/unknown"}}}}) == 100
