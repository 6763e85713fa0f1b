"""GPU rows: figures against one another and against what Ray derives from device names."""

import re

import pytest

from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow

# Device names as the driver spells them, and Ray 2.60's pattern for the accelerator type
# (ray/_private/accelerators/nvidia_gpu.py, NVIDIA_GPU_NAME_PATTERN).
_RAY_PATTERN = re.compile(r"\w+\s+((?:[A-Z]+\s+)*[A-Z0-9]*\d[A-Z0-9]*)")
_DEVICE_NAMES = {
    "A10G": "NVIDIA A10G",
    "A30": "NVIDIA A30",
    "A100-40G": "NVIDIA A100-SXM4-40GB",
    "A100-80G": "NVIDIA A100-SXM4-80GB",
    "A40": "NVIDIA A40",
    "B200": "NVIDIA B200",
    "B300": "NVIDIA B300 SXM6 AC",
    "GB200": "NVIDIA GB200",
    "GB300": "NVIDIA GB300",
    "H100": "NVIDIA H100 80GB HBM3",
    "H200": "NVIDIA H200",
    "L20": "NVIDIA L20",
    "L4": "NVIDIA L4",
    "L40": "NVIDIA L40",
    "L40S": "NVIDIA L40S",
    "RTX-3090": "NVIDIA GeForce RTX 3090",
    "RTX-4090": "NVIDIA GeForce RTX 4090",
    "RTX-5090": "NVIDIA GeForce RTX 5090",
    "RTX-6000-ADA": "NVIDIA RTX 6000 Ada Generation",
    "RTX-A6000": "NVIDIA RTX A6000",
    "RTX-PRO-4500": "NVIDIA RTX PRO 4500 Blackwell Server Edition",
    "RTX-PRO-6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "T4": "Tesla T4",
    "T4G": "NVIDIA T4G",
    "V100-16G": "Tesla V100-SXM2-16GB",
    "V100-32G": "Tesla V100-SXM2-32GB",
}


def test_rows_are_sorted_and_named_once() -> None:
    assert list(gpus.NAMES) == sorted(gpus.NAMES)
    spelled = [name.casefold() for gpu in gpus.GPUS for name in (gpu.name, *gpu.aliases)]
    assert len(spelled) == len(set(spelled))


@pytest.mark.parametrize("gpu", gpus.GPUS, ids=lambda gpu: gpu.name)
def test_a_process_sees_a_little_less_than_the_driver_reports(gpu: gpus.Gpu) -> None:
    assert 0.965 * gpu.memory_mib < gpu.cuda_memory_mib < gpu.memory_mib


@pytest.mark.parametrize("gpu", gpus.GPUS, ids=lambda gpu: gpu.name)
def test_mig_instances_fit_together_on_their_gpu(gpu: gpus.Gpu) -> None:
    for profile in gpu.mig_profiles:
        assert profile.memory_mib * profile.max_instances <= gpu.memory_mib, profile
        assert profile.compute_slices * profile.max_instances <= 7
        # "1g.10gb" is a round figure of what the instance has, in GB or GiB.
        stated = int(profile.name.split(".")[1].removesuffix("gb"))
        assert 0.86 * stated * 1000 < profile.memory_mib * 1.048576 < 1.06 * stated * 1024, profile


@pytest.mark.parametrize("gpu", gpus.GPUS, ids=lambda gpu: gpu.name)
def test_the_automatic_ray_label_is_what_ray_derives_from_the_device_name(gpu: gpus.Gpu) -> None:
    match = _RAY_PATTERN.match(_DEVICE_NAMES[gpu.name])
    assert (match.group(1).replace(" ", "-") if match else "") == gpu.ray_auto_label


def test_every_ray_accelerator_type_of_a_row_is_one_that_ray_accepts() -> None:
    for gpu in gpus.GPUS:
        assert gpu.ray_accelerator_type is None or gpu.ray_accelerator_type in gpus.RAY_ACCELERATOR_TYPES


def test_a_hundred_can_mean_two_sizes_to_ray_and_a_sized_name_one() -> None:
    assert [gpu.name for gpu in gpus.for_ray_accelerator_type("A100")] == ["A100-40G", "A100-80G"]
    assert [gpu.name for gpu in gpus.for_ray_accelerator_type("A100-80G")] == ["A100-80G"]
    assert gpus.for_ray_accelerator_type("H20") == ()


def test_names_are_found_in_any_case_and_by_alias() -> None:
    assert gpus.get("h100") is gpus.get("H100-80GB")
    assert gpus.get("a100-sxm4-40gb").cuda_memory_mib == 40335


@pytest.mark.parametrize("gpu", gpus.GPUS, ids=lambda gpu: gpu.name)
def test_a_gpu_is_found_as_nvidia_smi_and_node_labels_call_it(gpu: gpus.Gpu) -> None:
    device = _DEVICE_NAMES[gpu.name]
    assert gpus.get(device) is gpus.get(device.replace(" ", "-")) is gpu


def test_a_name_that_leaves_the_size_open_is_answered_with_both() -> None:
    with pytest.raises(UnknownRow, match=r"GPU 'A100' is not in the catalog; did you mean 'A100-40G' or 'A100-80G'\?"):
        gpus.get("A100")


def test_an_unknown_gpu_is_answered_with_the_closest_name() -> None:
    with pytest.raises(UnknownRow, match=r"GPU 'L40SS' is not in the catalog; did you mean 'L40S' or 'L40'\?"):
        gpus.get("L40SS")


def test_an_unknown_mig_profile_is_answered_with_those_of_the_gpu() -> None:
    with pytest.raises(UnknownRow) as caught:
        gpus.get("H100").mig_profile("nvidia.com/mig-1g.5gb")
    assert str(caught.value) == (
        "MIG profile '1g.5gb' is not in the catalog; did you mean '1g.20gb' or '1g.10gb' or '7g.80gb'? "
        "a H100 has 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"
    )
    with pytest.raises(UnknownRow, match="a L4 has no MIG"):
        gpus.get("L4").mig_profile("1g.5gb")


def test_low_precision_follows_the_compute_capability() -> None:
    assert not gpus.get("T4").bf16
    assert gpus.get("A100-80G").bf16
    assert not gpus.get("A100-80G").fp8
    assert gpus.get("L4").fp8
    assert not gpus.get("L4").fp4
    assert gpus.get("RTX-PRO-6000").fp4
