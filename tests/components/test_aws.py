"""The program on AWS under a mock engine: inputs of each pool kind, what waits for what, providers, secrets."""

from __future__ import annotations

import base64
import functools
import json
from typing import Any

import pulumi
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from components import aws, node_pools
from components.config import parse
from components.pod_identity import PodIdentityRole
from tests.components.aws_stacks import ALL, STACKS, environment
from tests.components.program import Program, run

NODE_GROUP, TEMPLATE = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
ADDON, CUSTOM = "aws:eks/addon:Addon", "kubernetes:karpenter.sh/v1:NodePool"


@functools.cache
def program(name: str) -> Program:
    env = environment(name)
    pools = node_pools.resolve(env)

    def body() -> Any:
        cluster = aws.build(env, pools)
        aws.karpenter_pools(env, pools, cluster, after=())
        return cluster

    return run(body)


def pool_inputs(name: str) -> dict[str, Any]:
    """Launch templates, node groups and tags of a stack, user data readable."""
    found: dict[str, Any] = {}
    for type_ in (TEMPLATE, NODE_GROUP, "aws:autoscaling/tag:Tag"):
        for each in program(name).of(type_):
            inputs = {key: value for key, value in each.inputs.items() if not key.startswith("__")}
            if inputs.get("userData"):
                inputs["userData"] = base64.b64decode(inputs["userData"]).decode()
            found[f"{type_.rsplit(':', 1)[-1]} {each.name}"] = inputs
    return found


@pytest.mark.parametrize("name", [each for each in sorted(STACKS) if not each.startswith(("karpenter", "long"))])
def test_the_pools_of_a_stack_are_as_reviewed(name: str, snapshot: SnapshotAssertion) -> None:
    assert yaml.safe_dump(pool_inputs(name), sort_keys=True, width=100) == snapshot


@pytest.mark.parametrize("name", ALL)
def test_every_resource_has_an_explicit_provider_and_a_component_above_it(name: str) -> None:
    for each in program(name).resources:
        if each.type.startswith("aws:"):
            assert each.provider.endswith("pulumi:providers:aws::aws"), each.name
        if each.type.startswith("kubernetes:"):
            assert each.provider.endswith("pulumi:providers:kubernetes::kubernetes"), each.name
        if each.type.startswith(("aws:", "kubernetes:")):
            assert "llm-serving:" in each.parent, each.name


@pytest.mark.parametrize("name", [name for name in ALL if name != "existing_cluster"])
def test_nodes_start_after_network_roles_and_the_add_ons_that_every_node_needs(name: str) -> None:
    for group in program(name).of(NODE_GROUP):
        needs = program(name).needs(group)
        for addon in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent"):
            assert any(each.startswith(ADDON) and each.endswith(addon) for each in needs), addon
        assert any(each.endswith("node-AmazonEKSWorkerNodePolicy") for each in needs)
        if not name.startswith("existing"):
            assert any(each.startswith("aws:ec2/route:Route ") for each in needs)
            assert any(each.startswith("aws:ec2/natGateway") for each in needs)


def test_dns_volumes_and_metrics_wait_for_nodes_to_run_on() -> None:
    found = program("on_demand")
    for addon in ("coredns", "aws-ebs-csi-driver", "metrics-server"):
        needs = found.needs(found.one(ADDON, f"llm-serving-test-{addon}"))
        assert f"{NODE_GROUP} llm-serving-test-core" in needs


def test_the_control_plane_waits_for_its_role_and_its_log_group_so_that_destroy_leaves_none_behind() -> None:
    found = program("on_demand")
    needs = found.needs(found.one("aws:eks/cluster:Cluster"))
    assert "aws:cloudwatch/logGroup:LogGroup llm-serving-test-logs" in needs
    assert "aws:iam/rolePolicyAttachment:RolePolicyAttachment llm-serving-test-AmazonEKSClusterPolicy" in needs
    assert found.one("aws:cloudwatch/logGroup:LogGroup").inputs["name"] == "/aws/eks/llm-serving-test/cluster"


def test_the_control_plane_is_private_encrypted_logged_and_entered_by_access_entries() -> None:
    inputs = program("on_demand").one("aws:eks/cluster:Cluster").inputs
    assert inputs["vpcConfig"]["endpointPrivateAccess"] is True
    assert inputs["vpcConfig"]["endpointPublicAccess"] is False
    assert inputs["accessConfig"]["authenticationMode"] == "API"
    assert inputs["encryptionConfig"]["resources"] == ["secrets"]
    assert inputs["enabledClusterLogTypes"] == ["api", "audit", "authenticator"]
    assert inputs["bootstrapSelfManagedAddons"] is False
    assert inputs["upgradePolicy"] == {"supportType": "STANDARD"}
    stated = program("weights_and_load_balancer").one("aws:eks/cluster:Cluster").inputs
    assert stated["vpcConfig"]["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert stated["upgradePolicy"] == {"supportType": "EXTENDED"}


def test_the_autoscaler_owns_the_desired_size() -> None:
    for name in ALL:
        for group in program(name).of(NODE_GROUP):
            assert group.ignore_changes == ("scalingConfig.desiredSize",)


def test_a_capacity_block_takes_type_and_market_from_the_launch_template_and_stays_in_its_zone() -> None:
    found = program("capacity_block")
    group = found.one(NODE_GROUP, "llm-serving-test-h200")
    assert "instanceTypes" not in group.inputs
    assert group.inputs["capacityType"] == "CAPACITY_BLOCK"
    assert group.inputs["subnetIds"] == ["llm-serving-test-private-us-east-1b-id"]
    template = found.one(TEMPLATE, "llm-serving-test-h200").inputs
    assert template["instanceType"] == "p5e.48xlarge"
    assert "placement" not in template  # it would be a wall between the nodes and their reservation
    assert len(template["networkInterfaces"]) == 33


def test_an_efa_pool_has_a_placement_group_and_a_security_group_that_talks_to_itself() -> None:
    found = program("efa")
    template = found.one(TEMPLATE, "llm-serving-test-b300").inputs
    assert template["placement"] == {"groupName": "llm-serving-test-efa-b300"}
    group = found.one("aws:ec2/securityGroup:SecurityGroup", "llm-serving-test-efa")
    assert {tuple(each["securityGroups"]) for each in template["networkInterfaces"]} == {
        ("sg-cluster", f"{group.name}-id")
    }
    for direction in ("Ingress", "Egress"):
        rule = found.one(f"aws:vpc/securityGroup{direction}Rule:SecurityGroup{direction}Rule", "llm-serving-test-efa")
        assert rule.inputs["referencedSecurityGroupId"] == rule.inputs["securityGroupId"] == f"{group.name}-id"
        assert rule.inputs["ipProtocol"] == "-1"
        assert f"{rule.type} {rule.name}" in found.needs(found.one(NODE_GROUP, "llm-serving-test-b300"))
    # An ordinary pool gets neither: EKS gives it the cluster's group.
    assert "networkInterfaces" not in found.one(TEMPLATE, "llm-serving-test-core").inputs


def test_a_custom_image_is_in_the_launch_template_and_gets_the_whole_node_config() -> None:
    found = program("custom_ami")
    group = found.one(NODE_GROUP, "llm-serving-test-blackwell").inputs
    assert not {"amiType", "version", "releaseVersion"} & set(group)
    template = found.one(TEMPLATE, "llm-serving-test-blackwell").inputs
    assert template["imageId"] == "ami-0123456789abcdef0"
    user_data = base64.b64decode(template["userData"]).decode()
    assert "apiServerEndpoint: https://cluster.example" in user_data
    assert "llm-serving/pool=blackwell" in user_data


def test_karpenter_gets_role_queue_and_node_role_and_its_pools_wait_for_their_class() -> None:
    found = program("karpenter")
    rules = found.of("aws:cloudwatch/eventRule:EventRule")
    assert {json.loads(each.inputs["eventPattern"])["detail-type"][0] for each in rules} >= {
        "EC2 Spot Instance Interruption Warning",
        "EC2 Capacity Reservation Instance Interruption Warning",
    }
    (association,) = [
        each for each in found.of("aws:eks/podIdentityAssociation:PodIdentityAssociation") if "karpenter" in each.name
    ]
    assert (association.inputs["namespace"], association.inputs["serviceAccount"]) == ("kube-system", "karpenter")
    entries = [each.inputs for each in found.of("aws:eks/accessEntry:AccessEntry")]
    assert [each["type"] for each in entries] == ["EC2_LINUX"]
    for pool in found.of(CUSTOM):
        assert f"kubernetes:karpenter.k8s.aws/v1:EC2NodeClass {pool.name}-class" in found.needs(pool)
    node_class = found.one("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", "l40s-class").inputs["spec"]
    assert node_class["role"] == "llm-serving-test-karpenter-node"
    assert node_class["securityGroupSelectorTerms"] == [{"id": "sg-cluster"}]
    assert len(node_class["subnetSelectorTerms"]) == 3
    # Karpenter adds the nodes here; tags for another autoscaler would only confuse.
    assert not found.of("aws:autoscaling/tag:Tag")


def test_karpenters_pools_wait_for_its_release() -> None:
    env = environment("karpenter")
    pools = node_pools.resolve(env)

    def body() -> None:
        cluster = aws.build(env, pools)
        release = pulumi.ComponentResource("test:index:Release", "karpenter-release")
        aws.karpenter_pools(env, pools, cluster, after=(cluster.eks.before_nodes[0], release))

    found = run(body)
    for pool in found.of(CUSTOM):
        assert f"{ADDON} llm-serving-test-eks-pod-identity-agent" in found.needs(pool)


def test_an_existing_network_is_used_and_none_is_made() -> None:
    found = program("existing_network")
    assert not found.of("aws:ec2/vpc:Vpc")
    assert found.one(NODE_GROUP, "llm-serving-test-l4").inputs["subnetIds"] == ["subnet-00000000000000002"]
    assert found.one(NODE_GROUP, "llm-serving-test-core").inputs["subnetIds"] == [
        "subnet-00000000000000001",
        "subnet-00000000000000002",
    ]


def test_nodes_of_an_existing_cluster_bring_the_cnis_permissions_and_its_add_ons_are_left_alone() -> None:
    found = program("existing_cluster")
    assert not found.of("aws:eks/cluster:Cluster")
    assert not found.of(ADDON)
    assert (
        found.of("aws:iam/rolePolicyAttachment:RolePolicyAttachment")[0].name
        == "there-node-AmazonEC2ContainerRegistryPullOnly"
    )
    assert "there-node-AmazonEKS_CNI_Policy" in {
        each.name for each in found.of("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    }


def test_nodes_of_our_own_cluster_may_not_touch_network_interfaces() -> None:
    names = {each.name for each in program("on_demand").of("aws:iam/rolePolicyAttachment:RolePolicyAttachment")}
    assert "llm-serving-test-node-AmazonEKS_CNI_Policy" not in names
    assert "llm-serving-test-vpc-cni-AmazonEKS_CNI_Policy" in names


def test_one_nat_gateway_or_one_in_each_zone_and_endpoints_where_they_are_wanted() -> None:
    assert len(program("on_demand").of("aws:ec2/natGateway:NatGateway")) == 1
    per_zone = program("weights_and_load_balancer")
    assert len(per_zone.of("aws:ec2/natGateway:NatGateway")) == 3
    routes = [each.inputs.get("natGatewayId") for each in per_zone.of("aws:ec2/route:Route")]
    assert len(set(filter(None, routes))) == 3
    assert [each.name for each in per_zone.of("aws:ec2/vpcEndpoint:VpcEndpoint")] == ["llm-serving-test-s3"]
    assert len(program("on_demand").of("aws:ec2/vpcEndpoint:VpcEndpoint")) == 4


def test_engines_read_the_bucket_and_the_places_their_models_name() -> None:
    found = program("weights_and_load_balancer")
    policy = found.one("aws:iam/rolePolicy:RolePolicy", "llm-serving-test-weights-chat-engine").inputs["policy"]
    resources = [each["Resource"] for each in json.loads(policy)["Statement"]]
    assert resources == [
        ["arn:aws:s3:::llm-serving-test-weights-1"],
        "arn:aws:s3:::shared-weights",
        ["arn:aws:s3:::llm-serving-test-weights-1/*", "arn:aws:s3:::shared-weights/llama/8b/*"],
    ]


def test_add_ons_have_the_pinned_version_or_the_one_eks_gives() -> None:
    found = program("weights_and_load_balancer")
    assert found.one(ADDON, "llm-serving-test-coredns").inputs["addonVersion"] == "v1.12.4-eksbuild.1"
    cni = found.one(ADDON, "llm-serving-test-vpc-cni").inputs
    assert cni["addonVersion"] == "v1-of-vpc-cni"
    assert json.loads(cni["configurationValues"]) == {
        "enableNetworkPolicy": "true"
    }  # or NetworkPolicies are not enforced


def test_tags_of_the_environment_are_the_providers_and_reach_what_instances_start() -> None:
    found = program("weights_and_load_balancer")
    provider = found.one("pulumi:providers:aws", "aws").inputs
    assert json.loads(provider["defaultTags"])["tags"] == {"managed-by": "llm-serving", "team": "serving"}
    for specification in found.one(TEMPLATE, "llm-serving-test-l4").inputs["tagSpecifications"]:
        assert specification["tags"]["team"] == "serving"


def test_the_kubeconfig_is_a_secret() -> None:
    secret: list[bool] = []
    env = environment("on_demand")

    def body() -> None:
        kubeconfig = aws.build(env, node_pools.resolve(env)).kubeconfig
        pulumi.Output.from_input(kubeconfig.is_secret()).apply(secret.append)

    run(body)
    assert secret == [True]


def test_the_load_balancer_controller_gets_a_role_where_a_service_needs_it() -> None:
    names = {each.name for each in program("weights_and_load_balancer").of("aws:iam/role:Role")}
    assert "llm-serving-test-load-balancer-controller" in names
    assert "llm-serving-test-load-balancer-controller" not in {
        each.name for each in program("on_demand").of("aws:iam/role:Role")
    }


def test_claims_find_a_default_storage_class_and_gpu_errors_reach_node_repair() -> None:
    found = program("on_demand")
    storage = found.one(ADDON, "llm-serving-test-aws-ebs-csi-driver").inputs["configurationValues"]
    assert json.loads(storage) == {"defaultStorageClass": {"enabled": True}}
    assert found.one(ADDON, "llm-serving-test-eks-node-monitoring-agent")
    pools = {name: {**pool, "node_repair": False} for name, pool in STACKS["on_demand"]["node_pools"].items()}
    env = parse(STACKS["on_demand"] | {"node_pools": pools})
    without = run(lambda: aws.build(env, node_pools.resolve(env)))
    assert not [each for each in without.of(ADDON) if "monitoring" in each.name]


def test_engines_wait_for_the_role_that_reads_their_weights() -> None:
    roles = [each for each in program("weights_and_load_balancer").result.ready if isinstance(each, PodIdentityRole)]
    assert "llm-serving-test-weights-chat-engine" in {each._name for each in roles}


def test_the_same_config_gives_the_same_inputs() -> None:
    first = pool_inputs("efa")
    program.cache_clear()
    assert pool_inputs("efa") == first
