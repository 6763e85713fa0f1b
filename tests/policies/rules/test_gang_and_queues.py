"""Each test breaks one thing about gangs, replica counts, queues, upgrades or room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.cluster_change import new_cluster_reasons
from policies.facts import Budget, Queue, Stack

from .stacks import (
    KAI_LABELS,
    VERSIONS,
    core,
    engine,
    found,
    h100,
    kai_queues,
    kai_stack,
    l4,
    release,
    sentences,
    service,
    stack,
    two_node_service,
    two_node_stack,
    volcano_stack,
    with_engine,
    with_pool,
    with_release,
    with_service,
    with_values,
    with_workers,
    without_release,
    workers,
)


def autoscaled(given: Stack, low: int, high: int, **over: Any) -> Stack:
    """The stack with Ray's autoscaler on, its group and engine between two counts."""
    given = with_workers(given, min=low, replicas=low, max=high, **over)
    given = with_engine(given, min_replicas=low, max_replicas=high, autoscaled=True)
    return with_service(given, autoscaling=True, autoscaler_version="v2")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_workers(min=3, replicas=3, max=2), ("gang-replica-bounds", "error")),
        (with_workers(min=-1), ("gang-replica-bounds", "error")),
        (with_workers(min=2, replicas=1), ("gang-replica-bounds", "warning")),
        (with_workers(kai_stack(), min=2, replicas=1), ("gang-replica-bounds", "error")),
        (with_workers(kai_stack(), min=2, replicas=None), ("gang-replica-bounds", "error")),
        (with_workers(replicas=9), ("gang-replica-bounds", "warning")),
        (with_engine(min_replicas=3, max_replicas=3), ("gang-replica-gpus", "error")),
        (with_engine(min_replicas=2, max_replicas=3, autoscaled=True), ("gang-replica-gpus", "warning")),
        (with_engine(tensor=4, bundles=({"GPU": 1},) * 4), ("gang-replica-gpus", "error")),
        (with_workers(replicas=1, min=1), ("gang-replica-gpus", "error")),
        (with_engine(autoscaled(stack(), 2, 4), max_replicas_per_node=1), ("gang-replicas-per-node", "warning")),
        (with_service(autoscaled(stack(), 2, 4), ray_version="2.48.0"), ("gang-autoscaler-v2", "warning")),
        (replace(stack(), batch_scheduler="scheduler-plugins"), ("gang-podgroup-frozen", "warning")),
        (replace(stack(), batch_scheduler="yunikorn"), ("gang-label", "warning")),
        (
            replace(kai_stack(), versions=replace(VERSIONS, kai="0.17.0", kuberay="1.5.1")),
            ("gang-scheduler-versions", "error"),
        ),
    ],
)
def test_what_is_wrong_with_replica_counts(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


@pytest.mark.parametrize("given", [with_workers(min=None), with_workers(max=None), with_workers(min=2, replicas=None)])
def test_what_the_crd_and_kuberay_fill_in_need_not_be_stated(given: Stack) -> None:
    assert "gang-replica-bounds" not in {rule for rule, _ in found(given)}


def test_a_job_may_name_its_head_service() -> None:
    named = with_service(kind="RayJob", head_service={"metadata": {"name": "chat-head"}})
    assert "upgrade-head-service" not in {rule for rule, _ in found(named)}


def test_an_autoscaled_service_between_its_bounds_is_fine() -> None:
    assert found(autoscaled(stack(), 2, 4)) == []
    assert found(autoscaled(kai_stack(), 2, 4)) == []
    assert found(autoscaled(stack(), 0, 4)) == []


@pytest.mark.parametrize("scheduler", ["volcano", "kai"])
@pytest.mark.parametrize(("low", "wrong"), [(0, True), (1, False)])
def test_a_gang_that_covers_less_than_one_engine_is_an_error(scheduler: str, low: int, wrong: bool) -> None:
    base = {"volcano": volcano_stack, "kai": kai_stack}[scheduler]()
    labels = base.workloads[0].labels
    group = replace(two_node_service().groups[0], min=low, replicas=low, max=2)
    two = two_node_service(groups=(group,), autoscaling=True, autoscaler_version="v2", labels=labels)
    two = replace(two, engines=(replace(two.engines[0], min_replicas=low, max_replicas=2, autoscaled=True),))
    pools = two_node_stack().pools
    queues = tuple(replace(q, gpu_quota=64, gpu_limit=64) for q in base.queues)
    releases = (*base.releases, release("aws-efa-k8s-device-plugin", "v0.5.30"))
    got = found(replace(base, workloads=(two,), pools=pools, queues=queues, releases=releases))
    assert (("gang-covers-engine", "error") in got) is wrong


def test_the_uncovered_gang_is_told_what_it_needs() -> None:
    group = replace(two_node_service().groups[0], min=0, replicas=0, max=2)
    two = two_node_service(groups=(group,), autoscaling=True, autoscaler_version="v2")
    given = replace(two_node_stack(), workloads=(two,), batch_scheduler="volcano")
    assert sentences(given, "gang-covers-engine") == [
        "service 'chat': model 'llama': one replica needs 2 pods at once and the gang covers only the head: pods that are added later are placed one "
        "by one, and a part of them holds its GPUs for nothing; set the group's minReplicas x numOfHosts to at least 2 (worker.min, or replicas.min "
        "of the model) [gang-covers-engine]"
    ]


def test_single_pod_engines_may_scale_from_zero_under_volcano() -> None:
    assert ("gang-covers-engine", "error") not in found(autoscaled(volcano_stack(), 0, 4))


def test_old_kai_counts_hosts_and_minimum_wrongly() -> None:
    old = replace(VERSIONS, kai="0.8.5")
    assert ("gang-scheduler-versions", "error") in found(replace(two_node_stack(), batch_scheduler="kai", versions=old))
    some = with_workers(kai_stack(versions=replace(VERSIONS, kai="0.9.5")), min=1, replicas=2, max=4)
    assert ("gang-scheduler-versions", "warning") in found(some)


# Queues


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({}, {}, [("queue-label", "error")]),
        ({}, {"kai.scheduler/queue": "team"}, [("queue-label", "error")]),
        ({"runai/queue": "team"}, {}, [("queue-label", "error")]),
        ({"volcano.sh/queue-name": "team"}, {}, [("queue-label", "error")]),
        ({"kai.scheduler/queue": "teem"}, {}, [("queue-exists", "error")]),
        ({"kai.scheduler/queue": "serving"}, {}, [("queue-exists", "error")]),
        ({"kai.scheduler/queue": "default-queue"}, {}, [("queue-exists", "warning")]),
        ({"kai.scheduler/queue": "default-parent-queue"}, {}, [("queue-exists", "error")]),
        ({"kai.scheduler/queue": "team"}, {"kai.scheduler/queue": "team"}, []),
    ],
)
def test_what_is_wrong_with_the_name_of_a_kai_queue(
    labels: dict[str, str], annotations: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    assert found(with_service(kai_stack(), labels=labels, annotations=annotations)) == expected


def test_an_unknown_queue_is_answered_with_the_closest() -> None:
    given = with_service(kai_stack(), labels={"kai.scheduler/queue": "teem"})
    assert sentences(given, "queue-exists") == [
        "service 'chat': queue 'teem' does not exist; did you mean 'team'?; declare it under `queues`, or name one that is there [queue-exists]"
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, []),
        ({"volcano.sh/queue-name": "default"}, []),
        ({"volcano.sh/queue-name": "teams"}, [("queue-exists", "error")]),
        ({"volcano.sh/queue-name": "root"}, [("queue-exists", "error")]),
        ({"kai.scheduler/queue": "team"}, [("queue-label", "error")]),
    ],
)
def test_what_is_wrong_with_the_name_of_a_volcano_queue(
    labels: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    assert found(with_service(volcano_stack(), labels=labels)) == expected


def test_at_the_packs_door_an_unknown_queue_is_a_warning_and_no_queues_are_no_finding() -> None:
    given = replace(with_service(kai_stack(), labels={"kai.scheduler/queue": "other"}), complete=False)
    assert found(given) == [("queue-exists", "warning")]
    assert found(replace(given, queues=())) == []


def test_a_queue_label_without_a_batch_scheduler_is_a_warning() -> None:
    assert found(with_service(labels={"kai.scheduler/queue": "team"})) == [("queue-label", "warning")]


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (kai_queues(parent="nobody"), [("queue-hierarchy", "error")]),
        (kai_queues(gpu_limit=1), [("queue-limit", "error")]),
        (kai_queues(gpu_quota=0), [("queue-quota-preemptible", "error")]),
        (kai_queues(gpu_quota=-1), []),
        (kai_queues(gpu_limit=3), [("queue-upgrade-peak", "warning")]),
        (kai_queues(gpu_limit=16), [("queue-children", "warning")]),
        (kai_queues(gpu_quota=16, gpu_limit=8), [("queue-children", "warning")]),
        (kai_queues(cpu_limit=8000), [("queue-limit", "error")]),
        (kai_queues(memory_limit=30_000), [("queue-limit", "error")]),
        (kai_queues(parent=None)[1:], []),
    ],
)
def test_what_is_wrong_with_queues(queues: tuple[Queue, ...], expected: list[tuple[str, str]]) -> None:
    assert found(kai_stack(queues=queues)) == expected


def test_queues_in_a_circle_are_an_error() -> None:
    parent, leaf = kai_queues()
    circle = (replace(parent, parent="team"), leaf)
    assert ("queue-hierarchy", "error") in found(kai_stack(queues=circle))


def test_the_limit_of_an_ancestor_counts_for_all_its_leaves() -> None:
    parent, leaf = kai_queues()
    both = (replace(parent, gpu_limit=3, gpu_quota=-1), leaf, replace(leaf, name="other", where="queue 'other'"))
    second = service(name="code", where="service 'code'", labels={**KAI_LABELS, "kai.scheduler/queue": "other"})
    given = kai_stack(queues=both, workloads=(service(labels=KAI_LABELS), second), pools=(core(), l4()))
    assert any(
        "its 2 services need 4 GPUs at rest and it is limited to 3" in s for s in sentences(given, "queue-limit")
    )


def test_a_preemptible_service_may_live_on_borrowed_gpus() -> None:
    labels = {"kai.scheduler/queue": "team", "ray.io/priority-class-name": "train"}
    assert found(with_service(kai_stack(queues=kai_queues(gpu_quota=0)), labels=labels)) == []
    labels = {**KAI_LABELS, "kai.scheduler/preemptibility": "preemptible"}
    assert found(with_service(kai_stack(queues=kai_queues(gpu_quota=0)), labels=labels)) == []


def test_a_gang_over_the_limit_is_told_both_numbers() -> None:
    assert sentences(kai_stack(queues=kai_queues(gpu_limit=1, gpu_quota=2)), "queue-limit") == [
        "service 'chat': its fewest pods need 2 GPUs and queue 'team' is limited to 1: the gang is never placed; raise the limit to 2, or lower the "
        "replicas [queue-limit]"
    ]


def test_volcano_capability_names_what_is_asked_for() -> None:
    base = volcano_stack()
    full = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": 8}
    assert found(replace(base, queues=(replace(base.queues[0], capability=full),))) == []
    part = {"cpu": "64", "nvidia.com/gpu": 8}
    assert found(replace(base, queues=(replace(base.queues[0], capability=part),))) == [("queue-capability", "warning")]
    gpus = replace(base, queues=(replace(base.queues[0], capability={"nvidia.com/gpu": 8}),))
    assert found(gpus) == []
    assert found(replace(gpus, versions=replace(VERSIONS, volcano="1.8.0"))) == [("queue-capability", "warning")]
    odd = {**full, "amd.com/gpu": 8}
    assert found(replace(base, queues=(replace(base.queues[0], capability=odd),))) == [("queue-capability", "warning")]


def test_kai_takes_no_k8s_job_mode_and_no_workloads_in_its_namespace() -> None:
    spec = {"entrypoint": "x", "rayClusterSpec": {"a": 1}, "shutdownAfterJobFinishes": True}
    job = {"kind": "RayJob", "upgrade_type": None, "apps": (), "spec": spec}
    assert ("queue-job-submission", "error") in found(with_service(kai_stack(), **job))
    assert ("queue-job-submission", "error") in found(with_service(kai_stack(), submission_mode="K8sJobMode", **job))
    assert found(with_service(kai_stack(), submission_mode="HTTPMode", **job)) == []
    assert found(with_service(kai_stack(), namespace="kai-scheduler")) == [("queue-namespace", "error")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            with_values(kai_stack(), "kuberay-operator", batchScheduler={"name": "kai-scheduler", "enabled": True}),
            [("helm-batch-scheduler", "error")],
        ),
        (
            with_values(kai_stack(), "kuberay-operator", batchScheduler={"name": "kai"}),
            [("helm-batch-scheduler", "error")],
        ),
        (with_values(kai_stack(), "kuberay-operator", batchScheduler={}), [("helm-batch-scheduler", "error")]),
        (with_values(volcano_stack(), "kuberay-operator", batchScheduler={"enabled": True}), []),
        (
            replace(kai_stack(), releases=(*kai_stack().releases, release("volcano", "1.15.1"))),
            [("helm-one-scheduler", "warning")],
        ),
        (without_release("kai-scheduler", kai_stack()), [("helm-one-scheduler", "error")]),
        (without_release("kuberay-operator"), [("helm-operator", "error")]),
        (with_values(chart="kuberay-operator", watchNamespace=["models"]), [("operator-namespaces", "error")]),
        (with_values(chart="kuberay-operator", watchNamespace=["default"]), []),
        (with_service(fault_tolerance={"backend": "rocksdb"}), [("helm-feature-gates", "error")]),
        (with_release(version=None), [("helm-version", "error")]),
        (with_release(version=">=25"), [("helm-version", "error")]),
        (with_release(version="latest"), [("helm-version", "error")]),
        (with_release(version=None, chart="./charts/gpu-operator"), []),
        (with_release(name="x" * 54), [("helm-name", "error")]),
        (with_release(kind="chart"), [("helm-hooks", "warning")]),
        (with_release(chart="kuberay-operator", kind="chart"), []),
        (with_release(kai_stack(), chart="kai-scheduler", kind="chart"), [("helm-hooks", "warning")]),
        (with_release(atomic=None), [("helm-recovery", "warning")]),
        (with_release(timeout_seconds=None), [("helm-recovery", "warning")]),
    ],
)
def test_what_is_wrong_with_releases(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


# Upgrades


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"autoscaling": False}, "needs Ray's autoscaler"),
        ({"upgrade_options": {"stepSizePercent": 10, "intervalSeconds": 5}}, "no gatewayClassName"),
        (
            {
                "upgrade_options": {
                    "stepSizePercent": 60,
                    "intervalSeconds": 5,
                    "maxSurgePercent": 50,
                    "gatewayClassName": "eg",
                }
            },
            "more than maxSurgePercent 50",
        ),
        (
            {"upgrade_options": {"stepSizePercent": 10, "intervalSeconds": 0, "gatewayClassName": "eg"}},
            "intervalSeconds 0 is not more than 0",
        ),
        (
            {"upgrade_options": {"stepSizePercent": 150, "intervalSeconds": 5, "gatewayClassName": "eg"}},
            "stepSizePercent 150 is not between",
        ),
        ({"upgrade_options": {"intervalSeconds": 5, "gatewayClassName": "eg"}}, "stepSizePercent None is not between"),
        (
            {"upgrade_options": {"stepSizePercent": 10, "intervalSeconds": 5, "gatewayClassName": "istio"}},
            "GatewayClass 'istio' is not there",
        ),
    ],
)
def test_an_incremental_upgrade_needs_all_its_parts(over: dict[str, Any], message: str) -> None:
    whole = {
        "upgrade_type": "NewClusterWithIncrementalUpgrade",
        "upgrade_options": {
            "stepSizePercent": 10,
            "intervalSeconds": 5,
            "maxSurgePercent": 50,
            "gatewayClassName": "eg",
        },
    }
    base = replace(autoscaled(stack(), 2, 4), gateway_class="eg")
    assert found(with_service(base, **whole)) == []
    assert any(message in s for s in sentences(with_service(base, **{**whole, **over}), "upgrade-incremental"))


def test_an_incremental_upgrade_under_kai_needs_min_replicas_zero() -> None:
    options = {"stepSizePercent": 10, "intervalSeconds": 5, "gatewayClassName": "eg"}
    given = replace(autoscaled(kai_stack(), 2, 4), gateway_class="eg")
    given = with_service(given, upgrade_type="NewClusterWithIncrementalUpgrade", upgrade_options=options)
    assert ("upgrade-incremental", "error") in found(given)


def test_unknown_strategies_and_named_head_services_are_refused() -> None:
    assert found(with_service(upgrade_type="Rolling")) == [("upgrade-strategy", "error")]
    assert found(with_service(head_service={"metadata": {"name": "chat-head"}})) == [("upgrade-head-service", "error")]
    assert found(with_service(head_service={"metadata": {"labels": {"a": "b"}}})) == []


def test_an_upgrade_without_room_is_a_warning_with_both_numbers() -> None:
    assert sentences(with_pool(max=3), "upgrade-room") == [
        "service 'chat': an upgrade runs a second cluster beside the first, 4 nodes of node pool 'l4' at rest, and the pool has at most 3: the new cluster "
        "stays pending and the upgrade never ends; raise the pool's max to 4, or use upgrade.strategy incremental (a part at a time) or none [upgrade-room]"
    ]
    assert found(with_pool(max=4)) == []
    assert found(with_service(with_pool(max=3), upgrade_type="None")) == []


MANIFEST: dict[str, Any] = {
    "spec": {
        "serveConfigV2": "{}",
        "upgradeStrategy": {"type": "NewCluster"},
        "rayClusterConfig": {
            "rayVersion": "2.60.0",
            "headGroupSpec": {"template": {"spec": {"containers": [{"image": "a"}], "tolerations": []}}},
            "workerGroupSpecs": [
                {
                    "groupName": "a",
                    "replicas": 1,
                    "minReplicas": 1,
                    "maxReplicas": 2,
                    "template": {"spec": {"containers": [{"image": "a"}]}},
                }
            ],
        },
    }
}


def edited(*path: Any, value: Any) -> dict[str, Any]:
    """The manifest with one value changed."""
    import copy

    whole = copy.deepcopy(MANIFEST)
    target: Any = whole
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    return whole


CLUSTER = ("spec", "rayClusterConfig")
GROUP = (*CLUSTER, "workerGroupSpecs", 0)


@pytest.mark.parametrize(
    "after",
    [
        MANIFEST,
        edited("spec", "serveConfigV2", value="{applications: []}"),
        edited("spec", "upgradeStrategy", value={"type": "None"}),
        edited(*GROUP, "replicas", value=2),
        edited(*GROUP, "minReplicas", value=0),
        edited(*GROUP, "maxReplicas", value=9),
        edited(*GROUP, "scaleStrategy", value={"workersToDelete": ["x"]}),
        edited(*GROUP, "template", "spec", "tolerations", value=[{"operator": "Exists"}]),
        edited(*CLUSTER, "headGroupSpec", "template", "spec", "tolerations", value=[{"operator": "Exists"}]),
        edited(
            *CLUSTER,
            "workerGroupSpecs",
            value=[*MANIFEST["spec"]["rayClusterConfig"]["workerGroupSpecs"], {"groupName": "b"}],
        ),
    ],
)
def test_edits_in_place_start_no_new_cluster(after: dict[str, Any]) -> None:
    assert new_cluster_reasons(MANIFEST, after) == ()


@pytest.mark.parametrize(
    ("after", "path"),
    [
        (edited(*CLUSTER, "rayVersion", value="2.61.0"), "rayVersion"),
        (
            edited(*GROUP, "template", "spec", "containers", value=[{"image": "b"}]),
            "workerGroupSpecs[0].template.spec.containers[0].image",
        ),
        (edited(*GROUP, "numOfHosts", value=2), "workerGroupSpecs[0].numOfHosts"),
        (edited(*CLUSTER, "workerGroupSpecs", value=[]), "workerGroupSpecs"),
    ],
)
def test_other_edits_start_a_new_cluster(after: dict[str, Any], path: str) -> None:
    assert new_cluster_reasons(MANIFEST, after) == (path,)


# Room and money


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_pool(max=1), [("capacity-pool", "error")]),
        (with_pool(max=2), [("upgrade-room", "warning")]),
        (with_pool(autoscaled(stack(), 2, 4), max=3), [("capacity-pool", "warning"), ("upgrade-room", "warning")]),
        (
            replace(stack(), pools=(core(), l4(), h100(min=1, max=1, efa=False, desired=1))),
            [("capacity-idle-pool", "warning")],
        ),
        (replace(stack(), budget=Budget(gpus={"L4": 4})), []),
        (replace(stack(), budget=Budget(gpus={"L4": 3})), [("capacity-budget-gpus", "error")]),
        (replace(stack(), budget=Budget(gpus={"L44": 3})), [("capacity-budget-gpus", "error")]),
        (replace(stack(), budget=Budget(vcpus={"G": 32})), []),
        (replace(stack(), budget=Budget(vcpus={"G": 31})), [("capacity-budget-vcpus", "error")]),
        (replace(stack(), budget=Budget(vcpus={"GPU": 31})), [("capacity-budget-vcpus", "error")]),
        (replace(stack(), budget=Budget(usd_per_hour=10)), []),
        (replace(stack(), budget=Budget(usd_per_hour=4)), [("capacity-budget-money", "error")]),
        (
            with_pool(replace(stack(), budget=Budget(usd_per_hour=10)), price_usd_hour=None),
            [("capacity-budget-money", "warning")],
        ),
    ],
)
def test_room_and_ceilings(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_an_upgrade_over_the_budget_says_when() -> None:
    assert sentences(replace(stack(), budget=Budget(gpus={"L4": 3})), "capacity-budget-gpus") == [
        "budget: the environment holds 4 L4 GPUs at the peak of an upgrade (pools 'l4') and the budget allows 3; lower replicas.max or the pools' max, "
        "use upgrade.strategy incremental or none, or raise budget.gpus [capacity-budget-gpus]"
    ]
    assert found(with_service(replace(stack(), budget=Budget(gpus={"L4": 3})), upgrade_type="None")) == []


def test_many_services_that_fit_alone_and_not_together_are_an_error_of_the_pool() -> None:
    many = tuple(
        service(
            name=f"s{i}",
            where=f"service 's{i}'",
            groups=(workers(where=f"service 's{i}': worker group 'l4'"),),
            engines=(engine(where=f"service 's{i}': model 'm'"),),
        )
        for i in range(5)
    )
    assert sentences(stack(workloads=many), "capacity-pool") == [
        "node pool 'l4': 5 services need 10 nodes at rest and the pool has at most 8: the last one never starts; raise max to 10, or move a service to "
        "another pool [capacity-pool]"
    ]


def test_heads_of_many_services_need_room_too() -> None:
    many = tuple(
        service(name=f"s{i}", where=f"service 's{i}'", groups=(), engines=(), upgrade_type="None") for i in range(30)
    )
    assert any("node pool 'core'" in s for s in sentences(stack(workloads=many), "capacity-pool"))
