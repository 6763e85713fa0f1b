from __future__ import annotations

from typing import Any

import pytest

from components import node_pools
from components.config import parse
from policies.facts import NodePool, Taint

AWS = {"kind": "aws", "region": "us-east-1"}


def pool(**fields: Any) -> NodePool:
    env = parse({"cluster": {"kind": "aws", "region": "us-east-1"}, "node_pools": {"pool": fields}})
    (resolved,) = node_pools.resolve(env)
    return resolved


def test_a_gpu_pool_gets_gpu_room_price_and_ami_from_its_instance_type():
    found = pool(instance_types=["g6.2xlarge"], max=2)
    assert (found.gpu, found.gpus_per_node, found.gpu_mib) == ("L4", 1, 23034)
    assert (found.cpu_milli, found.memory_mib, found.price_usd_hour) == (7910, 29317, 0.9776)
    assert (found.ami_type, found.driver_version, found.architecture) == ("AL2023_x86_64_NVIDIA", "580", "x86_64")
    assert (found.nvme_gb, found.min, found.max, found.desired) == (450, 0, 2, 0)


def test_gpu_nodes_are_tainted_and_labelled_by_default_and_cpu_nodes_are_not_tainted():
    assert pool(instance_types=["g6.2xlarge"]).taints == (Taint(key="nvidia.com/gpu", value="present"),)
    assert pool(instance_types=["g6.2xlarge"], taints=[]).taints == ()
    assert pool(instance_types=["m7i.large"]).taints == ()
    assert pool(instance_types=["m7i.large"], labels={"team": "a"}).labels == {"llm-serving/pool": "pool", "team": "a"}


def test_several_types_give_the_least_room_and_the_highest_price():
    found = pool(instance_types=["g6e.4xlarge", "g6e.2xlarge"], capacity="spot")
    assert (found.cpu_milli, found.memory_mib, found.price_usd_hour, found.spot) == (7910, 59627, 3.00424, True)


def test_an_unknown_type_leaves_what_follows_from_it_unknown():
    found = pool(instance_types=["p5.48xl"])
    assert (found.gpu, found.gpu_mib, found.cpu_milli, found.ami_type, found.price_usd_hour) == (None,) * 5
    assert found.instance_types == ("p5.48xl",)


def test_a_cpu_type_that_is_newer_than_the_catalog_gets_the_image_of_its_architecture():
    assert pool(instance_types=["m9g.xlarge"]).ami_type == "AL2023_ARM_64_STANDARD"
    assert pool(instance_types=["m9i-flex.xlarge"]).ami_type == "AL2023_x86_64_STANDARD"


@pytest.mark.parametrize(
    ("given", "ami_type", "driver"),
    [
        ({"instance_types": ["p6e-gb200.36xlarge"]}, "AL2023_ARM_64_NVIDIA", "580"),
        ({"instance_types": ["m7g.large"]}, "AL2023_ARM_64_STANDARD", None),
        ({"instance_types": ["g6.xlarge"], "ami": "BOTTLEROCKET_x86_64_NVIDIA"}, "BOTTLEROCKET_x86_64_NVIDIA", "580"),
        ({"instance_types": ["g7.2xlarge"], "ami_id": "ami-0a", "driver_version": "595.71"}, "CUSTOM", "595.71"),
        ({"instance_types": ["g6.xlarge"], "ami": "AL2023_x86_64_NVIDEA"}, "AL2023_x86_64_NVIDEA", None),
    ],
)
def test_the_ami_follows_the_type_unless_it_is_given(given, ami_type, driver):
    found = pool(**given)
    assert (found.ami_type, found.driver_version) == (ami_type, driver)


def test_an_efa_pool_takes_one_zone_and_all_its_interfaces_but_a_reservation_must_state_its_zone():
    found = pool(instance_types=["p5.48xlarge"], efa=True)
    assert (found.zones, found.efa_declared_interfaces) == (("us-east-1a",), 32)
    reserved = pool(
        instance_types=["p5.48xlarge"], efa=True, reservation={"id": "cr-0123456789abcdef0", "kind": "capacity_block"}
    )
    assert reserved.zones == ()
    assert not reserved.zones_declared


def test_a_part_of_an_l4_has_that_part_of_its_memory():
    assert pool(instance_types=["g6f.4xlarge"]).gpu_mib == 11517
    assert pool(kind="karpenter", instance_types=["g6f.4xlarge", "g6f.2xlarge"]).gpu_mib == 5758
    assert pool(instance_types=["g6f.4xlarge"]).gpus_per_node == 1


def test_karpenter_limits_are_derived_from_the_largest_type_times_the_most_nodes():
    found = pool(kind="karpenter", instance_types=["g6e.2xlarge", "g6e.12xlarge"], max=3)
    assert found.limits == {"cpu": "144", "memory": "1152Gi", "nvidia.com/gpu": 12}
    assert pool(kind="karpenter", instance_types=["m7i.large"], max=2).limits == {"cpu": "4", "memory": "16Gi"}
    assert pool(kind="karpenter", instance_types=["m7i.large"], limits={"cpu": "9"}).limits == {"cpu": "9"}


def test_nodes_carry_the_labels_that_choose_their_device_plugin_and_mig_configuration():
    labels = pool(instance_types=["p5.48xlarge"], sharing={"strategy": "mig", "mig_profile": "1g.10gb"}).labels
    assert labels["nvidia.com/device-plugin.config"] == "pool"
    assert labels["nvidia.com/mig.config"] == "all-1g.10gb"
    assert "nvidia.com/mig.config" not in pool(instance_types=["p5.48xlarge"], sharing={"strategy": "kai"}).labels
    bottlerocket = pool(
        instance_types=["p5.48xlarge"],
        ami="BOTTLEROCKET_x86_64_NVIDIA",
        sharing={"strategy": "mig", "mig_profile": "1g.10gb"},
    )
    assert bottlerocket.labels == {
        "k8s.amazonaws.com/accelerator": "nvidia-h100",
        "llm-serving/pool": "pool",
        "nvidia.com/gpu.deploy.device-plugin": "false",
        "nvidia.com/gpu.deploy.mig-manager": "false",
    }


def test_an_existing_pool_is_what_its_config_states():
    env = parse(
        {
            "node_pools": {
                "labelled": {"kind": "existing", "cpu": 1.5, "memory_gib": 2},
                "selected": {
                    "kind": "existing",
                    "gpu": "a100-80",
                    "gpus_per_node": 8,
                    "cpu": 90,
                    "memory_gib": 1000,
                    "node_selector": {"node.kubernetes.io/instance-type": "gpu.big"},
                },
            }
        }
    )
    labelled, selected = node_pools.resolve(env)
    assert (labelled.cpu_milli, labelled.memory_mib, labelled.taints) == (1500, 2048, ())
    assert node_pools.node_selector(labelled) == {"llm-serving/pool": "labelled"}
    assert (selected.gpu, selected.gpu_mib, selected.gpus_per_node) == ("A100-80G", 81920, 8)
    assert node_pools.node_selector(selected) == {"node.kubernetes.io/instance-type": "gpu.big"}
    assert selected.taints == (Taint(key="nvidia.com/gpu", value="present"),)


def test_zones_of_the_cluster_are_those_stated_or_the_first_three_of_the_region():
    aws = {"kind": "aws", "region": "eu-central-1"}
    assert node_pools.cluster_zones(parse({"cluster": aws})) == ("eu-central-1a", "eu-central-1b", "eu-central-1c")
    stated = aws | {"network": {"zones": ["eu-central-1b", "eu-central-1c"]}}
    assert node_pools.cluster_zones(parse({"cluster": stated})) == ("eu-central-1b", "eu-central-1c")
    assert node_pools.cluster_zones(parse({})) == ()


@pytest.mark.parametrize(
    ("config", "autoscaler"),
    [
        ({}, "none"),
        ({"cluster": AWS}, "none"),
        ({"cluster": AWS, "node_pools": {"a": {"instance_types": ["m7i.large"], "max": 2}}}, "cluster_autoscaler"),
        ({"cluster": AWS, "node_pools": {"a": {"instance_types": ["m7i.large"], "min": 2, "max": 2}}}, "none"),
        ({"node_pools": {"a": {"kind": "karpenter", "instance_types": ["m7i.large"]}}}, "karpenter"),
        ({"software": {"autoscaler": {"kind": "karpenter"}}, "cluster": AWS}, "karpenter"),
    ],
)
def test_the_node_autoscaler_follows_the_pools_unless_it_is_stated(config, autoscaler):
    assert node_pools.node_autoscaler(parse(config)) == autoscaler
