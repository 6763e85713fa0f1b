"""EKS add-ons: one function that makes one, and the group of those whose pods need nodes.

Not for: software that comes by Helm (operators, schedulers, autoscalers).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from components.manifests.iam import EBS_CSI_POLICY
from components.pod_identity import PodIdentityRole

ON_NODES = ("aws-ebs-csi-driver", "coredns", "metrics-server")
"""Add-ons with Deployments: EKS calls them degraded until a node without GPU taint runs them."""
MONITORING = "eks-node-monitoring-agent"
"""Turns a GPU's XID errors, and those of disk, kernel and network, into conditions that node repair acts on; without it a node is
repaired only when its kubelet is silent (EKS user guide, "Detect node health issues and enable automatic node repair")."""
CONFIGURATION: Mapping[str, Mapping[str, object]] = {
    # Since 1.30 a cluster has no default StorageClass: claims that name none, such as KubeRay's for fault tolerance, would wait.
    "aws-ebs-csi-driver": {"defaultStorageClass": {"enabled": True}},
}


def addon(
    addon_name: str,
    prefix: str,
    cluster_name: pulumi.Input[str],
    kubernetes_version: str,
    pinned: Mapping[str, str],
    opts: pulumi.ResourceOptions,
    identity: tuple[str, pulumi.Input[str]] | None = None,
    configuration: Mapping[str, object] | None = None,
) -> aws.eks.Addon:
    """An add-on at its pinned version, else at the one EKS gives by default for this Kubernetes version.

    The default is looked up and not left out: an add-on without a version stays behind when the control plane is upgraded.
    `identity` is a service account of the add-on and the role its pods get; `configuration` what differs from its defaults.
    """
    version: pulumi.Input[str] | None = pinned.get(addon_name)
    if version is None:
        found = aws.eks.get_addon_version_output(
            addon_name=addon_name,
            kubernetes_version=kubernetes_version,
            opts=pulumi.InvokeOutputOptions(parent=opts.parent),
        )
        version = found.version
    return aws.eks.Addon(
        f"{prefix}-{addon_name}",
        cluster_name=cluster_name,
        addon_name=addon_name,
        addon_version=version,
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        pod_identity_associations=[
            aws.eks.AddonPodIdentityAssociationArgs(service_account=identity[0], role_arn=identity[1])
        ]
        if identity
        else None,
        configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
        opts=opts,
    )


class EksAddons(pulumi.ComponentResource):
    """DNS, volumes and the metrics API, and what watches nodes that are repaired. `after`: the node groups they run on (a component's
    depends_on stays its own)."""

    def __init__(
        self,
        name: str,
        *,
        cluster_name: pulumi.Input[str],
        kubernetes_version: str,
        region: str,
        pinned: Mapping[str, str],
        repair: bool,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:EksAddons", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = PodIdentityRole(
            f"{name}-ebs-csi",
            cluster_name=cluster_name,
            namespace="kube-system",
            service_account="ebs-csi-controller-sa",
            region=region,
            managed=[EBS_CSI_POLICY],
            associate=False,
            opts=child,
        )
        identities = {"aws-ebs-csi-driver": ("ebs-csi-controller-sa", role.arn)}
        then = pulumi.ResourceOptions(parent=self, depends_on=list(after))
        for each in (*ON_NODES, *((MONITORING,) if repair else ())):
            addon(
                each,
                name,
                cluster_name,
                kubernetes_version,
                pinned,
                then,
                identity=identities.get(each),
                configuration=CONFIGURATION.get(each),
            )
        self.register_outputs({})
