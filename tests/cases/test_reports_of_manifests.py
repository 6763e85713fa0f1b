"""Public reports about plain vLLM on Kubernetes, judged as the YAML that people write: each broken, and mended."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from components.config import deep_merge
from policies import stated
from policies.facts.stack import reading
from policies.facts.wire import manifests
from policies.rules import check

Doc = dict[str, Any]
KNOWN = stated.parse({
    "versions": {"vllm": "0.29.0"},
    "pools": {"l4": {"gpu": "L4", "gpus_per_node": 1, "cpu": 15, "memory_gib": 58, "max": 4, "driver_version": "580.95.05"}},
})  # fmt: skip
DEPLOYMENT: Doc = yaml.safe_load("""
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: serving}
spec:
  replicas: 2
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      nodeSelector: {llm-serving/pool: l4}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      enableServiceLinks: false
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.29.0
        args: [--model, Qwen/Qwen2.5-1.5B-Instruct, --max-model-len, "4096"]
        ports: [{containerPort: 8000, name: http}]
        readinessProbe: {httpGet: {path: /health, port: 8000}}
        startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 120, periodSeconds: 10}
        resources:
          limits: {nvidia.com/gpu: 1, cpu: 6, memory: 24Gi}
          requests: {nvidia.com/gpu: 1, cpu: 6, memory: 24Gi}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 4Gi}}]
""")
SERVICE: Doc = yaml.safe_load("""
apiVersion: v1
kind: Service
metadata: {name: chat, namespace: serving}
spec: {selector: {app: chat}, ports: [{name: http, port: 80, targetPort: 8000}]}
""")


def claim(modes: list[str], size: str = "100Gi") -> Doc:
    spec = {"accessModes": modes, "resources": {"requests": {"storage": size}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights", "namespace": "serving"},
        "spec": spec,
    }


def deployment(spec: Doc | None = None, pod: Doc | None = None, **container: Any) -> Doc:
    """The Deployment with fields of its spec, its pods and its container changed; lists of the container grow."""
    made = copy.deepcopy(DEPLOYMENT)
    made["spec"] = deep_merge(made["spec"], spec or {})
    inner = made["spec"]["template"]["spec"]
    first = inner["containers"][0]
    for key, value in container.items():
        first[key] = [*first.get(key, []), *value] if isinstance(value, list) else value
    for key, value in (pod or {}).items():
        inner[key] = [*inner.get(key, []), *value] if isinstance(value, list) else value
    return made


def service(port: Doc | None = None, **selector: str) -> Doc:
    made = copy.deepcopy(SERVICE)
    made["spec"]["ports"][0].update(port or {})
    made["spec"]["selector"] = selector or made["spec"]["selector"]
    return made


def probe(path: str = "/health", **fields: Any) -> Doc:
    return {"httpGet": {"path": path, "port": 8000, **fields.pop("http", {})}, **fields}


def cached(**container: Any) -> Doc:
    """With a claim as the hub's cache."""
    volume = {"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}
    mount = {"name": "weights", "mountPath": "/root/.cache/huggingface", **container.pop("mount", {})}
    return deployment(container.pop("spec", None), {"volumes": [volume]}, volumeMounts=[mount], **container)


def writes(*paths: str, user: int | None = None, **fields: Any) -> Doc:
    """With an emptyDir at each path."""
    volumes = [{"name": f"w{i}", "emptyDir": {}} for i in range(len(paths))]
    mounts = [{"name": f"w{i}", "mountPath": path} for i, path in enumerate(paths)]
    pod = (
        {"volumes": volumes, "securityContext": {"runAsNonRoot": True, "runAsUser": user}}
        if user is not None
        else {"volumes": volumes}
    )
    return deployment(None, pod, volumeMounts=mounts, **fields)


def started(*args: str, command: list[str] | None = None, **fields: Any) -> Doc:
    """With this command line and no other."""
    made = deployment(**fields)
    first = made["spec"]["template"]["spec"]["containers"][0]
    first["args"] = list(args)
    if command is not None:
        first["command"] = command
    return made


def rough(**fields: Any) -> Doc:
    """With fields of its container as they stand here."""
    made = deployment()
    made["spec"]["template"]["spec"]["containers"][0].update(fields)
    return made


POD = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
SHORT = ["Qwen/Qwen2.5-1.5B-Instruct", "--max-model-len", "4096"]
KEY = [{"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "key"}}}]
STRICT = {"readOnlyRootFilesystem": True}
SHARED = ["--kv-transfer-config", '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}']
REMOTE = [{"name": "LMCACHE_REMOTE_URL", "value": "redis://redis.cache:6379"}]
GATED = ["--model", "meta-llama/Llama-3.1-8B-Instruct"]


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    rule: str
    broken: tuple[Doc, ...]
    mended: tuple[Doc, ...]
    severity: str = "error"


PAIRS = (
    Pair("vllm-project/vllm#9118", "pod-user", (deployment(None, {"securityContext": {"runAsNonRoot": True}}),), (writes("/cache", user=1000, env=[{"name": "HOME", "value": "/cache"}, {"name": "USER", "value": "vllm"}]),)),
    Pair("kserve/kserve#5666", "pod-user", (deployment(securityContext={"runAsUser": 1000}),), (writes("/home/vllm", env=[{"name": "HOME", "value": "/home/vllm"}], securityContext={"runAsUser": 1000}),)),
    Pair("huggingface/inference-benchmarker PR#47", "pod-user", (deployment(None, {"securityContext": {"runAsUser": 1000650000}}),), (writes("/data", user=1000650000, env=[{"name": "HOME", "value": "/data"}]),)),
    Pair("rhobs/troubleshooting-scenarios PR#14", "pod-scratch", (writes("/root/.cache", securityContext=STRICT),), (writes("/tmp", "/root/.cache", securityContext=STRICT),)),
    Pair("read-only hub cache", "model-cache-folder", (writes("/tmp", securityContext=STRICT),), (writes("/tmp", "/root/.cache", securityContext=STRICT),)),
    Pair("kserve/kserve#3409", "volume-shared", (cached(), claim(["ReadWriteOnce"])), (cached(), claim(["ReadWriteMany"])), "warning"),
    Pair("Tanguille/cluster PR#3568", "volume-shared", (cached(spec={"replicas": 1}), claim(["ReadWriteOnce"])), (cached(spec={"replicas": 1, "strategy": {"type": "Recreate"}}), claim(["ReadWriteOnce"])), "warning"),
    Pair("SREGym/SREGym#59", "volume-shared", (cached(), claim(["ReadWriteOncePod"])), (cached(spec={"replicas": 1, "strategy": {"type": "Recreate"}}), claim(["ReadWriteOncePod"]))),
    Pair("a claim smaller than the weights", "volume-size", (cached(), claim(["ReadWriteMany"], "1Gi")), (cached(), claim(["ReadWriteMany"], "20Gi"))),
    Pair("llm-d/llm-d-benchmark PR#1734", "probe-hasty", (deployment(livenessProbe=probe(periodSeconds=5)),), (deployment(livenessProbe=probe(periodSeconds=5, timeoutSeconds=15, failureThreshold=10)),), "warning"),
    Pair("a path that vLLM does not have", "probe-request", (deployment(readinessProbe=probe("/healthz")),), (deployment(readinessProbe=probe("/v1/models")),)),
    Pair("a probe without the key", "probe-request", (deployment(env=KEY, livenessProbe=probe("/v1/models")),), (deployment(env=KEY, livenessProbe=probe()),)),
    Pair("a probe by HTTPS", "probe-request", (deployment(readinessProbe=probe(http={"scheme": "HTTPS"})),), (deployment(readinessProbe=probe(http={"scheme": "HTTP"})),)),
    Pair("a server on a loopback address", "engine-loopback", (deployment(args=["--host", "127.0.0.1"]), SERVICE), (deployment(args=["--host", "0.0.0.0"]), SERVICE)),
    Pair("a Service for other pods", "service-pods", (DEPLOYMENT, service(app="chat-engine")), (DEPLOYMENT, SERVICE)),
    Pair("a Service for one label too many", "service-pods", (DEPLOYMENT, service(app="chat", tier="gpu")), (DEPLOYMENT, SERVICE), "warning"),
    Pair("a Service to another port", "service-pods", (DEPLOYMENT, service({"targetPort": 8080})), (DEPLOYMENT, service({"targetPort": "http"}))),
    Pair("a Service to a port of no name", "service-pods", (DEPLOYMENT, service({"targetPort": "web"})), (DEPLOYMENT, service({"targetPort": "http"}))),
    Pair("a selector for other labels", "workload-selector", (deployment({"selector": {"matchLabels": {"app": "vllm"}}}),), (DEPLOYMENT,)),
    Pair("an update without a step", "upgrade-steps", (deployment({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),), (deployment({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}),)),
    Pair("an update given up too soon", "upgrade-steps", (deployment({"progressDeadlineSeconds": 300}),), (deployment({"progressDeadlineSeconds": 1800}),), "warning"),
    Pair("a hook longer than the grace", "upgrade-grace", (deployment(lifecycle={"preStop": {"exec": {"command": ["sleep", "60"]}}}),), (deployment(None, {"terminationGracePeriodSeconds": 180}, lifecycle={"preStop": {"exec": {"command": ["sleep", "60"]}}}),), "warning"),
    Pair("a folder that nothing mounts", "model-folder", (deployment(args=["--chat-template", "/templates/tools.jinja"]),), (writes("/templates", args=["--chat-template", "/templates/tools.jinja"]),)),
    Pair("vllm-project/vllm#8273", "engine-words", (started(SHORT[0], "--max-model-len 4096"),), (started(SHORT[0], "--max-model-len=4096"),)),
    Pair("vllm-project/vllm#4462", "engine-words", (started(command=[f"vllm serve {' '.join(SHORT)}"]),), (started(command=["sh", "-c", f"vllm serve {' '.join(SHORT)}"]),)),
    Pair("vllm-project/vllm#22072", "engine-words", (started("serve", *SHORT),), (started(*SHORT),)),
    Pair("vllm-project/vllm#37133", "engine-words", (started("vllm", "serve", *SHORT),), (started(*SHORT, command=["vllm", "serve"]),)),
    Pair("llm-d/llm-d-model-service#57", "engine-words", (started("--port", "8000", SHORT[0], "--served-model-name", "qwen"),), (started(*SHORT, "--served-model-name", "qwen"),)),
    Pair("words after a shell's script", "engine-words", (started(*SHORT, command=["sh", "-c", "vllm serve"]),), (started("chat", *SHORT, command=["sh", "-c", 'vllm serve "$@"']),)),
    Pair("quotes that no shell takes off", "engine-words", (started(SHORT[0], "--max-model-len='4096'"),), (started(*SHORT),)),
    Pair("an empty word", "engine-words", (started(*SHORT, ""),), (started(*SHORT),)),
    Pair("a model given twice", "engine-words", (started(*SHORT, "--model", SHORT[0]),), (started(*SHORT),)),
    Pair("a word without its flag", "engine-words", (started(*SHORT, "--enable-prefix-caching", "true"),), (started(*SHORT, "--enable-prefix-caching"),)),
    Pair("a flag without its value", "engine-words", (started(*SHORT, "--tensor-parallel-size", "--enforce-eager"),), (started(*SHORT, "--tensor-parallel-size", "1", "--enforce-eager"),)),
    Pair("ai-dynamo/dynamo PR#8369", "engine-words", (started(SHORT[0], "--served-model-name=$POD", env=POD),), (started(SHORT[0], "--served-model-name=$(POD)", env=POD),)),
    Pair("grafana/mimir#9993", "engine-words", (started(SHORT[0], "--served-model-name", "${POD}", env=POD),), (started(SHORT[0], "--served-model-name", "$(POD)", env=POD),)),
    Pair("a variable that is not there", "engine-words", (started(SHORT[0], "--served-model-name", "$(POD)"),), (started(SHORT[0], "--served-model-name", "$(POD)", env=POD),)),
    Pair("a variable before what it is made of", "pod-fields", (rough(env=[{"name": "ADDRESS", "value": "$(POD):8000"}, *POD]),), (rough(env=[*POD, {"name": "ADDRESS", "value": "$(POD):8000"}]),)),
    Pair("vllm-project/recipes PR#521", "engine-argument-keys", (started(*SHORT, "--compilation-config", '{"mode":3,"pass_config":{"fuse_minimax_qk_norm":true}}'),), (started(*SHORT, "--compilation-config", '{"mode":3}'),)),
    Pair("a large number from a chart", "engine-argument-kinds", (started(*SHORT, "--max-num-batched-tokens", "1.048576e+06"),), (started(*SHORT, "--max-num-batched-tokens", "8192"),)),
    Pair("falcosecurity/charts#454", "pod-schema", (rough(args=[*SHORT[:2], 4096]),), (rough(args=SHORT),)),
    Pair("a node selector of true", "pod-schema", (deployment(None, {"nodeSelector": {"gpu": True, "llm-serving/pool": "l4"}}),), (DEPLOYMENT,)),
    Pair("a number in quotes", "pod-schema", (deployment({"replicas": "2"}),), (DEPLOYMENT,)),
    Pair("args in one text", "pod-schema", (rough(args="--model Qwen/Qwen2.5-1.5B-Instruct"),), (rough(args=SHORT),)),
    Pair("a field by another name", "pod-schema", (rough(volumeMount=[]),), (DEPLOYMENT,)),
    Pair("LMCache/LMCache#1095", "cache-keys", (deployment(args=SHARED, env=REMOTE),), (deployment(args=SHARED, env=[*REMOTE, {"name": "PYTHONHASHSEED", "value": "0"}]),), "warning"),
    Pair("a token from a whole Secret", "model-token", (deployment(args=GATED),), (deployment(args=GATED, envFrom=[{"secretRef": {"name": "huggingface"}}]),), "warning"),
)  # fmt: skip


def said(docs: tuple[Doc, ...]) -> Iterator[tuple[str, str]]:
    for finding in check(reading(manifests(copy.deepcopy(list(docs)), "x"), KNOWN).stack, {}):
        yield finding.rule, finding.severity


def test_the_deployment_and_its_service_are_fine() -> None:
    assert list(said((DEPLOYMENT, SERVICE))) == []


@pytest.mark.parametrize("pair", [pytest.param(p, id=f"{p.source} {p.rule}") for p in PAIRS])
def test_what_was_reported_is_said_and_its_mended_twin_passes(pair: Pair) -> None:
    assert (pair.rule, pair.severity) in set(said(pair.broken))
    mended = set(said(pair.mended))
    assert {rule for rule, severity in mended if severity == "error"} == set()
    assert pair.rule not in {rule for rule, _ in mended}


def test_services_of_what_is_not_seen_are_left_alone() -> None:
    """A Service beside an engine may select pods of another chart."""
    other = service(app="redis")
    other["metadata"]["name"] = "redis"
    assert "service-pods" not in {rule for rule, _ in said((DEPLOYMENT, other))}


def test_a_second_port_of_a_service_may_lead_beside_the_engine() -> None:
    events = copy.deepcopy(SERVICE)
    events["spec"]["ports"].append({"name": "events", "port": 5557})
    assert list(said((DEPLOYMENT, events))) == []
