"""Every stack is created in moto, so that AWS's own models judge each resource. See cloud.py."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID

from components import aws, node_pools
from components.config import Environment
from tests.components.aws_stacks import ALL, REGION, STACKS, environment
from tests.components.cloud import UNIQUE, MotoCloud
from tests.components.program import Program, run


@pytest.fixture(autouse=True)
def moto_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    # The names of AWS managed policies are judged too: moto has the list.
    with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
        yield


def deploy(env: Environment) -> tuple[Program, MotoCloud]:
    cloud = MotoCloud(REGION)
    for arn in env.cluster.admin_role_arns:
        if f"::{DEFAULT_ACCOUNT_ID}:" in arn:
            cloud.client("iam").create_role(RoleName=arn.rsplit("/", 1)[-1], AssumeRolePolicyDocument="{}")
    pools = node_pools.resolve(env)

    def body() -> None:
        cluster = aws.build(env, pools)
        aws.karpenter_pools(env, pools, cluster, after=())

    return run(body, cloud), cloud


def _given_network(name: str) -> Environment:
    """The existing VPC, subnets and cluster that some stacks name, made in moto first."""
    env = environment(name)
    network = getattr(env.cluster, "network", None)
    if network is None or network.vpc_id is None:
        return env
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for index, zone in enumerate(network.zones)
    ]
    made = network.model_copy(update={"vpc_id": vpc, "private_subnet_ids": tuple(subnets)})
    return env.model_copy(update={"cluster": env.cluster.model_copy(update={"network": made})})


@pytest.mark.parametrize("name", [name for name in ALL if name != "existing_cluster"])
def test_aws_takes_every_resource_of_the_stack(name: str) -> None:
    env = _given_network(name)
    program, cloud = deploy(env)
    eks = boto3.client("eks", region_name=REGION)
    (cluster,) = eks.list_clusters()["clusters"]
    managed = sorted(pool.name for pool in node_pools.resolve(env) if pool.kind == "managed")
    groups = eks.list_nodegroups(clusterName=cluster)["nodegroups"]
    assert sorted(each.partition(f"-{UNIQUE}")[0] for each in groups) == managed
    created = [each for each in program.resources if each.type.startswith("aws:")]
    assert len(cloud.calls) == len(created) > 30


def test_an_existing_cluster_gets_node_groups_and_nothing_of_its_own_is_made() -> None:
    env = _given_network("existing_cluster")
    iam = boto3.client("iam")
    role = iam.create_role(RoleName="eks", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    boto3.client("eks", region_name=REGION).create_cluster(
        name="there", roleArn=role, resourcesVpcConfig={"subnetIds": list(env.cluster.network.private_subnet_ids)}
    )
    ec2 = boto3.client("ec2", region_name=REGION)
    cloud = MotoCloud(REGION)
    group = ec2.create_security_group(GroupName="eks", Description="eks", VpcId=env.cluster.network.vpc_id)["GroupId"]
    cloud.security_group = group
    pools = node_pools.resolve(env)
    run(lambda: aws.build(env, pools), cloud)
    assert "eks:CreateCluster" not in cloud.calls
    assert "eks:CreateAddon" not in cloud.calls
    assert "ec2:CreateVpc" not in cloud.calls
    assert cloud.calls.count("eks:CreateNodegroup") == 2


def test_the_auto_scaling_group_says_what_a_node_will_be_like() -> None:
    deploy(environment("mig"))
    groups = boto3.client("autoscaling", region_name=REGION).describe_auto_scaling_groups()["AutoScalingGroups"]
    tags = [{tag["Key"]: tag["Value"] for tag in group["Tags"]} for group in groups]
    (h100,) = [found for found in tags if "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu" in found]
    template = "k8s.io/cluster-autoscaler/node-template"
    assert h100[f"{template}/resources/nvidia.com/gpu"] == "56"
    assert h100[f"{template}/label/llm-serving/pool"] == "h100"
    assert h100[f"{template}/taint/nvidia.com/gpu"] == "present:NoSchedule"
    assert h100[f"{template}/resources/cpu"] == "191450m"


def test_the_launch_template_that_ec2_has_names_block_reservation_and_every_network_card() -> None:
    deploy(environment("capacity_block"))
    ec2 = boto3.client("ec2", region_name=REGION)
    found = [
        ec2.describe_launch_template_versions(LaunchTemplateId=each["LaunchTemplateId"])["LaunchTemplateVersions"][0]
        for each in ec2.describe_launch_templates()["LaunchTemplates"]
        if "-h200-" in each["LaunchTemplateName"]
    ]
    (data,) = [version["LaunchTemplateData"] for version in found]
    assert data["InstanceType"] == "p5e.48xlarge"
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
    }
    cards = [
        (each["NetworkCardIndex"], each["DeviceIndex"], each["InterfaceType"]) for each in data["NetworkInterfaces"]
    ]
    assert cards == [(0, 0, "interface"), (0, 1, "efa-only"), *[(card, 0, "efa-only") for card in range(1, 32)]]
    groups = {tuple(each["Groups"]) for each in data["NetworkInterfaces"]}
    assert len(groups) == 1
    assert len(groups.pop()) == 2  # the cluster's own and EFA's


def test_the_stacks_cover_every_kind_of_pool() -> None:
    kinds = {
        (pool.kind, pool.spot, pool.reservation_kind, pool.efa)
        for each in STACKS
        for pool in node_pools.resolve(environment(each))
    }
    assert {
        ("managed", False, None, False),
        ("managed", True, None, False),
        ("managed", False, "capacity_block", True),
        ("managed", False, "on_demand", False),
        ("managed", False, None, True),
        ("karpenter", False, None, False),
        ("karpenter", True, None, False),
        ("karpenter", False, None, True),
        ("karpenter", False, "on_demand", False),
    } <= kinds
