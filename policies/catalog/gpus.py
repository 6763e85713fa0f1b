"""NVIDIA GPUs that a pool can have: memory, what the chip computes with, MIG profiles, and its names elsewhere.

For: the fit of an engine on a GPU, accelerator names, MIG arithmetic. Not for: instance types (see instances.py).

Two memory figures a GPU, because they differ and both are needed. `memory_mib` is what the driver reports
(`nvidia-smi --query-gpu=memory.total`), which is also the node label nvidia.com/gpu.memory of GPU Feature Discovery.
`cuda_memory_mib` is what a process sees (cudaMemGetInfo; "GPU 0 has a total capacity of ..." in PyTorch errors): the
driver keeps 0.3 to 0.9 GiB for itself. vLLM multiplies gpu_memory_utilization with the second one.
EC2's own figure (16384 MiB for a T4) is neither; it is in instances.py.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from policies.catalog import mig
from policies.catalog.lookup import lookup
from policies.catalog.mig import MigProfile


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model.

    name: the catalog's name. memory_mib, cuda_memory_mib: see the module. compute_capability: (major, minor).
    bf16, fp8, fp4: whether the tensor cores compute with that type (weights can be stored in FP8 on older GPUs too).
    nvlink: whether the GPUs of an EC2 instance that has several of it are joined by NVLink. multi_node_nvlink: whether NVLink
        goes beyond the node, in racks that share memory by IMEX (GB200 NVL72).
    ray_accelerator_type: value of accelerator_type in Ray 2.60 (ray.util.accelerators), None where Ray has no name for it.
    ray_auto_label: the accelerator type Ray derives from the device name at run time (nvidia_gpu.py), which is what a
        node gets without help; it can exist where `ray_accelerator_type` does not. "" where Ray reads none from the name.
    karpenter_name: value of the label karpenter.k8s.aws/instance-gpu-name, None where Karpenter knows no such instance.
    """

    name: str
    memory_mib: int
    cuda_memory_mib: int
    compute_capability: tuple[int, int]
    bf16: bool
    fp8: bool
    fp4: bool
    nvlink: bool
    multi_node_nvlink: bool
    ray_accelerator_type: str | None
    ray_auto_label: str
    karpenter_name: str | None
    mig_profiles: tuple[MigProfile, ...]
    aliases: tuple[str, ...]
    source: str
    checked_on: str

    @property
    def mig_capable(self) -> bool:
        """Whether the GPU can be cut into MIG instances."""
        return bool(self.mig_profiles)

    def mig_profile(self, name: str) -> MigProfile:
        """The profile called `name` ("1g.10gb", or the resource name "nvidia.com/mig-1g.10gb"); UnknownRow otherwise."""
        plain = name.removeprefix("nvidia.com/mig-")
        names = tuple(profile.name for profile in self.mig_profiles)
        note = f"a {self.name} has {', '.join(names)}" if names else f"a {self.name} has no MIG"
        return lookup("MIG profile", plain, {p.name: p for p in self.mig_profiles}, names, note)


_SMI = "published nvidia-smi and PyTorch totals; EC2 product pages"
# Cards of workstations and other clouds, for nodes that are there already: no EC2 instance has one.
_CARD = "published `nvidia-smi --query-gpu=name,memory.total` and PyTorch totals (47.50 GiB of the 48 GiB cards without ECC)"
_GEFORCE = (
    "vllm-project/vllm#7553, noonghunna/club-3090#127 and #1322, Wan-Video/Wan2.1#465: nvidia-smi and PyTorch totals"
)
_DATE = "2026-11-30"


def _gpu(
    name: str,
    memory: tuple[int, int],
    capability: tuple[int, int],
    *,
    ray: str | None,
    auto: str,
    karpenter: str | None,
    nvlink: bool = False,
    multi_node_nvlink: bool = False,
    mig_profiles: tuple[MigProfile, ...] = (),
    aliases: tuple[str, ...] = (),
    source: str = _SMI,
) -> Gpu:
    # BF16 tensor cores start at 8.0, FP8 at 8.9, FP4 at 10.0 (CUDA programming guide, compute capabilities).
    return Gpu(
        name=name,
        memory_mib=memory[0],
        cuda_memory_mib=memory[1],
        compute_capability=capability,
        bf16=capability >= (8, 0),
        fp8=capability >= (8, 9),
        fp4=capability >= (10, 0),
        nvlink=nvlink,
        multi_node_nvlink=multi_node_nvlink,
        ray_accelerator_type=ray,
        ray_auto_label=auto,
        karpenter_name=karpenter,
        mig_profiles=mig_profiles,
        aliases=aliases,
        source=source,
        checked_on=_DATE,
    )


# Memory is (driver's MiB, MiB that a process sees). Where several driver versions give several process totals, the
# smallest common one stands here: an engine that fits in it fits in the others. No process total was found for A30, A40, L20
# and L40: theirs is the driver's total less what the driver keeps on the nearest sibling.
GPUS: tuple[Gpu, ...] = (
    _gpu(
        "A100-40G",
        (40960, 40335),
        (8, 0),
        ray="A100",
        auto="A100",
        karpenter="a100",
        nvlink=True,
        mig_profiles=mig.A100_40,
        aliases=("A100-40", "A100-40GB", "A100-SXM4-40GB", "A100-PCIE-40GB"),
    ),
    _gpu(
        "A100-80G",
        (81920, 81050),
        (8, 0),
        ray="A100",
        auto="A100",
        karpenter="a100",
        nvlink=True,
        mig_profiles=mig.A100_80,
        aliases=("A100-80", "A100-80GB", "A100-SXM4-80GB", "A100-80GB-PCIe"),
    ),
    _gpu("A10G", (23028, 22579), (8, 6), ray="A10G", auto="A10G", karpenter="a10g", aliases=("A10",)),
    _gpu(
        "A30",
        (24576, 24125),
        (8, 0),
        ray=None,
        auto="A30",
        karpenter=None,
        mig_profiles=mig.A30,
    ),
    _gpu("A40", (46068, 45404), (8, 6), ray=None, auto="A40", karpenter=None, source=_CARD),
    _gpu(
        "B200", (183359, 182630), (10, 0), ray="B200", auto="B200", karpenter="b200", nvlink=True, mig_profiles=mig.B200
    ),
    _gpu(
        "B300",
        (275040, 274115),
        (10, 3),
        ray="B300",
        auto="B300",
        karpenter="b300",
        nvlink=True,
        mig_profiles=mig.B300,
        aliases=("B300-SXM6-AC",),
    ),
    _gpu(
        "GB200",
        (189471, 188733),
        (10, 0),
        ray="GB200",
        auto="GB200",
        karpenter=None,
        nvlink=True,
        multi_node_nvlink=True,
        mig_profiles=mig.GB200,
    ),
    _gpu(
        "GB300",
        (284208, 283136),
        (10, 3),
        ray="GB300",
        auto="GB300",
        karpenter=None,
        nvlink=True,
        multi_node_nvlink=True,
        source="nvidia-smi of GB300 NVL72 nodes (driver 580.82.07); PyTorch's total of 276.50 GiB (stas00/ml-engineering, debug)",
    ),
    _gpu(
        "H100",
        (81559, 81008),
        (9, 0),
        ray="H100",
        auto="H100",
        karpenter="h100",
        nvlink=True,
        mig_profiles=mig.H100,
        aliases=("H100-80G", "H100-80GB", "H100-80GB-HBM3", "H100-SXM", "H100-SXM5", "H100-PCIe"),
    ),
    _gpu(
        "H200",
        (143771, 143073),
        (9, 0),
        ray="H200",
        auto="H200",
        karpenter="h200",
        nvlink=True,
        mig_profiles=mig.H200,
    ),
    _gpu("L20", (46068, 45404), (8, 9), ray=None, auto="L20", karpenter=None, source=_CARD),
    _gpu("L4", (23034, 22487), (8, 9), ray="L4", auto="L4", karpenter="l4"),
    _gpu("L40", (46068, 45404), (8, 9), ray=None, auto="L40", karpenter=None, source=_CARD),
    _gpu("L40S", (46068, 45404), (8, 9), ray="L40S", auto="L40S", karpenter="l40s"),
    _gpu("RTX-3090", (24576, 24125), (8, 6), ray=None, auto="", karpenter=None, source=_GEFORCE, aliases=("3090",)),
    _gpu("RTX-4090", (24564, 24084), (8, 9), ray=None, auto="", karpenter=None, source=_GEFORCE, aliases=("4090",)),
    _gpu(
        "RTX-5090",
        (32607, 32081),
        (12, 0),
        ray=None,
        auto="",
        karpenter=None,
        source=_GEFORCE,
        aliases=("5090",),
    ),
    _gpu(
        "RTX-6000-ADA",
        (49140, 48640),
        (8, 9),
        ray=None,
        auto="RTX-6000",
        karpenter=None,
        source=_CARD,
        aliases=("RTX-6000-Ada-Generation",),
    ),
    _gpu(
        "RTX-A6000",
        (49140, 48640),
        (8, 6),
        ray=None,
        auto="RTX-A6000",
        karpenter=None,
        source=_CARD,
        aliases=("A6000",),
    ),
    _gpu(
        "RTX-PRO-4500",
        (32623, 32129),
        (12, 0),
        ray=None,
        auto="RTX-PRO-4500",
        karpenter="rtx-pro-4500",
        mig_profiles=mig.RTX_PRO_4500,
        aliases=("RTX-PRO-4500-Blackwell", "RTX-PRO-4500-Blackwell-Server-Edition"),
    ),
    _gpu(
        "RTX-PRO-6000",
        (97887, 97249),
        (12, 0),
        ray="RTX-PRO-6000",
        auto="RTX-PRO-6000",
        karpenter="rtx-pro-server-6000",
        mig_profiles=mig.RTX_PRO_6000,
        aliases=("RTX-PRO-Server-6000", "RTX-PRO-6000-Blackwell", "RTX-PRO-6000-Blackwell-Server-Edition"),
    ),
    _gpu("T4", (15360, 14909), (7, 5), ray="T4", auto="T4", karpenter="t4"),
    _gpu("T4G", (15360, 14909), (7, 5), ray=None, auto="T4G", karpenter="t4g"),
    _gpu(
        "V100-16G",
        (16384, 16160),
        (7, 0),
        ray="V100",
        auto="V100",
        karpenter=None,
        nvlink=True,
        aliases=("V100", "V100-16", "V100-16GB", "V100-SXM2-16GB"),
    ),
    _gpu(
        "V100-32G",
        (32768, 32494),
        (7, 0),
        ray="V100",
        auto="V100",
        karpenter="v100",
        nvlink=True,
        aliases=("V100-32", "V100-32GB", "V100-SXM2-32GB"),
    ),
)

_MAKER = re.compile(r"^(?:nvidia)?(?:tesla|geforce)?")


def _spelled(name: str) -> str:
    """A name without what its spellings differ in: "NVIDIA H100 80GB HBM3" of nvidia-smi is NVIDIA-H100-80GB-HBM3 of node labels."""
    return _MAKER.sub("", re.sub(r"[^a-z0-9]", "", name.casefold()))


_BY_NAME = {_spelled(name): gpu for gpu in GPUS for name in (gpu.name, *gpu.aliases)}
NAMES: tuple[str, ...] = tuple(gpu.name for gpu in GPUS)
RAY_ACCELERATOR_TYPES: frozenset[str] = frozenset(
    # ray.util.accelerators of Ray 2.60.0, NVIDIA names only. The two sized A100 names are accepted by LLMConfig but no
    # node gets them by itself: whoever asks for one must add the resource accelerator_type:A100-80G to the group.
    {
        "A100",
        "A100-40G",
        "A100-80G",
        "A10G",
        "B200",
        "B300",
        "GB200",
        "GB300",
        "H100",
        "H20",
        "H200",
        "K80",
        "L4",
        "L40S",
    }
    | {"P100", "P4", "RTX-PRO-6000", "T4", "V100"}
)


@lru_cache(maxsize=256)
def get(name: str) -> Gpu:
    """The GPU called `name`, also as nvidia-smi or a node label spells it; UnknownRow with close names otherwise."""
    return _BY_NAME.get(_spelled(name)) or lookup("GPU", name, {}, NAMES)


def for_ray_accelerator_type(accelerator_type: str) -> tuple[Gpu, ...]:
    """The GPUs that a Ray accelerator_type can mean: "A100" means two, an unknown name none."""
    sized = {"A100-40G": "A100-40G", "A100-80G": "A100-80G"}.get(accelerator_type)
    return tuple(gpu for gpu in GPUS if (gpu.name == sized if sized else gpu.ray_accelerator_type == accelerator_type))
