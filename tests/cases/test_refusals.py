"""Conditions between fields that the API server and webhooks refuse, row by row: each broken in one place of an object that passes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from policies.facts.wire import PLACEHOLDER, manifests
from policies.judgement import judge

from .resources import said

_POD = """
metadata: {labels: {app: chat}, annotations: {}}
spec:
  enableServiceLinks: false
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.29.0
    args: [--model, Qwen/Qwen2.5-7B-Instruct, --max-model-len, "8192"]
    ports: [{name: http, containerPort: 8000}]
    resources: {limits: {nvidia.com/gpu: 1, memory: 24Gi}}
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
    startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 120, periodSeconds: 10}
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]
"""
_FORMS = """
Deployment: {apiVersion: apps/v1, spec: {replicas: 2, selector: {matchLabels: {app: chat}}}}
Job:
  apiVersion: batch/v1
  metadata: {labels: {kueue.x-k8s.io/queue-name: gpu}}
  spec: {parallelism: 2, completions: 2}
Service: {apiVersion: v1, spec: {selector: {app: chat}, ports: [{name: http, port: 80, targetPort: 8000}]}}
HorizontalPodAutoscaler:
  apiVersion: autoscaling/v2
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
    maxReplicas: 4
    metrics: [{type: Pods, pods: {metric: {name: waiting}, target: {type: AverageValue, averageValue: "8"}}}]
    behavior: {scaleDown: {stabilizationWindowSeconds: 600, policies: [{type: Pods, value: 1, periodSeconds: 300}]}}
PodDisruptionBudget: {apiVersion: policy/v1, spec: {maxUnavailable: 50%, selector: {matchLabels: {app: chat}}}}
NetworkPolicy:
  apiVersion: networking.k8s.io/v1
  spec:
    podSelector: {matchLabels: {app: other}}
    ingress:
    - {from: [{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.1.0/24]}}], ports: [{port: 8000, endPort: 8010}]}
ScaledObject:
  apiVersion: keda.sh/v1alpha1
  spec:
    scaleTargetRef: {name: chat}
    minReplicaCount: 1
    idleReplicaCount: 0
    fallback: {failureThreshold: 3, replicas: 2}
    triggers:
    - {type: prometheus, name: a, metadata: {serverAddress: "http://p:9090", query: "sum(vllm:num_requests_waiting)", threshold: "5"}}
ServiceMonitor:
  apiVersion: monitoring.coreos.com/v1
  spec:
    selector: {matchLabels: {app: chat}}
    endpoints: [{port: http, interval: 15s, relabelings: [{action: replace, targetLabel: a, regex: "(.*)"}]}]
PrometheusRule:
  apiVersion: monitoring.coreos.com/v1
  spec: {groups: [{name: g, rules: [{alert: Slow, expr: "sum(vllm:num_requests_waiting) > 5", for: 5m}]}]}
Gateway:
  apiVersion: gateway.networking.k8s.io/v1
  spec:
    gatewayClassName: istio
    listeners:
    - {name: https, port: 443, protocol: HTTPS, hostname: llm.example.com, tls: {certificateRefs: [{name: cert}]}}
HTTPRoute:
  apiVersion: gateway.networking.k8s.io/v1
  spec:
    hostnames: [llm.example.com]
    rules:
    - matches: [{path: {type: PathPrefix, value: /v1}}]
      filters: [{type: URLRewrite, urlRewrite: {hostname: chat}}]
      timeouts: {request: 600s}
      backendRefs: [{name: pool, kind: InferencePool, group: inference.networking.k8s.io}]
VolcanoJob:
  apiVersion: batch.volcano.sh/v1alpha1
  spec:
    minAvailable: 1
    policies: [{event: PodEvicted, action: RestartJob}]
    volumes: [{mountPath: /models, volumeClaimName: models}]
    tasks:
    - {name: a, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:1"}]}}}
    - {name: b, replicas: 1, dependsOn: {name: [a]}, template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:1"}]}}}
VolcanoQueue:
  apiVersion: scheduling.volcano.sh/v1beta1
  metadata: {annotations: {volcano.sh/hierarchy: root/a, volcano.sh/hierarchy-weights: 1/2}}
  spec: {weight: 1, deserved: {cpu: 8}, guarantee: {resource: {cpu: 4}}}
ClusterQueue:
  apiVersion: kueue.x-k8s.io/v1beta2
  spec:
    cohortName: all
    namespaceSelector: {}
    preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}}
    admissionChecksStrategy: {admissionChecks: [{name: capacity, onFlavors: [h100]}]}
    resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8, lendingLimit: 4}]}]
ResourceFlavor:
  apiVersion: kueue.x-k8s.io/v1beta2
  spec: {nodeLabels: {gpu: h100}, tolerations: [{operator: Exists}], nodeTaints: [{key: a, value: b, effect: NoSchedule}]}
Topology: {apiVersion: kueue.x-k8s.io/v1beta2, spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}}
NVIDIADriver: {apiVersion: nvidia.com/v1alpha1, spec: {driverType: gpu, nodeSelector: {pool: h100}}}
ResourceClaimTemplate:
  apiVersion: resource.k8s.io/v1
  spec:
    spec:
      devices:
        requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 1}}]
        config:
        - requests: [gpu]
          opaque:
            driver: gpu.nvidia.com
            parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig, sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}}
InferenceService:
  apiVersion: serving.kserve.io/v1beta1
  spec:
    predictor:
      minReplicas: 1
      maxReplicas: 2
      model: {modelFormat: {name: huggingface}, storageUri: "hf://Qwen/Qwen2.5-7B-Instruct", resources: {limits: {nvidia.com/gpu: 1, memory: 24Gi}}}
"""
_TEMPLATE = "spec/template/spec/"
_MAIN = f"{_TEMPLATE}containers/0/"
_NOTES = "spec/template/metadata/annotations/kueue.x-k8s.io~1podset-"
_OPAQUE = "spec/spec/devices/config/0/opaque/parameters/sharing"
_RULE = "spec/groups/0/rules/0/"
_QUEUED = "spec/resourceGroups/0/flavors/0/resources/0/"
_NO_FOR = {"record": "a:b", "expr": "x", "for": "5m"}
# (kind, rule, the path and the value that it is broken with)
BROKEN: tuple[tuple[str, str, tuple[tuple[str, Any], ...]], ...] = (
    ("Deployment", "workload-refused", (
        (f"{_MAIN}volumeMounts/0/subPath", "/a"), (f"{_MAIN}volumeMounts/0/subPath", "a/../b"), (f"{_MAIN}env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}}}]),
        (f"{_MAIN}env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nam"}}}]), (f"{_MAIN}name", "vLLM"),
        (f"{_MAIN}ports", [{"name": "a", "containerPort": 8000}, {"name": "a", "containerPort": 8001}]), (f"{_MAIN}resources/limits", {"nvidia.com/gpu": 1, "hugepages-2Mi": "1Gi"}),
        (f"{_TEMPLATE}tolerations", [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]), (f"{_TEMPLATE}restartPolicy", "Never"),
        (f"{_TEMPLATE}dnsPolicy", "None"), (f"{_TEMPLATE}hostname", "A.b"), ("spec/strategy", {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        (f"{_TEMPLATE}initContainers", [{"name": "i", "image": "a:1", "readinessProbe": {"httpGet": {"path": "/", "port": 1}}}]), ("spec/replicas", -1),
    )),
    ("Job", "workload-refused", (
        ("spec/parallelism", -1), ("spec/backoffLimitPerIndex", 1), (f"{_NOTES}slice-size", "2"), (f"{_NOTES}slice-required-topology", "rack"),
        (f"{_NOTES}group-name", "g"), (f"{_NOTES}unconstrained-topology", "maybe"), ("metadata/labels/kueue.x-k8s.io~1max-exec-time-seconds", "1h"),
    )),
    ("InferenceService", "workload-refused", (
        ("spec/predictor/minReplicas", 3), ("spec/predictor/workerSpec", {"pipelineParallelSize": 2}), ("spec/predictor/canaryTrafficPercent", 120),
        ("spec/predictor/pytorch", {"storageUri": "s3://a"}), ("spec/predictor/scaleMetric", "gpu"),
    )),
    ("Service", "object-refused", (
        ("spec/type", "ExternalName"), ("spec/externalTrafficPolicy", "Local"), ("spec/loadBalancerSourceRanges", ["10.0.0.0"]), ("spec/loadBalancerClass", "a/b"),
    )),
    ("HorizontalPodAutoscaler", "object-refused", (
        ("spec/metrics/0/pods/target", {"type": "Value", "value": 5}), ("spec/metrics", [{"type": "Pods"}]), ("spec/behavior/scaleDown/stabilizationWindowSeconds", 4000),
        ("spec/behavior/scaleDown/policies/0/periodSeconds", 0),
    )),
    ("PodDisruptionBudget", "object-refused", (("spec/maxUnavailable", "150%"), ("spec/maxUnavailable", -1))),
    ("NetworkPolicy", "object-refused", (
        ("spec/ingress/0/from/0/ipBlock/cidr", "10.0.0.0"), ("spec/ingress/0/from/0/ipBlock/except", ["11.0.0.0/24"]), ("spec/ingress/0/from/0/podSelector", {}),
        ("spec/ingress/0/ports/0/endPort", 7000), ("spec/ingress/0/ports/0/port", "http"),
    )),
    ("ScaledObject", "object-refused", (
        ("spec/idleReplicaCount", 1), ("spec/triggers", []), ("spec/triggers/0/metricType", "Utilization"), ("spec/fallback/replicas", -1),
        ("spec/triggers/0/metadata", {"query": "a", "serverAddress": "b"}), ("spec/triggers/0/metadata/threshold", "five"), ("spec/advanced", {"scalingModifiers": {"formula": "a"}}),
    )),
    ("ServiceMonitor", "object-refused", (
        ("spec/endpoints/0/interval", "15"), ("spec/endpoints/0/relabelings/0", {"action": "replace", "sourceLabels": ["a"]}), ("spec/endpoints/0/relabelings/0/regex", "("),
    )),
    ("PrometheusRule", "object-refused", ((f"{_RULE}record", "a"), (_RULE[:-1], _NO_FOR), (f"{_RULE}for", "5 min"), ("spec/groups", [{"name": "g", "rules": []}] * 2))),
    ("Gateway", "object-refused", (
        ("spec/listeners/0/protocol", "HTTP"), ("spec/listeners/0/tls", {"mode": "Terminate"}), ("spec/listeners/0/tls/mode", "Passthrough"), ("spec/listeners/0/hostname", "a:443"),
    )),
    ("HTTPRoute", "object-refused", (
        ("spec/rules/0/matches/0/path/value", "v1"), ("spec/rules/0/backendRefs", [{"name": "chat"}]), ("spec/rules/0/filters", [{"type": "RequestRedirect", "requestRedirect": {}}]),
        ("spec/rules/0/filters", [{"type": "URLRewrite"}]), ("spec/rules/0/timeouts/request", "10 m"), ("spec/hostnames", ["10.0.0.1"]),
    )),
    ("VolcanoJob", "scheduler-refused", (
        ("spec/policies", [{"action": "RestartJob"}]), ("spec/policies/0/event", "PodDead"), ("spec/policies/0/action", "Restart"), ("spec/policies/0/exitCode", 1),
        ("spec/volumes/0", {"mountPath": "/models"}), ("spec/tasks/1/dependsOn/name", ["zz"]), ("spec/tasks/0/name", "A_b"), ("spec/maxRetry", -1),
        ("spec/tasks/0/partitionPolicy", {"totalPartitions": 2, "partitionSize": 2}), ("spec/networkTopology", {"highestTierAllowed": 1, "highestTierName": "x"}),
        ("spec/policies", [{"event": "*", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]),
    )),
    ("VolcanoQueue", "scheduler-refused", (("spec/deserved/cpu", 2), ("metadata/annotations/volcano.sh~1hierarchy", "root/a/b"))),
    ("ClusterQueue", "scheduler-refused", (
        ("spec/cohortName", ""), (f"{_QUEUED}lendingLimit", 20), (f"{_QUEUED}nominalQuota", -1), ("spec/preemption/reclaimWithinCohort", "Never"),
        ("spec/admissionChecksStrategy/admissionChecks/0/onFlavors", ["zz"]), ("spec/flavorFungibility", {"preference": "BorrowingOverPreemption"}),
    )),
    ("ResourceFlavor", "scheduler-refused", (("spec", {"topologyName": "net"}), ("spec/tolerations/0/value", "x"), ("spec/nodeTaints/0/effect", "NoRun"))),
    ("Topology", "scheduler-refused", (("spec/levels/0/nodeLabel", "kubernetes.io/hostname"), ("spec/levels", [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "rack"}]))),
    ("NVIDIADriver", "scheduler-refused", (("spec/default", True), ("spec/driverType", "cuda"))),
    ("ResourceClaimTemplate", "scheduler-refused", (
        (f"{_OPAQUE}/strategy", "Slicing"), (f"{_OPAQUE}/strategy", "MPS"), (f"{_OPAQUE}/timeSlicingConfig/interval", "Tiny"), ("spec/spec/devices/requests/0/exactly/count", 0),
    )),
)  # fmt: skip


def _object(kind: str) -> dict[str, Any]:
    given: dict[str, Any] = copy.deepcopy(yaml.safe_load(_FORMS)[kind])
    given["kind"] = kind.removeprefix("Volcano")
    given["metadata"] = {"name": "chat", "namespace": "serving", **given.get("metadata", {})}
    if kind in ("Deployment", "Job"):
        given["spec"]["template"] = yaml.safe_load(_POD)
    if kind == "Job":
        given["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return given


def _with(kind: str, path: str, value: Any) -> dict[str, Any]:
    given = _object(kind)
    at: Any = given
    *names, last = (name.replace("~1", "/") for name in path.split("/"))
    for name in names:
        at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
    at[int(last) if isinstance(at, list) else last] = value
    return given


@pytest.mark.parametrize(("kind", "rule", "broken"), BROKEN, ids=[kind for kind, _, _ in BROKEN])
def test_an_object_that_its_validation_refuses_is_refused_and_its_mended_twin_is_not(
    kind: str, rule: str, broken: tuple[tuple[str, Any], ...]
) -> None:
    assert rule not in {each for each, _ in said(*manifests([_object(kind)], "objects.yaml"))}
    silent = [
        (path, value)
        for path, value in broken
        if (rule, "error") not in said(*manifests([_with(kind, path, value)], "objects.yaml"))
    ]
    assert silent == []


@pytest.mark.parametrize(("kind", "rule", "broken"), BROKEN, ids=[kind for kind, _, _ in BROKEN])
def test_a_value_that_is_yet_to_be_filled_in_is_not_refused(
    kind: str, rule: str, broken: tuple[tuple[str, Any], ...]
) -> None:
    for path in [path for path, value in broken if isinstance(value, str) and value][-2:]:
        judged = judge(manifests([_with(kind, path, PLACEHOLDER)], "objects.yaml"))
        assert rule not in {each.finding.rule for each in judged.findings}, path
