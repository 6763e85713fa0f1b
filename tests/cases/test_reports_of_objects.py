"""Public reports about autoscalers, monitors, budgets and routes beside plain vLLM and RayServices: each broken, and mended."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts.wire import PLACEHOLDER
from policies.judgement import judge

from . import resources
from .resources import objects, said, twins

ENGINE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: serving}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      enableServiceLinks: false
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.29.0
        args: [--model, Qwen/Qwen2.5-7B-Instruct, --max-model-len, "8192"]
        ports: [{name: http, containerPort: 8000}]
        resources: {limits: {nvidia.com/gpu: 1, memory: 24Gi}}
        startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 120, periodSeconds: 10}
---
apiVersion: v1
kind: Service
metadata: {name: chat, namespace: serving, labels: {app: chat}}
spec: {selector: {app: chat}, ports: [{name: http, port: 80, targetPort: 8000}]}
---
"""
HPA = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: serving}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  minReplicas: 2
  maxReplicas: 4
  metrics: [{type: Pods, pods: {metric: {name: vllm_requests}, target: {type: AverageValue, averageValue: "8"}}}]
"""
MEMORY = "{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 80}}}"
CPU = MEMORY.replace("memory", "cpu")
PODS = """
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: chat, namespace: serving}
spec: {selector: {matchLabels: {app: chat}}, podMetricsEndpoints: [{port: http}]}
"""
SERVICES = """
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: chat, namespace: serving}
spec: {selector: {matchLabels: {app: chat}}, endpoints: [{port: http}]}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: chat, namespace: serving}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: chat}}}
"""
INGRESS = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: chat
  namespace: serving
  annotations: {nginx.ingress.kubernetes.io/proxy-read-timeout: "900"}
spec:
  ingressClassName: nginx
  rules: [{host: chat.example.com, http: {paths: [{path: /v1, pathType: Prefix, backend: {service: {name: chat, port: {number: 80}}}}]}}]
"""
ALB = INGRESS.replace("nginx.ingress.kubernetes.io/proxy-read-timeout: \"900\"", "alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds=900").replace("ClassName: nginx", "ClassName: alb")  # fmt: skip
ROUTE = """
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: gateways}
spec:
  gatewayClassName: envoy
  listeners:
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: tls}]}, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat, namespace: serving}
spec:
  parentRefs: [{name: public, namespace: gateways, sectionName: https}]
  rules: [{matches: [{path: {type: PathPrefix, value: /v1}}], backendRefs: [{name: chat, port: 80}]}]
"""
GRANT = """
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: chat, namespace: serving}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: edge}], to: [{group: "", kind: Service}]}
"""
EDGE = (
    (
        "kind: HTTPRoute\nmetadata: {name: chat, namespace: serving}",
        "kind: HTTPRoute\nmetadata: {name: chat, namespace: edge}",
    ),
    ("{name: chat, port: 80}", "{name: chat, namespace: serving, port: 80}"),
)


def case(source: str, rule: str, mended: str, *pairs: tuple[str, str], severity: str = "error") -> Any:
    return resources.case(source, rule, mended, *pairs, severity=severity, beside=ENGINE)


KEDA = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat, namespace: serving}
spec:
  scaleTargetRef: {name: chat}
  minReplicaCount: 1
  maxReplicaCount: 4
  triggers: [{type: prometheus, metadata: {serverAddress: "http://prometheus:9090", threshold: "8", query: "sum(vllm:num_requests_waiting{app='vllm_chat'})"}}]
"""
ALERT = """
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: chat, namespace: serving}
spec: {groups: [{name: vllm, rules: [{alert: CacheFull, expr: "avg(vllm:kv_cache_usage_perc) > 0.95 and rate(vllm:request_success_total[5m]) > 0"}]}]}
"""


@pytest.mark.parametrize(
    ("rule", "severity", "broken", "mended"),
    [
        case("a target of another name", "scaler-target", HPA, ("kind: Deployment, name: chat", "kind: Deployment, name: chatt")),
        case("a RayService that is scaled", "scaler-target", HPA, ("apiVersion: apps/v1, kind: Deployment", "apiVersion: ray.io/v1, kind: RayService")),
        case("a share of no request", "scaler-target", HPA.replace("{type: Pods, pods: {metric: {name: vllm_requests}, target: {type: AverageValue, averageValue: \"8\"}}}", MEMORY), (MEMORY, CPU)),
        case("NVIDIA/nvcf#1694", "monitor-target", PODS, ("port: http", "port: metrics")),
        case("kubeai-project/kubeai#391", "monitor-target", PODS, ("app: chat", "app: chats")),
        case("llm-d/llm-d-async#359", "monitor-target", PODS.replace("namespace: serving", "namespace: monitoring").replace("spec: {", "spec: {namespaceSelector: {matchNames: [serving]}, "), ("namespaceSelector: {matchNames: [serving]}, ", ""), severity="warning"),
        case("prometheus-operator/prometheus-operator#2833", "monitor-target", SERVICES, ("port: http", "port: web")),
        case("volcano-sh/kthena PR#868", "metric-names", KEDA, ("vllm:num", "vllm_num"), severity="warning"),
        case("a metric of last year", "metric-names", KEDA, ("num_requests_waiting", "gpu_cache_usage_perc"), severity="warning"),
        case("a metric that is mistyped", "metric-names", KEDA, ("num_requests_waiting", "num_request_waiting"), severity="warning"),
        case("an alert on a metric of last year", "metric-names", ALERT, ("kv_cache", "gpu_cache"), severity="warning"),
        case("onyx-dot-app/onyx PR#10247", "ingress-timeout", INGRESS, ('  annotations: {nginx.ingress.kubernetes.io/proxy-read-timeout: "900"}\n', ""), severity="warning"),
        case("mudler/LocalAI#11046", "ingress-timeout", INGRESS, ('"900"', '"60"'), severity="warning"),
        case("an ALB with its default", "ingress-timeout", ALB, ("idle_timeout.timeout_seconds=900", "deletion_protection.enabled=true"), severity="warning"),
        case("two numbers in a budget", "disruption-form", BUDGET, ("maxUnavailable: 1", "maxUnavailable: 1, minAvailable: 1")),
        case("a listener of another name", "route-target", ROUTE, ("sectionName: https", "sectionName: http")),
        case("a Gateway for its own namespace", "route-target", ROUTE, (", allowedRoutes: {namespaces: {from: All}}", "")),
        case("the pods' port in place of the Service's", "route-target", ROUTE, ("port: 80}", "port: 8000}")),
        case("a backend in another namespace", "route-target", ROUTE.replace(*EDGE[0]).replace(*EDGE[1]) + GRANT, (GRANT, ""), severity="warning"),
    ],
)  # fmt: skip
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))


QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: org}
spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {parentQueue: org, resources: {gpu: {quota: 4, limit: 8}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: v1
kind: Pod
metadata: {name: half, labels: {kai.scheduler/queue: team}, annotations: {gpu-fraction: "0.5"}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi]}]
"""
VOLCANO = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {weight: 1, capability: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8"}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: bench, namespace: serving}
spec:
  minAvailable: 2
  schedulerName: volcano
  queue: team
  tasks: [{name: worker, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: bench, image: "bench:1"}]}}}]
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: bench, namespace: serving}
spec: {minMember: 2, queue: team}
---
apiVersion: v1
kind: Pod
metadata: {name: part, namespace: serving, annotations: {scheduling.volcano.sh/queue-name: team}}
spec:
  schedulerName: volcano
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 4096}}}]
"""
OPERATOR = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {mig: {strategy: mixed}, devicePlugin: {config: {name: sharing, default: four}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sharing, namespace: gpu-operator}
data:
  four: |-
    version: v1
    sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: mig, namespace: gpu-operator}
data:
  config.yaml: |-
    version: v1
    mig-configs: {two: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]}
"""


def alone(source: str, rule: str, mended: str, *pairs: tuple[str, str]) -> Any:
    param = case(source, rule, mended, *pairs)
    return pytest.param(
        *(part.removeprefix(ENGINE) if i > 1 else part for i, part in enumerate(param.values)), id=param.id
    )


@pytest.mark.parametrize(
    ("rule", "severity", "broken", "mended"),
    [
        alone("romanbaron/KAI-Scheduler#1", "pod-queue", QUEUES, ("  schedulerName: kai-scheduler\n", "")),
        alone("kai-scheduler/KAI-Scheduler#44", "pod-queue", QUEUES, ("labels: {kai.scheduler/queue", "labels: {runai/queue")),
        alone("kai-scheduler/KAI-Scheduler PR#932", "pod-queue", QUEUES, ('labels: {kai.scheduler/queue: team}, annotations: {gpu-fraction: "0.5"}', 'annotations: {kai.scheduler/queue: team, gpu-fraction: "0.5"}')),
        alone("a queue with children", "pod-queue", QUEUES, ("queue: team}", "queue: org}")),
        alone("a queue of another name", "pod-queue", QUEUES, ("queue: team}", "queue: teams}")),
        alone("a queue without resources", "scheduler-objects", QUEUES, ("spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}", "spec: {priority: 100}")),
        alone("volcano-sh/volcano#195", "pod-queue", VOLCANO, ("queue-name: team}", "queue-name: teams}")),
        alone("volcano-sh/volcano#388", "scheduler-objects", VOLCANO, ("minMember: 2, queue: team", "minMember: 2, queue: teams")),
        alone("a weight of nothing", "scheduler-objects", VOLCANO, ("weight: 1", "weight: 0")),
        alone("more available than there are", "scheduler-objects", VOLCANO, ("minAvailable: 2", "minAvailable: 3")),
        alone("memory of no virtual GPU", "volcano-vgpu", VOLCANO, ("volcano.sh/vgpu-number: 1, ", "")),
        alone("a virtual GPU and a real one", "volcano-vgpu", VOLCANO, ("vgpu-number: 1, ", "vgpu-number: 1, nvidia.com/gpu: 1, ")),
        alone("memory stated twice", "volcano-vgpu", VOLCANO, ("vgpu-memory: 4096", "vgpu-memory: 4096, volcano.sh/vgpu-memory-percentage: 50")),
        alone("a MIG strategy that is none", "operator-values", OPERATOR, ("strategy: mixed", "strategy: both")),
        alone("NVIDIA/k8s-device-plugin#1433", "device-plugin-config", OPERATOR, ("    sharing: {timeSlicing: {renameByDefault: true, ", "    flags: {migStrategy: none, renameByDefault: true}\n    sharing: {timeSlicing: {")),
        alone("a default that is not in the map", "device-plugin-config", OPERATOR, ("default: four", "default: any")),
        alone("slices of one", "device-plugin-config", OPERATOR, ("replicas: 4", "replicas: 1")),
        alone("nine slices of seven", "mig-configs", OPERATOR, ("{3g.40gb: 2}", "{1g.10gb: 9}")),
        alone("a profile that is none", "mig-configs", OPERATOR, ("{3g.40gb: 2}", "{3g-40gb: 2}")),
        alone("configurations under another key", "mig-configs", OPERATOR, ("  config.yaml: |-\n    version: v1\n    mig", "  mig.yaml: |-\n    version: v1\n    mig")),
    ],
)  # fmt: skip
def test_objects_of_schedulers_and_of_the_gpu_operator(rule: str, severity: str, broken: str, mended: str) -> None:
    assert (rule, severity) in said(*objects(broken))
    assert {(each, level) for each, level in said(*objects(mended)) if level == "error" or each == rule} == set()


POLICY = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: chat, namespace: serving}
spec: {podSelector: {matchLabels: {app: chat}}, policyTypes: [Ingress], ingress: [{ports: [{port: 8000}]}]}
"""
INFERENCE = """
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: serving}
spec: {selector: {matchLabels: {app: chat}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: picker, port: {number: 9002}}}
"""
STORE = """
apiVersion: external-secrets.io/v1
kind: ClusterSecretStore
metadata: {name: aws}
spec: {provider: {aws: {service: SecretsManager, region: us-east-1}}}
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: hf, namespace: serving}
spec: {secretStoreRef: {name: aws, kind: ClusterSecretStore}, data: [{secretKey: token, remoteRef: {key: prod/hf}}]}
"""
CLAIM = ENGINE.replace("resources: {limits: {nvidia.com/gpu: 1, memory: 24Gi}}", "resources: {limits: {memory: 24Gi}, claims: [{name: gpu}]}").replace("      containers:", "      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]\n      containers:") + """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu, namespace: serving}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
"""  # fmt: skip
PLACED = ENGINE.replace("      containers:", "      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-L4]}]}]}}}\n      tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: chat}}}]\n      containers:")  # fmt: skip
NIGHTLY = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: bench, namespace: serving}
spec:
  schedule: "0 2 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: bench, image: "bench:1"}]}}}}
"""


@pytest.mark.parametrize(
    ("rule", "severity", "broken", "mended"),
    [
        case("the Service's port in a policy", "network-policy-port", POLICY, ("port: 8000", "port: 80")),
        case("a pool of other labels", "inference-pool", INFERENCE, ("app: chat", "app: chats")),
        case("a pool of another port", "inference-pool", INFERENCE, ("number: 8000", "number: 8080")),
        case("a store of the cluster without its kind", "secret-store", STORE, (", kind: ClusterSecretStore", "")),
        case("a store of no kind", "secret-store-kind", STORE, ("aws, kind: ClusterSecretStore", "aws, kind: VaultStore")),
        alone("a claim of another name", "pod-claims", CLAIM, ("claims: [{name: gpu}]", "claims: [{name: gpus}]")),
        alone("a template of another name", "pod-claims", CLAIM, ("resourceClaimTemplateName: one-gpu", "resourceClaimTemplateName: onegpu")),
        alone("an operator in small letters", "pod-places", PLACED, ("operator: In", "operator: in")),
        alone("a toleration that exist", "pod-places", PLACED, ("operator: Exists", "operator: Exist")),
        alone("no skew", "pod-places", PLACED, ("maxSkew: 1", "maxSkew: 0")),
        alone("a job that never ends", "job-pods", NIGHTLY, ("restartPolicy: Never, ", "")),
        alone("a schedule in words", "job-values", NIGHTLY, ("0 2 * * *", "every night")),
    ],
)  # fmt: skip
def test_objects_beside_an_engine(rule: str, severity: str, broken: str, mended: str) -> None:
    assert (rule, severity) in said(*objects(broken))
    assert {(each, level) for each, level in said(*objects(mended)) if level == "error" or each == rule} == set()


QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: serving}
spec: {hard: {requests.nvidia.com/gpu: "2", limits.memory: 64Gi, pods: "10"}}
"""
RANGE = """
apiVersion: v1
kind: LimitRange
metadata: {name: team, namespace: serving}
spec: {limits: [{type: Container, max: {memory: 32Gi}, default: {memory: 1Gi, cpu: "1"}}]}
"""
SPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: serving, labels: {pod-security.kubernetes.io/enforce: privileged}}
"""


@pytest.mark.parametrize(
    ("rule", "severity", "broken", "mended"),
    [
        case("fewer GPUs than one pod has", "namespace-quota", QUOTA, ('nvidia.com/gpu: "2"', 'nvidia.com/gpu: "0"')),
        case("less memory than one pod has", "namespace-quota", QUOTA, ("limits.memory: 64Gi", "limits.memory: 16Gi")),
        case("a quota on what is not stated", "namespace-quota", QUOTA, ("limits.memory: 64Gi", 'limits.cpu: "64"')),
        case("a range for web servers", "namespace-range", RANGE, ("max: {memory: 32Gi}", "max: {memory: 8Gi}")),
        case("pods that do not say they run as a user", "namespace-security", SPACE, ("enforce: privileged", "enforce: restricted")),
    ],
)  # fmt: skip
def test_bounds_of_a_namespace(rule: str, severity: str, broken: str, mended: str) -> None:
    assert (rule, severity) in said(*objects(broken))
    assert {(each, level) for each, level in said(*objects(mended)) if level == "error" or each == rule} == set()


def test_defaults_of_a_range_state_what_a_quota_counts() -> None:
    quota = QUOTA.replace("limits.memory: 64Gi", 'limits.cpu: "64"')
    assert ("namespace-quota", "error") in said(*objects(ENGINE + quota))
    assert "namespace-quota" not in {rule for rule, _ in said(*objects(f"{ENGINE}{quota}---{RANGE}"))}


@pytest.mark.parametrize(
    ("added", "wrong"),
    [
        ("securityContext: {capabilities: {add: [IPC_LOCK]}}", True),
        ("securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}", False),
        ("securityContext: {privileged: true}", True),
        ("securityContext: {runAsUser: 1000}", False),
    ],
)
def test_the_baseline_standard(added: str, wrong: bool) -> None:
    pod = ENGINE.replace("        startupProbe", f"        {added}\n        startupProbe")
    given = said(*objects(pod + SPACE.replace("privileged}}", "baseline}}")))
    assert ("namespace-security" in {rule for rule, _ in given}) is wrong


def test_objects_whose_counterparts_are_not_seen_are_left_alone() -> None:
    for text in (HPA, PODS, SERVICES, BUDGET, ROUTE):
        assert not {"scaler-target", "monitor-target", "route-target"} & {rule for rule, _ in said(*objects(text))}


def test_the_service_that_kuberay_makes_has_one_port() -> None:
    service = """
apiVersion: ray.io/v1
kind: RayService
metadata: {name: ray, namespace: serving}
spec:
  rayClusterConfig:
    headGroupSpec: {template: {spec: {containers: [{name: ray-head, image: "rayproject/ray-llm:2.60.0-py311-cu130"}]}}}
---
"""
    route = ROUTE.replace("name: chat, port: 80}", "name: ray-serve-svc, port: 8000}")
    assert "route-target" not in {rule for rule, _ in said(*objects(service + route))}
    assert ("route-target", "error") in said(*objects(service + route.replace("port: 8000}", "port: 80}")))


def test_labels_that_controllers_add_are_known() -> None:
    group = ENGINE.replace("kind: Deployment", "kind: LeaderWorkerSet").replace(
        "apps/v1", "leaderworkerset.x-k8s.io/v1"
    )
    group = group.replace(
        "  selector: {matchLabels: {app: chat}}\n  template:", "  leaderWorkerTemplate:\n   size: 2\n   workerTemplate:"
    )
    picked = group.replace("selector: {app: chat}", "selector: {leaderworkerset.sigs.k8s.io/name: chat}")
    assert "service-pods" not in {rule for rule, _ in said(*objects(picked))}


def _joined(connector: str) -> str:
    return f'--kv-transfer-config, \'{{"kv_connector": "{connector}", "kv_role": "kv_both"}}\''


@pytest.mark.parametrize(
    ("image", "more", "refused"),
    [
        ("vllm/vllm-openai:v0.7.3", '--enable-chunked-prefill, "false"', set()),
        ("vllm/vllm-openai:v0.29.0", '--enable-chunked-prefill, "false"', {("engine-words", "error")}),
        ("vllm/vllm-openai:v0.29.0", "--disable-frontend-multiprocessing", set()),
        ("vllm/vllm-openai:v0.11.0", _joined("SharedStorageConnector"), set()),
        ("vllm/vllm-openai:v0.29.0", _joined("SharedStorageConnector"), {("disaggregation-connector", "error")}),
        ("aibrix/vllm-openai:v0.29.0", _joined("AIBrixOffloadingConnector"), {("disaggregation-connector", "warning")}),
        ("aibrix/vllm-openai:v0.29.0", _joined("OffloadingConector"), {("disaggregation-connector", "error")}),
    ],
)
def test_what_only_some_versions_and_images_of_vllm_take(image: str, more: str, refused: set[tuple[str, str]]) -> None:
    text = ENGINE.replace("vllm/vllm-openai:v0.29.0", image).replace('"8192"]', f'"8192", {more}]')
    assert {each for each in said(*objects(text)) if each[0] in ("engine-words", "disaggregation-connector")} == refused


@pytest.mark.parametrize(
    ("value", "unknown"),
    [("targetPort: 8000", "targetPort: {}"), ('"8192"', "{}"), ("{name: http, port", "{{name: {}, port")],
)
def test_a_value_that_is_not_known_yet_makes_no_error(value: str, unknown: str) -> None:
    text = (ENGINE + SERVICES).replace(value, unknown.format(PLACEHOLDER))
    assert PLACEHOLDER in text
    assert [each.finding for each in judge(objects(text)).findings if each.finding.severity == "error"] == []
