from __future__ import annotations

from pathlib import Path
from typing import Any

from policies.facts import Release
from policies.facts.helm import CHARTS, RELEASE
from policies.facts.stack import read, reading
from policies.facts.wire import Resource, resource

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
ASSET = {"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17"}
# helm.v3.Release as the engine hands it over: the provider's check has filled in defaults, numbers are floats.
PROPS: dict[str, Any] = {
    "chart": "gpu-operator",
    "version": "v26.7.0",
    "name": "gpu-operator-1a2b3c",
    "namespace": "gpu-operator",
    "repositoryOpts": {"repo": "https://helm.example.com/nvidia"},
    "values": {"driver": {"enabled": False}, "dcgmExporter": {"port": 9400.0}},
    "atomic": True,
    "timeout": 900.0,
    "skipCrds": False,
}


def release(**props: Any) -> Resource:
    given = {key: value for key, value in {**PROPS, **props}.items() if value is not None}
    return resource(RELEASE, "gpu-operator", given, urn="urn:release")


def one(*resources: Resource) -> Release:
    (found,) = read(resources).releases
    return found


def test_a_release_is_read_and_called_by_pulumi_s_name() -> None:
    assert one(release()) == Release(
        name="gpu-operator-1a2b3c",
        where="Helm release 'gpu-operator'",
        chart="gpu-operator",
        version="v26.7.0",
        repository="https://helm.example.com/nvidia",
        namespace="gpu-operator",
        values={"driver": {"enabled": False}, "dcgmExporter": {"port": 9400}},
        atomic=True,
        timeout_seconds=900,
    )


def test_files_of_values_come_first_and_stated_values_over_them(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("driver: {enabled: true, version: '580'}\ntoolkit: {enabled: false}\n")
    text = {**ASSET, "text": "mig: {strategy: mixed}"}
    got = one(release(valueYamlFiles=[{**ASSET, "path": str(file)}, text]))
    assert got.values["driver"] == {"enabled": False, "version": "580"}
    assert got.values["toolkit"] == {"enabled": False}
    assert got.values["mig"] == {"strategy": "mixed"}


def test_values_that_cannot_be_known_make_no_release_of_defaults() -> None:
    got = reading([release(values=UNKNOWN)])
    assert got.stack.releases == ()
    assert [(each.where, each.paths) for each in got.not_known] == [("Helm release 'gpu-operator'", ("values",))]
    assert read([release(valueYamlFiles=[{**ASSET, "path": "/nowhere/values.yaml"}])]).releases == ()


def test_one_value_that_cannot_be_known_leaves_the_rest_to_judge() -> None:
    got = reading([release(values={"driver": {"enabled": False}, "clusterName": UNKNOWN})])
    assert got.stack.releases[0].values == {"driver": {"enabled": False}}
    assert got.not_known[0].paths == ("values.clusterName",)


def test_a_chart_resource_shows_chart_and_version_by_the_labels_of_what_it_rendered() -> None:
    chart = resource(CHARTS[0], "kai", {}, urn="urn:chart")
    child = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "a", "labels": {"helm.sh/chart": "kai-scheduler-v0.17.0"}},
    }
    stack = read([chart, resource("kubernetes:core/v1:ServiceAccount", "a", child, parent="urn:chart")])
    (got,) = stack.releases
    assert (got.kind, got.chart, got.version, got.values_known) == ("chart", "kai-scheduler", "v0.17.0", False)
    assert got.where == "Helm chart 'kai'"
    assert stack.versions.kai == "0.17.0"
    assert stack.gpu_sharing_enabled is None  # its values are not seen


def test_versions_and_switches_of_the_stack_come_from_its_releases() -> None:
    kuberay = {"chart": "kuberay-operator", "version": "1.7.0", "values": {"batchScheduler": {"name": "kai-scheduler"}}}
    kai = {
        "chart": "oci://ghcr.io/kai-scheduler/kai-scheduler",
        "version": "v0.17.0",
        "values": {"global": {"gpuSharing": True}},
    }
    stack = read([release(), resource(RELEASE, "kuberay", kuberay), resource(RELEASE, "kai", kai)])
    assert (stack.versions.gpu_operator, stack.versions.kuberay, stack.versions.kai) == ("26.7.0", "1.7.0", "0.17.0")
    assert (stack.batch_scheduler, stack.gpu_sharing_enabled) == ("kai", True)
    assert read([resource(RELEASE, "k", {**kuberay, "values": {}})]).batch_scheduler == "none"
    assert (
        read([resource(RELEASE, "k", {**kuberay, "values": {"batchScheduler": {"enabled": True}}})]).batch_scheduler
        == "volcano"
    )
    assert read([release()]).batch_scheduler is None


def test_an_operator_from_plain_manifests_tells_its_version_and_scheduler_too() -> None:
    container = {
        "image": "quay.io/kuberay/operator:v1.6.1",
        "command": ["/manager"],
        "args": ["--batch-scheduler=volcano"],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kuberay-operator"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    stack = read([resource("kubernetes:apps/v1:Deployment", "o", deployment)])
    assert (stack.versions.kuberay, stack.batch_scheduler) == ("1.6.1", "volcano")
