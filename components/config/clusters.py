"""The Kubernetes cluster: one that is there, or EKS with its network."""

from __future__ import annotations

import difflib
import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .base import Labels, Strict
from .node_labels import each_once

LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]
RoleArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$")]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]+$")]


LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400),
    *(545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""What CloudWatch Logs takes (PutRetentionPolicy, retentionInDays)."""
ADDONS = (
    "aws-ebs-csi-driver",
    "coredns",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "kube-proxy",
    "metrics-server",
    "vpc-cni",
)
"""EKS add-ons that the stack makes."""
# Shared address space and link-local beside the private ranges: no packet from there reaches a public endpoint.
_NOT_PUBLIC = tuple(
    ipaddress.IPv4Network(each)
    for each in ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")
)


def _cidr(text: str) -> str:
    return str(
        ipaddress.ip_network(text)
    )  # one address as the range that holds it: AWS and Kubernetes take ranges only


def _public(text: str) -> str:
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv4Network) and any(network.subnet_of(each) for each in _NOT_PUBLIC):
        raise ValueError(
            f"{text} is a private range, and EKS takes public ones here; leave it out: the VPC reaches the private endpoint"
        )
    return str(network)


def _retention(days: int) -> int:
    if days not in LOG_RETENTION_DAYS:
        allowed = ", ".join(map(str, LOG_RETENTION_DAYS))
        raise ValueError(f"retention in CloudWatch is one of {allowed} days; use one of them")
    return days


def _addons(versions: dict[str, str]) -> dict[str, str]:
    for name, version in versions.items():
        if name not in ADDONS:
            close = difflib.get_close_matches(name, ADDONS, n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'? " if close else ""
            raise ValueError(f"the stack makes no add-on '{name}'; {hint}allowed: {', '.join(ADDONS)}")
        if re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", version) is None:
            raise ValueError(
                f"{name} has version '{version}'; an add-on's version is like v1.12.4-eksbuild.1 "
                f"(aws eks describe-addon-versions --addon-name {name})"
            )
    return versions


def _tags(tags: Labels) -> Labels:
    # 50 a resource (https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html); Karpenter's nodes get six from Karpenter.
    if len(tags) > 44:
        raise ValueError(f"{len(tags)} tags; AWS takes 50 a resource, of which up to 6 are set for it: give at most 44")
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            raise ValueError(f"tag '{key}': the prefix aws: belongs to AWS; use another key")
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise ValueError(f"tag '{key}': AWS takes keys of 1 to 128 characters and values of up to 256")
    return tags


def _region(text: str) -> str:
    # Directions are a closed list; areas and numbers grow, and a region that is newer than this program must pass.
    if re.fullmatch(r"[a-z]{2}(-[a-z]+)?-(central|(north|south)?(east|west)|north|south)-\d+", text) is None:
        raise ValueError("a region is an area, a direction and a number, e.g. us-east-1 or ap-southeast-2; correct it")
    return text


def _minor(text: str) -> str:
    if re.fullmatch(r"1\.\d+", text) is None:
        raise ValueError("EKS takes a Kubernetes minor and chooses the patch itself; give it in quotes, e.g. '1.35'")
    return text


Cidr = Annotated[str, AfterValidator(_cidr)]
PublicCidr = Annotated[str, AfterValidator(_public)]


class ExistingCluster(Strict):
    """A cluster that is there already."""

    kind: Literal["existing"] = "existing"
    """existing"""
    kubeconfig: str | None = None
    """Path of a kubeconfig; the ambient KUBECONFIG when not given."""
    context: str | None = None
    """Context of the kubeconfig; its current one when not given."""
    kubernetes_version: str | None = None
    """Kubernetes minor, e.g. 1.34, for the checks of versions that go together."""


class Network(Strict):
    """The VPC of the cluster: made, or given by ids."""

    cidr: str = "10.0.0.0/16"
    """Address range of a VPC that is made."""
    zones: tuple[str, ...] = ()
    """Availability zones; derived: a, b and c of the region. With existing subnets: the zone of each, in their order."""
    nat: Literal["single", "per_zone"] = "single"
    """One NAT gateway, or one in each zone."""
    interface_endpoints: bool = True
    """Private endpoints for ECR and STS in the VPC that is made (S3 always has one, which costs nothing)."""
    vpc_id: str | None = Field(default=None, pattern=r"^vpc-[0-9a-f]+$")
    """An existing VPC; then private_subnet_ids and zones must be given."""
    private_subnet_ids: tuple[SubnetId, ...] = ()
    """Existing private subnets, in at least two zones."""

    @model_validator(mode="after")
    def _cidr_holds_the_subnets(self) -> Network:
        zones = len(self.zones) or 3
        # Subnets of a VPC have 16 to 28 bits; private ones share the range with a block of public ones (manifests/subnets.py).
        longest = 28 - zones.bit_length() - (zones - 1).bit_length()
        prefix = ipaddress.IPv4Network(self.cidr).prefixlen
        if not 16 <= prefix <= longest:
            raise ValueError(
                f"cidr is a /{prefix}; a VPC with subnets in {zones} zones takes a /16 to a /{longest}, "
                "and pods need an address each: a /16 is a good start"
            )
        return self

    @model_validator(mode="after")
    def _existing_subnets_have_a_vpc_and_zones(self) -> Network:
        if (self.vpc_id is None) != (not self.private_subnet_ids):
            raise ValueError(
                "vpc_id and private_subnet_ids go together: give both to use a VPC, or neither to make one"
            )
        if self.private_subnet_ids and len(self.zones) != len(self.private_subnet_ids):
            raise ValueError(
                f"zones names the zone of each existing subnet, in their order: {len(self.private_subnet_ids)} subnets, "
                f"{len(self.zones)} zones"
            )
        each_once(self.private_subnet_ids or self.zones)  # two existing subnets may be in one zone
        return self


class AwsCluster(Strict):
    """An EKS cluster that the stack makes, or one that is there and gets node pools."""

    kind: Literal["aws"]
    """aws"""
    region: Annotated[str, AfterValidator(_region)]
    """AWS region, e.g. us-east-1."""
    name: str | None = Field(default=None, pattern=r"^[0-9A-Za-z][0-9A-Za-z_-]{0,79}$")
    """Cluster name; derived from project and environment. Up to 80 characters: Karpenter's queue has the same name."""
    create: bool = True
    """Make the cluster. False: an EKS cluster called `name` is there; it only gets node pools, roles and software."""
    kubernetes_version: Annotated[str, AfterValidator(_minor)] | None = None
    """Kubernetes minor; derived from components/versions.py."""
    support: Literal["standard", "extended"] = "standard"
    """At the end of the version's standard support: standard upgrades the control plane, extended stays and costs six times as much."""
    addon_versions: Annotated[dict[str, str], AfterValidator(_addons)] = {}
    """Versions of EKS add-ons set by hand; derived: EKS' default for the cluster's Kubernetes version."""
    network: Network = Network.model_construct()
    """The VPC."""
    public_endpoint_cidrs: tuple[PublicCidr, ...] = ()
    """Who may reach the API server from outside; none: private endpoint only."""
    admin_role_arns: Annotated[tuple[RoleArn, ...], AfterValidator(each_once)] = ()
    """IAM roles that get cluster-admin by access entries."""
    log_types: tuple[LogType, ...] = ("api", "audit", "authenticator")
    """Control-plane logs that are kept."""
    log_retention_days: Annotated[int, AfterValidator(_retention)] = 30
    """Days control-plane logs are kept."""
    weights_bucket: bool = True
    """Make an S3 bucket for model weights that the engines may read."""
    tags: Annotated[Labels, AfterValidator(_tags)] = {}
    """Tags of every AWS resource."""

    @model_validator(mode="after")
    def _an_existing_cluster_has_a_name_and_a_network(self) -> AwsCluster:
        if not self.create and (self.name is None or self.network.vpc_id is None):
            raise ValueError("create: false needs name, network.vpc_id, network.private_subnet_ids and network.zones")
        return self

    @model_validator(mode="after")
    def _zones_are_of_the_region(self) -> AwsCluster:
        elsewhere = [zone for zone in self.network.zones if not zone.startswith(self.region)]
        if elsewhere:
            raise ValueError(
                f"network.zones names {', '.join(elsewhere)}, and region is {self.region}; "
                f"zones of it are {self.region}a, {self.region}b and so on"
            )
        return self

    @model_validator(mode="after")
    def _a_control_plane_is_in_the_region(self) -> AwsCluster:
        # A zone of the region itself is the region's name and a letter; Local and Wavelength Zones have names of their own
        # (https://docs.aws.amazon.com/eks/latest/userguide/local-zones.html: nodes may be there, subnets of a new cluster not).
        outside = [
            zone for zone in self.network.zones if re.fullmatch(r"[a-z]", zone.removeprefix(self.region)) is None
        ]
        if self.create and outside:
            raise ValueError(
                f"network.zones names {', '.join(outside)}, which is no zone of the region itself, and EKS takes no subnet of such a "
                "zone for a new cluster; leave it out, or give create: false and the subnets of a cluster that is there: pools may use them"
            )
        return self

    @model_validator(mode="after")
    def _a_control_plane_spans_two_zones(self) -> AwsCluster:
        if self.create and self.network.zones and len(set(self.network.zones)) < 2:
            raise ValueError(
                f"network.zones is {', '.join(self.network.zones)}; EKS takes subnets in at least two zones "
                "(a pool can still be in one: node_pools.<name>.zones)"
            )
        return self


Cluster = Annotated[ExistingCluster | AwsCluster, Field(discriminator="kind")]
