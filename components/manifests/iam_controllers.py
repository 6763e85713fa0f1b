"""IAM policies of the controllers that act on the account for the cluster: node autoscalers and load balancers. Pure.

Each may change only what carries the cluster's tag. Actions: cluster-autoscaler's cloudprovider/aws/README.md; Karpenter's
reference "CloudFormation" (karpenter-provider-aws 1d92708, v1.14); the AWS Load Balancer Controller's installation page.
"""

from __future__ import annotations

from components.manifests.iam import Statement, allow, document, partition

NAMESPACE = "kube-system"
CLUSTER_AUTOSCALER = "cluster-autoscaler"
KARPENTER = "karpenter"
LOAD_BALANCER_CONTROLLER = "aws-load-balancer-controller"
"""Service accounts in NAMESPACE whose pods get the roles; the charts' values must use these names."""


def cluster_autoscaler(cluster_name: str) -> str:
    """Read all groups, resize and terminate in the cluster's own (EKS puts the tag on node groups' Auto Scaling groups)."""
    own = {"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster_name}": "owned"}}
    reads = [
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeLaunchConfigurations",
        "autoscaling:DescribeScalingActivities",
        "autoscaling:DescribeTags",
        "ec2:DescribeImages",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:GetInstanceTypesFromInstanceRequirements",
        "eks:DescribeNodegroup",
    ]
    writes = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    return document([allow(reads, "*"), allow(writes, "*", own)])


def karpenter(*, cluster_name: str, cluster_arn: str, region: str, node_role_arn: str, queue_arn: str) -> str:
    """Start and end nodes and instance profiles that carry the cluster's tag, read its interruption queue, and look up."""
    return document(
        [
            *_karpenter_nodes(cluster_name, region),
            *_karpenter_profiles(cluster_name, region),
            allow(
                ["iam:PassRole"],
                node_role_arn,
                {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
            ),
            allow(["eks:DescribeCluster"], cluster_arn),
            allow(["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"], queue_arn),
            allow(["pricing:GetProducts", "iam:ListInstanceProfiles"], "*"),
            allow(["ssm:GetParameter"], f"arn:{partition(region)}:ssm:{region}::parameter/aws/service/*"),
            allow(
                [
                    f"ec2:Describe{what}"
                    for what in (
                        "CapacityReservations",
                        "Images",
                        "InstanceStatus",
                        "InstanceTypeOfferings",
                        "InstanceTypes",
                        "Instances",
                        "LaunchTemplates",
                        "PlacementGroups",
                        "SecurityGroups",
                        "SpotPriceHistory",
                        "Subnets",
                    )
                ],
                "*",
                {"StringEquals": {"aws:RequestedRegion": region}},
            ),
        ]
    )


def _karpenter_nodes(cluster_name: str, region: str) -> list[Statement]:
    def arns(*kinds: str, account: str = "*") -> list[str]:
        return [f"arn:{partition(region)}:ec2:{region}:{account}:{kind}/*" for kind in kinds]

    tag = f"kubernetes.io/cluster/{cluster_name}"
    pool = "karpenter.sh/nodepool"
    ours = {"StringEquals": {f"aws:ResourceTag/{tag}": "owned"}, "StringLike": {f"aws:ResourceTag/{pool}": "*"}}
    tagged = {f"aws:RequestTag/{tag}": "owned", "aws:RequestTag/eks:eks-cluster-name": cluster_name}
    some_pool = {f"aws:RequestTag/{pool}": "*"}
    launch = ["ec2:RunInstances", "ec2:CreateFleet"]
    made = arns("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
    creates = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]
    given = arns("security-group", "subnet", "capacity-reservation", "placement-group")
    return [
        allow(launch, [*arns("image", "snapshot", account=""), *given]),
        allow(launch, arns("launch-template"), ours),
        allow([*launch, "ec2:CreateLaunchTemplate"], made, {"StringEquals": tagged, "StringLike": some_pool}),
        allow(
            ["ec2:CreateTags"],
            made,
            {"StringEquals": {**tagged, "ec2:CreateAction": creates}, "StringLike": some_pool},
        ),
        allow(
            ["ec2:CreateTags"],
            arns("instance"),
            {
                **ours,
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": cluster_name},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                },
            },
        ),
        allow(["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"], arns("instance", "launch-template"), ours),
    ]


def _karpenter_profiles(cluster_name: str, region: str) -> list[Statement]:
    profiles = f"arn:{partition(region)}:iam::*:instance-profile/*"
    node_class = "karpenter.k8s.aws/ec2nodeclass"

    def tags(side: str, *, name: bool) -> dict[str, str]:
        found = {
            f"aws:{side}Tag/kubernetes.io/cluster/{cluster_name}": "owned",
            f"aws:{side}Tag/topology.kubernetes.io/region": region,
        }
        return found | ({f"aws:{side}Tag/eks:eks-cluster-name": cluster_name} if name else {})

    asked = {"StringEquals": tags("Request", name=True), "StringLike": {f"aws:RequestTag/{node_class}": "*"}}
    ours = {"StringEquals": tags("Resource", name=False), "StringLike": {f"aws:ResourceTag/{node_class}": "*"}}
    both = {key: {**ours[key], **asked[key]} for key in asked}
    changes = ["iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"]
    return [
        allow(["iam:CreateInstanceProfile"], profiles, asked),
        allow(["iam:TagInstanceProfile"], profiles, both),
        allow(changes, profiles, ours),
        allow(["iam:GetInstanceProfile"], profiles),
    ]


def load_balancer_controller(region: str) -> str:
    """Load balancers, target groups and security groups that the controller tagged with a cluster, and reads."""
    here = partition(region)
    cluster_tag = "elbv2.k8s.aws/cluster"
    asked = {"Null": {f"aws:RequestTag/{cluster_tag}": "false"}}
    ours = {"Null": {f"aws:ResourceTag/{cluster_tag}": "false"}}
    groups = f"arn:{here}:ec2:*:*:security-group/*"
    balancers = [
        f"arn:{here}:elasticloadbalancing:*:*:{kind}"
        for kind in ("targetgroup/*/*", "loadbalancer/net/*/*", "loadbalancer/app/*/*")
    ]
    listeners = [
        f"arn:{here}:elasticloadbalancing:*:*:{kind}/{family}/*/*/*" + ("/*" if kind == "listener-rule" else "")
        for kind in ("listener", "listener-rule")
        for family in ("net", "app")
    ]
    elb = "elasticloadbalancing:"
    reads = [
        *(f"ec2:Describe{what}" for what in _LOAD_BALANCER_EC2_READS),
        "ec2:GetSecurityGroupsForVpc",
        f"{elb}Describe*",
        "acm:DescribeCertificate",
        "acm:ListCertificates",
        "iam:ListServerCertificates",
    ]
    changes = [
        f"{elb}{action}"
        for action in (
            "DeleteLoadBalancer",
            "DeleteTargetGroup",
            "ModifyLoadBalancerAttributes",
            "ModifyTargetGroup",
            "ModifyTargetGroupAttributes",
            "SetIpAddressType",
            "SetSecurityGroups",
            "SetSubnets",
        )
    ]
    rules = [
        f"{elb}{verb}{what}"
        for verb, what in (
            ("Add", "ListenerCertificates"),
            ("Create", "Listener"),
            ("Create", "Rule"),
            ("Delete", "Listener"),
            ("Delete", "Rule"),
            ("Modify", "Listener"),
            ("Modify", "ListenerAttributes"),
            ("Modify", "Rule"),
            ("Remove", "ListenerCertificates"),
            ("Set", "RulePriorities"),
        )
    ]
    return document(
        [
            allow(reads, "*"),
            allow(
                ["iam:CreateServiceLinkedRole"],
                "*",
                {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
            ),
            # Rules of the nodes' own security group, which is not the controller's and has no tag of it.
            allow(["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"], "*"),
            allow(["ec2:CreateSecurityGroup"], "*"),
            allow(["ec2:CreateTags"], groups, {**asked, "StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}}),
            allow(["ec2:CreateTags", "ec2:DeleteTags", "ec2:DeleteSecurityGroup"], groups, ours),
            allow([f"{elb}CreateLoadBalancer", f"{elb}CreateTargetGroup"], "*", asked),
            allow([f"{elb}AddTags", f"{elb}RemoveTags"], [*balancers, *listeners]),
            allow(changes, "*", ours),
            allow(rules, "*"),
            allow([f"{elb}RegisterTargets", f"{elb}DeregisterTargets"], balancers[0]),
        ]
    )


_LOAD_BALANCER_EC2_READS = (
    "AccountAttributes",
    "Addresses",
    "AvailabilityZones",
    "CoipPools",
    "Instances",
    "InternetGateways",
    "NetworkInterfaces",
    "RouteTables",
    "SecurityGroups",
    "Subnets",
    "Tags",
    "VpcPeeringConnections",
    "Vpcs",
)
