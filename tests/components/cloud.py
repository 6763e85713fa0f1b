"""A mock engine whose AWS is moto: each resource that the program declares is created there through boto3.

So AWS's own parameter models judge the inputs (wire.py), and moto judges the references: a subnet in a VPC that is not there,
a role that nobody made, a policy that is no policy. What moto does not emulate is judged by the model alone; such rows say so.
A resource type without a row fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from tests.components.program import PlainMocks
from tests.components.wire import request

Inputs = dict[str, Any]
State = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """How one type is created.

    prepare changes the inputs to the API's shape where it differs by more than a name; state reads id and outputs off the
    response. emulated is False for what moto lacks: the request is built and judged, and nothing is sent.
    """

    service: str
    operation: str
    renames: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[MotoCloud, str, Inputs], Inputs] = lambda cloud, name, inputs: inputs
    state: Callable[[MotoCloud, str, Inputs, dict[str, Any]], State] = lambda cloud, name, inputs, response: (name, {})
    emulated: bool = True


@cache
def _session(region: str) -> boto3.Session:
    """One for all tests: it keeps the models of the services, whose reading takes a second."""
    return boto3.Session("testing", "testing", region_name=region)


class MotoCloud(Mocks):
    """Use inside moto.mock_aws(). `calls` are the operations, as "service:Operation"."""

    def __init__(self, region: str) -> None:
        self.region = region
        self.calls: list[str] = []
        self.security_group = "sg-there"  # of a cluster that is there already
        self._plain = PlainMocks()
        self._session = _session(region)
        self._clients: dict[str, Any] = {}
        self._made = 0

    def unique(self, prefix: str) -> str:
        """A name as the provider makes it from a prefix."""
        self._made += 1
        return f"{prefix}{UNIQUE}{self._made:04}"

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.client(service)
        return self._clients[service]

    def call(self, args: MockCallArgs) -> dict[str, Any]:
        found = self._plain.call(args)
        if args.token == "aws:eks/getCluster:getCluster":
            found["vpcConfig"] = {"clusterSecurityGroupId": self.security_group}
        return found

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        if not args.typ.startswith("aws:"):
            return f"{args.name}-id", dict(args.inputs)
        assert args.typ in ROWS, f"no row for {args.typ} in cloud.py: say how it is created"
        row = ROWS[args.typ]
        client = self.client(row.service)
        operation = client.meta.service_model.operation_model(row.operation)
        inputs = {key: value for key, value in args.inputs.items() if value is not None}
        where = f"{args.typ} {args.name}"
        prepared = row.prepare(self, args.name, dict(inputs))
        params = request(operation, prepared, row.renames, where)
        self._references(params, where)
        self.calls.append(f"{row.service}:{row.operation}")
        response: dict[str, Any] = {}
        if row.emulated:
            response = getattr(client, client_method(client, row.operation))(**params)
        id_, outputs = row.state(self, args.name, inputs, response)
        return id_, inputs | outputs

    def _references(self, value: Any, where: str) -> None:
        """Every id and role that a request names must be there."""
        if isinstance(value, Mapping):
            for each in value.values():
                self._references(each, where)
        elif isinstance(value, list):
            for each in value:
                self._references(each, where)
        elif isinstance(value, str):
            self._reference(value, where)

    def _reference(self, text: str, where: str) -> None:
        ec2 = self.client("ec2")
        lookups: dict[str, Callable[[], Any]] = {
            r"subnet-[0-9a-f]+": lambda: ec2.describe_subnets(SubnetIds=[text]),
            r"sg-[0-9a-f]+": lambda: ec2.describe_security_groups(GroupIds=[text]),
            r"vpc-[0-9a-f]+": lambda: ec2.describe_vpcs(VpcIds=[text]),
            r"lt-[0-9a-f]+": lambda: ec2.describe_launch_template_versions(LaunchTemplateId=text),
            rf"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/.+": lambda: self.client("iam").get_role(
                RoleName=text.rsplit("/", 1)[-1]
            ),
        }
        for pattern, look_up in lookups.items():
            if re.fullmatch(pattern, text):
                try:
                    look_up()
                except Exception as error:
                    raise AssertionError(f"{where}: names {text}, which is not there: {error}") from error


# What the provider and Pulumi add to names: with it the APIs' longest names are judged too.
UNIQUE = "2026113009300000000000"  # and a number of four digits
RANDOM = "-0a1b2c3"


def client_method(client: Any, operation: str) -> str:
    return next(method for method, name in client.meta.method_to_api_mapping.items() if name == operation)


def _ec2_tags(kind: str) -> Callable[[MotoCloud, str, Inputs], Inputs]:
    """EC2 takes tags of a new resource as a specification for its kind."""

    def prepare(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
        tags = inputs.pop("tags", None)
        return inputs | ({"tagSpecifications": [{"resourceType": kind, "tags": tags}]} if tags else {})

    return prepare


def _named(key: str) -> Callable[[MotoCloud, str, Inputs], Inputs]:
    """What Pulumi names by itself: the logical name, where the program gives none."""

    def prepare(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
        prefix = inputs.pop("namePrefix", None)
        return {key: cloud.unique(prefix) if prefix else f"{name}{RANDOM}", **inputs}

    return prepare


def _id(*path: str, **outputs: tuple[str, ...]) -> Callable[[MotoCloud, str, Inputs, dict[str, Any]], State]:
    """State with the id, and more outputs, at paths into the response."""

    def state(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
        def at(keys: tuple[str, ...]) -> Any:
            found: Any = response
            for key in keys:
                found = found[key]
            return found

        return str(at(path)), {key: at(keys) for key, keys in outputs.items()}

    return state


def _vpc(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    id_ = response["Vpc"]["VpcId"]
    for attribute in ("enableDnsSupport", "enableDnsHostnames"):
        key = attribute[0].upper() + attribute[1:]
        cloud.client("ec2").modify_vpc_attribute(VpcId=id_, **{key: {"Value": inputs[attribute]}})
    return id_, {}


def _internet_gateway(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    id_ = response["InternetGateway"]["InternetGatewayId"]
    cloud.client("ec2").attach_internet_gateway(InternetGatewayId=id_, VpcId=inputs["vpcId"])
    return id_, {}


def _rule(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    permission: Inputs = {"ipProtocol": inputs["ipProtocol"]}
    permission |= {key: inputs[key] for key in ("fromPort", "toPort") if key in inputs}
    if "cidrIpv4" in inputs:
        permission["ipRanges"] = [{"cidrIp": inputs["cidrIpv4"]}]
    if "referencedSecurityGroupId" in inputs:
        permission["userIdGroupPairs"] = [{"groupId": inputs["referencedSecurityGroupId"]}]
    return {"groupId": inputs["securityGroupId"], "ipPermissions": [permission]}


def _launch_template(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    own = {"namePrefix", "description", "updateDefaultVersion"}
    return {
        "launchTemplateName": cloud.unique(inputs["namePrefix"]),
        "versionDescription": inputs["description"],
        "launchTemplateData": {key: value for key, value in inputs.items() if key not in own},
    }


def _role(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    return {"roleName": cloud.unique(inputs.pop("namePrefix")), **inputs}


def _cluster(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    types = inputs.pop("enabledClusterLogTypes", [])
    inputs["logging"] = {"clusterLogging": [{"types": types, "enabled": True}]}
    inputs["resourcesVpcConfig"] = inputs.pop("vpcConfig")
    inputs["encryptionConfig"] = [inputs["encryptionConfig"]]
    return inputs


def _cluster_state(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    cluster = response["cluster"]
    # EKS makes the cluster's security group; moto only makes up an id for it.
    subnet = cloud.client("ec2").describe_subnets(SubnetIds=inputs["vpcConfig"]["subnetIds"])["Subnets"][0]
    group = cloud.client("ec2").create_security_group(
        GroupName=f"eks-cluster-sg-{name}", Description="EKS", VpcId=subnet["VpcId"]
    )
    return name, {
        "arn": cluster["arn"],
        "endpoint": cluster["endpoint"],
        "certificateAuthority": {"data": cluster["certificateAuthority"]["data"]},
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]},
        "vpcConfig": {**inputs["vpcConfig"], "clusterSecurityGroupId": group["GroupId"]},
    }


def _node_group(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    found = cloud.unique(inputs.pop("nodeGroupNamePrefix"))
    assert len(found) <= 63, f"{name}: EKS takes names of 63 characters, and {found} has {len(found)}"
    return {"nodegroupName": found, **inputs}


def _node_group_state(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    """EKS makes an Auto Scaling group from the launch template; moto only names one, so it is made here."""
    group = response["nodegroup"]["resources"]["autoScalingGroups"][0]["name"]
    cloud.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=group,
        MinSize=0,
        MaxSize=int(inputs["scalingConfig"]["maxSize"]),
        LaunchTemplate={"LaunchTemplateId": inputs["launchTemplate"]["id"], "Version": "1"},
        VPCZoneIdentifier=",".join(inputs["subnetIds"]),
    )
    return name, {
        "nodeGroupName": response["nodegroup"]["nodegroupName"],
        "resources": [{"autoscalingGroups": [{"name": group}]}],
    }


def _group_tag(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    group = inputs["autoscalingGroupName"]
    return {"tags": [{"resourceId": group, "resourceType": "auto-scaling-group", **inputs["tag"]}]}


def _bucket(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    return {"bucket": f"{inputs['bucketPrefix']}{UNIQUE}0000"}


def _bucket_state(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    bucket = _bucket(cloud, name, inputs)["bucket"]
    return bucket, {"bucket": bucket, "arn": f"arn:aws:s3:::{bucket}"}


def _inside(key: str, *names: str) -> Callable[[MotoCloud, str, Inputs], Inputs]:
    """S3 puts what a configuration says into a structure of its own; `names` picks inputs out, all but the bucket if none."""

    def prepare(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
        bucket = inputs.pop("bucket")
        if len(names) == 1:
            return {"bucket": bucket, key: inputs[names[0]]}
        return {"bucket": bucket, key: inputs}

    return prepare


def _encryption(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    return {"bucket": inputs["bucket"], "serverSideEncryptionConfiguration": {"rules": inputs["rules"]}}


def _ownership(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    return {"bucket": inputs["bucket"], "ownershipControls": {"rules": [inputs["rule"]]}}


def _queue(cloud: MotoCloud, name: str, inputs: Inputs) -> Inputs:
    attributes = {
        "MessageRetentionPeriod": str(int(inputs["messageRetentionSeconds"])),
        "SqsManagedSseEnabled": str(inputs["sqsManagedSseEnabled"]).lower(),
    }
    known = {"name", "messageRetentionSeconds", "sqsManagedSseEnabled"}
    return {
        "queueName": inputs["name"],
        "attributes": attributes,
        **{k: v for k, v in inputs.items() if k not in known},
    }


def _queue_state(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    url = response["QueueUrl"]
    found = cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, {"url": url, "arn": found["Attributes"]["QueueArn"]}


def _event_rule_state(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    arn = response["RuleArn"]
    return name, {"name": arn.rpartition("/")[2], "arn": arn}


def _log_group(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    cloud.client("logs").put_retention_policy(
        logGroupName=inputs["name"], retentionInDays=int(inputs["retentionInDays"])
    )
    return inputs["name"], {}


def _kms(cloud: MotoCloud, name: str, inputs: Inputs, response: dict[str, Any]) -> State:
    key = response["KeyMetadata"]
    cloud.client("kms").enable_key_rotation(KeyId=key["KeyId"])
    return key["KeyId"], {"arn": key["Arn"]}


ROWS: dict[str, Row] = {
    "aws:autoscaling/tag:Tag": Row("autoscaling", "CreateOrUpdateTags", prepare=_group_tag),
    "aws:cloudwatch/eventRule:EventRule": Row("events", "PutRule", prepare=_named("name"), state=_event_rule_state),
    "aws:cloudwatch/eventTarget:EventTarget": Row(
        "events",
        "PutTargets",
        prepare=lambda cloud, name, inputs: {
            "rule": inputs["rule"],
            "targets": [{"id": inputs["targetId"], "arn": inputs["arn"]}],
        },
    ),
    "aws:cloudwatch/logGroup:LogGroup": Row(
        "logs", "CreateLogGroup", {"name": "logGroupName", "retentionInDays": ""}, state=_log_group
    ),
    "aws:ec2/eip:Eip": Row("ec2", "AllocateAddress", prepare=_ec2_tags("elastic-ip"), state=_id("AllocationId")),
    "aws:ec2/internetGateway:InternetGateway": Row(
        "ec2",
        "CreateInternetGateway",
        {"vpcId": ""},
        prepare=_ec2_tags("internet-gateway"),
        state=_internet_gateway,
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": Row(
        "ec2",
        "CreateLaunchTemplate",
        {"launchTemplateData.networkInterfaces.securityGroups": "groups"},
        prepare=_launch_template,
        state=_id("LaunchTemplate", "LaunchTemplateId", latestVersion=("LaunchTemplate", "LatestVersionNumber")),
    ),
    "aws:ec2/natGateway:NatGateway": Row(
        "ec2", "CreateNatGateway", prepare=_ec2_tags("natgateway"), state=_id("NatGateway", "NatGatewayId")
    ),
    "aws:ec2/placementGroup:PlacementGroup": Row(
        "ec2",
        "CreatePlacementGroup",
        {"name": "groupName"},
        prepare=_named("name"),
        state=lambda cloud, name, inputs, response: (name, {"name": name}),
        emulated=False,
    ),
    "aws:ec2/route:Route": Row("ec2", "CreateRoute"),
    "aws:ec2/routeTable:RouteTable": Row(
        "ec2", "CreateRouteTable", prepare=_ec2_tags("route-table"), state=_id("RouteTable", "RouteTableId")
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": Row(
        "ec2", "AssociateRouteTable", state=_id("AssociationId")
    ),
    "aws:ec2/securityGroup:SecurityGroup": Row(
        "ec2",
        "CreateSecurityGroup",
        {"name": "groupName"},
        prepare=lambda cloud, name, inputs: _ec2_tags("security-group")(cloud, name, {"name": name, **inputs}),
        state=_id("GroupId"),
    ),
    "aws:ec2/subnet:Subnet": Row("ec2", "CreateSubnet", prepare=_ec2_tags("subnet"), state=_id("Subnet", "SubnetId")),
    "aws:ec2/vpc:Vpc": Row(
        "ec2",
        "CreateVpc",
        {"enableDnsHostnames": "", "enableDnsSupport": ""},
        prepare=_ec2_tags("vpc"),
        state=_vpc,
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": Row(
        "ec2", "CreateVpcEndpoint", prepare=_ec2_tags("vpc-endpoint"), state=_id("VpcEndpoint", "VpcEndpointId")
    ),
    "aws:eks/accessEntry:AccessEntry": Row("eks", "CreateAccessEntry", emulated=False),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": Row("eks", "AssociateAccessPolicy", emulated=False),
    "aws:eks/addon:Addon": Row(
        "eks",
        "CreateAddon",
        {"resolveConflictsOnCreate": "resolveConflicts", "resolveConflictsOnUpdate": ""},
        emulated=False,
    ),
    "aws:eks/cluster:Cluster": Row("eks", "CreateCluster", prepare=_cluster, state=_cluster_state),
    "aws:eks/nodeGroup:NodeGroup": Row(
        "eks",
        "CreateNodegroup",
        {"nodeRoleArn": "nodeRole", "subnetIds": "subnets"},
        prepare=_node_group,
        state=_node_group_state,
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": Row("eks", "CreatePodIdentityAssociation", emulated=False),
    "aws:iam/role:Role": Row(
        "iam",
        "CreateRole",
        {"assumeRolePolicy": "assumeRolePolicyDocument"},
        prepare=_role,
        state=_id("Role", "RoleName", arn=("Role", "Arn"), name=("Role", "RoleName")),
    ),
    "aws:iam/rolePolicy:RolePolicy": Row(
        "iam",
        "PutRolePolicy",
        {"role": "roleName", "policy": "policyDocument", "name": "policyName"},
        prepare=_named("name"),
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": Row("iam", "AttachRolePolicy", {"role": "roleName"}),
    "aws:kms/key:Key": Row("kms", "CreateKey", {"enableKeyRotation": "", "deletionWindowInDays": ""}, state=_kms),
    "aws:s3/bucket:Bucket": Row("s3", "CreateBucket", prepare=_bucket, state=_bucket_state),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": Row(
        "s3", "PutBucketLifecycleConfiguration", prepare=_inside("lifecycleConfiguration")
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": Row(
        "s3", "PutBucketOwnershipControls", prepare=_ownership
    ),
    "aws:s3/bucketPolicy:BucketPolicy": Row("s3", "PutBucketPolicy"),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": Row(
        "s3", "PutPublicAccessBlock", prepare=_inside("publicAccessBlockConfiguration")
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": Row(
        "s3", "PutBucketEncryption", prepare=_encryption
    ),
    "aws:s3/bucketVersioning:BucketVersioning": Row(
        "s3", "PutBucketVersioning", prepare=_inside("versioningConfiguration", "versioningConfiguration")
    ),
    "aws:sqs/queue:Queue": Row("sqs", "CreateQueue", prepare=_queue, state=_queue_state),
    "aws:sqs/queuePolicy:QueuePolicy": Row(
        "sqs",
        "SetQueueAttributes",
        prepare=lambda cloud, name, inputs: {
            "queueUrl": inputs["queueUrl"],
            "attributes": {"Policy": json.dumps(json.loads(inputs["policy"]))},
        },
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": Row(
        "ec2", "AuthorizeSecurityGroupEgress", prepare=_rule
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": Row(
        "ec2", "AuthorizeSecurityGroupIngress", prepare=_rule
    ),
}
