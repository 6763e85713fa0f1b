"""What is installed, with which values: golden files, keys that the charts know, and what must hold in each."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from components import node_pools, versions
from components.config import Environment, deep_merge, parse
from components.manifests import gateway, releases
from components.plan import assemble
from policies.facts import Release
from tests.components import chart_keys
from tests.components.environments import environment as whole_gpu
from tests.components.software_stacks import FLAT, STACKS, environment

KNOWN = {chart.name: chart_keys.read(chart.name, chart.version) for chart in versions.CHARTS}


def installed(name: str) -> dict[str, Release]:
    env = environment(name)
    return {release.name: release for release in releases.releases(env, node_pools.resolve(env))}


def queues(env: Environment) -> list[dict[str, Any]]:
    return releases.queues(env, node_pools.resolve(env))


def values(name: str, chart: str) -> dict[str, Any]:
    return dict(installed(name)[chart].values)


@pytest.mark.parametrize("name", STACKS)
def test_the_releases_of_a_stack_are_as_reviewed(name: str, snapshot: SnapshotAssertion) -> None:
    found = [dataclasses.asdict(release) for release in installed(name).values()]
    made = queues(environment(name))
    assert yaml.safe_dump({"releases": found, "queues": made}, sort_keys=True, width=120) == snapshot


@pytest.mark.parametrize("name", STACKS)
def test_every_value_key_is_known_to_its_chart(name: str) -> None:
    for release in installed(name).values():
        assert chart_keys.unknown(release.values, KNOWN[release.name]) == [], release.name


def test_a_key_that_a_chart_does_not_know_is_found() -> None:
    known = KNOWN["kuberay-operator"]
    assert chart_keys.unknown({"batchscheduler": {"name": "kai"}, "metrics": {"enabled": True, "on": 1}}, known) == [
        "batchscheduler",
        "metrics.on",
    ]
    assert chart_keys.unknown({"labels": {"anything": "goes"}, "watchNamespace": ["a"]}, known) == []


@pytest.mark.parametrize("chart", versions.CHARTS, ids=lambda chart: chart.name)
def test_every_chart_is_pinned_with_its_source(chart: versions.Chart) -> None:
    assert chart.version.removeprefix("v")[0].isdigit()
    assert chart.source.startswith("https://github.com/")
    assert chart.repository.startswith(("https://", "oci://"))
    for address in chart.crds:
        assert "{version}" in address


@pytest.mark.parametrize("name", STACKS)
def test_the_same_config_gives_the_same_values(name: str) -> None:
    again = parse(yaml.safe_load(yaml.safe_dump(STACKS[name], sort_keys=True)))
    assert list(installed(name).values()) == list(releases.releases(again, node_pools.resolve(again)))


@pytest.mark.parametrize(
    ("name", "charts"),
    [
        ("nothing_needed", []),
        ("existing_nodes", ["gpu-operator", "kuberay-operator"]),
        ("shared_by_kai", ["gpu-operator", "kai-scheduler", "kuberay-operator"]),
        ("volcano_vgpu", ["gpu-operator", "volcano", "volcano-vgpu-device-plugin", "kuberay-operator"]),
        ("monitored", ["kube-prometheus-stack", "gpu-operator", "kuberay-operator"]),
        ("incremental", ["gateway-helm", "gpu-operator", "kuberay-operator"]),
        ("aws_managed", ["gpu-operator", "cluster-autoscaler", "kuberay-operator"]),
        ("aws_karpenter", ["gpu-operator", "karpenter", "kuberay-operator"]),
        (
            "aws_efa_and_load_balancer",
            [
                "gpu-operator",
                "aws-efa-k8s-device-plugin",
                "aws-load-balancer-controller",
                "cluster-autoscaler",
                "kuberay-operator",
            ],
        ),
        (
            "aws_nvlink_between_nodes",
            [
                "gpu-operator",
                "dra-driver-nvidia-gpu",
                "aws-efa-k8s-device-plugin",
                "cluster-autoscaler",
                "kuberay-operator",
            ],
        ),
        (
            "aws_scaled_by_keda_behind_an_ingress",
            ["kube-prometheus-stack", "keda", "gpu-operator", "aws-load-balancer-controller", "cluster-autoscaler"],
        ),
    ],
)
def test_what_is_needed_is_installed_and_no_more(name: str, charts: list[str]) -> None:
    assert list(installed(name)) == charts


def test_what_is_there_already_is_not_installed() -> None:
    env = whole_gpu(software={"gpu_operator": {"install": False}, "kuberay": {"install": False}})
    assert releases.releases(env, node_pools.resolve(env)) == ()


def test_one_field_names_the_autoscaler_and_only_that_one_is_installed() -> None:
    for stated, chart in ((None, "cluster-autoscaler"), (True, "cluster-autoscaler"), (False, None)):
        env = parse(deep_merge(STACKS["aws_managed"], {"software": {"autoscaler": {"install": stated}}}))
        names = [release.name for release in releases.releases(env, node_pools.resolve(env))]
        assert ("cluster-autoscaler" in names) == (chart is not None)
        assert "karpenter" not in names


# ---- GPU Operator


def test_images_of_eks_bring_driver_and_toolkit() -> None:
    found = values("aws_managed", "gpu-operator")
    assert found["driver"] == found["toolkit"] == {"enabled": False}
    assert found["devicePlugin"] == {"enabled": True}


def test_bottlerocket_brings_the_device_plugin_too() -> None:
    assert values("aws_bottlerocket", "gpu-operator")["devicePlugin"] == {"enabled": False}


def test_beside_bottlerocket_other_nodes_keep_their_device_plugin() -> None:
    both = deep_merge(
        STACKS["aws_bottlerocket"], {"node_pools": {"al2023": {"instance_types": ["g6.2xlarge"], "max": 1}}}
    )
    env = parse(both)
    (found, *_) = [r.values for r in releases.releases(env, node_pools.resolve(env)) if r.name == "gpu-operator"]
    assert found["devicePlugin"] == {"enabled": True}


def test_nodes_without_a_stated_driver_get_one() -> None:
    assert values("no_driver_on_the_nodes", "gpu-operator")["driver"] == {"enabled": True}
    assert values("existing_nodes", "gpu-operator")["driver"] == {"enabled": False}


def test_every_taint_of_gpu_nodes_is_tolerated_by_operands_and_by_the_nfd_worker() -> None:
    found = values("aws_karpenter", "gpu-operator")
    dedicated = {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}
    for tolerations in (found["daemonsets"]["tolerations"], found["node-feature-discovery"]["worker"]["tolerations"]):
        assert dedicated in tolerations
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in tolerations
        assert len(tolerations) == len({tuple(each.items()) for each in tolerations})


def test_each_pool_has_its_entry_and_its_label_names_it() -> None:
    env = environment("aws_mig")
    pools = node_pools.resolve(env)
    config = values("aws_mig", "gpu-operator")["devicePlugin"]["config"]
    entries = {name: yaml.safe_load(text) for name, text in config["data"].items()}
    assert config["default"] == "default"
    assert sorted(entries) == ["default", "gpu", "mixed", "mps"]
    assert entries["gpu"]["flags"] == {"migStrategy": "single"}
    assert entries["mixed"]["flags"] == {"migStrategy": "mixed"}
    assert entries["mps"]["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 2}]
    for pool in pools:
        label = pool.labels.get(node_pools.DEVICE_PLUGIN_CONFIG_LABEL)
        assert (label == pool.name) if pool.name in entries else label is None


def test_pools_of_two_mig_strategies_leave_the_choice_to_their_entries() -> None:
    found = values("aws_mig", "gpu-operator")
    assert found["mig"] == {"strategy": ""}
    assert found["migManager"]["env"] == [{"name": "WITH_REBOOT", "value": "true"}]
    assert values("existing_nodes", "gpu-operator")["mig"] == {"strategy": "none"}


def test_nodes_that_others_labelled_take_the_only_entry_there_is() -> None:
    config = values("time_sliced", "gpu-operator")["devicePlugin"]["config"]
    assert config["default"] == "gpu"
    slicing = yaml.safe_load(config["data"]["gpu"])["sharing"]["timeSlicing"]
    assert slicing == {
        "renameByDefault": False,
        "failRequestsGreaterThanOne": True,
        "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
    }


def test_scraping_is_declared_only_where_its_crd_is_installed() -> None:
    for name, on in (("monitored", True), ("existing_nodes", False)):
        assert values(name, "gpu-operator")["dcgmExporter"]["serviceMonitor"] == {"enabled": on}
        assert values(name, "kuberay-operator")["metrics"]["serviceMonitor"] == {"enabled": on}


# ---- KubeRay


def test_kuberay_gets_the_scheduler_by_the_operator_s_name_and_never_the_old_switch() -> None:
    assert values("shared_by_kai", "kuberay-operator")["batchScheduler"] == {"name": "kai-scheduler"}
    assert values("volcano_weights", "kuberay-operator")["batchScheduler"] == {"name": "volcano"}
    assert "batchScheduler" not in values("existing_nodes", "kuberay-operator")


def test_gates_follow_what_services_use() -> None:
    assert values("incremental", "kuberay-operator")["featureGates"] == [
        {"name": "GCSFaultToleranceEmbeddedStorage", "enabled": True},
        {"name": "RayServiceIncrementalUpgrade", "enabled": True},
    ]
    assert "featureGates" not in values("existing_nodes", "kuberay-operator")


def test_values_by_hand_win_over_derived_ones() -> None:
    found = values("kuberay_by_hand", "kuberay-operator")
    assert found["resources"]["limits"] == {"cpu": "1", "memory": "2Gi"}
    assert found["replicas"] == 2
    assert found["image"] == {"repository": "registry.example.com:5000/kuberay/operator", "tag": "v1.6.1-a"}
    assert found["watchNamespace"] == ["a", "b"]
    assert installed("kuberay_by_hand")["kuberay-operator"].version == "1.6.1"


def test_the_operator_has_memory_for_its_pods() -> None:
    """Of 201 services a head and four workers each."""
    many = {f"s{number}": STACKS["existing_nodes"]["services"]["chat"] for number in range(200)}
    env = whole_gpu(services=many)
    (found,) = [r for r in releases.releases(env, node_pools.resolve(env)) if r.name == "kuberay-operator"]
    assert found.values["resources"]["limits"]["memory"] == "1517Mi"


# ---- queues


def test_kai_counts_in_its_own_units_and_parents_come_first() -> None:
    made = {queue["metadata"]["name"]: queue["spec"] for queue in queues(environment("shared_by_kai"))}
    assert list(made) == ["research", "serving", "batch", "chat"]
    assert made["research"]["resources"]["cpu"] == {"quota": 32000, "limit": 64000, "overQuotaWeight": 1}
    assert made["batch"]["resources"]["memory"] == {"quota": 107374.182, "limit": 214748.365, "overQuotaWeight": 1}
    assert made["serving"]["resources"]["memory"] == {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    assert made["batch"]["parentQueue"] == "serving"


def test_volcano_takes_capacity_in_place_of_proportion_only_when_a_queue_states_its_share() -> None:
    assert "custom" not in values("volcano_weights", "volcano")
    config = yaml.safe_load(values("volcano_hierarchy", "volcano")["custom"]["scheduler_config_override"])
    plugins = [plugin for tier in config["tiers"] for plugin in tier["plugins"]]
    names = [plugin["name"] for plugin in plugins]
    assert config["actions"] == "enqueue, allocate, backfill, reclaim"
    assert "capacity" in names
    assert "proportion" not in names
    assert {"name": "capacity", "enableHierarchy": True} in plugins
    assert "deviceshare" not in names


def test_volcano_packs_gpus_where_a_node_has_several() -> None:
    env = whole_gpu(
        software={"batch_scheduler": "volcano"},
        node_pools={"h100": {"kind": "existing", "gpu": "H100", "gpus_per_node": 8, "cpu": 190, "memory_gib": 1900}},
    )
    (release,) = [each for each in releases.releases(env, node_pools.resolve(env)) if each.name == "volcano"]
    config = yaml.safe_load(release.values["custom"]["scheduler_config_override"])
    plugins = {plugin["name"]: plugin for tier in config["tiers"] for plugin in tier["plugins"]}
    assert plugins["binpack"]["arguments"] == {
        "binpack.weight": 10,
        "binpack.resources": "nvidia.com/gpu",
        "binpack.resources.nvidia.com/gpu": 10,
    }
    assert "proportion" in plugins


def test_volcano_shares_gpus_by_its_plugin_and_hami_s_runs_on_those_nodes_only() -> None:
    config = yaml.safe_load(values("volcano_vgpu", "volcano")["custom"]["scheduler_config_override"])
    (share,) = [plugin for tier in config["tiers"] for plugin in tier["plugins"] if plugin["name"] == "deviceshare"]
    assert share["arguments"]["deviceshare.VGPUEnable"] is True
    plugin = values("volcano_vgpu", "volcano-vgpu-device-plugin")
    assert plugin["deviceConfig"] == {"nvidia": {"deviceSplitCount": 4}}
    assert {"key": "team", "operator": "Exists", "effect": "NoSchedule"} in plugin["tolerations"]
    terms = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": "llm-serving/pool", "operator": "In", "values": ["gpu"]}]}]
    assert values("volcano_vgpu", "gpu-operator")["devicePlugin"] == {"enabled": False}


def test_unlimited_is_left_out_of_volcano_s_resource_lists() -> None:
    made = {queue["metadata"]["name"]: queue["spec"] for queue in queues(environment("volcano_hierarchy"))}
    assert made["serving"]["capability"] == {"nvidia.com/gpu": "8"}
    assert made["research"]["capability"] == {"cpu": "64000m", "nvidia.com/gpu": "4"}
    assert made["batch"]["deserved"] == {"memory": "102400Mi", "nvidia.com/gpu": "2"}
    assert made["batch"]["reclaimable"] is False
    assert made["chat"]["parent"] == "serving"


def test_a_volcano_queue_of_shared_gpus_is_capped_in_what_their_pods_ask_for() -> None:
    l4 = {"kind": "existing", "gpu": "L4", "gpus_per_node": 1, "cpu": 7, "memory_gib": 28}
    pools = {"whole": l4, "cut": {**l4, "sharing": {"strategy": "volcano_vgpu", "replicas": 4}}}
    service = {"models": {"m": {"model": "Qwen/Qwen2.5-1.5B-Instruct"}}}
    env = parse(
        {
            "cluster": {"kind": "existing"},
            "image": "registry.example.com/llm-serve",
            "software": {"batch_scheduler": "volcano"},
            "node_pools": pools,
            "queues": {
                "all": {"gpu": {"limit": 4}},
                "shared": {"parent": "all", "gpu": {"limit": 1.5, "quota": 1}},
                "whole": {"parent": "all", "gpu": {"limit": 2}},
                "unused": {"gpu": {"limit": 1}},
            },
            "services": {
                "a": {**service, "queue": "shared", "pool": "cut"},
                "b": {**service, "queue": "whole", "pool": "whole"},
            },
        }
    )
    made = {queue["metadata"]["name"]: queue["spec"] for queue in queues(env)}
    assert made["whole"]["capability"] == {"nvidia.com/gpu": "2"}
    assert made["shared"]["capability"] == {
        "volcano.sh/vgpu-number": "6",
        "volcano.sh/vgpu-memory": f"{23034 * 3 // 2}",
    }
    assert made["shared"]["deserved"] == {"volcano.sh/vgpu-number": "4", "volcano.sh/vgpu-memory": "23034"}
    both = {"nvidia.com/gpu": "4", "volcano.sh/vgpu-number": "16", "volcano.sh/vgpu-memory": f"{23034 * 4}"}
    assert made["all"]["capability"] == both
    assert set(made["unused"]["capability"]) == set(both)


def test_a_guarantee_beyond_the_quota_is_refused_when_it_is_read() -> None:
    from components.config import ConfigError

    with pytest.raises(ConfigError) as caught:
        whole_gpu(queues={"a": {"gpu": {"quota": 1, "guarantee": 2}}})
    assert caught.value.problems == [
        "queue 'a': gpu: guarantee 2 is more than quota 1; Volcano takes guarantee <= quota: raise quota"
    ]


@pytest.mark.parametrize(("scheduler", "count"), [("kai", 2), ("volcano", 2), ("none", 0), ("yunikorn", 0)])
def test_queues_belong_to_the_scheduler_that_has_them(scheduler: str, count: int) -> None:
    env = whole_gpu(software={"batch_scheduler": scheduler}, queues=FLAT)
    assert len(queues(env)) == len(releases.queues_facts(env, node_pools.resolve(env))) == count


# ---- the rest


def test_sharing_by_kai_is_switched_on_for_fractions_alone() -> None:
    assert values("shared_by_kai", "kai-scheduler")["global"]["gpuSharing"] is True
    env = whole_gpu(software={"batch_scheduler": "kai"})
    (kai,) = [r for r in releases.releases(env, node_pools.resolve(env)) if r.name == "kai-scheduler"]
    assert kai.values["global"] == {"gpuSharing": False, "clusterAutoscaling": False}
    assert kai.values["defaultQueue"] == {"createDefaultQueue": False}
    assert kai.atomic is False  # its chart has no rollback


def test_service_accounts_are_those_that_have_roles() -> None:
    assert values("aws_karpenter", "karpenter")["serviceAccount"] == {"name": "karpenter"}
    balancer = values("aws_efa_and_load_balancer", "aws-load-balancer-controller")
    assert balancer["serviceAccount"] == {"name": "aws-load-balancer-controller"}
    assert values("aws_managed", "cluster-autoscaler")["rbac"] == {"serviceAccount": {"name": "cluster-autoscaler"}}


def test_the_dra_driver_runs_on_the_nodes_that_nvlink_joins_and_leaves_the_gpus_to_the_device_plugin() -> None:
    found = values("aws_nvlink_between_nodes", "dra-driver-nvidia-gpu")
    assert found["resources"] == {"gpus": {"enabled": False}, "computeDomains": {"enabled": True}}
    plugin = found["kubeletPlugin"]
    assert {"key": "team", "operator": "Exists", "effect": "NoSchedule"} in plugin["tolerations"]
    terms = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": "llm-serving/pool", "operator": "In", "values": ["gpu"]}]}]


def test_the_efa_plugin_tolerates_its_nodes() -> None:
    tolerations = values("aws_efa_and_load_balancer", "aws-efa-k8s-device-plugin")["tolerations"]
    assert {each["key"] for each in tolerations} == {"nvidia.com/gpu", "aws.amazon.com/efa"}


def test_a_gateway_costs_no_load_balancer() -> None:
    proxy, gateway_class = gateway.objects(environment("incremental"), "envoy-gateway-system")
    assert proxy["spec"]["provider"]["kubernetes"]["envoyService"] == {"type": "ClusterIP"}
    assert gateway_class["metadata"]["name"] == "envoy"
    assert gateway_class["spec"]["parametersRef"]["name"] == proxy["metadata"]["name"]


@pytest.mark.parametrize("name", [name for name in STACKS if name not in ("nothing_needed",)])
def test_no_rule_objects_to_the_releases_we_derive(name: str) -> None:
    """Findings about cluster software, not about the models and queues of these small environments."""
    findings = assemble(environment(name)).plan.findings
    assert [f.sentence() for f in findings if f.place.startswith("software.")] == []
