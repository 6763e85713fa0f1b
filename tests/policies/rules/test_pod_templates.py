"""Each test breaks one thing in a pod template, in parameters of ray start, in ports, or in a field of the custom resource."""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules
from policies.facts import Stack, Versions

from .stacks import service, stack, with_head, with_service, with_workers

MODULES = (
    rules.pod_resources,
    rules.pod_template,
    rules.ray_start,
    rules.serve_ports,
    rules.kuberay_schema,
    rules.names,
)
RULES = tuple(rule for module in MODULES for rule in module.RULES)
VOLUME = {"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}
MOUNT = {"name": "weights", "mountPath": "/weights"}


def said(given: Stack) -> list[tuple[str, str]]:
    return sorted((f.rule, f.severity) for f in rules.check(given, rules=RULES))


def pod(**fields: Any) -> Stack:
    """Workers whose pod has these fields beside its container."""
    return with_workers(pod={"containers": [{"name": "ray-worker", "image": "registry/serve:1"}], **fields})


def container(**fields: Any) -> Stack:
    return pod(containers=[{"name": "ray-worker", "image": "registry/serve:1", **fields}])


def limits(**values: Any) -> Stack:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in values.items()}
    return container(resources={"limits": named, "requests": named})


def env(**entry: Any) -> Stack:
    return container(env=[entry])


def resource(**fields: Any) -> Stack:
    """The custom resource as declared."""
    worker = {"groupName": "l4", "template": {}, **fields.pop("worker", {})}
    config = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [worker], **fields.pop("cluster", {})}
    return with_service(stack(), spec={"rayClusterConfig": config, **fields})


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (limits(nvidia_com__gpu="0.5"), "pod-resources"),
        (limits(nvidia_com__gpu="-1"), "pod-resources"),
        (limits(gpu="1"), "pod-resources"),
        (limits(memory="16GB"), "pod-resources"),
        (limits(memory="16"), "pod-resources"),
        (limits(cpu="two"), "pod-resources"),
        (container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), "pod-resources"),
        (container(resources={"requests": {"nvidia.com/gpu": "1"}}), "pod-device-limits"),
        (pod(volumes=[VOLUME, VOLUME]), "pod-volumes"),
        (pod(volumes=[{"name": "Weights", "emptyDir": {}}]), "pod-volumes"),
        (pod(volumes=[{"name": "w", "emptyDir": {}, "hostPath": {"path": "/w"}}]), "pod-volumes"),
        (pod(volumes=[{"name": "w", "secret": {}}]), "pod-volumes"),
        (pod(volumes=[{"name": "w", "emptyDir": {"sizeLimit": "lots"}}]), "pod-volumes"),
        (container(volumeMounts=[MOUNT]), "pod-volumes"),
        (pod(restartPolicy="Sometimes"), "pod-fields"),
        (pod(terminationGracePeriodSeconds=-1), "pod-fields"),
        (pod(serviceAccountName="Not a name"), "pod-fields"),
        (pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]), "pod-fields"),
        (pod(tolerations=[{"key": "a", "effect": "NoSchedul"}]), "pod-fields"),
        (pod(tolerations=[{"operator": "Equal"}]), "pod-fields"),
        (container(imagePullPolicy="Never again"), "pod-fields"),
        (container(image="UPPER/Case:1"), "pod-fields"),
        (container(image="registry/serve:not a tag"), "pod-fields"),
        (container(ports=[{"containerPort": 70000}]), "pod-fields"),
        (container(ports=[{"containerPort": 80, "name": "a-name-of-twenty-one"}]), "pod-fields"),
        (container(livenessProbe={"successThreshold": 2}), "pod-fields"),
        (env(name="A", value=1), "pod-fields"),
        (env(name="", value="1"), "pod-fields"),
        (env(name="A", value="1", valueFrom={"secretKeyRef": {"name": "a", "key": "b"}}), "pod-fields"),
        (env(name="A", valueFrom={"secretKeyRef": {"name": "Not_A_Name", "key": "b"}}), "pod-fields"),
        (env(name="A", valueFrom={"configMapKeyRef": {"name": "a", "key": "not a key"}}), "pod-fields"),
        (with_workers(labels={"team": "a b"}), "name-metadata"),
        (with_workers(labels={"team/x/y": "a"}), "name-metadata"),
        (with_workers(annotations={"not a key": "a"}), "name-metadata"),
        (with_workers(labels={"replica": 1}), "name-metadata"),
        (with_head(ray_start_params={"num-gpu": "0"}), "ray-start-parameters"),
        (with_head(ray_start_params={"num-cpus": 0}), "ray-start-parameters"),
        (with_head(ray_start_params={"memory": "8Gi"}), "ray-start-parameters"),
        (with_head(ray_start_params={"dashboard-host": "localhost"}), "ray-start-parameters"),
        (with_head(ray_start_params={"object-store-memory": "1000"}), "ray-start-parameters"),
        (with_head(ray_start_params={"object-store-memory": "99000000000"}), "ray-start-parameters"),
        (with_workers(resources={}, ray_start_params={"resources": '{"NPU": 1}'}), "ray-start-parameters"),
        (with_workers(resources={"GPU": "2"}), "ray-start-parameters"),
        (with_workers(resources={"GPU": "1", "shard": "0.5"}), "ray-start-parameters"),
        (with_workers(env={"RAY_ADDRESS": "ray://head:10001"}), "ray-address"),
        (with_service(stack(), serve_config={"http_options": {"port": 9000}}), "serve-ports"),
        (with_service(stack(), serve_config={"http_options": {"port": 8265}}), "serve-ports"),
        (with_service(stack(), serve_config={"http_options": {"host": "localhost"}}), "serve-ports"),
        (with_service(stack(), serve_config={"proxy_location": "Nowhere"}), "serve-ports"),
        (with_service(stack(), serve_config={"proxy_location": "Disabled"}), "serve-ports"),
        (with_head(pod={"containers": [{"name": "h", "image": "r/s:1", "ports": [{"name": "dashboard", "containerPort": 8265}]}]}), "serve-ports"),
        (resource(rayVersoin="2.60.0"), "kuberay-schema"),
        (resource(cluster={"autoscalerOptions": {"upscalingMode": "Fast"}}), "kuberay-schema"),
        (resource(cluster={"headGroupSpec": {}}), "kuberay-schema"),
        (resource(cluster={"workerGroupSpecs": {}}), "kuberay-schema"),
        (resource(worker={"numOfHosts": "two"}), "kuberay-schema"),
        (resource(worker={"template": {"spec": {"toleration": []}}}), "kuberay-schema"),
        (resource(worker={"template": {"schedulerName": "x"}}), "kuberay-schema"),
        (resource(worker={"template": {"spec": {"containers": [{"name": "w", "livenessProbe": {"httpGet": {"path": "/"}}}]}}}), "kuberay-schema"),
        (with_service(stack(), kind="RayJob", spec={"rayClusterSpec": {"headGroupSpec": {"template": {}}}, "runtimeEnvYAML": "a: ["}), "kuberay-schema"),
        (with_service(stack(), kind="RayJob", spec={"rayClusterSpec": {"headGroupSpec": {"template": {}}}, "deletionStrategy": {"onSuccess": {"policy": "DeleteSelf"}}}), "kuberay-schema"),
    ],
)  # fmt: skip
def test_one_thing_broken_is_one_error(given: Stack, rule: str) -> None:
    assert {(found, severity) for found, severity in said(given) if severity == "error"} == {(rule, "error")}


@pytest.mark.parametrize(
    "given",
    [
        stack(),
        limits(cpu="500m", memory="16Gi", nvidia_com__gpu="1"),
        limits(**{"hugepages-2Mi": "5120Mi", "vpc_amazonaws_com__efa": "32"}),
        container(resources={"limits": {"memory": "16Gi"}, "requests": {"cpu": "500m", "memory": "8Gi"}}),
        pod(volumes=[VOLUME], containers=[{"name": "ray-worker", "image": "registry/serve:1", "volumeMounts": [MOUNT]}]),
        pod(tolerations=[{"operator": "Exists"}, {"key": "a", "operator": "Exists", "effect": "NoExecute"}]),
        container(image="registry.example.com:5000/team/serve:2.60.0-py311@sha256:" + "a" * 64),
        container(image="rayproject/ray-llm:2.56.0-py312-cu130"),
        env(name="A B", value="1"),  # taken since Kubernetes 1.34
        with_workers(labels={"app.kubernetes.io/name": "llm", "empty": ""}, annotations={"example.com/note": "any text at all"}),
        with_head(ray_start_params={"disable-usage-stats": "false", "no-such-switch": "false"}),
        with_workers(resources={}, ray_start_params={"resources": "'{\"NPU\": 1}'"}),
        with_head(ray_start_params={"object-store-memory": "1000000000"}),
        with_service(stack(), serve_config={"http_options": {"port": 8000, "host": "0.0.0.0"}, "proxy_location": "EveryNode"}),
        resource(serveConfigV2="applications: []", worker={"minReplicas": 1.0, "scaleStrategy": {"workersToDelete": []}}),
        resource(worker={"template": {"spec": {"newInKubernetes199": True}}}),
    ],
)  # fmt: skip
def test_what_kubernetes_takes_is_no_error(given: Stack) -> None:
    assert [(rule, severity) for rule, severity in said(given) if severity == "error"] == []


def test_a_newer_kuberay_may_have_fields_that_are_not_listed() -> None:
    newer = resource(somethingNew=True)
    assert ("kuberay-schema", "error") in said(newer)
    later = stack(workloads=newer.workloads, versions=Versions(kuberay="1.9.0"))
    assert ("kuberay-schema", "warning") in said(later)


def test_a_generated_name_is_judged_with_what_is_added_to_it() -> None:
    generated = stack(workloads=(service(name="", manifest={"metadata": {"generateName": "batch-"}}),))
    assert said(generated) == []
    assert ("name-workload", "error") in said(
        stack(workloads=(service(name="", manifest={"metadata": {"generateName": "-"}}),))
    )


def test_an_unknown_parameter_of_another_ray_is_a_warning() -> None:
    given = with_service(with_head(ray_start_params={"num-gpu": "0"}), ray_version="2.40.0")
    assert ("ray-start-parameters", "warning") in said(given)
