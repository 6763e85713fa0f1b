"""Figures of the plan: GPUs, nodes and money at rest, at full load and in an upgrade."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from components.config import deep_merge, parse
from components.plan import page, plan, serial, view
from components.plan.result import Range
from tests.components.environments import environment, with_model
from tests.components.shapes import SHAPES


def test_a_new_cluster_doubles_the_gpus_of_a_fixed_service() -> None:
    (service,) = plan(environment()).services
    assert service.gpus == Range(min=1, max=1, upgrade=2)


@pytest.mark.parametrize(
    ("upgrade", "peak"), [({"strategy": "none"}, 4), ({"strategy": "new_cluster"}, 5), ({"strategy": "incremental"}, 6)]
)
def test_the_peak_of_an_upgrade_follows_its_strategy(upgrade: dict[str, str], peak: float) -> None:
    env = with_model({"replicas": {"min": 1, "max": 4}}, upgrade=upgrade)
    (service,) = plan(env).services
    assert service.gpus == Range(min=1, max=4, upgrade=peak)


def test_shares_are_counted_as_the_gpus_that_pods_hold() -> None:
    (service,) = plan(parse(SHAPES["shares_of_one_gpu"])).services
    assert service.gpus == Range(min=1, max=2, upgrade=3)
    assert [e.gpus_per_replica for e in service.engines] == [0.45, 0.45]


@pytest.mark.parametrize(("limit", "refused"), [(0.9, False), (0.4, True)])
def test_a_queue_counts_a_vgpu_as_its_part_of_a_gpu(limit: float, refused: bool) -> None:
    two = {
        "services": {
            "small": {
                "models": {
                    "b": {
                        "model": "Qwen/Qwen2.5-1.5B-Instruct",
                        "gpu": {"share": 0.45},
                        "engine_args": {"max_model_len": 4096},
                    }
                }
            }
        }
    }
    env = parse(deep_merge(SHAPES["volcano_vgpu"], {**two, "queues": {"team": {"gpu": {"limit": limit}}}}))
    found = [f for f in plan(env).findings if f.severity == "error"]
    assert [f.rule for f in found] == (["queue-limit"] if refused else [])


def test_pools_add_up_their_services_and_the_largest_single_upgrade() -> None:
    env = environment(
        services={
            "a": {"pool": "l4", "models": {"m": {"model": "Qwen/Qwen2.5-7B-Instruct"}}},
            "b": {
                "pool": "l4",
                "models": {"m": {"model": "Qwen/Qwen2.5-7B-Instruct", "replicas": {"min": 2, "max": 2}}},
            },
        }
    )
    pools = {pool.name: pool for pool in plan(env).pools}
    assert pools["l4"].nodes == Range(min=4, max=4, upgrade=6)  # chat, a and b; b's upgrade is the largest
    assert pools["l4"].services == ("a", "b", "chat")


def test_cost_is_nodes_times_price_and_unknown_without_a_price() -> None:
    env = environment(node_pools={"l4": {"price_usd_hour": 0.8}, "cpu": {"price_usd_hour": 0.2}})
    result = plan(env)
    assert result.totals.usd_per_hour == Range(min=1.0, max=1.0, upgrade=1.8)
    assert result.totals.idle_share == 0
    assert plan(environment()).totals.usd_per_hour is None


def test_json_follows_the_published_schema_and_is_the_same_each_time() -> None:
    result = plan(parse(SHAPES["two_pools"]), "x")
    text = serial.dumps(result)
    jsonschema.validate(json.loads(text), serial.schema())
    assert text == serial.dumps(plan(parse(SHAPES["two_pools"]), "x"))
    assert serial.loads(text) == result


def test_the_published_schema_is_that_of_the_plan() -> None:
    published = Path(serial.__file__).with_name("schema.json").read_text(encoding="utf-8")
    current = json.dumps(serial.schema(), indent=2, sort_keys=True) + "\n"
    assert published == current, "run: python -m components.plan --schema > components/plan/schema.json"


def test_the_table_shows_services_pools_and_findings() -> None:
    text = view.text(plan(with_model({"ray_actor_options": {"num_gpus": 0.4}}), "dev"))
    assert "Plan of dev" in text
    assert "Qwen" not in text.split("node pool")[0] or "qwen" in text
    assert "error: service 'chat': model 'qwen'" in text


def test_the_page_needs_nothing_from_elsewhere_and_escapes_names() -> None:
    env = environment(services={"chat": {"models": {"<b>x</b>": {"model": "Qwen/Qwen2.5-7B-Instruct"}}}})
    text = page.html(plan(env, "dev"))
    assert "<b>x</b>" not in text
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert "http" not in text
