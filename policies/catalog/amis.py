"""EKS managed node group AMI types: architecture, what of NVIDIA's software they carry, and which GPU families they run.

For: rules on instance, AMI and GPU Operator settings. Not for: AMI ids or release versions.
Sources: amiType enumeration of the EKS API (botocore 1.44.8); AWS pages on EKS accelerated AMIs and NVIDIA's GPU Operator
on EKS guide, read 2026-11; awslabs/amazon-eks-ami nodeadm (containerd runtime of AL2023 is `nvidia`).
"""

from dataclasses import dataclass
from typing import Literal

from policies.catalog.instance_row import Architecture, Instance
from policies.catalog.lookup import lookup

OperatingSystem = Literal["al2", "al2023", "bottlerocket", "custom"]

# g7 needs driver 595. AL2023 x86 images carry it beside 580 since release v20260917 and choose at first boot
# (awslabs/amazon-eks-ami#2768, 2026-09-21); Bottlerocket has 580 only. Bottlerocket arm64 drives g5g only (EKS user guide).
_X86_GPU_FAMILIES = frozenset(
    {"g4dn", "g5", "g6", "g6e", "g6f", "g7e", "gr6", "gr6f", "p3", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en"}
    | {"p6-b200", "p6-b300"}
)
_AL2023_GPU_FAMILIES = {
    "x86_64": _X86_GPU_FAMILIES | {"g7"},
    "arm64": frozenset({"g5g", "p6e-gb200", "p6e-gb300"}),
}
_BOTTLEROCKET_GPU_FAMILIES = {"x86_64": _X86_GPU_FAMILIES, "arm64": frozenset({"g5g"})}
_NO_FAMILIES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AmiType:
    """One value of amiType.

    nvidia_driver: major version of the driver in the image, None without one (for g7 AL2023 images load 595 instead). toolkit: the container toolkit is set up as
    containerd's runtime. device_plugin: the NVIDIA device plugin (and MIG manager) are part of the operating system, so
    the GPU Operator must not bring its own. gpu_families: EC2 families whose GPUs the image drives.
    min_kubernetes: first EKS minor version for which the image exists in this form (driver 580, kernel 6.12), None where
    not known. deprecated: no new images are released.
    """

    name: str
    operating_system: OperatingSystem
    architecture: Architecture | None
    nvidia_driver: int | None
    toolkit: bool
    device_plugin: bool
    gpu_families: frozenset[str]
    min_kubernetes: str | None = None
    deprecated: bool = False
    source: str = "botocore 1.44.8; EKS accelerated AMI pages"
    checked_on: str = "2026-11-30"

    @property
    def nvidia(self) -> bool:
        """Whether the image carries the NVIDIA driver."""
        return self.nvidia_driver is not None

    def drives(self, instance: Instance) -> bool:
        """Whether the image boots on `instance` and, if that has GPUs, drives them (CUSTOM: taken on trust)."""
        if self.operating_system == "custom":
            return True
        if self.architecture != instance.architecture:
            return False
        return instance.gpu is None or instance.family in self.gpu_families


def _nvidia(name: str, system: OperatingSystem, architecture: Architecture, device_plugin: bool) -> AmiType:
    families = (_AL2023_GPU_FAMILIES if system == "al2023" else _BOTTLEROCKET_GPU_FAMILIES)[architecture]
    return AmiType(name, system, architecture, 580, True, device_plugin, families, "1.33")


def _plain(name: str, system: OperatingSystem, architecture: Architecture, deprecated: bool = False) -> AmiType:
    return AmiType(name, system, architecture, None, False, False, _NO_FAMILIES, None, deprecated)


AMI_TYPES: tuple[AmiType, ...] = (
    _plain("AL2023_ARM_64_STANDARD", "al2023", "arm64"),
    _nvidia("AL2023_ARM_64_NVIDIA", "al2023", "arm64", device_plugin=False),
    _plain("AL2023_x86_64_NEURON", "al2023", "x86_64"),
    _nvidia("AL2023_x86_64_NVIDIA", "al2023", "x86_64", device_plugin=False),
    _plain("AL2023_x86_64_STANDARD", "al2023", "x86_64"),
    _plain("AL2_ARM_64", "al2", "arm64", deprecated=True),
    _plain("AL2_x86_64", "al2", "x86_64", deprecated=True),
    # Driver: awslabs/amazon-eks-ami#2379, 2025-10-29. Families: those of the other x86 images, not stated for AL2.
    AmiType("AL2_x86_64_GPU", "al2", "x86_64", 570, True, False, _X86_GPU_FAMILIES, None, deprecated=True),
    _plain("BOTTLEROCKET_ARM_64", "bottlerocket", "arm64"),
    _plain("BOTTLEROCKET_ARM_64_FIPS", "bottlerocket", "arm64"),
    _nvidia("BOTTLEROCKET_ARM_64_NVIDIA", "bottlerocket", "arm64", device_plugin=True),
    _nvidia("BOTTLEROCKET_ARM_64_NVIDIA_FIPS", "bottlerocket", "arm64", device_plugin=True),
    _plain("BOTTLEROCKET_x86_64", "bottlerocket", "x86_64"),
    _plain("BOTTLEROCKET_x86_64_FIPS", "bottlerocket", "x86_64"),
    _nvidia("BOTTLEROCKET_x86_64_NVIDIA", "bottlerocket", "x86_64", device_plugin=True),
    _nvidia("BOTTLEROCKET_x86_64_NVIDIA_FIPS", "bottlerocket", "x86_64", device_plugin=True),
    AmiType("CUSTOM", "custom", None, None, False, False, _NO_FAMILIES),
)

_BY_NAME = {row.name.casefold(): row for row in AMI_TYPES}
NAMES: tuple[str, ...] = tuple(row.name for row in AMI_TYPES)


def get(name: str) -> AmiType:
    """The row of amiType `name`; UnknownRow with close names otherwise."""
    return lookup("AMI type", name, _BY_NAME, NAMES)
