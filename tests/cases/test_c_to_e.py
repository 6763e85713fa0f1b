"""Public reports about head pods, gangs and upgrades (classes C, D, E), each as a small config."""

from __future__ import annotations

import pytest

from policies.cluster_change import new_cluster_reasons

from .small import (
    AWS,
    KAI,
    TWO_NODES,
    VOLCANO,
    Config,
    chat,
    cluster,
    container,
    found,
    manifest,
    model,
    planned,
    pool,
)

HEAD = ("spec", "rayClusterConfig", "headGroupSpec")


def patched_cluster(**fields: object) -> Config:
    """A patch of the rendered rayClusterConfig."""
    return chat(patch={"spec": {"rayClusterConfig": fields}})


AUTOSCALED = model(replicas={"min": 2, "max": 4})
INCREMENTAL = {"software": {"gateway": {"class_name": "eg"}}, **chat(upgrade={"strategy": "incremental"})}


# C: head pod


def test_c1_the_head_offers_no_gpu_and_stays_on_the_cpu_pool() -> None:
    head = cluster()["headGroupSpec"]
    assert head["rayStartParams"]["num-gpus"] == "0"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container(head)["env"]
    assert head["template"]["spec"]["nodeSelector"] == {"llm-serving/pool": "core"}


def test_c1_a_head_that_hides_nothing_on_a_gpu_node_is_refused() -> None:
    bare = {
        "rayStartParams": {"num-gpus": None},
        "template": {"spec": {"containers": [{"name": "ray-head", "env": None}]}},
    }
    assert ("head-gpu-visible", "error") in found(chat(head={"pool": "l4"}), patched_cluster(headGroupSpec=bare))


def test_c2_workers_tell_ray_the_gpus_of_their_limits() -> None:
    group = cluster()["workerGroupSpecs"][0]
    assert group["resources"]["GPU"] == container(group)["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_c4_a_pipeline_over_two_nodes_with_pods_for_one_is_refused() -> None:
    two = model(parallel={"pipeline": 2}, replicas={"min": 1, "max": 1})
    assert ("gang-replica-gpus", "error") in found(two, chat(worker={"hosts": 1, "min": 1, "replicas": 1, "max": 1}))


def test_c5_a_head_larger_than_every_cpu_node_is_refused() -> None:
    assert ("placement-node-size", "error") in found(
        pool("core", instance_types=["m7i.large"]), chat(head={"memory_gib": 16})
    )


def test_c5_labels_that_no_node_carries_are_refused() -> None:
    assert ("placement-selector", "error") in found(chat(worker={"node_selector": {"accelerator": "l4"}}))


def test_the_head_on_spot_capacity_is_refused() -> None:
    spot = pool("core", capacity="spot", instance_types=["m7i.2xlarge", "m6i.2xlarge"])
    assert ("head-spot", "error") in found(spot, chat(fault_tolerance=None))


# D: gangs and replica arithmetic


def test_d1_kai_that_counts_no_hosts_is_refused() -> None:
    assert ("gang-scheduler-versions", "error") in found(TWO_NODES, KAI, {"software": {"kai": {"version": "v0.8.5"}}})


def test_d2_kai_that_ignores_min_replicas_is_a_warning() -> None:
    old = {"software": {"kai": {"version": "v0.9.5"}}}
    counts = chat(autoscaling={"enabled": False}, worker={"min": 1, "replicas": 2, "max": 8})
    assert ("gang-scheduler-versions", "warning") in found(KAI, old, counts)


@pytest.mark.parametrize("scheduler", [VOLCANO, KAI], ids=["volcano", "kai"])
def test_d4_a_gang_that_covers_only_the_head_is_refused(scheduler: Config) -> None:
    zero = chat(models={"llama": {"replicas": {"min": 0, "max": 2}}})
    assert ("gang-covers-engine", "error") in found(TWO_NODES, scheduler, zero)
    assert not any(rule == "gang-covers-engine" for rule, _ in found(TWO_NODES, scheduler))


def test_d5_a_podgroup_that_is_never_updated_is_a_warning() -> None:
    assert ("gang-podgroup-frozen", "warning") in found({"software": {"batch_scheduler": "scheduler-plugins"}})


def test_d7_max_replicas_per_node_with_rays_autoscaler_is_a_warning() -> None:
    assert ("gang-replicas-per-node", "warning") in found(
        AUTOSCALED, model(deployment_config={"max_replicas_per_node": 1})
    )


def test_d8_autoscaler_v2_that_hangs_is_a_warning() -> None:
    assert ("gang-autoscaler-v2", "warning") in found(AUTOSCALED, {"versions": {"ray": "2.52.0"}})
    assert not any(rule == "gang-autoscaler-v2" for rule, _ in found(AUTOSCALED))


def test_d10_a_worker_larger_than_every_node_is_refused() -> None:
    assert ("placement-node-size", "error") in found(chat(worker={"memory_gib": 64}))


def test_d10_heads_and_workers_that_fill_the_nodes_are_refused() -> None:
    assert ("capacity-pool", "error") in found(
        pool("core", max=1, min=1), {"services": {f"s{i}": AWS["services"]["chat"] for i in range(5)}}
    )


@pytest.mark.parametrize(
    ("patch", "rule"),
    [
        (chat(worker={"min": 3, "replicas": 3, "max": 2}), "gang-replica-bounds"),
        (chat(head={"env": {"RAY_enable_autoscaler_v2": "1"}}), "kuberay-autoscaler"),
        (
            {
                **AUTOSCALED,
                "services": {
                    "chat": {
                        **AUTOSCALED["services"]["chat"],
                        "patch": {
                            "spec": {
                                "rayClusterConfig": {
                                    "headGroupSpec": {"template": {"spec": {"restartPolicy": "Always"}}}
                                }
                            }
                        },
                    }
                },
            },
            "kuberay-autoscaler",
        ),
    ],
)
def test_d11_what_kuberay_refuses_is_refused_first(patch: Config, rule: str) -> None:
    assert (rule, "error") in found(patch)


def test_d11_min_and_max_are_always_rendered() -> None:
    group = cluster()["workerGroupSpecs"][0]
    assert (group["minReplicas"], group["replicas"], group["maxReplicas"]) == (2, 2, 2)


# E: upgrades


def test_e2_a_named_head_service_is_refused() -> None:
    named = patched_cluster(headGroupSpec={"headService": {"metadata": {"name": "chat-head"}}})
    assert ("upgrade-head-service", "error") in found(named)


def test_e3_an_incremental_upgrade_with_all_its_parts_passes() -> None:
    assert not any(rule.startswith("upgrade-") for rule, _ in found(INCREMENTAL, AUTOSCALED, pool(max=16)))


@pytest.mark.parametrize(
    "patches",
    [
        (INCREMENTAL,),
        (chat(upgrade={"strategy": "incremental"}), AUTOSCALED),
        (INCREMENTAL, AUTOSCALED, chat(upgrade={"step_size_percent": 60})),
        (INCREMENTAL, AUTOSCALED, chat(upgrade={"interval_seconds": 0})),
        (INCREMENTAL, AUTOSCALED, chat(upgrade={"gateway_class": "istio"})),
    ],
    ids=["no autoscaler", "no gateway", "step over surge", "no interval", "unknown gateway"],
)
def test_e3_an_incremental_upgrade_without_one_of_them_is_refused(patches: tuple[Config, ...]) -> None:
    assert ("upgrade-incremental", "error") in found(*patches)


def test_e5_one_head_without_fault_tolerance_is_a_warning() -> None:
    assert ("head-fault-tolerance", "warning") in found(chat(fault_tolerance=None))


def test_e5_the_head_carries_the_annotations_that_keep_it() -> None:
    notes = cluster()["headGroupSpec"]["template"]["metadata"]["annotations"]
    assert notes["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert notes["karpenter.sh/do-not-disrupt"] == "true"


@pytest.mark.parametrize(
    "patch",
    [
        model(engine_args={"max_num_seqs": 48}),
        chat(worker={"tolerations": [{"operator": "Exists"}]}),
        chat(worker={"max": 4}, autoscaling={"enabled": False}),
        chat(upgrade={"strategy": "none"}),
    ],
    ids=["serve config", "tolerations", "maxReplicas", "strategy"],
)
def test_e6_edits_in_place_need_no_second_cluster(patch: Config) -> None:
    assert new_cluster_reasons(manifest(), manifest(patch)) == ()


def test_e6_a_new_image_needs_one() -> None:
    assert new_cluster_reasons(manifest(), manifest(chat(image={"tag": "2"}))) != ()


def test_an_upgrade_that_never_finds_its_gpus_is_a_warning_and_over_budget_an_error() -> None:
    assert ("upgrade-room", "warning") in found(pool(max=3))
    assert ("capacity-budget-gpus", "error") in found({"budget": {"gpus": {"L4": 3}}})
    assert found(pool(max=2), chat(upgrade={"strategy": "none"}), {"budget": {"gpus": {"L4": 2}}}) == set()


def test_queue_limits_count_the_second_cluster() -> None:
    tight = {"queues": {"serving": {"gpu": {"quota": 3, "limit": 3}}, "team": {"gpu": {"quota": 3, "limit": 3}}}}
    assert ("queue-upgrade-peak", "warning") in found(KAI, tight)
    assert planned(KAI).plan.findings == ()
