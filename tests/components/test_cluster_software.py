"""The cluster software under a mock engine: what waits for what, which provider, CRDs that stay, values only a cluster knows."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest
import yaml

from components import cluster_software, crds, kuberay_manifests, node_pools
from components.cluster import Cluster
from components.config import ConfigError, Environment, deep_merge, parse
from components.manifests import dashboards, kuberay_overlay, releases
from tests.components import aws_stacks, software_stacks
from tests.components.program import Program, run

RELEASE = "kubernetes:helm.sh/v3:Release"
GROUP, CHART, FOLDER = (
    "kubernetes:yaml/v2:ConfigGroup",
    "kubernetes:helm.sh/v4:Chart",
    "kubernetes:kustomize/v2:Directory",
)
KAI_QUEUE, VOLCANO_QUEUE = "kubernetes:scheduling.run.ai/v2:Queue", "kubernetes:scheduling.volcano.sh/v1beta1:Queue"


def existing() -> Cluster:
    connection = {"kubeconfig": "/nowhere/kubeconfig"}
    return Cluster(provider=k8s.Provider("kubernetes", **connection), connection=connection)


def installed(env: Environment) -> Program:
    return run(lambda: cluster_software.build(env, node_pools.resolve(env), existing()))


@functools.cache
def program(name: str) -> Program:
    return installed(software_stacks.environment(name))


@functools.cache
def on_aws(name: str) -> Program:
    from components import aws

    env = software_stacks.environment(name) if name in software_stacks.STACKS else aws_stacks.environment(name)
    pools = node_pools.resolve(env)
    return run(lambda: cluster_software.build(env, pools, aws.build(env, pools)))


EXISTING = [name for name in software_stacks.STACKS if not name.startswith("aws") and name != "kuberay_manifests"]


@pytest.mark.parametrize("name", EXISTING)
def test_what_the_plan_judged_is_what_is_created(name: str) -> None:
    env = software_stacks.environment(name)
    made = {each.name: each.inputs for each in program(name).of(RELEASE)}
    judged = {release.name: release for release in releases.releases(env, node_pools.resolve(env))}
    assert set(made) == set(judged)
    for chart, release in judged.items():
        inputs = made[chart]
        assert inputs["values"] == json.loads(json.dumps(release.values))
        assert inputs["version"] == release.version
        assert inputs["chart"] == release.chart
        assert inputs.get("repositoryOpts", {}).get("repo") == release.repository
        assert inputs["atomic"] is release.atomic
        assert inputs["timeout"] == release.timeout_seconds
        assert inputs["createNamespace"] is True


@pytest.mark.parametrize(
    ("name", "first", "then"),
    [
        ("shared_by_kai", "gpu-operator", "kai-scheduler"),
        ("shared_by_kai", "kai-scheduler", "kuberay-operator"),
        ("volcano_weights", "volcano", "kuberay-operator"),
        ("volcano_vgpu", "volcano", "volcano-vgpu-device-plugin"),
        ("monitored", "kube-prometheus-stack", "gpu-operator"),
        ("monitored", "kube-prometheus-stack", "kuberay-operator"),
        ("incremental", "gateway-helm", "kuberay-operator"),
    ],
)
def test_what_others_need_comes_first(name: str, first: str, then: str) -> None:
    made = program(name)
    assert f"{RELEASE} {first}" in made.needs(made.one(RELEASE, then))


def test_parts_that_do_not_need_each_other_do_not_wait() -> None:
    made = program("existing_nodes")
    assert f"{RELEASE} gpu-operator" not in made.needs(made.one(RELEASE, "kuberay-operator"))


@pytest.mark.parametrize("chart", [part.chart.name for part in releases.PARTS])
def test_the_order_names_every_chart_and_only_charts_there_are(chart: str) -> None:
    order = [part.chart.name for part in releases.PARTS]
    assert set(cluster_software.AFTER) == set(order)
    for before in set(cluster_software.AFTER[chart]) - {"queues"}:
        assert order.index(before) < order.index(chart)


def test_kuberay_s_crds_come_ahead_of_it_by_their_own_provider_and_stay() -> None:
    made = program("existing_nodes")
    (group,) = made.of(GROUP)
    operator = made.one(RELEASE, "kuberay-operator")
    assert f"{GROUP} kuberay-operator-crds" in made.needs(operator)
    assert operator.inputs["skipCrds"] is True
    assert [Path(file).name for file in group.inputs["files"]] == [
        "ray.io_rayclusters.yaml",
        "ray.io_raycronjobs.yaml",
        "ray.io_rayjobs.yaml",
        "ray.io_rayservices.yaml",
    ]
    assert all("/v1.7.0/" in file for file in group.inputs["files"])
    assert group.provider.endswith("kubernetes-crds")
    assert operator.provider.endswith("::kubernetes")


def test_crds_follow_a_stated_version() -> None:
    (group,) = program("kuberay_by_hand").of(GROUP)
    assert all("/v1.6.1/" in file for file in group.inputs["files"])


def test_a_chart_that_upgrades_its_own_crds_keeps_them() -> None:
    for name, chart in (
        ("existing_nodes", "gpu-operator"),
        ("shared_by_kai", "kai-scheduler"),
        ("volcano_weights", "volcano"),
    ):
        assert program(name).one(RELEASE, chart).inputs["skipCrds"] is False


def test_the_crd_provider_takes_over_what_is_there_and_the_other_does_not() -> None:
    providers = {each.name: each.inputs for each in program("existing_nodes").of("pulumi:providers:kubernetes")}
    assert providers["kubernetes-crds"]["upsertExistingObjects"] == "true"
    assert "upsertExistingObjects" not in providers["kubernetes"]


def test_without_crds_of_ours_there_is_no_second_provider() -> None:
    providers = program("nothing_needed").of("pulumi:providers:kubernetes")
    assert [each.name for each in providers] == ["kubernetes"]


def test_queues_wait_for_a_scheduler_that_is_up_and_children_for_their_parents() -> None:
    made = program("shared_by_kai")
    patch = made.one("kubernetes:kai.scheduler/v1:ConfigPatch")
    assert patch.inputs["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Available"}
    for queue in made.of(KAI_QUEUE):
        assert {f"{RELEASE} kai-scheduler", f"{patch.type} {patch.name}"} <= made.needs(queue)
    chat = made.one(KAI_QUEUE, "queue-chat")
    assert f"{KAI_QUEUE} queue-serving" in made.needs(chat)
    assert f"{KAI_QUEUE} queue-research" not in made.needs(chat)


def test_queues_of_a_scheduler_that_is_there_already_are_made_all_the_same() -> None:
    raw = {**software_stacks.STACKS["volcano_hierarchy"]}
    made = installed(parse(deep_merge(raw, {"software": {"volcano": {"install": False}}})))
    assert [each.name for each in made.of(VOLCANO_QUEUE)] == [
        f"queue-{name}" for name in ("batch", "chat", "research", "serving")
    ]
    assert f"{VOLCANO_QUEUE} queue-batch" in made.needs(made.one(RELEASE, "kuberay-operator"))


def test_kuberay_and_workloads_wait_for_the_queues() -> None:
    made = program("volcano_hierarchy")
    needs = made.needs(made.one(RELEASE, "kuberay-operator"))
    assert {f"{VOLCANO_QUEUE} queue-{name}" for name in ("batch", "chat", "research", "serving")} <= needs
    names = {resource.pulumi_resource_name for resource in made.result.ready}
    assert {"volcano", "queue-batch", "kuberay-operator", "gpu-operator"} <= names


def test_a_gateway_class_comes_with_its_implementation() -> None:
    made = program("incremental")
    chart = made.one(CHART)
    assert chart.inputs["chart"] == "oci://docker.io/envoyproxy/gateway-crds-helm"
    assert chart.provider.endswith("kubernetes-crds")
    gateway_class = made.one("kubernetes:gateway.networking.k8s.io/v1:GatewayClass")
    needs = made.needs(gateway_class)
    assert f"{RELEASE} gateway-helm" in needs
    assert any(need.startswith("kubernetes:gateway.envoyproxy.io/v1alpha1:EnvoyProxy") for need in needs)
    assert made.one(RELEASE, "gateway-helm").inputs["values"] == {"crds": {"enabled": False}}


def test_dashboards_are_config_maps_that_grafana_finds() -> None:
    made = program("monitored")
    maps = made.of("kubernetes:core/v1:ConfigMap")
    assert len(maps) == len(dashboards.DASHBOARDS)
    wanted = made.one(RELEASE, "kube-prometheus-stack").inputs["values"]["grafana"]["sidecar"]["dashboards"]
    for each in maps:
        assert each.inputs["metadata"]["labels"] == {wanted["label"]: "1"}
        (text,) = each.inputs["data"].values()
        assert json.loads(text)["panels"]


# ---- on AWS


def test_karpenter_learns_its_cluster_and_queue_and_its_pools_come_after_it() -> None:
    made = on_aws("karpenter")
    release = made.one(RELEASE, "karpenter")
    assert release.inputs["values"]["settings"]["clusterName"] == "llm-serving-test"
    assert release.inputs["values"]["settings"]["interruptionQueue"] == "llm-serving-test"
    assert release.inputs["skipCrds"] is True
    chart = made.one(CHART)
    assert chart.inputs["chart"] == "oci://public.ecr.aws/karpenter/karpenter-crd"
    for pool in made.of("kubernetes:karpenter.sh/v1:NodePool"):
        assert {f"{RELEASE} karpenter", f"{CHART} {chart.name}"} <= made.needs(pool)


def test_cluster_autoscaler_finds_the_groups_of_its_cluster() -> None:
    made = on_aws("aws_managed")
    assert made.one(RELEASE, "cluster-autoscaler").inputs["values"]["autoDiscovery"] == {
        "clusterName": "llm-serving-test"
    }
    node_groups = {f"aws:eks/nodeGroup:NodeGroup {each.name}" for each in made.of("aws:eks/nodeGroup:NodeGroup")}
    assert node_groups <= made.needs(made.one(RELEASE, "gpu-operator"))


ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"


@pytest.mark.parametrize(
    ("stack", "chart", "role"),
    [
        ("karpenter", "karpenter", "llm-serving-test-karpenter-controller"),
        ("aws_managed", "cluster-autoscaler", "llm-serving-test-cluster-autoscaler"),
        (
            "aws_efa_and_load_balancer",
            "aws-load-balancer-controller",
            "llm-serving-test-load-balancer-controller",
        ),
    ],
)
def test_a_controllers_pods_start_when_their_role_is_there_and_it_goes_after_them(
    stack: str, chart: str, role: str
) -> None:
    made = on_aws(stack)
    needs = made.needs(made.one(RELEASE, chart))
    assert {f"{ASSOCIATION} {role}", f"aws:iam/rolePolicy:RolePolicy {role}"} <= needs


def test_karpenter_outlives_its_nodes_with_its_rights() -> None:
    made = on_aws("karpenter")
    role = "llm-serving-test-karpenter-controller"
    for pool in made.of("kubernetes:karpenter.sh/v1:NodePool"):
        assert {f"{ASSOCIATION} {role}", f"aws:iam/rolePolicy:RolePolicy {role}"} <= made.needs(pool)


def test_the_load_balancer_controller_is_told_cluster_and_vpc() -> None:
    values = on_aws("aws_efa_and_load_balancer").one(RELEASE, "aws-load-balancer-controller").inputs["values"]
    assert values["clusterName"] == "llm-serving-test"
    assert values["vpcId"] == "llm-serving-test-id"


def test_a_stated_value_wins_over_what_the_cluster_says() -> None:
    from components import aws

    raw = {
        **software_stacks.STACKS["aws_managed"],
        "software": {"autoscaler": {"values": {"autoDiscovery": {"clusterName": "mine"}}}},
    }
    env = parse(raw)
    pools = node_pools.resolve(env)
    made = run(lambda: cluster_software.build(env, pools, aws.build(env, pools)))
    assert made.one(RELEASE, "cluster-autoscaler").inputs["values"]["autoDiscovery"] == {"clusterName": "mine"}


# ---- KubeRay from its manifests


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the shape of the operator's module."""
    config = tmp_path / "module" / "config"
    for folder in ("default", "rbac", "manager", "crd/bases"):
        (config / folder).mkdir(parents=True)
    (config / "default" / "kustomization.yaml").write_text("resources: [../crd, ../rbac, ../manager]\n")
    crd = {"kind": "CustomResourceDefinition", "metadata": {"name": "rayclusters.ray.io", "annotations": {"a": "b"}}}
    (config / "crd" / "bases" / "ray.io_rayclusters.yaml").write_text(yaml.safe_dump(crd))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBERAY_MANIFESTS", str(config / "default"))
    return config / "default"


def test_manifests_are_installed_by_an_overlay_after_their_crds(published: Path) -> None:
    made = installed(software_stacks.environment("kuberay_manifests"))
    operator = made.one(FOLDER)
    needs = made.needs(operator)
    assert {f"{RELEASE} kuberay-operator-crds", f"{RELEASE} volcano"} <= needs
    assert [each.name for each in made.of(RELEASE)] == ["gpu-operator", "kuberay-operator-crds", "volcano"]
    folder = Path(operator.inputs["directory"])
    overlay = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for resource in overlay["resources"]:
        assert (folder / resource).exists(), resource
    assert overlay["namespace"] == "kuberay-system"
    assert overlay["images"] == [{"name": "kuberay/operator", "newName": "localhost/kr", "newTag": "1"}]
    (arguments, resources) = json.loads(overlay["patches"][0]["patch"])
    assert arguments["value"] == ["--enable-metrics", "--batch-scheduler=volcano"]
    assert resources["value"]["limits"]["memory"] == "512Mi"
    role, binding = yaml.safe_load_all((folder / "batch_scheduler_rbac.yaml").read_text())
    assert role["rules"][0]["apiGroups"] == ["scheduling.volcano.sh"]
    assert binding["subjects"][0]["namespace"] == "kuberay-system"


def test_an_overlay_holds_nothing_of_an_earlier_run(published: Path) -> None:
    volcano, plain = software_stacks.environment("kuberay_manifests"), software_stacks.environment("kuberay_by_hand")
    folder = Path("overlay")
    kuberay_manifests.write_overlay(volcano, published, folder)
    assert (folder / "batch_scheduler_rbac.yaml").exists()
    kuberay_manifests.write_overlay(plain, published, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["kustomization.yaml", "namespace.yaml"]


def test_a_folder_that_is_no_kustomization_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERAY_MANIFESTS", raising=False)
    with pytest.raises(ConfigError) as caught:
        kuberay_manifests.published_folder(software_stacks.environment("kuberay_manifests"))
    assert caught.value.problems == [
        "software.kuberay.directory: '$KUBERAY_MANIFESTS' holds no kustomization.yaml; give the folder config/default of the "
        "module github.com/ray-project/kuberay/ray-operator (`make up` sets KUBERAY_MANIFESTS to it)"
    ]


def test_manifests_without_a_folder_or_a_version_are_refused_when_they_are_read() -> None:
    for kuberay in ({"source": "manifests"}, {"source": "manifests", "directory": "x"}, {"directory": "x"}):
        with pytest.raises(ConfigError):
            parse({"software": {"kuberay": kuberay}})


def test_a_chart_of_crds_holds_the_files_and_keeps_them(tmp_path: Path, published: Path) -> None:
    files = kuberay_manifests.crd_files(published)
    crds.write_chart("kuberay-crds", files, "1.6.1", tmp_path / "chart")
    assert (tmp_path / "chart" / "files" / files[0].name).read_bytes() == files[0].read_bytes()
    assert yaml.safe_load((tmp_path / "chart" / "Chart.yaml").read_text())["version"] == "1.6.1"
    template = (tmp_path / "chart" / "templates" / "crds.yaml").read_text()
    assert '"helm.sh/resource-policy" "keep"' in template


@pytest.mark.parametrize(
    ("image", "entry"),
    [
        (None, {"name": "kuberay/operator", "newName": "quay.io/kuberay/operator", "newTag": "v1.6.1"}),
        ("r.example.com:5000/op:v2", {"name": "kuberay/operator", "newName": "r.example.com:5000/op", "newTag": "v2"}),
        ("r.example.com:5000/op", {"name": "kuberay/operator", "newName": "r.example.com:5000/op", "newTag": "latest"}),
        ("op@sha256:" + "a" * 64, {"name": "kuberay/operator", "newName": "op", "digest": "sha256:" + "a" * 64}),
    ],
)
def test_images_are_read_with_ports_tags_and_digests(image: str | None, entry: dict[str, Any]) -> None:
    kuberay = {"source": "manifests", "version": "1.6.1", "directory": "d", **({"image": image} if image else {})}
    files = kuberay_overlay.files(parse({"software": {"kuberay": kuberay}}), "../x/default")
    assert yaml.safe_load(files["kustomization.yaml"])["images"] == [entry]


def test_crds_stay_when_the_stack_goes() -> None:
    opts = crds._retained(pulumi.ResourceOptions(version="1"))
    assert opts.retain_on_delete is True
    assert opts.version == "1"
