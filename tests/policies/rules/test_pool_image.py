"""Releases and spellings of machine images, and of instance types."""

from __future__ import annotations

import pytest

from .stacks import core, found, karpenter_pool, karpenter_stack, sentences, with_pool

BOTTLEROCKET = "BOTTLEROCKET_x86_64_NVIDIA"


@pytest.mark.parametrize(
    ("ami_type", "release", "taken"),
    [
        ("AL2023_x86_64_NVIDIA", "1.35.2-20261101", True),
        ("AL2023_x86_64_NVIDIA", "1.34.2-20261101", False),
        ("AL2023_x86_64_NVIDIA", "v20261101", False),
        ("AL2023_x86_64_NVIDIA", "latest", False),
        (BOTTLEROCKET, "1.54.0-5ed15786", True),
        (BOTTLEROCKET, "1.54.0", False),
        (BOTTLEROCKET, "1.35.2-20261101", False),
    ],
)
def test_a_managed_groups_release_has_its_form_and_its_kubernetes(ami_type: str, release: str, taken: bool) -> None:
    given = with_pool(ami_type=ami_type, ami_release=release)
    assert (("pool-image-release", "error") not in found(given)) is taken


@pytest.mark.parametrize(
    ("ami_type", "release", "taken"),
    [
        ("AL2023_x86_64_NVIDIA", "v20261101", True),
        ("AL2023_x86_64_NVIDIA", "1.35.2-20261101", False),
        (BOTTLEROCKET, "1.54.0", True),
        (BOTTLEROCKET, "v1.54.0", True),
        (BOTTLEROCKET, "v20261101", False),
    ],
)
def test_karpenters_release_has_another_form(ami_type: str, release: str, taken: bool) -> None:
    given = karpenter_stack(pools=(core(max=2), karpenter_pool(ami_type=ami_type, ami_release=release)))
    assert (("pool-image-release", "error") not in found(given)) is taken


def test_a_release_of_another_kubernetes_is_told_with_both() -> None:
    assert sentences(with_pool(ami_release="1.33.1-20260301"), "pool-image-release") == [
        "node pool 'l4': ami_release 1.33.1-20260301 is for Kubernetes 1.33 and the cluster has 1.35: EKS refuses the node group; use a release of 1.35, or "
        "leave it out [pool-image-release]"
    ]


def test_names_are_written_as_ec2_and_eks_write_them() -> None:
    assert sentences(with_pool(instance_types=("G6.2xlarge",)), "pool-type") == [
        "node pool 'l4': instance type 'G6.2xlarge' is none: EC2 writes 'g6.2xlarge'; write it so [pool-type]"
    ]
    assert sentences(with_pool(ami_type="AL2023_X86_64_NVIDIA"), "pool-image") == [
        "node pool 'l4': AMI type 'AL2023_X86_64_NVIDIA' is none: EKS writes 'AL2023_x86_64_NVIDIA'; write it so [pool-image]"
    ]


@pytest.mark.parametrize("name", ["inf2.xlarge", "trn2.48xlarge", "g4ad.xlarge", "dl1.24xlarge"])
def test_accelerators_of_other_makers_are_told_as_such(name: str) -> None:
    (sentence,) = sentences(with_pool(instance_types=(name,)), "pool-type")
    assert f"instance type '{name}' has no NVIDIA GPU" in sentence


def test_the_latest_image_drifts_under_karpenter() -> None:
    latest = karpenter_stack(pools=(core(max=2), karpenter_pool(ami_release=None)))
    assert found(latest) == [("pool-image-drift", "warning")]
    own = karpenter_pool(ami_release=None, ami_type="CUSTOM", ami_id="ami-1", driver_version="580")
    assert found(karpenter_stack(pools=(core(max=2), own))) == []
    assert found(with_pool(ami_release=None)) == []  # a node group stays where it is
