from __future__ import annotations

import pytest

from components.config import AwsCluster, ConfigError, parse
from components.naming import ROLE_PREFIX, cluster_name, log_group, prefix, tags


def config(**fields: object) -> AwsCluster:
    found = parse({"cluster": {"kind": "aws", "region": "us-east-1", **fields}}).cluster
    assert isinstance(found, AwsCluster)
    return found


def test_the_cluster_is_called_after_project_and_environment_unless_it_is_stated() -> None:
    assert cluster_name(config(), "dev") == "llm-serving-dev"
    assert cluster_name(config(), "eu.dev") == "llm-serving-eu-dev"
    assert cluster_name(config(name="mine"), "dev") == "mine"
    assert log_group("mine") == "/aws/eks/mine/cluster"


def test_a_name_that_eks_does_not_take_is_refused() -> None:
    for wrong in ("my.cluster", "-a", "a" * 81):
        with pytest.raises(ConfigError, match=r"cluster\.name"):
            config(name=wrong)


def test_a_prefix_is_cut_and_ends_with_one_dash() -> None:
    assert prefix("dev-node", ROLE_PREFIX) == "dev-node-"
    assert prefix("a" * 80, ROLE_PREFIX) == "a" * 37 + "-"
    assert prefix("a" * 36 + "-node", ROLE_PREFIX) == "a" * 36 + "-"


def test_tags_say_who_manages_what() -> None:
    assert tags(config(tags={"team": "a"})) == {"managed-by": "llm-serving", "team": "a"}
