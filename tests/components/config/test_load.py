"""Config is read with one clear sentence for each mistake."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from components.config import ConfigError, Environment, load_file, parse
from tests.components.environments import WHOLE_GPU, environment


def problems(values: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(values)
    return caught.value.problems


def test_a_compliant_environment_is_read() -> None:
    assert set(parse(WHOLE_GPU).services) == {"chat"}


def test_an_unknown_key_names_its_place_and_the_closest_key() -> None:
    (problem,) = problems({"services": {"chat": {"models": {"a": {"engin_args": {}}}}}})
    assert problem.startswith(
        "service 'chat': model 'a': unknown key 'engin_args'; did you mean 'engine_args'? allowed: "
    )


def test_an_unknown_key_at_the_root_is_found() -> None:
    (problem,) = problems({"servces": {}})
    assert problem.startswith("config: unknown key 'servces'; did you mean 'services'?")


def test_negative_replicas_say_what_was_given() -> None:
    (problem,) = problems({"services": {"chat": {"models": {"a": {"replicas": {"min": -1}}}}}})
    assert problem == "service 'chat': model 'a': replicas.min: -1 was given; at least 0 is wanted"


def test_an_unknown_app_names_the_apps_there_are() -> None:
    (problem,) = problems({"services": {"chat": {"app": "openai_chatt"}}})
    assert problem == (
        "service 'chat': app: \"openai_chatt\" was given; no such app in serve_apps/; did you mean 'openai_chat'? allowed: batch, openai_chat"
    )


def test_every_mistake_is_said_at_once() -> None:
    found = problems(
        {"services": {"chat": {"replica": 1, "models": {"a": {"gpu": {"share": 2}}}}}, "queues": {"q": {"gpus": 1}}}
    )
    assert [p.split(": ")[0] for p in found] == ["queue 'q'", "service 'chat'", "service 'chat'"]


def test_a_pool_of_a_kind_is_judged_by_the_fields_of_that_kind() -> None:
    (problem,) = problems({"node_pools": {"h100": {"instance_types": ["p5.48xlarge"], "maxx": 2}}})
    assert problem.startswith("node pool 'h100': unknown key 'maxx'; did you mean 'max'? allowed: ")
    assert "gpus_per_node" not in problem  # a field of existing pools


def test_a_missing_field_is_named() -> None:
    assert problems({"node_pools": {"a": {"kind": "existing", "cpu": 4}}}) == [
        "node pool 'a': 'memory_gib' is missing; give it"
    ]


def test_a_file_with_pulumi_keys_and_one_without_are_the_same(tmp_path: Path) -> None:
    bare = tmp_path / "bare.yaml"
    bare.write_text("image: registry.example.com/a\n")
    full = tmp_path / "Pulumi.x.yaml"
    full.write_text("config:\n  aws:region: us-east-1\n  llm-serving:image: registry.example.com/a\n")
    assert load_file(bare) == load_file(full) == Environment(image="registry.example.com/a")


def test_a_file_that_is_not_there_or_not_yaml_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_file(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        textwrap.dedent("""\
        config:
          a: [1
        """)
    )
    with pytest.raises(ConfigError, match=r"broken\.yaml:3:1: not YAML"):
        load_file(broken)


def test_config_is_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        environment().services["chat"].app = "x"  # type: ignore[misc]
