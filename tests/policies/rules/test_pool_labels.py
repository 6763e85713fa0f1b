"""Names and labels of pools that EKS, the kubelet or Karpenter refuse, and those they take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies import rules
from policies.facts import Object, Taint

from .stacks import core, found, karpenter_pool, karpenter_stack, sentences, stack, with_pool


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ("node-role.kubernetes.io/gpu", False),
        ("kubernetes.io/role", False),
        ("team.k8s.io/a", False),
        ("eks.amazonaws.com/compute", False),
        ("node.kubernetes.io/role", True),
        ("a.node.kubernetes.io/role", True),
        ("topology.kubernetes.io/zone", True),
        ("example.com/kubernetes.io", True),
        ("k8s.amazonaws.com/accelerator", True),
        ("eks.amazonaws.com/nodegroup", False),
        ("team", True),
    ],
)
def test_labels_that_a_node_may_give_itself(key: str, taken: bool) -> None:
    given = with_pool(labels={"llm-serving/pool": "l4", key: "x"})
    assert found(given) == ([] if taken else [("pool-labels", "error")])


def test_a_group_that_is_read_has_the_label_that_eks_gives() -> None:
    given = with_pool(labels={"llm-serving/pool": "l4", "eks.amazonaws.com/nodegroup": "l4"})
    assert ("pool-labels", "error") not in found(replace(given, complete=False))


def test_eks_takes_shorter_keys_than_kubernetes_and_no_empty_value() -> None:
    long = "a-department-with-a-long-name.example.com/a-team-with-a-longer-name"
    for labels, taken in (({"team": ""}, False), ({long: "x"}, False), ({long[:63]: "x"}, True)):
        given = {"llm-serving/pool": "l4", **labels}
        assert found(with_pool(labels=given)) == ([] if taken else [("pool-labels", "error")])
        assert found(karpenter_stack(pools=(core(max=2), karpenter_pool(labels=given)))) == []
    assert ("pool-labels", "error") in found(with_pool(taints=(Taint(key=long),)))


def test_eks_own_labels_are_nothing_to_nodes_that_eks_does_not_manage() -> None:
    labels = {"llm-serving/pool": "l4", "eks.amazonaws.com/capacityType": "ON_DEMAND"}
    assert found(with_pool(kind="self_managed", labels=labels)) == []
    assert found(with_pool(labels=labels)) == [("pool-labels", "error")]


@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ("karpenter.sh/nodepool", False),
        ("karpenter.sh/team", False),
        ("kubernetes.io/hostname", False),
        ("karpenter.sh/capacity-type", True),
        ("karpenter.k8s.aws/team", False),
        ("karpenter.k8s.aws/instance-gpu-name", True),
        ("node-role.kubernetes.io/gpu", True),  # Karpenter puts labels on nodes itself, past the kubelet
        ("team", True),
    ],
)
def test_labels_that_a_nodepool_may_have(key: str, taken: bool) -> None:
    pool = karpenter_pool(labels={"llm-serving/pool": "l4", key: "l4"})
    given = karpenter_stack(pools=(core(max=2), pool))
    assert found(given) == ([] if taken else [("pool-labels", "error")])


def test_labels_that_somebody_elses_nodepool_is_read_to_have_are_what_its_nodes_carry() -> None:
    pool = karpenter_pool(labels={"llm-serving/pool": "l4", "karpenter.sh/nodepool": "l4"})
    read = replace(karpenter_stack(pools=(core(max=2), pool)), complete=False)
    assert found(read) == []
    other = replace(pool, labels={"llm-serving/pool": "l4", "karpenter.sh/nodepool": "gpu"})
    assert found(replace(read, pools=(core(max=2), other))) == [("pool-labels", "error")]


@pytest.mark.parametrize(
    ("kind", "name", "taken"),
    [
        ("managed", "a" * 36, True),
        ("managed", "a" * 37, False),
        ("managed", "GPU_1", True),
        ("managed", "gpu.1", False),
        ("karpenter", "a" * 63, True),
        ("karpenter", "a" * 64, False),
        ("karpenter", "GPU", False),
    ],
)
def test_names_that_leave_room_for_what_is_added(kind: str, name: str, taken: bool) -> None:
    idle = core(name=name, where=f"node pool '{name}'", kind=kind, labels={"llm-serving/pool": name}, min=0, desired=0)
    given = karpenter_stack(pools=(core(max=2), karpenter_pool(), replace(idle, limits={"cpu": "64"})))
    assert (("pool-name", "error") not in found(given)) is taken


def test_somebody_elses_node_group_has_its_own_name() -> None:
    assert found(with_pool(which=0, name="x" * 60, labels={"llm-serving/pool": "core"})) == []


def test_a_long_name_is_told_with_how_much_to_cut() -> None:
    name = "inference-" * 5
    given = with_pool(name=name, where=f"node pool '{name}'", labels={"llm-serving/pool": name})
    assert (
        f"node pool '{name}': its name has 50 characters and may have 36: the name of its node group adds 27, and EKS takes 63; shorten it by 14 [pool-name]"
        in sentences(given, "pool-name")
    )


@pytest.mark.parametrize(
    ("tag", "fine"),
    [
        ("kubernetes.io/cluster/prod", False),
        ("karpenter.sh/nodepool", False),
        ("eks:eks-cluster-name", False),
        ("karpenter.sh/nodepools", True),
        ("team", True),
    ],
)
def test_a_class_leaves_karpenter_s_own_tags_to_karpenter(tag: str, fine: bool) -> None:
    manifest = {"spec": {"tags": {tag: "a", "team": "b"}}}
    made = Object(
        api_version="karpenter.k8s.aws/v1",
        kind="EC2NodeClass",
        name="a",
        namespace="default",
        where="EC2NodeClass a",
        manifest=manifest,
    )
    assert [f.rule for f in rules.check(stack(objects=(made,)), rules=rules.pool_labels.RULES)] == (
        [] if fine else ["karpenter-tags"]
    )
