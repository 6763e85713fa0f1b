"""Releases by the real provider on a real API server: hooks, CRDs that stay, order, KubeRay from its manifests."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from components import versions
from components.config import parse
from components.manifests import releases
from components.node_pools import resolve
from local import pins
from tests.components.software_stacks import STACKS
from tests.e2e.software.conftest import Engine, Kube

pytestmark = pytest.mark.e2e

RELEASE = """\
import sys

sys.path.insert(0, {root!r})

import pulumi
import pulumi_kubernetes as k8s

from components.software_release import SoftwareRelease
from components.versions import Chart
from policies.facts import Release

config = pulumi.Config()
provider = k8s.Provider("kubernetes", kubeconfig=config.require("kubeconfig"))
chart = Chart(name="hooked", version="0.1.0", repository="none", namespace="hooked", source="a test")
release = Release(
    name="hooked",
    where="software.hooked",
    chart=config.require("chart"),
    version="0.1.0",
    repository=None,
    namespace="hooked",
    values=dict(word=config.require("word")),
    atomic=True,
    timeout_seconds=config.require_int("timeout"),
)
widget = dict(apiVersion="example.com/v1", kind="Widget", metadata=dict(name="one"), spec=dict(size=1))
child = dict(apiVersion="example.com/v1", kind="Widget", metadata=dict(name="two"), spec=dict(size=2, parent="one"))
SoftwareRelease(
    "hooked",
    release=release,
    chart=chart,
    cluster_values=dict(word="never", place="here"),
    objects=[widget, child],
    after=(),
    crd_provider=lambda: provider,
    opts=pulumi.ResourceOptions(provider=provider),
)
"""
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {size: {type: integer}, parent: {type: string}}}}
"""
HOOK = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: by-hook
  annotations: {{"helm.sh/hook": post-install, "helm.sh/hook-delete-policy": before-hook-creation}}
data: {{word: "{word}", place: "{place}"}}
"""
# A Job that cannot start: what an image that is not there, or a bad value, does to a chart.
BROKEN = """\
{{- if eq .Values.word "broken" }}
apiVersion: batch/v1
kind: Job
metadata:
  name: broken
  annotations: {"helm.sh/hook": post-upgrade}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: broken, image: "localhost/no-such-image:1", imagePullPolicy: Never}]
{{- end }}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart with a CRD, a plain object, and hooks."""
    folder = tmp_path / "hooked"
    (folder / "templates").mkdir(parents=True)
    (folder / "crds").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: hooked\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text("word: none\nplace: none\n")
    (folder / "crds" / "widgets.yaml").write_text(CRD)
    hook = HOOK.format(word="{{ .Values.word }}", place="{{ .Values.place }}")
    (folder / "templates" / "hook.yaml").write_text(hook)
    (folder / "templates" / "broken.yaml").write_text(BROKEN)
    plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {word: {{ .Values.word | quote }}}\n"
    (folder / "templates" / "plain.yaml").write_text(plain)
    return folder


def test_hooks_run_values_merge_objects_follow_and_a_failed_upgrade_is_rolled_back(
    engine: Engine, kube: Kube, chart: Path
) -> None:
    engine.program = RELEASE
    config = {"chart": str(chart), "kubeconfig": str(kube.kubeconfig), "word": "first", "timeout": 120}
    engine.up(config)
    assert kube.get("configmap", "by-hook", "-n", "hooked")["data"] == {"word": "first", "place": "here"}
    widgets = {each["metadata"]["name"]: each["spec"] for each in kube.get("widgets")["items"]}
    assert widgets == {"one": {"size": 1}, "two": {"size": 2, "parent": "one"}}

    engine.up({**config, "word": "second"})
    assert kube.get("configmap", "plain", "-n", "hooked")["data"] == {"word": "second"}

    with pytest.raises(AssertionError):
        engine.up({**config, "word": "broken", "timeout": 15})
    assert kube.get("configmap", "plain", "-n", "hooked")["data"] == {"word": "second"}

    engine.up({**config, "word": "third"})  # and the next one is not refused as "another operation in progress"
    assert kube.get("configmap", "plain", "-n", "hooked")["data"] == {"word": "third"}

    engine.destroy()
    assert kube.get("widgets")["items"] == []
    assert kube.get("crd", "widgets.example.com")["metadata"]["name"] == "widgets.example.com"  # never deleted


def manifests_config(**software: object) -> dict[str, object]:
    """The environment `local`, as far as it concerns the operator."""
    kuberay = {
        "source": "manifests",
        "version": pins.KUBERAY.removeprefix("v"),
        "directory": "$KUBERAY_MANIFESTS",
        "image": f"localhost/kuberay-operator:{pins.KUBERAY}",
    }
    return {
        "cluster": {"kind": "existing", "kubernetes_version": pins.KUBERNETES[1:5]},
        "software": {"kuberay": kuberay, **software},
        "node_pools": {"gpu": {**STACKS["existing_nodes"]["node_pools"]["l4"], "gpu": None, "gpus_per_node": 0}},
        "services": {"chat": {"pool": "gpu"}},
    }


def test_kuberay_is_installed_from_its_manifests_and_its_crds_outlive_the_stack(engine: Engine, kube: Kube) -> None:
    engine.up(manifests_config())
    deployment = kube.get("deployment", "kuberay-operator", "-n", "kuberay-system")
    assert deployment["status"]["readyReplicas"] == 1
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"localhost/kuberay-operator:{pins.KUBERAY}"
    assert container["args"] == ["--enable-metrics"]
    crds = [each["metadata"]["name"] for each in kube.get("crd")["items"] if each["spec"]["group"] == "ray.io"]
    assert crds == ["rayclusters.ray.io", "raycronjobs.ray.io", "rayjobs.ray.io", "rayservices.ray.io"]

    assert "unchanged" in engine.up(manifests_config())

    engine.destroy()
    left = [each["metadata"]["name"] for each in kube.get("crd")["items"] if each["spec"]["group"] == "ray.io"]
    assert left == crds
    assert "kuberay-system" not in [each["metadata"]["name"] for each in kube.get("namespaces")["items"]]

    engine.up(manifests_config())  # takes over what is there
    assert kube.get("deployment", "kuberay-operator", "-n", "kuberay-system")["status"]["readyReplicas"] == 1


VOLCANO = """\
import pulumi
import pulumi_kubernetes as k8s

config = pulumi.Config()
provider = k8s.Provider("kubernetes", kubeconfig=config.require("kubeconfig"))
k8s.helm.v4.Chart(
    "volcano",
    chart=config.require("chart"),
    namespace="volcano-system",
    values=config.require_object("values"),
    skip_await=True,
    opts=pulumi.ResourceOptions(provider=provider),
)
"""


@pytest.mark.parametrize("name", ["volcano_weights", "volcano_vgpu", "volcano_hierarchy"])
def test_volcano_s_own_chart_takes_our_values_and_its_crds_our_queues(
    name: str, engine: Engine, kube: Kube, volcano_module: Path
) -> None:
    """The chart as its release has it, rendered by Helm's library; its images cannot be had here, so nothing runs."""
    assert versions.VOLCANO.version == pins.VOLCANO.removeprefix("v")
    env = parse(STACKS[name])
    (release,) = [each for each in releases.releases(env, resolve(env)) if each.name == "volcano"]
    engine.program = VOLCANO
    kube.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}])
    chart = volcano_module / "installer" / "helm" / "chart" / "volcano"
    engine.up({"chart": str(chart), "kubeconfig": str(kube.kubeconfig), "values": dict(release.values)})

    scheduler = kube.get("deployment", "volcano-scheduler", "-n", "volcano-system")
    (container,) = scheduler["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f"volcanosh/vc-scheduler:{pins.VOLCANO}")
    assert container["imagePullPolicy"] == "IfNotPresent"
    data = kube.get("configmap", "volcano-scheduler-configmap", "-n", "volcano-system")["data"]
    plugins = [p["name"] for tier in yaml.safe_load(data["volcano-scheduler.conf"])["tiers"] for p in tier["plugins"]]
    assert ("capacity" in plugins) != ("proportion" in plugins)
    assert ("deviceshare" in plugins) == (name == "volcano_vgpu")

    # The webhooks would have to answer; the CRD's schema judges alone.
    kube("delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", "--all")
    queues = releases.queues(env, resolve(env))
    kube.apply(queues)
    for queue in queues:
        stored = kube.get("queues.scheduling.volcano.sh", queue["metadata"]["name"])["spec"]
        for key, value in queue["spec"].items():
            assert stored[key] == value, (queue["metadata"]["name"], key)
