"""The VPC of the cluster: private subnets for nodes and pods, public ones for NAT and load balancers, private endpoints.

Not for: security groups of nodes (EKS makes the cluster's own, see eks_cluster.py). An existing VPC is taken by `given`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.config import Network as NetworkConfig
from components.manifests.subnets import ZoneSubnets, divide

INTERFACE_ENDPOINTS = ("ecr.api", "ecr.dkr", "sts")
"""Services that get a private endpoint beside S3's: what every node calls before it can run a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSubnet:
    """A private subnet and its zone."""

    zone: str
    id: pulumi.Input[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnets:
    """What the cluster and the pools need of a network, whoever made it."""

    vpc_id: pulumi.Input[str]
    private: tuple[ZoneSubnet, ...]

    def in_zones(self, zones: Sequence[str]) -> list[pulumi.Input[str]]:
        """Ids of the private subnets in these zones; of all when none is named."""
        return [subnet.id for subnet in self.private if not zones or subnet.zone in zones]


def given(config: NetworkConfig) -> Subnets:
    """The existing network that the config names."""
    assert config.vpc_id is not None
    pairs = zip(config.zones, config.private_subnet_ids, strict=True)
    return Subnets(vpc_id=config.vpc_id, private=tuple(ZoneSubnet(zone=zone, id=each) for zone, each in pairs))


class Network(pulumi.ComponentResource):
    """A VPC. Outputs: `subnets`."""

    subnets: Subnets

    def __init__(
        self,
        name: str,
        *,
        config: NetworkConfig,
        zones: Sequence[str],
        region: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:Network", name, {}, opts)
        self._name, self._child = name, pulumi.ResourceOptions(parent=self)
        plan = divide(config.cidr, zones)
        vpc = aws.ec2.Vpc(
            name,
            cidr_block=config.cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags={"Name": name},
            opts=self._child,
        )
        nats = self._public_side(vpc, plan, config)
        private, tables = self._private_side(vpc, plan, nats)
        self._endpoints(vpc, config, region, private, tables)
        self.subnets = Subnets(
            vpc_id=vpc.id,
            private=tuple(ZoneSubnet(zone=zone.zone, id=each.id) for zone, each in zip(plan, private, strict=True)),
        )
        self.register_outputs({"vpc_id": vpc.id, "private_subnet_ids": [subnet.id for subnet in self.subnets.private]})

    def _public_side(
        self, vpc: aws.ec2.Vpc, plan: Sequence[ZoneSubnets], config: NetworkConfig
    ) -> list[aws.ec2.NatGateway]:
        """Public subnets with a way out, and the NAT gateways in them: one, or one in each zone."""
        gateway = aws.ec2.InternetGateway(self._name, vpc_id=vpc.id, tags={"Name": self._name}, opts=self._child)
        table = aws.ec2.RouteTable(
            f"{self._name}-public", vpc_id=vpc.id, tags={"Name": f"{self._name}-public"}, opts=self._child
        )
        out = aws.ec2.Route(
            f"{self._name}-public",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=self._child,
        )
        nats: list[aws.ec2.NatGateway] = []
        for index, zone in enumerate(plan):
            label = f"{self._name}-public-{zone.zone}"
            subnet = aws.ec2.Subnet(
                label,
                vpc_id=vpc.id,
                availability_zone=zone.zone,
                cidr_block=zone.public,
                tags={"Name": label, "kubernetes.io/role/elb": "1"},
                opts=self._child,
            )
            aws.ec2.RouteTableAssociation(label, subnet_id=subnet.id, route_table_id=table.id, opts=self._child)
            if index == 0 or config.nat == "per_zone":
                nat = f"{self._name}-nat-{zone.zone}"
                address = aws.ec2.Eip(
                    nat,
                    domain="vpc",
                    tags={"Name": nat},
                    opts=pulumi.ResourceOptions(parent=self, depends_on=[gateway]),
                )
                nats.append(
                    aws.ec2.NatGateway(
                        nat,
                        subnet_id=subnet.id,
                        allocation_id=address.id,
                        tags={"Name": nat},
                        # Without the route out it comes up but passes nothing.
                        opts=pulumi.ResourceOptions(parent=self, depends_on=[out]),
                    )
                )
        return nats

    def _private_side(
        self, vpc: aws.ec2.Vpc, plan: Sequence[ZoneSubnets], nats: Sequence[aws.ec2.NatGateway]
    ) -> tuple[list[aws.ec2.Subnet], list[aws.ec2.RouteTable]]:
        """Private subnets; each zone leaves by its own NAT gateway where there is one, else by the first."""
        subnets: list[aws.ec2.Subnet] = []
        tables: list[aws.ec2.RouteTable] = []
        for index, zone in enumerate(plan):
            label = f"{self._name}-private-{zone.zone}"
            subnet = aws.ec2.Subnet(
                label,
                vpc_id=vpc.id,
                availability_zone=zone.zone,
                cidr_block=zone.private,
                tags={"Name": label, "kubernetes.io/role/internal-elb": "1"},
                opts=self._child,
            )
            table = aws.ec2.RouteTable(label, vpc_id=vpc.id, tags={"Name": label}, opts=self._child)
            aws.ec2.Route(
                label,
                route_table_id=table.id,
                destination_cidr_block="0.0.0.0/0",
                nat_gateway_id=nats[min(index, len(nats) - 1)].id,
                opts=self._child,
            )
            aws.ec2.RouteTableAssociation(label, subnet_id=subnet.id, route_table_id=table.id, opts=self._child)
            subnets.append(subnet)
            tables.append(table)
        return subnets, tables

    def _endpoints(
        self,
        vpc: aws.ec2.Vpc,
        config: NetworkConfig,
        region: str,
        subnets: Sequence[aws.ec2.Subnet],
        tables: Sequence[aws.ec2.RouteTable],
    ) -> None:
        """S3 by a gateway, which is free and takes image layers and weights off the NAT; ECR and STS by interfaces."""
        aws.ec2.VpcEndpoint(
            f"{self._name}-s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables],
            tags={"Name": f"{self._name}-s3"},
            opts=self._child,
        )
        if not config.interface_endpoints:
            return
        group = aws.ec2.SecurityGroup(
            f"{self._name}-endpoints",
            vpc_id=vpc.id,
            description="Private endpoints: HTTPS from the VPC",
            tags={"Name": f"{self._name}-endpoints"},
            opts=self._child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-endpoints",
            security_group_id=group.id,
            cidr_ipv4=config.cidr,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            opts=self._child,
        )
        prefix = "cn.com.amazonaws" if region.startswith("cn-") else "com.amazonaws"
        for service in INTERFACE_ENDPOINTS:
            label = f"{self._name}-{service.replace('.', '-')}"
            aws.ec2.VpcEndpoint(
                label,
                vpc_id=vpc.id,
                service_name=f"{prefix}.{region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[subnet.id for subnet in subnets],
                security_group_ids=[group.id],
                tags={"Name": label},
                opts=self._child,
            )
