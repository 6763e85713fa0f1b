"""Public reports about objects that name each other, schedulers' groups, device plugins and charts, as YAML: each broken, and mended."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts.wire import Resource, resource

from .resources import case, objects, said, twins
from .test_reports_of_objects import ENGINE, ROUTE
from .test_reports_of_other_kinds import CLAIM

PROMETHEUS = (
    ENGINE
    + """apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: prometheus, namespace: monitoring}
spec: {podMonitorSelector: {matchLabels: {release: prometheus}}, podMonitorNamespaceSelector: {}}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: chat, namespace: serving, labels: {release: prometheus}}
spec: {selector: {matchLabels: {app: chat}}, podMetricsEndpoints: [{port: http}]}
"""
)
PICKED = (
    ENGINE
    + ROUTE.replace(
        "backendRefs: [{name: chat, port: 80}]",
        "backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]",
    )
    + """---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: serving}
spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: picker, port: {number: 9002}}}
"""
)
PEERS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: chat, namespace: serving}
spec:
  serviceName: chat
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      enableServiceLinks: false
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.29.0
        command: [sh, -c, "vllm serve Qwen/Qwen2.5-72B-Instruct --max-model-len 8192 --tensor-parallel-size 8 --pipeline-parallel-size 2 --nnodes 2 --node-rank ${HOSTNAME##*-} --master-addr chat-0.chat.serving.svc.cluster.local"]
        ports: [{name: http, containerPort: 8000}]
        resources: {limits: {nvidia.com/gpu: 8, memory: 1000Gi}}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 10, timeoutSeconds: 5}
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]
---
apiVersion: v1
kind: Service
metadata: {name: chat, namespace: serving}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: chat}, ports: [{name: http, port: 8000}]}
"""
SUBGROUPS = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: repro, namespace: serving}
spec:
  queue: test
  minSubGroup: 1
  subGroups:
  - {name: workers, minSubGroup: 2}
  - {name: first, parent: workers, minMember: 2}
  - {name: second, parent: workers, minMember: 2}
"""
PLUGIN = """
apiVersion: v1
kind: ConfigMap
metadata: {name: slices, namespace: kube-system}
data:
  config.yaml: |-
    version: v1
    sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin, namespace: kube-system}
spec:
  selector: {matchLabels: {name: nvidia-device-plugin}}
  template:
    metadata: {labels: {name: nvidia-device-plugin}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      containers:
      - name: plugin
        image: nvcr.io/nvidia/k8s-device-plugin:v0.19.0
        env: [{name: CONFIG_FILE, value: /config/config.yaml}, {name: MPS_ROOT, value: /run/nvidia/mps}]
        volumeMounts: [{name: config, mountPath: /config}]
      volumes: [{name: config, configMap: {name: slices}}]
"""
MPS = PLUGIN.replace("timeSlicing", "mps")
SHARED = """
apiVersion: v1
kind: Pod
metadata: {name: half, namespace: serving}
spec:
  schedulerName: volcano
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 4096}}}]
"""
POINTERS = (
    case("ray-project/ray PR#53952", "monitor-selected", PROMETHEUS, ("labels: {release: prometheus}}\nspec: {sel", "labels: {app: chat}}\nspec: {sel"), severity="warning"),
    case("kubernetes-sigs/gateway-api-inference-extension#1591", "inference-pool", PICKED, ("group: inference.networking.k8s.io, kind", "group: inference.networking.x-k8s.io, kind")),
    case("vllm-project/aibrix PR#1441", "stable-names", PEERS, (" publishNotReadyAddresses: true,", ""), severity="warning"),
    case("sonatype/nxrm3-ha-repository#51", "stable-names", PEERS, ("serviceName: chat", "serviceName: chat-headless")),
    case("ai-dynamo/dynamo PR#8183", "stable-names", PEERS, ("chat-0.chat.serving.svc", "chat-0.chat.research.svc")),
    case("kai-scheduler/KAI-Scheduler#1639", "scheduler-objects", SUBGROUPS, ("{name: workers, minSubGroup: 2}", "{name: workers, minMember: 4}")),
    case("more subgroups than there are", "scheduler-objects", SUBGROUPS, ("minSubGroup: 2}", "minSubGroup: 3}")),
    case("a parent that is not there", "scheduler-objects", SUBGROUPS, ("{name: workers, minSubGroup: 2}", "{name: worker, minMember: 2}")),
    case("volcano-sh/volcano#3624", "volcano-vgpu", SHARED, ("vgpu-memory", "gpu-memory")),
    case("NVIDIA/k8s-device-plugin#615", "device-plugin-daemon-set", PLUGIN, ("env: [{name: CONFIG_FILE, value: /config/config.yaml}, {name: MPS_ROOT, value: /run/nvidia/mps}]", "envFrom: [{configMapRef: {name: slices}}]"), severity="warning"),
    case("NVIDIA/k8s-device-plugin#1132", "device-plugin-daemon-set", MPS, (", {name: MPS_ROOT, value: /run/nvidia/mps}", "")),
)  # fmt: skip


def release(chart: str, version: str, namespace: str, values: dict[str, Any]) -> Resource:
    props = {"chart": chart, "version": version, "name": chart, "namespace": namespace, "atomic": True, "timeout": 900}
    return resource("kubernetes:helm.sh/v3:Release", chart, {**props, "values": values}, urn=f"urn:{chart}")


def slices(namespace: str) -> list[Resource]:
    return objects(PLUGIN.partition("---")[0].replace("namespace: kube-system", f"namespace: {namespace}"))


def operator(name: str) -> Resource:
    config = {"devicePlugin": {"config": {"name": name, "default": "config.yaml"}}}
    return release("gpu-operator", "v26.7.0", "gpu-operator", {"driver": {"enabled": False}, **config})


def plugin(**config: str) -> Resource:
    return release("nvidia-device-plugin", "0.19.0", "nvidia-device-plugin", {"config": config})


def dra(enabled: bool) -> list[Resource]:
    values = {"resources": {"gpus": {"enabled": enabled}}, "gpuResourcesEnabledOverride": enabled}
    return [release("dra-driver-nvidia-gpu", "0.5.0", "nvidia-dra-driver-gpu", values), *objects(CLAIM)]


@pytest.mark.parametrize(
    ("rule", "broken", "mended"),
    [
        pytest.param("device-plugin-config", [operator("slices"), *slices("kube-system")], [operator("slices"), *slices("gpu-operator")], id="NVIDIA/gpu-operator#412"),
        pytest.param("device-plugin-config", [plugin(default="slices")], [plugin(name="slices", default="config.yaml")], id="NVIDIA/k8s-device-plugin#990"),
        pytest.param("compute-domain-driver", dra(enabled=False), dra(enabled=True), id="kubernetes-sigs/dra-driver-nvidia-gpu#338"),
    ],
)  # fmt: skip
def test_charts_of_device_plugins_and_drivers(rule: str, broken: list[Resource], mended: list[Resource]) -> None:
    assert (rule, "error") in said(*broken)
    assert (rule, "error") not in said(*mended)


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), POINTERS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))


def test_a_prometheus_that_is_not_seen_may_take_everything() -> None:
    alone = PROMETHEUS.replace("kind: Prometheus\n", "kind: Alertmanager\n").replace(
        "labels: {release: prometheus}", "labels: {app: chat}"
    )
    assert "monitor-selected" not in {rule for rule, _ in said(*objects(alone))}


def test_kube_prometheus_stack_asks_for_its_release_unless_told_otherwise() -> None:
    monitor = objects(PROMETHEUS.rpartition("---")[2].replace("labels: {release: prometheus}", "labels: {app: chat}"))
    chart = ("kube-prometheus-stack", "88.5.3", "monitoring")
    every = {"prometheus": {"prometheusSpec": {"podMonitorSelectorNilUsesHelmValues": False}}}
    assert ("monitor-selected", "warning") in said(release(*chart, {}), *monitor)
    assert "monitor-selected" not in {rule for rule, _ in said(release(*chart, every), *monitor)}
