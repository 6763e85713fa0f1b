"""What the catalog says of one EC2 instance type. Not for: look-ups (see instances.py)."""

from dataclasses import dataclass
from typing import Literal

Architecture = Literal["x86_64", "arm64"]

SOURCE = "karpenter-provider-aws 1d92708: instance-types.md, zz_generated.pricing_aws.go (us-east-1, on demand)"
CHECKED_ON = "2026-07-20"


@dataclass(frozen=True, slots=True)
class Instance:
    """One EC2 instance type.

    gpu: name of a row of gpus.py, None for a type without NVIDIA GPU. gpus: devices that the node's device plugin
        advertises. ec2_gpu_count: what the EC2 API reports, which is what Karpenter counts with; it is 0 for g6f and
        gr6f, whose node has one part of an L4. ec2_gpu_memory_mib: MiB per GPU in the EC2 API (it rounds up; use
        `usable_gpu_memory_mib` to place an engine).
    vcpu, memory_gib: as sold. efa_interfaces: EFA devices a node can have (0: none; None: not traced; of p6e the four
        that reach full bandwidth).
    allocatable_cpu_millis, allocatable_memory_mib: what Kubernetes can give to pods, by Karpenter's computation (VM
        overhead 7.5 %, kube-reserved, eviction threshold), before daemon sets.
    nvme_gb: local NVMe storage in GB, 0 for none, None where not traced.
    usd_per_hour: on demand in us-east-1 at `checked_on`; None where the type has no such price.
    capacity_block_only: sold through Capacity Blocks alone. karpenter: listed in Karpenter's instance tables.
    """

    name: str
    gpu: str | None
    gpus: int
    ec2_gpu_count: int
    ec2_gpu_memory_mib: int
    vcpu: int
    memory_gib: float
    efa_interfaces: int | None
    allocatable_cpu_millis: int
    allocatable_memory_mib: int
    nvme_gb: int | None
    usd_per_hour: float | None
    architecture: Architecture
    capacity_block_only: bool
    karpenter: bool
    source: str
    checked_on: str

    @property
    def family(self) -> str:
        """The part before the dot: "p5" of "p5.48xlarge"."""
        return self.name.split(".", 1)[0]

    @property
    def karpenter_sees_gpu(self) -> bool:
        """Whether Karpenter picks this type for a pod that asks for nvidia.com/gpu.

        It does not for g6f and gr6f, whose count in the EC2 API is 0.
        """
        return self.ec2_gpu_count > 0


def gpu_type(
    name: str,
    gpu: str,
    ec2_gpu_count: int,
    ec2_gpu_memory_mib: int,
    vcpu: int,
    memory_gib: float,
    efa_interfaces: int | None,
    allocatable_cpu_millis: int,
    allocatable_memory_mib: int,
    nvme_gb: int | None,
    usd_per_hour: float | None,
    *,
    architecture: Architecture = "x86_64",
    capacity_block_only: bool = False,
    karpenter: bool = True,
    source: str = SOURCE,
    checked_on: str = CHECKED_ON,
) -> Instance:
    """A row with GPUs."""
    return Instance(
        name=name,
        gpu=gpu,
        gpus=max(1, ec2_gpu_count),
        ec2_gpu_count=ec2_gpu_count,
        ec2_gpu_memory_mib=ec2_gpu_memory_mib,
        vcpu=vcpu,
        memory_gib=memory_gib,
        efa_interfaces=efa_interfaces,
        allocatable_cpu_millis=allocatable_cpu_millis,
        allocatable_memory_mib=allocatable_memory_mib,
        nvme_gb=nvme_gb,
        usd_per_hour=usd_per_hour,
        architecture=architecture,
        capacity_block_only=capacity_block_only,
        karpenter=karpenter,
        source=source,
        checked_on=checked_on,
    )


def cpu_type(
    name: str,
    vcpu: int,
    memory_gib: float,
    allocatable_cpu_millis: int,
    allocatable_memory_mib: int,
    usd_per_hour: float,
    architecture: Architecture = "x86_64",
) -> Instance:
    """A row without GPU, for head pods and the services of the platform."""
    return Instance(
        name=name,
        gpu=None,
        gpus=0,
        ec2_gpu_count=0,
        ec2_gpu_memory_mib=0,
        vcpu=vcpu,
        memory_gib=memory_gib,
        efa_interfaces=0,
        allocatable_cpu_millis=allocatable_cpu_millis,
        allocatable_memory_mib=allocatable_memory_mib,
        nvme_gb=0,
        usd_per_hour=usd_per_hour,
        architecture=architecture,
        capacity_block_only=False,
        karpenter=True,
        source=SOURCE,
        checked_on=CHECKED_ON,
    )
