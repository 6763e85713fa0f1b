"""EC2 instance rows against the enumeration of the AWS provider, and against Karpenter's own formula."""

import math

import pulumi_aws.ec2
import pytest

from policies.catalog import gpus, instances
from policies.catalog.ec2_cpu_types import CPU_TYPES
from policies.catalog.ec2_gpu_types import GPU_TYPES
from policies.catalog.lookup import UnknownRow

_PROVIDER = frozenset(member.value for member in pulumi_aws.ec2.InstanceType)
# Families of g and p whose accelerators are not NVIDIA's, or that were retired before this catalog (g2, g3, p2).
_OTHER = ("g2", "g3", "g3s", "g4ad", "p2")


def test_every_row_is_an_instance_type_of_the_aws_provider() -> None:
    assert {row.name for row in instances.INSTANCES} <= _PROVIDER


def test_every_nvidia_type_of_the_aws_provider_has_a_row() -> None:
    nvidia = {name for name in _PROVIDER if name[0] in "gp" and name.split(".")[0] not in _OTHER}
    assert nvidia == {row.name for row in GPU_TYPES}


def test_names_are_unique() -> None:
    assert len(instances.NAMES) == len(instances.INSTANCES)


@pytest.mark.parametrize("row", instances.INSTANCES, ids=lambda row: row.name)
def test_allocatable_is_karpenters_computation(row: instances.Instance) -> None:
    # kube-reserved CPU: 6 % of the first core, 1 % of the second, 0.5 % of two more, 0.25 % of the rest.
    reserved = sum(60 if core == 0 else 10 if core == 1 else 5 if core < 4 else 2.5 for core in range(row.vcpu))
    assert row.allocatable_cpu_millis == int(row.vcpu * 1000 - reserved)
    # Memory: 7.5 % of VM overhead (64 MiB more on Arm), 255 MiB + 11 MiB a pod, eviction at 100 MiB.
    usable = (row.memory_gib * 1024 - (64 if row.architecture == "arm64" else 0)) * 0.925 - 355
    pods = (usable - row.allocatable_memory_mib) / 11
    assert 8 <= pods <= 2000
    assert abs(pods - round(pods)) < 0.1


@pytest.mark.parametrize("row", GPU_TYPES, ids=lambda row: row.name)
def test_gpu_rows_agree_with_the_gpu_catalog(row: instances.Instance) -> None:
    gpu = instances.gpu_of(row)
    assert gpu is not None
    if row.ec2_gpu_count:
        assert row.gpus == row.ec2_gpu_count
        assert gpu.memory_mib == pytest.approx(row.ec2_gpu_memory_mib, rel=0.07)
        assert instances.usable_gpu_memory_mib(row) == gpu.cuda_memory_mib
    else:
        assert row.gpus == 1
        assert math.log2(gpu.cuda_memory_mib / instances.usable_gpu_memory_mib(row)) == pytest.approx(
            round(math.log2(gpu.cuda_memory_mib / instances.usable_gpu_memory_mib(row))), abs=0.02
        )


def test_cpu_rows_have_no_gpu() -> None:
    assert all(row.gpu is None and row.gpus == 0 and instances.usable_gpu_memory_mib(row) == 0 for row in CPU_TYPES)


def test_karpenter_does_not_see_the_gpu_of_fractional_types() -> None:
    assert {row.name for row in GPU_TYPES if row.karpenter and not row.karpenter_sees_gpu} == {
        "g6f.large",
        "g6f.xlarge",
        "g6f.2xlarge",
        "g6f.4xlarge",
        "gr6f.4xlarge",
    }


def test_a_gpu_lists_the_types_that_carry_it() -> None:
    assert [row.name for row in instances.gpu_instances("H100")] == ["p5.4xlarge", "p5.48xlarge"]
    assert all(gpus.get(str(row.gpu)) for row in instances.gpu_instances())


def test_a_misspelled_type_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownRow) as caught:
        instances.get("p5.48xl")
    assert str(caught.value) == "instance type 'p5.48xl' is not in the catalog; did you mean 'p5.48xlarge'?"
    assert caught.value.closest == ("p5.48xlarge",)
