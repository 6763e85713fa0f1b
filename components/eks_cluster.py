"""The EKS control plane, and what a node needs before its first pod: access, networking, kube-proxy, pod identities.

Not for: add-ons that are pods and need nodes (see eks_addons.py), or the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.config import AwsCluster
from components.eks_addons import addon
from components.manifests.iam import (
    CLUSTER_ADMIN_POLICY,
    CLUSTER_POLICIES,
    CNI_POLICY,
    access_policy_arn,
    managed_policy_arn,
    trust_service,
)
from components.manifests.kubeconfig import eks_kubeconfig
from components.naming import ROLE_PREFIX, log_group, prefix
from components.network import Subnets
from components.pod_identity import PodIdentityRole


@dataclass(frozen=True, slots=True, kw_only=True)
class EksOutputs:
    """What everything on the cluster needs to know of it, whoever made it.

    before_nodes: what must be there before a node starts; nodes without the VPC CNI never become Ready.
    """

    name: str
    region: str
    cluster_name: pulumi.Output[str]  # the same name, known when the cluster is there
    arn: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    security_group_id: pulumi.Output[str]
    service_cidr: pulumi.Output[str]
    version: pulumi.Output[str]
    before_nodes: tuple[pulumi.Resource, ...]

    def kubeconfig(self) -> pulumi.Output[str]:
        """A kubeconfig, marked secret: it holds no credential, but it says where the cluster is."""
        found = pulumi.Output.all(self.endpoint, self.certificate_authority).apply(
            lambda pair: eks_kubeconfig(
                name=self.name, region=self.region, endpoint=str(pair[0]), certificate_authority=str(pair[1])
            )
        )
        return pulumi.Output.secret(found)


def existing(name: str, region: str, opts: pulumi.InvokeOutputOptions) -> EksOutputs:
    """A cluster that is there already, looked up by name."""
    found = aws.eks.get_cluster_output(name=name, opts=opts)
    return EksOutputs(
        name=name,
        region=region,
        cluster_name=found.name,
        arn=found.arn,
        endpoint=found.endpoint,
        certificate_authority=found.certificate_authorities[0].data,
        security_group_id=found.vpc_config.cluster_security_group_id,
        service_cidr=found.kubernetes_network_configs[0].service_ipv4_cidr,
        version=found.version,
        before_nodes=(),
    )


class EksCluster(pulumi.ComponentResource):
    """A control plane. Outputs: `outputs`."""

    outputs: EksOutputs

    def __init__(
        self,
        name: str,
        *,
        config: AwsCluster,
        kubernetes_version: str,
        subnets: Subnets,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:EksCluster", name, {}, opts)
        self._name, self._config, self._child = name, config, pulumi.ResourceOptions(parent=self)
        self._cluster = self._control_plane(kubernetes_version, subnets)
        self._admins()
        before_nodes = self._before_nodes(kubernetes_version)
        self.outputs = EksOutputs(
            name=name,
            region=config.region,
            cluster_name=self._cluster.name,
            arn=self._cluster.arn,
            endpoint=self._cluster.endpoint,
            certificate_authority=self._cluster.certificate_authority.data.apply(lambda data: data or ""),
            security_group_id=self._cluster.vpc_config.cluster_security_group_id.apply(lambda group: group or ""),
            service_cidr=self._cluster.kubernetes_network_config.service_ipv4_cidr.apply(lambda cidr: cidr or ""),
            version=self._cluster.version,
            before_nodes=before_nodes,
        )
        self.register_outputs({"name": self._cluster.name, "endpoint": self.outputs.endpoint})

    def _control_plane(self, kubernetes_version: str, subnets: Subnets) -> aws.eks.Cluster:
        config, name = self._config, self._name
        role = aws.iam.Role(
            f"{name}-cluster",
            name_prefix=prefix(f"{name}-cluster", ROLE_PREFIX),
            description=f"EKS control plane of {name}",
            assume_role_policy=trust_service("eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"),
            opts=self._child,
        )
        first: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}",
                role=role.name,
                policy_arn=managed_policy_arn(policy, config.region),
                opts=self._child,
            )
            for policy in CLUSTER_POLICIES
        ]
        key = aws.kms.Key(
            f"{name}-secrets",
            description=f"Kubernetes Secrets of {name}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=self._child,
        )
        if config.log_types:
            # Made here, before the cluster: EKS would make it without retention, and destroy would leave it behind.
            first.append(
                aws.cloudwatch.LogGroup(
                    f"{name}-logs",
                    name=log_group(name),
                    retention_in_days=config.log_retention_days,
                    opts=self._child,
                )
            )
        public = bool(config.public_endpoint_cidrs)
        return aws.eks.Cluster(
            name,
            name=name,
            role_arn=role.arn,
            version=kubernetes_version,
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=subnets.in_zones(()),
                endpoint_private_access=True,
                endpoint_public_access=public,
                public_access_cidrs=sorted(config.public_endpoint_cidrs) if public else None,
            ),
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=True
            ),
            # Everything comes as a managed add-on, with a version; EKS would install the first three unmanaged.
            bootstrap_self_managed_addons=False,
            enabled_cluster_log_types=sorted(config.log_types),
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=key.arn), resources=["secrets"]
            ),
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type=config.support.upper()),
            opts=pulumi.ResourceOptions(parent=self, depends_on=first),
        )

    def _admins(self) -> None:
        for role_arn in sorted(self._config.admin_role_arns):
            # Account and name: the same role name may be given from two accounts.
            label = f"{self._name}-admin-{role_arn.split(':')[4]}-{role_arn.rsplit('/', 1)[-1]}"
            entry = aws.eks.AccessEntry(
                label, cluster_name=self._cluster.name, principal_arn=role_arn, opts=self._child
            )
            aws.eks.AccessPolicyAssociation(
                label,
                cluster_name=self._cluster.name,
                principal_arn=role_arn,
                policy_arn=access_policy_arn(CLUSTER_ADMIN_POLICY, self._config.region),
                access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[entry]),
            )

    def _before_nodes(self, kubernetes_version: str) -> tuple[pulumi.Resource, ...]:
        """Add-ons that are daemon sets: they are active without a node, and the first node needs them."""
        pinned = self._config.addon_versions
        cni_role = PodIdentityRole(
            f"{self._name}-vpc-cni",
            cluster_name=self._cluster.name,
            namespace="kube-system",
            service_account="aws-node",
            region=self._config.region,
            managed=[CNI_POLICY],
            associate=False,
            opts=self._child,
        )
        agent = addon("eks-pod-identity-agent", self._name, self._cluster.name, kubernetes_version, pinned, self._child)
        proxy = addon("kube-proxy", self._name, self._cluster.name, kubernetes_version, pinned, self._child)
        cni = addon(
            "vpc-cni",
            self._name,
            self._cluster.name,
            kubernetes_version,
            pinned,
            pulumi.ResourceOptions(parent=self, depends_on=[agent]),
            identity=("aws-node", cni_role.arn),
            # off by default, and then a NetworkPolicy is an object that nothing enforces
            configuration={"enableNetworkPolicy": "true"},
        )
        return (agent, proxy, cni)
