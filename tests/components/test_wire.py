"""The judge is judged: what the API does not take must fail, or the stacks in moto prove nothing."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.components.cloud import ROWS, MotoCloud
from tests.components.program import MockResourceArgs
from tests.components.wire import NotInTheApi, request


def judged(
    service: str, operation: str, inputs: dict[str, Any], renames: dict[str, str] | None = None
) -> dict[str, Any]:
    client = boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    return request(client.meta.service_model.operation_model(operation), inputs, renames or {}, "here")


GROUP = {"clusterName": "c", "nodegroupName": "g", "nodeRole": "r", "subnets": ["s"]}


def test_names_are_matched_by_their_letters_and_values_get_their_types() -> None:
    found = judged("eks", "CreateNodegroup", GROUP | {"scalingConfig": {"minSize": 0.0, "maxSize": 2.0}})
    assert found["scalingConfig"] == {"minSize": 0, "maxSize": 2}
    data = {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true", "volumeSize": 100.0}}]}
    template = judged("ec2", "CreateLaunchTemplate", {"launchTemplateName": "abc", "launchTemplateData": data})
    assert template["LaunchTemplateData"]["BlockDeviceMappings"] == [
        {"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeSize": 100}}
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"amiTyp": "AL2023_x86_64_NVIDIA"}, "no such member"),
        ({"amiType": "AL2023_x86_64_NVIDEA"}, "is not one of"),
        ({"capacityType": "RESERVED"}, "is not one of"),
        ({"scalingConfig": {"minSize": 1.5}}, "no whole number"),
        ({"scalingConfig": {"minSize": -1.0}}, "valid min value"),
        ({"taints": [{"key": "k" * 64}]}, "at most 63"),
        ({"taints": [{"effect": "NoSchedule"}]}, "is not one of"),
        ({"subnets": None}, "Missing required parameter"),
    ],
)
def test_what_the_api_does_not_take_fails(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises((NotInTheApi, ValueError), match=message):
        judged("eks", "CreateNodegroup", GROUP | wrong)


def test_a_resource_type_that_nobody_mapped_fails() -> None:
    with pytest.raises(AssertionError, match="no row for aws:rds/instance:Instance"):
        MotoCloud("us-east-1").new_resource(MockResourceArgs(typ="aws:rds/instance:Instance", name="db", inputs={}))


def test_every_row_names_an_operation_that_exists() -> None:
    cloud = MotoCloud("us-east-1")
    for row in ROWS.values():
        assert row.operation in cloud.client(row.service).meta.service_model.operation_names
