"""Labels and tags of Karpenter's own, as the CRDs of NodePool and EC2NodeClass know them.

Source: karpenter-provider-aws, pkg/apis/crds of v1.0.0 to v1.14.1 and 1d92708; tests/e2e/software asks the CRDs themselves.
Not for: which fields a version has (versions.py), or values of labels (rules/karpenter_objects.py).
"""

from __future__ import annotations

_AWS = "karpenter.k8s.aws/"
_INSTANCE = (
    *("accelerator-count", "accelerator-manufacturer", "accelerator-name", "capability-flex", "category", "cpu"),
    *("cpu-manufacturer", "cpu-sustained-clock-speed-mhz", "ebs-bandwidth", "encryption-in-transit-supported"),
    *("family", "generation", "gpu-count", "gpu-manufacturer", "gpu-memory", "gpu-name", "hypervisor"),
    *("local-nvme", "memory", "network-bandwidth", "size", "tenancy"),
)
LABELS: tuple[str, ...] = (
    "karpenter.sh/capacity-type",
    *(f"{_AWS}capacity-reservation-{name}" for name in ("id", "interruptible", "type")),
    *(f"{_AWS}{name}" for name in ("ec2nodeclass", "nitro-sandbox", "placement-group-id", "placement-group-partition")),
    *(f"{_AWS}instance-{name}" for name in _INSTANCE),
)
"""Labels of Karpenter's domains that a NodePool may name, in requirements and in its template."""
_TAGS = frozenset(
    {
        "eks:eks-cluster-name",
        "karpenter.k8s.aws/ec2nodeclass",
        "karpenter.sh/nodeclaim",
        "karpenter.sh/nodepool",
    }
)


def own_tag(key: str) -> bool:
    """Whether Karpenter sets this tag on what it starts: the CRD of EC2NodeClass refuses it."""
    return key in _TAGS or key.startswith("kubernetes.io/cluster")
