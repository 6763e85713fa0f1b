from __future__ import annotations

from components.manifests.autoscaler_tags import scale_from_zero_tags
from tests.components.manifests.pools import pool

TEMPLATE = "k8s.io/cluster-autoscaler/node-template"


def test_an_empty_group_says_labels_taints_and_what_pods_can_have() -> None:
    tags = scale_from_zero_tags(
        pool(
            "h100",
            instance_types=["p5.48xlarge"],
            efa=True,
            labels={"team": "a"},
            taints=[{"key": "nvidia.com/gpu", "value": "present"}, {"key": "dedicated", "effect": "NoExecute"}],
        )
    )
    assert tags == {
        f"{TEMPLATE}/label/k8s.amazonaws.com/accelerator": "nvidia-h100",
        f"{TEMPLATE}/label/llm-serving/pool": "h100",
        f"{TEMPLATE}/label/team": "a",
        f"{TEMPLATE}/resources/cpu": "191450m",
        f"{TEMPLATE}/resources/ephemeral-storage": "27360G",
        f"{TEMPLATE}/resources/memory": "1938410Mi",
        f"{TEMPLATE}/resources/nvidia.com/gpu": "8",
        f"{TEMPLATE}/resources/vpc.amazonaws.com/efa": "32",
        f"{TEMPLATE}/taint/dedicated": ":NoExecute",
        f"{TEMPLATE}/taint/nvidia.com/gpu": "present:NoSchedule",
    }
    assert list(tags) == sorted(tags)


def test_gpus_are_counted_as_the_pool_shares_them() -> None:
    sliced = scale_from_zero_tags(
        pool(
            instance_types=["p5.48xlarge"],
            sharing={"strategy": "mig", "mig_profile": "3g.40gb", "mig_strategy": "mixed"},
        )
    )
    assert sliced[f"{TEMPLATE}/resources/nvidia.com/mig-3g.40gb"] == "16"
    assert sliced[f"{TEMPLATE}/resources/nvidia.com/gpu"] == "0"
    vgpu = scale_from_zero_tags(pool(instance_types=["g6.12xlarge"], sharing={"strategy": "volcano_vgpu"}))
    assert vgpu[f"{TEMPLATE}/resources/volcano.sh/vgpu-number"] == "40"
    assert vgpu[f"{TEMPLATE}/resources/volcano.sh/vgpu-memory"] == str(4 * 23034)
    assert f"{TEMPLATE}/resources/nvidia.com/gpu" not in scale_from_zero_tags(pool(instance_types=["m7i.large"]))


def test_disk_is_the_root_volume_where_there_is_no_other() -> None:
    assert scale_from_zero_tags(pool(instance_types=["m7i.large"]))[f"{TEMPLATE}/resources/ephemeral-storage"] == "45Gi"


def test_what_is_not_known_is_not_said() -> None:
    tags = scale_from_zero_tags(pool(instance_types=["m9i.large"]))
    assert f"{TEMPLATE}/resources/cpu" not in tags
    assert f"{TEMPLATE}/label/llm-serving/pool" in tags
