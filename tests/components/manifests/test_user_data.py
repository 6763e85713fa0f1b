from __future__ import annotations

import tomllib
from email import message_from_string
from typing import Any

import jsonschema
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from components.manifests.user_data import ClusterAccess, karpenter_user_data, node_config, user_data
from tests.components.manifests.pools import pool


class UserDataFile(SingleFileSnapshotExtension):
    """One readable file for each golden document."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


CLUSTER = ClusterAccess(
    name="llm-serving-test",
    endpoint="https://cluster.example",
    certificate_authority="Y2VydGlmaWNhdGU=",
    service_cidr="172.20.0.0/16",
)
POOLS: dict[str, dict[str, Any]] = {
    "al2023_nvme": {"instance_types": ["g6.2xlarge"]},
    "custom_ami": {
        "instance_types": ["g7.2xlarge"],
        "ami_id": "ami-0123456789abcdef0",
        "labels": {"team": "serving"},
        "taints": [{"key": "nvidia.com/gpu", "value": "present"}, {"key": "dedicated", "effect": "NoExecute"}],
    },
    "bottlerocket": {"instance_types": ["g6.2xlarge"], "ami": "BOTTLEROCKET_x86_64_NVIDIA"},
    "bottlerocket_time_slicing": {
        "instance_types": ["g6.2xlarge"],
        "ami": "BOTTLEROCKET_x86_64_NVIDIA",
        "sharing": {"strategy": "time_slicing", "replicas": 4},
    },
    "bottlerocket_mps": {
        "instance_types": ["g6.2xlarge"],
        "ami": "BOTTLEROCKET_x86_64_NVIDIA",
        "sharing": {"strategy": "mps", "replicas": 2, "rename_by_default": True},
    },
    "bottlerocket_mig": {
        "instance_types": ["p5.48xlarge"],
        "ami": "BOTTLEROCKET_x86_64_NVIDIA",
        "sharing": {"strategy": "mig", "mig_profile": "1g.10gb"},
    },
}

# spec of NodeConfig as nodeadm's CRD has it (amazon-eks-ami 81fec2e8), as far as this program writes it; closed, so that a
# key that nodeadm does not know fails.
NODE_CONFIG = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "spec"],
    "properties": {
        "apiVersion": {"const": "node.eks.aws/v1alpha1"},
        "kind": {"const": "NodeConfig"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "cluster": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        key: {"type": "string"} for key in ("name", "apiServerEndpoint", "certificateAuthority", "cidr")
                    },
                },
                "instance": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "localStorage": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"strategy": {"enum": ["RAID0", "RAID10", "Mount"]}},
                        }
                    },
                },
                "kubelet": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "config": {"type": "object"},
                        "flags": {"type": "array", "items": {"type": "string"}},
                    },
                },
            },
        },
    },
}


@pytest.mark.parametrize("name", sorted(POOLS))
def test_user_data_is_as_reviewed(name: str, snapshot: SnapshotAssertion) -> None:
    assert user_data(pool(**POOLS[name]), CLUSTER) == snapshot(extension_class=UserDataFile)


def test_the_mime_document_holds_one_node_config_that_nodeadm_knows() -> None:
    for name in ("al2023_nvme", "custom_ami"):
        document = message_from_string(user_data(pool(**POOLS[name]), CLUSTER) or "")
        assert document["MIME-Version"] == "1.0"
        assert document.get_content_type() == "multipart/mixed"
        (part,) = document.get_payload()
        assert part.get_content_type() == "application/node.eks.aws"
        jsonschema.validate(yaml.safe_load(part.get_payload()), NODE_CONFIG)


def test_a_managed_image_leaves_cluster_labels_and_taints_to_eks() -> None:
    assert node_config(pool(instance_types=["g6.2xlarge"]), None)["spec"] == {
        "instance": {"localStorage": {"strategy": "RAID0"}}
    }


def test_a_node_without_anything_to_say_has_no_user_data() -> None:
    assert user_data(pool(instance_types=["m7i.large"])) is None
    assert user_data(pool(instance_types=["g5g.xlarge"])) is None


def test_a_custom_image_is_told_cluster_labels_and_taints() -> None:
    spec = node_config(pool(**POOLS["custom_ami"]), CLUSTER)["spec"]
    assert spec["cluster"]["cidr"] == "172.20.0.0/16"
    labels, taints = spec["kubelet"]["flags"]
    assert labels.startswith("--node-labels=")
    assert "llm-serving/pool=gpu" in labels
    assert "team=serving" in labels
    assert taints == "--register-with-taints=nvidia.com/gpu=present:NoSchedule,dedicated:NoExecute"


def test_bottlerocket_settings_are_toml_with_storage_and_sharing() -> None:
    settings = tomllib.loads(user_data(pool(**POOLS["bottlerocket_mig"])) or "")["settings"]
    assert settings["kubelet-device-plugins"]["nvidia"]["mig"]["profile"] == {"h100.80gb": "1g.10gb"}
    named = {**POOLS["bottlerocket_mig"], "sharing": {"strategy": "mig", "mig_profile": "all-1g.10gb"}}
    assert user_data(pool(**named)) == user_data(pool(**POOLS["bottlerocket_mig"]))
    (storage,) = settings["bootstrap-commands"].values()
    assert storage["essential"] is True
    assert storage["commands"][0] == ["apiclient", "ephemeral-storage", "init"]


def test_karpenter_sets_up_storage_itself_and_needs_only_the_sharing() -> None:
    assert karpenter_user_data(pool(kind="karpenter", instance_types=["g6.2xlarge"])) is None
    plain = karpenter_user_data(pool(kind="karpenter", **POOLS["bottlerocket"]))
    assert plain is None
    settings = tomllib.loads(karpenter_user_data(pool(kind="karpenter", **POOLS["bottlerocket_time_slicing"])) or "")
    assert list(settings["settings"]) == ["kubelet-device-plugins"]


def test_user_data_is_the_same_bytes_each_time() -> None:
    for fields in POOLS.values():
        assert user_data(pool(**fields), CLUSTER) == user_data(pool(**fields), CLUSTER)
