"""vLLM's CUDA platform on a machine with no GPU: so that vLLM checks engine arguments as it does on the GPU that a config names.

What vLLM decides from Python (divisibility, formats, capability, values that go together) is its own code; what needs the
compiled kernels or the device is absent and only answers whether it is there. Not for running a model, and not in a process that
also judges engines on CPU: vLLM has one platform for each process.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

_KERNEL_QUERIES = (  # vllm/_custom_ops.py: asked at import or when a quantisation method is made
    "cutlass_group_gemm_supported",
    "cutlass_scaled_mm_supports_block_fp8",
    "cutlass_scaled_mm_supports_fp4",
    "cutlass_scaled_mm_supports_fp8",
)
_FLASH_ATTENTION = (
    "compile_flash_attn_varlen_func_from_specs",
    "fa_version_unsupported_reason",
    "flash_attn_varlen_func",
    "get_scheduler_metadata",
    "is_fa_version_supported",
)
_GPUS_OF_A_NODE = 8
_platform: Any = None


def install() -> None:
    """Make it vLLM's platform. Before the first import of vllm."""
    global _platform
    import torch

    # Compiled extensions of the CUDA build, imported by name.
    for name, attributes in {
        "vllm._C_stable_libtorch": (),
        "vllm.vllm_flash_attn": _FLASH_ATTENTION,
        "vllm.vllm_flash_attn.flash_attn_interface": _FLASH_ATTENTION,
    }.items():
        module = ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, _absent)
        sys.modules[name] = module
    for query in _KERNEL_QUERIES:
        setattr(torch.ops._C, query, lambda *_: True)

    from vllm import platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    class PretendedGpu(CudaPlatformBase):  # type: ignore[misc]  # untyped here
        """A CUDA device by its figures."""

        figures: tuple[str, int, int, int] = ("NVIDIA H100 80GB HBM3", 9, 0, 80 << 30)

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(*cls.figures[1:3])

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return cls.figures[0]

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return cls.figures[3]

        @classmethod
        def device_count(cls) -> int:
            return _GPUS_OF_A_NODE

        @classmethod
        def is_fully_connected(cls, device_ids: list[int]) -> bool:
            return True

        @classmethod
        def is_integrated_gpu(cls, device_id: int = 0) -> bool:
            return False

        @classmethod
        def num_compute_units(cls, device_id: int = 0) -> int:
            return 132

        @classmethod
        def get_cuda_runtime_major(cls) -> int:
            return 13

        @classmethod
        def import_kernels(cls) -> None:
            return None

        @classmethod
        def log_warnings(cls) -> None:
            return None

    _platform = PretendedGpu
    platforms._current_platform = PretendedGpu()


def be(name: str, capability: tuple[int, int], memory: int) -> None:
    """The device of the next request: name as the driver says it, compute capability, bytes."""
    if _platform is None:
        raise RuntimeError("this judge pretends no GPU: start it with gpu=True")
    _platform.figures = (name, *capability, memory)


def _absent(*_: Any, **__: Any) -> bool:
    return False
