"""The Kubernetes cluster: one that is there, or EKS with its network."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .base import Labels, Positive, Strict

LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]
RoleArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$")]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]+$")]


def _cidr(text: str) -> str:
    ipaddress.ip_network(text)
    return text


Cidr = Annotated[str, AfterValidator(_cidr)]


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
        return self


class AwsCluster(Strict):
    """An EKS cluster that the stack makes, or one that is there and gets node pools."""

    kind: Literal["aws"]
    """aws"""
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d+$")
    """AWS region, e.g. us-east-1."""
    name: str | None = Field(default=None, pattern=r"^[0-9A-Za-z][0-9A-Za-z_-]{0,79}$")
    """Cluster name; derived from project and environment. Up to 80 characters: Karpenter's queue has the same name."""
    create: bool = True
    """Make the cluster. False: an EKS cluster called `name` is there; it only gets node pools, roles and software."""
    kubernetes_version: str | None = None
    """Kubernetes minor; derived from components/versions.py."""
    support: Literal["standard", "extended"] = "standard"
    """At the end of the version's standard support: standard upgrades the control plane, extended stays and costs six times as much."""
    addon_versions: dict[str, str] = {}
    """Versions of EKS add-ons set by hand; derived: EKS' default for the cluster's Kubernetes version."""
    network: Network = Network()
    """The VPC."""
    public_endpoint_cidrs: tuple[Cidr, ...] = ()
    """Who may reach the API server from outside; none: private endpoint only."""
    admin_role_arns: tuple[RoleArn, ...] = ()
    """IAM roles that get cluster-admin by access entries."""
    log_types: tuple[LogType, ...] = ("api", "audit", "authenticator")
    """Control-plane logs that are kept."""
    log_retention_days: Positive = 30
    """Days control-plane logs are kept."""
    weights_bucket: bool = True
    """Make an S3 bucket for model weights that the engines may read."""
    tags: Labels = {}
    """Tags of every AWS resource."""

    @model_validator(mode="after")
    def _an_existing_cluster_has_a_name_and_a_network(self) -> AwsCluster:
        if not self.create and (self.name is None or self.network.vpc_id is None):
            raise ValueError("create: false needs name, network.vpc_id, network.private_subnet_ids and network.zones")
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
