from __future__ import annotations

from typing import Any

from policies.facts import Queue
from policies.facts.stack import read
from policies.facts.wire import manifests, resource


def kai(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def volcano(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def one(manifest: dict[str, Any]) -> Queue:
    (found,) = read(manifests([manifest])).queues
    return found


def test_a_queue_of_kai_has_gpus_milli_cores_and_mebibytes() -> None:
    shares = {
        "gpu": {"quota": 4, "limit": 8, "overQuotaWeight": 1},
        "cpu": {"quota": 2000, "limit": -1},
        "memory": {"quota": 4194.304, "limit": -1},
    }
    got = one(kai("team", parentQueue="org", priority=150, resources=shares))
    assert (got.name, got.where, got.scheduler, got.parent, got.priority) == ("team", "queue 'team'", "kai", "org", 150)
    assert (got.gpu_quota, got.gpu_limit) == (4, 8)
    assert (got.cpu_quota, got.cpu_limit) == (2000, -1)
    assert (round(got.memory_quota or 0, 6), got.memory_limit) == (4000, -1)


def test_an_unset_quota_of_kai_guarantees_nothing_and_an_unset_limit_is_left_open() -> None:
    got = one(kai("team", resources={"gpu": {"overQuotaWeight": 1}}))
    assert (got.gpu_quota, got.gpu_limit, got.cpu_quota) == (0, None, None)
    assert one(kai("team")).gpu_quota is None


def test_a_queue_of_volcano_has_resource_lists() -> None:
    got = one(
        volcano(
            "team",
            parent="root",
            capability={"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"},
            deserved={"cpu": "500m", "nvidia.com/gpu": 4},
        )
    )
    assert (got.scheduler, got.parent, got.priority) == ("volcano", "root", 100)
    assert (got.gpu_quota, got.gpu_limit, got.cpu_quota, got.cpu_limit) == (4, 8, 500, 64000)
    assert (got.memory_quota, got.memory_limit) == (None, 262144)
    assert set(got.capability) == {"cpu", "memory", "nvidia.com/gpu"}


def test_numbers_of_a_custom_resource_cross_the_wire_as_floats() -> None:
    spec = kai("team", resources={"gpu": {"quota": 4.0, "limit": -1.0}})
    (got,) = read([resource("kubernetes:scheduling.run.ai/v2:Queue", "team", spec)]).queues
    assert (got.gpu_quota, got.gpu_limit) == (4, -1)


def test_other_kinds_of_that_name_and_other_objects_are_no_queues() -> None:
    stack = read(manifests([{"apiVersion": "sqs.aws/v1", "kind": "Queue", "metadata": {"name": "q"}}]))
    assert stack.queues == ()
    assert [each.kind for each in stack.objects] == ["Queue"]


def test_a_gateway_class_of_the_stack_is_known() -> None:
    manifest = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "istio"}}
    assert read(manifests([manifest])).gateway_class == "istio"
    assert read(()).gateway_class is None
