from __future__ import annotations

from typing import Any

import pytest
import yaml

from policies.facts import Sharing
from policies.facts.stack import read
from policies.facts.wire import Resource, resource

TIME_SLICING = {
    "version": "v1",
    "sharing": {
        "timeSlicing": {
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
        }
    },
}
MPS = {"version": "v1", "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}}
MIG = {"version": "v1", "flags": {"migStrategy": "mixed"}}


def group(**labels: str) -> Resource:
    props = {"instanceTypes": ["p5.48xlarge"], "labels": labels, "scalingConfig": {"minSize": 0.0, "maxSize": 1.0}}
    return resource("aws:eks/nodeGroup:NodeGroup", "gpu", props)


def operator(**values: Any) -> Resource:
    props = {"chart": "gpu-operator", "version": "v26.7.0", "values": values}
    return resource("kubernetes:helm.sh/v3:Release", "gpu-operator", props)


def config(default: str | None = None, **entries: Any) -> dict[str, Any]:
    data = {name: yaml.safe_dump(entry) for name, entry in entries.items()}
    given: dict[str, Any] = {"create": True, "name": "plugin", "data": data}
    return {"devicePlugin": {"config": {**given, **({"default": default} if default else {})}}}


def shared(*resources: Resource) -> Sharing:
    (found,) = read(resources).pools
    return found.sharing


def test_a_node_label_picks_the_entry_of_the_operator_s_configuration() -> None:
    got = shared(group(**{"nvidia.com/device-plugin.config": "sliced"}), operator(**config(sliced=TIME_SLICING)))
    assert got == Sharing(strategy="time_slicing", replicas=4, fail_requests_greater_than_one=True)


def test_without_a_label_the_default_entry_holds_and_without_a_default_none_does() -> None:
    assert shared(group(), operator(**config("sliced", sliced=TIME_SLICING))).replicas == 4
    assert shared(group(), operator(**config(sliced=TIME_SLICING))) == Sharing()


def test_mps_wins_over_time_slicing_and_refuses_more_than_one() -> None:
    both = {"sharing": {**TIME_SLICING["sharing"], **MPS["sharing"]}}  # type: ignore[dict-item]
    got = shared(group(), operator(**config("both", both=both)))
    assert (got.strategy, got.replicas, got.fail_requests_greater_than_one) == ("mps", 2, True)


@pytest.mark.parametrize(
    ("values", "strategy"),
    [({}, "single"), ({"mig": {"strategy": "mixed"}}, "mixed"), (config("mixed", mixed=MIG), "mixed")],
)
def test_the_mig_label_of_nodes_cuts_their_gpus(values: dict[str, Any], strategy: str) -> None:
    got = shared(group(**{"nvidia.com/mig.config": "all-1g.10gb"}), operator(**values))
    assert got == Sharing(strategy="mig", mig_strategy=strategy, mig_profile="1g.10gb")


def test_the_plugin_s_own_chart_takes_the_only_entry_there_is() -> None:
    props = {"chart": "nvidia-device-plugin", "values": {"config": {"map": {"sliced": yaml.safe_dump(TIME_SLICING)}}}}
    assert shared(group(), resource("kubernetes:helm.sh/v3:Release", "p", props)).strategy == "time_slicing"


def test_a_config_map_of_the_stack_is_read_where_the_chart_names_one() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "plugin-config"},
        "data": {"any": yaml.safe_dump(TIME_SLICING)},
    }
    values = {"devicePlugin": {"config": {"name": "plugin-config", "default": "any"}}}
    got = shared(group(), operator(**values), resource("kubernetes:core/v1:ConfigMap", "c", manifest))
    assert got.replicas == 4


def test_broken_yaml_shares_nothing_and_raises_nothing() -> None:
    values = {"devicePlugin": {"config": {"name": "x", "default": "a", "data": {"a": "sharing: [unclosed"}}}}
    assert shared(group(), operator(**values)) == Sharing()


def test_pools_without_gpus_and_stacks_without_a_plugin_are_left_alone() -> None:
    cpu = resource("aws:eks/nodeGroup:NodeGroup", "cpu", {"instanceTypes": ["m7i.large"], "scalingConfig": {}})
    assert shared(cpu, operator(**config("sliced", sliced=TIME_SLICING))) == Sharing()
    assert shared(group(**{"nvidia.com/mig.config": "all-1g.10gb"})) == Sharing()


def test_the_only_entry_holds_for_nodes_that_are_not_declared() -> None:
    assert read([operator(**config("sliced", sliced=TIME_SLICING))]).gpu_sharing.replicas == 4
    assert read([operator(**config("sliced", sliced=TIME_SLICING, whole={"version": "v1"}))]).gpu_sharing == Sharing()
    assert read([operator(**config(sliced=TIME_SLICING))]).gpu_sharing == Sharing()
    assert read([]).gpu_sharing == Sharing()
