"""Node groups as other teams declare them, in Pulumi's properties."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from policies.facts import NodePool, Taint
from policies.facts.stack import read, reading
from policies.facts.wire import Resource, resource

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
NODE_GROUP, TEMPLATE = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
# A group as `aws.eks.NodeGroup("gpu", ...)` sends it; numbers cross as floats.
GROUP: dict[str, Any] = {
    "clusterName": "serving",
    "nodeRoleArn": "arn:aws:iam::123456789012:role/nodes",
    "subnetIds": ["subnet-1", "subnet-2"],
    "instanceTypes": ["g5.12xlarge"],
    "amiType": "AL2023_x86_64_NVIDIA",
    "capacityType": "ON_DEMAND",
    "scalingConfig": {"minSize": 0.0, "maxSize": 4.0, "desiredSize": 1.0},
    "labels": {"workload": "llm"},
    "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
}
LT: dict[str, Any] = {
    "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 300.0, "volumeType": "gp3"}}],
    "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2.0},
}


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:dev::team::{type_}::{name}"


def group(**props: Any) -> Resource:
    given = {key: value for key, value in {**GROUP, **props}.items() if value is not None}
    return resource(NODE_GROUP, "gpu", given, urn=urn(NODE_GROUP, "gpu"))


def template(**props: Any) -> Resource:
    return resource(TEMPLATE, "lt", {**LT, **props}, urn=urn(TEMPLATE, "lt"))


def joined(lt: Resource, **props: Any) -> list[Resource]:
    """A group whose launch template is of the same program: in a preview its id is not known, the dependency is."""
    given = {**GROUP, "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}, **props}
    given = {key: value for key, value in given.items() if value is not None}
    return [
        lt,
        resource(
            NODE_GROUP, "gpu", given, urn=urn(NODE_GROUP, "gpu"), sources={"launchTemplate": [urn(TEMPLATE, "lt")]}
        ),
    ]


def pool(*resources: Resource) -> NodePool:
    (found,) = read(resources).pools
    return found


def test_a_group_is_a_pool_with_the_catalog_s_hardware() -> None:
    got = pool(group())
    assert (got.name, got.where, got.kind) == ("gpu", "node pool 'gpu'", "managed")
    assert (got.instance_types, got.gpu, got.gpus_per_node, got.gpu_mib) == (("g5.12xlarge",), "A10G", 4, 23028)
    assert (got.cpu_milli, got.memory_mib, got.price_usd_hour) == (47810, 173400, 5.672)
    assert (got.min, got.max, got.desired, got.spot) == (0, 4, 1, False)
    assert (got.ami_type, got.driver_version, got.architecture) == ("AL2023_x86_64_NVIDIA", "580", "x86_64")
    assert got.labels == {"workload": "llm"}
    assert got.taints == (Taint(key="nvidia.com/gpu", value="true", effect="NoSchedule"),)


@pytest.mark.parametrize(
    ("effect", "kubernetes"),
    [("NO_SCHEDULE", "NoSchedule"), ("NO_EXECUTE", "NoExecute"), ("PREFER_NO_SCHEDULE", "PreferNoSchedule")],
)
def test_taint_effects_are_kubernetes_own(effect: str, kubernetes: str) -> None:
    assert pool(group(taints=[{"key": "a", "effect": effect}])).taints == (Taint(key="a", effect=kubernetes),)


def test_the_least_of_several_types_counts_for_room_and_the_dearest_for_cost() -> None:
    got = pool(group(instanceTypes=["g6.12xlarge", "g6.xlarge"], capacityType="SPOT"))
    assert (got.gpus_per_node, got.cpu_milli, got.price_usd_hour, got.spot) == (1, 3920, 4.6016, True)


def test_what_is_left_out_is_ekss_own_default() -> None:
    got = pool(group(instanceTypes=None, amiType=None, capacityType=None))
    assert (got.instance_types, got.ami_type, got.root_disk_gib) == (("t3.medium",), "AL2023_x86_64_STANDARD", 20)


def test_a_gpu_type_without_an_ami_type_gets_the_standard_image() -> None:
    assert pool(group(amiType=None)).ami_type == "AL2023_x86_64_STANDARD"


def test_what_is_not_known_is_not_taken_for_left_out() -> None:
    got = pool(group(instanceTypes=UNKNOWN, amiType=UNKNOWN, diskSize=UNKNOWN, scalingConfig={"maxSize": UNKNOWN}))
    assert (got.instance_types, got.ami_type, got.root_disk_gib, got.max) == ((), None, None, None)


def test_a_launch_template_is_joined_by_dependency_though_its_id_is_not_known() -> None:
    got = pool(*joined(template()))
    assert (got.root_disk_gib, got.hop_limit, got.ami_type) == (300, 2, "AL2023_x86_64_NVIDIA")


def test_a_launch_template_is_joined_by_id_or_by_name() -> None:
    for ours, theirs in (({"id": "lt-1"}, {"id": "lt-1"}), ({"name": "nodes"}, {"name": "nodes"})):
        assert pool(template(**ours), group(launchTemplate=theirs)).root_disk_gib == 300


def test_a_launch_template_of_another_stack_leaves_open_what_it_may_say() -> None:
    got = pool(group(launchTemplate={"id": "lt-elsewhere"}, amiType=None, instanceTypes=None))
    assert (got.instance_types, got.ami_type, got.root_disk_gib, got.hop_limit) == ((), None, None, None)


def test_an_own_image_in_the_template_makes_the_ami_custom() -> None:
    got = pool(*joined(template(imageId="ami-1"), amiType=None))
    assert (got.ami_type, got.ami_id, got.driver_version) == ("CUSTOM", "ami-1", None)


def test_an_image_that_is_not_known_yet_leaves_the_ami_open() -> None:
    got = pool(*joined(template(imageId=UNKNOWN, blockDeviceMappings=[]), amiType=None))
    assert (got.ami_type, got.ami_id, got.root_disk_gib) == (None, None, None)


def test_a_capacity_block_names_type_market_and_reservation_in_its_template() -> None:
    lt = template(
        instanceType="p5.48xlarge",
        instanceMarketOptions={"marketType": "capacity-block"},
        capacityReservationSpecification={"capacityReservationTarget": {"capacityReservationId": "cr-1"}},
    )
    got = pool(*joined(lt, instanceTypes=None, capacityType="CAPACITY_BLOCK"))
    assert (got.instance_types, got.reservation, got.reservation_kind) == (("p5.48xlarge",), "cr-1", "capacity_block")


def test_efa_interfaces_of_the_template_are_counted() -> None:
    interfaces = [
        {"networkCardIndex": 0.0, "deviceIndex": 0.0, "interfaceType": "interface"},
        *({"networkCardIndex": float(card), "deviceIndex": 1.0, "interfaceType": "efa-only"} for card in range(32)),
    ]
    got = pool(*joined(template(networkInterfaces=interfaces), instanceTypes=["p5.48xlarge"]))
    assert (got.efa, got.efa_declared_interfaces) == (True, 32)
    assert pool(*joined(template())).efa is False


def test_local_disks_count_only_where_user_data_joins_them() -> None:
    text = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  instance:\n    localStorage:\n      strategy: RAID0\n"
    lt = template(userData=base64.b64encode(text.encode()).decode())
    assert pool(*joined(lt)).nvme_gb == 3800
    assert pool(*joined(template())).nvme_gb is None


def test_bottlerocket_says_in_user_data_how_it_shares_gpus() -> None:
    text = (
        '[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = "time-slicing"\n'
        "[settings.kubelet-device-plugins.nvidia.time-slicing]\nreplicas = 4\nrename-by-default = true\n"
    )
    lt = template(userData=base64.b64encode(text.encode()).decode())
    got = pool(*joined(lt, amiType="BOTTLEROCKET_x86_64_NVIDIA")).sharing
    assert (got.strategy, got.replicas, got.rename_by_default) == ("time_slicing", 4, True)


@pytest.mark.parametrize(
    ("ignored", "ignores"), [((), False), (("scalingConfig.desiredSize",), True), (("scalingConfig",), True)]
)
def test_whether_the_desired_size_is_left_to_the_autoscaler_is_read_off_the_options(
    ignored: tuple[str, ...], ignores: bool
) -> None:
    got = pool(resource(NODE_GROUP, "gpu", GROUP, ignore_changes=ignored))
    assert got.ignores_desired is ignores


def test_the_zones_of_a_pool_are_those_of_its_subnets() -> None:
    subnet = "aws:ec2/subnet:Subnet"
    subnets = [
        resource(subnet, zone, {"availabilityZone": zone}, urn=urn(subnet, zone))
        for zone in ("us-east-1a", "us-east-1b")
    ]
    given = resource(NODE_GROUP, "gpu", GROUP, urn="g", sources={"subnetIds": [urn(subnet, "us-east-1b")]})
    stack = read([*subnets, given])
    assert stack.pools[0].zones == ("us-east-1b",)
    assert stack.zones == ("us-east-1a", "us-east-1b")


def test_a_pool_is_called_as_its_group_is_and_two_of_one_name_are_told_apart() -> None:
    named = group(nodeGroupName="serving-gpu")
    stack = read([named, named])
    assert [each.name for each in stack.pools] == ["serving-gpu", "serving-gpu-2"]
    assert stack.pools[0].labels["eks.amazonaws.com/nodegroup"] == "serving-gpu"


def test_a_self_managed_group_of_a_cluster_is_a_pool_with_labels_and_taints_of_its_tags() -> None:
    prefix = "k8s.io/cluster-autoscaler/node-template"
    tags = [
        {"key": "kubernetes.io/cluster/serving", "value": "owned", "propagateAtLaunch": True},
        {"key": f"{prefix}/label/workload", "value": "llm", "propagateAtLaunch": True},
        {"key": f"{prefix}/taint/nvidia.com/gpu", "value": "present:NoSchedule", "propagateAtLaunch": True},
    ]
    spec = {"launchTemplateSpecification": {"launchTemplateId": "lt-1"}, "overrides": [{"instanceType": "g6e.xlarge"}]}
    props = {
        "minSize": 0.0,
        "maxSize": 3.0,
        "tags": tags,
        "mixedInstancesPolicy": {
            "instancesDistribution": {"onDemandPercentageAboveBaseCapacity": 0.0},
            "launchTemplate": spec,
        },
    }
    asg = resource("aws:autoscaling/group:Group", "workers", props)
    got = pool(template(id="lt-1", imageId="ami-1"), asg)
    assert (got.kind, got.gpu, got.max, got.spot) == ("self_managed", "L40S", 3, True)
    assert (got.ami_type, got.ami_id, got.root_disk_gib) == ("CUSTOM", "ami-1", 300)
    assert got.labels == {"workload": "llm"}
    assert got.taints == (Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),)


def test_a_group_without_a_cluster_s_tag_is_no_pool() -> None:
    assert read([resource("aws:autoscaling/group:Group", "web", {"minSize": 1.0, "maxSize": 3.0})]).pools == ()


def test_only_what_rules_read_is_told_as_not_known() -> None:
    got = reading([group(nodeRoleArn=UNKNOWN, subnetIds=[UNKNOWN], scalingConfig={"minSize": UNKNOWN, "maxSize": 2.0})])
    assert [(each.where, each.paths) for each in got.not_known] == [("node pool 'gpu'", ("scalingConfig.minSize",))]


def test_everything_of_aws_is_there_as_declared_for_rules_about_doors() -> None:
    sg = resource("aws:ec2/securityGroup:SecurityGroup", "nodes", {"ingress": [{"fromPort": 22.0, "toPort": 22.0}]})
    (found,) = read([sg]).aws
    assert (found.where, found.props["ingress"][0]["fromPort"]) == ("security group 'nodes'", 22)


def test_the_cluster_tells_version_and_cloud() -> None:
    stack = read([resource("aws:eks/cluster:Cluster", "c", {"version": "1.35"})])
    assert (stack.cluster, stack.versions.kubernetes) == ("aws", "1.35")


def test_a_custom_image_of_another_stack_s_template_is_not_said_to_be_missing() -> None:
    elsewhere = group(amiType="CUSTOM", instanceTypes=None, launchTemplate={"id": "lt-9", "version": "1"})
    assert (pool(elsewhere).ami_type, pool(group(amiType="CUSTOM")).ami_type) == (None, "CUSTOM")
