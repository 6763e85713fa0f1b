"""Addresses and folders of the local cluster come from one place and can be changed from the environment."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from local.errors import LocalError
from local.settings import Settings, from_environment


def test_without_variables_the_defaults_hold() -> None:
    assert from_environment({}) == Settings()
    assert str(Settings().node_address) == "10.231.0.2"
    assert Settings().apiserver == "https://10.231.0.2:6443"


def test_each_variable_changes_its_field() -> None:
    settings = from_environment(
        {
            "LLM_LOCAL_NODE_NETWORK": "10.9.0.0/24",
            "LLM_LOCAL_POD_NETWORK": "10.8.0.0/16",
            "LLM_LOCAL_SERVICE_NETWORK": "10.7.0.0/16",
            "LLM_LOCAL_STATE": "/big/disk",
        }
    )
    assert settings.node_network == IPv4Network("10.9.0.0/24")
    assert settings.pod_network == IPv4Network("10.8.0.0/16")
    assert settings.service_network == IPv4Network("10.7.0.0/16")
    assert settings.state == Path("/big/disk/local")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "LLM_LOCAL_POD_NETWORK",
            "10.8.0.0/33",
            "LLM_LOCAL_POD_NETWORK is '10.8.0.0/33', which is no IPv4 network: '33' is not a valid netmask\n"
            "  to fix: give one like 10.231.0.0/30",
        ),
        (
            "LLM_LOCAL_NODE_NETWORK",
            "10.8.0.0/31",
            "LLM_LOCAL_NODE_NETWORK is '10.8.0.0/31', which is too small\n  to fix: give a network of /30 or wider",
        ),
        (
            "LLM_LOCAL_STATE",
            "here",
            "LLM_LOCAL_STATE is 'here', which is not an absolute path\n  to fix: give an absolute path",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_told_with_its_variable(variable: str, value: str, message: str) -> None:
    with pytest.raises(LocalError) as caught:
        from_environment({variable: value})
    assert str(caught.value) == message


def test_the_longest_name_makes_a_device_name_that_linux_takes() -> None:
    assert len(Settings(name="x" * 11).host_link) == 15
