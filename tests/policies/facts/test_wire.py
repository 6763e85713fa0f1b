from __future__ import annotations

from typing import Any

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from policies.facts.wire import UNKNOWN, manifests, resource, shown

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"


def secret(value: Any) -> dict[str, Any]:
    """A secret as the engine sends it."""
    return {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": value}


def read(**props: Any) -> Any:
    return resource("aws:eks/nodeGroup:NodeGroup", "l4", props)


def test_whole_numbers_are_int_and_others_stay() -> None:
    got = read(a=8.0, b=0.45, c=True, d="8.0", e=None, f=[1.0, {"g": 2.0}])
    assert got.props == {"a": 8, "b": 0.45, "c": True, "d": "8.0", "e": None, "f": [1, {"g": 2}]}
    assert isinstance(got.props["a"], int)


@pytest.mark.parametrize("sentinel", sorted(UNKNOWN))
def test_what_is_not_known_leaves_and_its_path_is_kept(sentinel: str) -> None:
    got = read(subnetIds=[sentinel, "subnet-1"], scalingConfig={"minSize": sentinel, "maxSize": 2.0})
    assert got.props == {"subnetIds": ["subnet-1"], "scalingConfig": {"maxSize": 2}}
    assert got.unknown == ("subnetIds[0]", "scalingConfig.minSize")
    assert got.is_unknown("scalingConfig.minSize")
    assert got.is_unknown("subnetIds[0].id")
    assert not got.is_unknown("scalingConfig")


def test_the_sdk_s_own_sentinels_are_known_here() -> None:
    import pulumi_policy.proxy as proxy

    assert {value for name, value in vars(proxy).items() if name.startswith("UNKNOWN_")} == UNKNOWN


def test_a_policy_s_proxies_are_read_like_plain_properties() -> None:
    props = {"a": {"b": UNKNOWN_STRING_VALUE, "c": [1.0, UNKNOWN_STRING_VALUE]}}
    got = resource("t", "n", unknown_checking_proxy(props))
    assert got.props == {"a": {"c": [1]}}
    assert got.unknown == ("a.b", "a.c[1]")


def test_a_guess_stands_where_the_unknown_value_was_and_an_image_stays_an_image() -> None:
    got = read(a=UNKNOWN_STRING_VALUE, image=UNKNOWN_STRING_VALUE, b=1.0)
    assert got.guessed(0).props == {"a": 0, "image": 0, "b": 1}
    assert got.guessed("x").props["a"] == "x"
    assert "@sha256:" in got.guessed("x").props["image"]
    assert read(b=1.0).guessed("x").props == {"b": 1}


def test_a_secret_text_is_readable_by_rules_and_hidden_from_messages() -> None:
    got = read(env=[{"name": "HF_TOKEN", "value": secret(TOKEN)}])
    assert got.props["env"][0]["value"] == TOKEN
    assert got.secrets == {TOKEN}
    assert shown(f"HF_TOKEN={TOKEN}!", got.secrets) == "HF_TOKEN=[secret]!"


def test_of_a_tree_that_one_leaf_made_secret_only_what_is_named_like_a_secret_is_hidden() -> None:
    got = read(values=secret({"image": "registry.example.com/app:1.2.3", "auth": {"apiKey": "0123456789abcdef"}}))
    assert got.props["values"]["image"] == "registry.example.com/app:1.2.3"
    assert got.secrets == {"0123456789abcdef"}


def test_a_secret_that_is_not_known_is_unknown() -> None:
    assert read(password=secret(UNKNOWN_STRING_VALUE)).unknown == ("password",)


def test_assets_keep_their_path_and_the_engine_s_own_keys_leave() -> None:
    asset = {"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "path": "values.yaml", "hash": "x"}
    assert read(valueYamlFiles=[asset], __defaults=[]).props == {"valueYamlFiles": [{"path": "values.yaml"}]}


def test_lists_of_objects_are_opened_and_what_is_no_object_is_left_out() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    got = manifests([None, {"x": 1}, {"apiVersion": "v1", "kind": "List", "items": [service]}], "all.yaml")
    assert [(each.type, each.name, each.urn) for each in got] == [("kubernetes:v1:Service", "a", "all.yaml")]
    assert got[0].manifest == service


def test_a_patch_of_somebody_else_s_object_is_no_object_of_the_stack() -> None:
    props = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert resource("kubernetes:core/v1:ConfigMapPatch", "a", props).manifest is None
