"""Each test breaks one thing between pods and nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.facts import AwsResource, Stack, Taint, Toleration

from .stacks import core, found, h100, l4, sentences, stack, with_pool, with_service, with_workers

MADE = AwsResource(type="aws:eks/cluster:Cluster", name="c", where="EKS cluster 'c'", props={})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_workers(node_selector={"llm-serving/pool": "l40"}), [("placement-selector", "error")]),
        (with_workers(node_selector={"node.kubernetes.io/instance-type": "g6.2xlarge"}), []),
        (
            with_workers(node_selector={"node.kubernetes.io/instance-type": "g6.xlarge"}),
            [("placement-selector", "error")],
        ),
        (with_workers(node_selector={"nvidia.com/gpu.product": "NVIDIA-L4", "llm-serving/pool": "l4"}), []),
        (replace(with_workers(node_selector={"team": "x"}), complete=False), []),
        (with_workers(tolerations=()), [("placement-taint", "error")]),
        (with_workers(tolerations=(Toleration(key="nvidia.com/gpu", value="true"),)), [("placement-taint", "error")]),
        (with_workers(tolerations=(Toleration(key="nvidia.com/gpu", value="present"),)), []),
        (with_workers(tolerations=(Toleration(operator="Exists"),)), []),
        (with_pool(taints=(Taint(key="soft", effect="PreferNoSchedule"),)), [("pool-gpu-taint", "warning")]),
        (with_workers(memory_mib=64_000), [("placement-node-size", "error")]),
        (with_workers(cpu_milli=8000), [("placement-node-size", "error")]),
        (
            with_workers(gpus=2.0, limits={"nvidia.com/gpu": "2"}, resources={"GPU": "2"}),
            [("placement-node-size", "error")],
        ),
        (
            with_workers(node_selector={"llm-serving/pool": "core"}),
            [("placement-gpu-pool", "error"), ("pool-disk", "warning")],
        ),
        (
            with_workers(gpus=0.0, gpu_resource=None, limits={}, resources={}),
            [("gang-replica-gpus", "error"), ("placement-gpu-asked", "error")],
        ),
        (with_service(groups=()), [("placement-gpu-asked", "error"), ("placement-no-worker", "error")]),
    ],
)
def test_what_keeps_pods_from_nodes(given: Stack, expected: list[tuple[str, str]]) -> None:
    if expected == [("placement-gpu-asked", "error"), ("placement-no-worker", "error")]:
        expected = [("placement-no-worker", "error")]
    assert found(given) == expected


def test_a_mistyped_selector_is_named_with_the_closest_label() -> None:
    assert sentences(with_workers(node_selector={"llm-serving/pool": "l40"}), "placement-selector") == [
        "service 'chat': worker group 'l4': node pool 'l40' does not exist, so its pods stay pending; did you mean 'l4'? [placement-selector]"
    ]
    assert sentences(with_workers(node_selector={"llm-serving/pol": "l4"}), "placement-selector") == [
        "service 'chat': worker group 'l4': no node pool carries llm-serving/pol=l4, so its pods stay pending; select labels of a node pool, or "
        "leave node_selector out; did you mean llm-serving/pool=l4? [placement-selector]"
    ]


def test_an_intolerable_taint_is_named() -> None:
    given = with_pool(taints=(Taint(key="dedicated", value="ml", effect="NoExecute"),))
    given = replace(given, releases=())
    assert sentences(given, "placement-taint") == [
        "service 'chat': worker group 'l4': node pool 'l4' is tainted dedicated=ml:NoExecute and the pod does not tolerate it, so its pods stay "
        "pending; leave `tolerations` out (they are derived from the pool's taints) or add the matching one [placement-taint]"
    ]


def test_a_gpu_engine_without_a_chosen_pool_among_several_kinds_is_an_error() -> None:
    given = with_workers(stack(pools=(core(), l4(), h100())), node_selector={})
    assert ("placement-pool-choice", "error") in found(given)


def test_a_gpu_pod_without_selector_and_one_open_gpu_pool_is_fine() -> None:
    assert found(with_workers(node_selector={})) == []


def test_a_gpu_pod_that_no_pool_takes_is_an_error() -> None:
    assert found(with_workers(node_selector={}, tolerations=())) == [("placement-no-gpu-pool", "error")]
    assert found(with_workers(stack(pools=(core(),)), node_selector={})) == [("placement-no-gpu-pool", "error")]


def test_a_cpu_group_on_a_gpu_pool_is_a_warning() -> None:
    base = stack()
    group = replace(
        base.workloads[0].groups[0],
        name="side",
        gpus=0.0,
        gpu_resource=None,
        limits={},
        resources={},
        min=1,
        replicas=1,
        max=1,
    )
    given = with_service(base, groups=(*base.workloads[0].groups, group))
    assert found(given) == [("placement-gpu-asked", "warning")]


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({"llm-serving/pool": "l40"}, True),
        ({"team": "x"}, True),
        ({"llm-serving/pool": "l4"}, False),
        ({"nvidia.com/gpu.product": "NVIDIA-L4"}, False),
        ({"eks.amazonaws.com/nodegroup": "l4"}, False),
    ],
)
def test_a_label_that_no_pool_gives_is_told_where_the_resources_make_the_cluster(
    selector: dict[str, str], said: bool
) -> None:
    given = replace(with_workers(node_selector=selector), complete=False, cluster_made=False)
    assert (("placement-selector", "warning") in found(replace(given, aws=(MADE,)))) is said
    assert "placement-selector" not in {rule for rule, _ in found(given)}  # nodes may be anybody's


@pytest.mark.parametrize(("spot", "said"), [(True, True), (False, False)])
def test_a_cluster_whose_only_open_groups_are_spot_is_told_of_by_its_resources(spot: bool, said: bool) -> None:
    given = stack(pools=(replace(core(), kind="managed", spot=spot), l4()))
    assert (("pool-system", "warning") in found(replace(given, complete=False, aws=(MADE,)))) is said
