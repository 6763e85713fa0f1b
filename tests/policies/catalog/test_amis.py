"""AMI types against the EKS API's own enumeration."""

import botocore.session
import pytest

from policies.catalog import amis, instances
from policies.catalog.lookup import UnknownRow


def test_every_linux_ami_type_of_the_eks_api_has_a_row() -> None:
    model = botocore.session.get_session().get_service_model("eks")
    values = {value for value in model.shape_for("AMITypes").enum if not value.startswith("WINDOWS")}
    assert values == set(amis.NAMES)


@pytest.mark.parametrize(
    ("ami", "instance", "drives"),
    [
        ("AL2023_x86_64_NVIDIA", "g6e.xlarge", True),
        ("AL2023_x86_64_NVIDIA", "m7i.large", True),
        ("AL2023_x86_64_STANDARD", "g6e.xlarge", False),
        ("AL2023_x86_64_STANDARD", "m7i.large", True),
        ("AL2023_x86_64_NVIDIA", "g7.2xlarge", True),
        ("BOTTLEROCKET_x86_64_NVIDIA", "g7.2xlarge", False),
        ("BOTTLEROCKET_ARM_64_NVIDIA", "g5g.xlarge", True),
        ("BOTTLEROCKET_ARM_64_NVIDIA", "p6e-gb200.36xlarge", False),
        ("AL2023_ARM_64_NVIDIA", "p6e-gb200.36xlarge", True),
        ("AL2023_x86_64_NVIDIA", "g5g.xlarge", False),
        ("AL2023_ARM_64_NVIDIA", "g5g.xlarge", True),
        ("BOTTLEROCKET_x86_64_NVIDIA", "p5.48xlarge", True),
        ("AL2023_x86_64_STANDARD", "m7g.large", False),
        ("CUSTOM", "g7.2xlarge", True),
    ],
)
def test_an_image_drives_the_types_of_its_architecture_and_driver(ami: str, instance: str, drives: bool) -> None:
    assert amis.get(ami).drives(instances.get(instance)) is drives


def test_only_bottlerocket_brings_the_device_plugin() -> None:
    assert {row.operating_system for row in amis.AMI_TYPES if row.device_plugin} == {"bottlerocket"}


def test_an_unknown_ami_type_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownRow, match=r"AMI type 'AL2023_X86_NVIDIA' is not in the catalog; did you mean"):
        amis.get("AL2023_X86_NVIDIA")
