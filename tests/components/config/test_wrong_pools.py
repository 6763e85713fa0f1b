"""Wrong node pools in bulk, each field wrong in each way that is possible, on pools of every kind: each is told by the pool's name."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from components.config import ConfigError, parse
from components.plan import assemble
from tests.components.aws_stacks import BLOCK, ODCR, STACKS

KINDS = (
    "on_demand",
    "spot",
    "capacity_block",
    "efa",
    "mig",
    "karpenter",
    "karpenter_efa",
    "bottlerocket",
    "custom_ami",
)
WRONG: dict[str, tuple[Any, ...]] = {
    "instance_types": (
        [],
        None,
        "g6.2xlarge",
        [1],
        [""],
        ["p5.48xl"],
        ["G6.2XLARGE"],
        ["inf2.xlarge"],
        ["g6.2xlarge"] * 2,
        ["g6.2xlarge", "m7i.xlarge"],
        ["g6.2xlarge", "g5g.4xlarge"],
        ["g6.2xlarge", "p5.48xlarge"],
    ),
    "zones": ([], "us-east-1a", ["us-east-1"], ["us-west-2a"], ["use1-az1"], ["us-east-1a"] * 2),
    "min": (-1, 1.5, None, "one", 10**6),
    "max": (-1, None, [], {"of": 1}),
    "desired": (-1, "x", 99),
    "capacity": ("on-demand", "", None, "reserved"),
    "reservation": (
        "cr-0123",
        {},
        {"id": "cr-x", "kind": "on_demand"},
        {"id": BLOCK["id"], "kind": "blok"},
        {"id": BLOCK["id"]},
    ),
    "ami": (
        "",
        "ubuntu",
        "CUSTOM_",
        "AL2_x86_64_GPU",
        "al2023_x86_64_nvidia",
        "AL2023_ARM_64_NVIDIA",
        "BOTTLEROCKET_x86_64",
        "AL2023_x86_64_NEURON",
        "WINDOWS_CORE_2022_x86_64",
    ),
    "ami_id": ("ami", "ami-XYZ", "", 1),
    "ami_release": ("", "latest", "1.34.2-20261101", "20261101"),
    "driver_version": ("", "abc", "v580", "580.95.05.01", 580),
    "efa": ("maybe", None, 2),
    "placement_group": ("", "x" * 256),
    "root_disk_gib": (0, 65537, 3.5, "20Gi"),
    "max_unavailable": (0, 101, None),
    "limits": ([], "x", {"nvidia.com/gpu": -1}, {"memory": "10GB"}, {"cpu": "abc"}),
    "hop_limit": (0, 65, "two"),
    "node_repair": ("nope", None),
    "kind": ("", None, "self_managed", "fargate", "existing"),
    "labels": ([], {"a b": "c"}, {"k": "v w"}, {"k": 1}, {"k": True}, {"llm-serving/pool": "x"}, {"k" * 64: "v"}),
    "taints": (["a"], "a", [{}], [{"key": "a b"}], [{"key": "a", "effect": "NoSchedul"}], [{"key": "a"}, {"key": "a"}]),
    "sharing": (
        "mig",
        {"strategy": "MIG"},
        {"replicas": 2},
        {"rename_by_default": True},
        {"mig_profile": ""},
        {"strategy": "mig", "mig_profile": "9g.90gb"},
        {"strategy": "mps", "replicas": 49},
        {"strategy": "time_slicing"},
        {"mig_profile": "1g.10gb"},
        {"strategy": "kai", "replicas": 2},
        {"strategy": "mps", "replicas": 1},
    ),
    "instance_type": ("g6.2xlarge",),
    "gpus": (1,),
}
TOGETHER: tuple[dict[str, Any], ...] = (
    {"min": 3, "max": 2},
    {"min": 1, "max": 0},
    {"placement_group": "theirs", "zones": None},
    {"min": 2, "desired": 1, "max": 3},
    {"reservation": BLOCK, "capacity": "spot", "zones": ["us-east-1a"]},
    {"reservation": BLOCK, "zones": ["us-east-1a", "us-east-1b"]},
    {"reservation": BLOCK, "zones": ["us-east-1a"], "instance_types": ["m7i.xlarge"], "efa": False, "ami": None},
    {"reservation": ODCR, "zones": ["us-east-1a"], "instance_types": ["p5.48xlarge", "p5e.48xlarge"]},
    {"efa": True, "instance_types": ["g6.2xlarge"]},
    {"efa": True, "instance_types": ["p5.48xlarge"], "zones": ["us-east-1a", "us-east-1b"]},
    {"ami": "CUSTOM", "ami_id": None},
    {"ami": "AL2023_x86_64_NVIDIA", "ami_id": None, "driver_version": None, "root_disk_gib": 19},
    {"ami": "AL2023_x86_64_NVIDIA", "ami_id": "ami-0123456789abcdef0", "ami_release": None},
)


def judged(base: dict[str, Any], change: dict[str, Any]) -> tuple[str, list[str]]:
    """(name of the GPU pool, what is said of the environment with this change to that pool)."""
    values = copy.deepcopy(base)
    name = next(each for each in values["node_pools"] if each != "core")
    values["node_pools"][name].update(change)
    try:
        return name, [each.sentence() for each in assemble(parse(values)).plan.findings]
    except ConfigError as refused:
        return name, list(refused.problems)


@pytest.mark.parametrize("kind", KINDS)
def test_each_wrong_pool_is_told_by_name_and_with_more_than_it_was_told_before(kind: str) -> None:
    _, before = judged(STACKS[kind], {})
    silent = []
    for change in [*({field: value} for field, values in WRONG.items() for value in values), *TOGETHER]:
        name, said = judged(STACKS[kind], change)
        told = [each for each in said if each not in before and f"'{name}'" in each]
        if not told:
            silent.append(change)
        for each in told:
            assert " was given; input should" not in each, "pydantic's own words name no mend"
            assert ";" in each or "allowed:" in each, each
    assert silent == []


@pytest.mark.parametrize("kind", ["on_demand", "capacity_block", "mig"])
def test_pools_at_the_edge_of_what_is_allowed_are_told_nothing(kind: str) -> None:
    _, before = judged(STACKS[kind], {})
    edges: tuple[dict[str, Any], ...] = (
        {"max": 450},
        {"root_disk_gib": 20},
        {"hop_limit": 64, "max_unavailable": 100, "node_repair": False},
        {"ami_id": "ami-0123456789abcdef0", "driver_version": "580.95.05"},
        {"ami_id": "ami-0123456789abcdef0", "driver_version": "595", "root_disk_gib": 8},
        {"ami": "BOTTLEROCKET_x86_64_NVIDIA", "root_disk_gib": 8, "sharing": {}},
        {"sharing": {"strategy": "time_slicing", "replicas": 2, "rename_by_default": True}},
        {"labels": {"example.com/role": "gpu", "topology.kubernetes.io/zone": "us-east-1b"}},
    )
    for change in edges:
        _, said = judged(STACKS[kind], change)
        assert [each for each in said if each not in before] == [], change
