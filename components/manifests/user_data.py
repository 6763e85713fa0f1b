"""User data of EC2 nodes: nodeadm's NodeConfig in a MIME document for AL2023, TOML settings for Bottlerocket.

What EKS writes itself (cluster, labels and taints of a managed node group) is left to EKS, which merges its part with ours;
a custom AMI gets no such part and needs everything. Sources: amazon-eks-ami 81fec2e8 (nodeadm/crds, nodeadm/doc/examples),
bottlerocket.dev settings reference 1.54, karpenter-provider-aws 1d92708 (pkg/providers/amifamily/bootstrap).
Not for: which AMI a pool boots (see components/node_pools.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from typing import Any

import tomli_w
import yaml

from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Taint

BOUNDARY = "LLM-SERVING-NODE"

# Keys of Bottlerocket's MIG settings by catalog GPU (sources/nvidia-migmanager/src/main.rs: get_instance_gpu).
BOTTLEROCKET_MIG_KEYS = {
    "A100-40G": "a100.40gb",
    "A100-80G": "a100.80gb",
    "B200": "b200.180gb",
    "H100": "h100.80gb",
    "H200": "h200.141gb",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How a node without EKS' own user data finds its cluster."""

    name: str
    endpoint: str
    certificate_authority: str  # base64
    service_cidr: str


def user_data(pool: NodePool, cluster: ClusterAccess | None = None) -> str | None:
    """User data of a managed node group's launch template; None when EKS' own does. Not base64.

    `cluster` is needed for a custom AMI only, and used for no other.
    """
    if is_bottlerocket(pool):
        return _toml(bottlerocket_settings(pool, raid0=True))
    config = node_config(pool, cluster if pool.ami_type == "CUSTOM" else None)
    return mime(config) if config else None


def karpenter_user_data(pool: NodePool) -> str | None:
    """User data of an EC2NodeClass: what its own fields cannot say. Karpenter adds cluster, labels, taints and RAID0."""
    return _toml(bottlerocket_settings(pool, raid0=False)) if is_bottlerocket(pool) else None


def is_bottlerocket(pool: NodePool) -> bool:
    return (pool.ami_type or "").startswith("BOTTLEROCKET")


def has_local_disks(pool: NodePool) -> bool:
    """Whether instance storage is put to use: where its size is not known, setting it up harms nothing."""
    return pool.nvme_gb is None or pool.nvme_gb > 0


def node_config(pool: NodePool, cluster: ClusterAccess | None) -> dict[str, Any]:
    """nodeadm's NodeConfig; {} when there is nothing to say."""
    spec: dict[str, Any] = {}
    if cluster is not None:
        spec["cluster"] = {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cluster.service_cidr,
        }
        flags = ["--node-labels=" + ",".join(f"{key}={value}" for key, value in sorted(pool.labels.items()))]
        if pool.taints:
            flags.append("--register-with-taints=" + ",".join(_taint(taint) for taint in pool.taints))
        spec["kubelet"] = {"flags": flags}
    if has_local_disks(pool):
        # containerd, kubelet and pod logs move to the array: images and weights land on it, not on the root volume.
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec} if spec else {}


def mime(config: dict[str, Any]) -> str:
    """The NodeConfig as the one part of a MIME document, which is the form that EKS merges with its own."""
    document = MIMEMultipart("mixed", boundary=BOUNDARY)
    part = MIMENonMultipart("application", "node.eks.aws")
    part.set_payload("---\n" + yaml.safe_dump(config, sort_keys=True, width=4096))
    document.attach(part)
    return document.as_string()


def bottlerocket_settings(pool: NodePool, *, raid0: bool) -> dict[str, Any]:
    """Bottlerocket settings: instance storage, and how the device plugin of the operating system shares the GPUs."""
    settings: dict[str, Any] = {}
    if raid0 and has_local_disks(pool):
        bind = ["apiclient", "ephemeral-storage", "bind", "--dirs"]
        settings["bootstrap-commands"] = {
            "000-mount-instance-storage": {
                "commands": [
                    ["apiclient", "ephemeral-storage", "init"],
                    [*bind, "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"],
                ],
                "essential": True,
                "mode": "always",
            }
        }
    nvidia = _bottlerocket_sharing(pool)
    if nvidia:
        settings["kubelet-device-plugins"] = {"nvidia": nvidia}
    return {"settings": settings} if settings else {}


def _bottlerocket_sharing(pool: NodePool) -> dict[str, Any]:
    sharing = pool.sharing
    if sharing.strategy == "time_slicing":
        return {
            "device-sharing-strategy": "time-slicing",
            "time-slicing": {
                "replicas": sharing.replicas or 1,
                "rename-by-default": sharing.rename_by_default,
                "fail-requests-greater-than-one": sharing.fail_requests_greater_than_one,
            },
        }
    if sharing.strategy == "mps":
        return {
            "device-sharing-strategy": "mps",
            "mps": {"replicas": sharing.replicas or 1, "rename-by-default": sharing.rename_by_default},
        }
    key = _bottlerocket_mig_key(pool)
    if sharing.strategy == "mig" and sharing.mig_profile and key:
        return {
            "device-partitioning-strategy": "mig",
            "mig": {"profile": {key: sharing.mig_profile.removeprefix("all-")}},
        }
    return {}


def _bottlerocket_mig_key(pool: NodePool) -> str | None:
    """The MIG manager's name of the GPU; for one it has no table of, "<name>.<memory>gb", from which it reckons slices."""
    try:
        gpu = gpus.get(pool.gpu or "")
    except UnknownRow:
        return None
    return BOTTLEROCKET_MIG_KEYS.get(gpu.name) or f"{gpu.name.split('-')[0].lower()}.{round(gpu.memory_mib / 1024)}gb"


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _toml(settings: dict[str, Any]) -> str | None:
    return tomli_w.dumps(settings) if settings else None
