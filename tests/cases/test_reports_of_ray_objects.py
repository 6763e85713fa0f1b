"""Public reports about RayServices and RayJobs, judged as the YAML that people write: each broken, and mended."""

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
    "versions": {"vllm": "0.29.0", "ray": "2.60.0", "kuberay": "1.7.0"},
    "pools": {
        "l4": {"gpu": "L4", "gpus_per_node": 1, "cpu": 15, "memory_gib": 58, "max": 4, "driver_version": "580.95.05"},
        "core": {"cpu": 16, "memory_gib": 60, "max": 4},
    },
})  # fmt: skip
CLUSTER: Doc = yaml.safe_load("""
rayVersion: 2.60.0
headGroupSpec:
  rayStartParams: {num-cpus: "0", num-gpus: "0"}
  template:
    spec:
      nodeSelector: {llm-serving/pool: core}
      containers:
      - name: ray-head
        image: rayproject/ray-llm:2.60.0-py312-cu130
        env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]
        resources: {limits: {cpu: 4, memory: 16Gi}, requests: {cpu: 4, memory: 16Gi}}
workerGroupSpecs:
- groupName: l4
  minReplicas: 1
  replicas: 1
  maxReplicas: 1
  rayStartParams: {}
  template:
    spec:
      nodeSelector: {llm-serving/pool: l4}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      containers:
      - name: ray-worker
        image: rayproject/ray-llm:2.60.0-py312-cu130
        resources: {limits: {cpu: 12, memory: 48Gi, nvidia.com/gpu: 1}, requests: {cpu: 12, memory: 48Gi, nvidia.com/gpu: 1}}
""")
APPLICATION: Doc = yaml.safe_load("""
name: llms
import_path: ray.serve.llm:build_openai_app
route_prefix: /
args:
  llm_configs:
  - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-0.6B}
    engine_kwargs: {max_model_len: 4096}
    deployment_config: {num_replicas: 1}
""")


def cluster(worker: Doc | None = None, **fields: Any) -> Doc:
    """The Ray cluster with fields of its worker container, and of its own, changed."""
    made = copy.deepcopy(CLUSTER)
    container = made["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    container.update(worker or {})
    group = fields.pop("group", {})
    made["workerGroupSpecs"][0] = deep_merge(made["workerGroupSpecs"][0], group)
    return {**made, **fields}


def service(
    *applications: Doc, labels: Doc | None = None, ray: Doc | None = None, annotations: Doc | None = None
) -> Doc:
    apps = [{**copy.deepcopy(APPLICATION), **each} for each in applications or ({},)]
    spec = {
        "serveConfigV2": yaml.safe_dump({"applications": apps}),
        "rayClusterConfig": ray or cluster(),
        "upgradeStrategy": {"type": "None"},
    }
    metadata = {"name": "chat", "namespace": "serving", "labels": labels or {}, "annotations": annotations or {}}
    return {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": metadata, "spec": spec}


def job(labels: Doc | None = None, **fields: Any) -> Doc:
    spec = {
        "entrypoint": "python /app/batch.py",
        "submissionMode": "HTTPMode",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster(),
        **fields,
    }
    metadata = {"name": "batch", "namespace": "serving", "labels": labels or {}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata,
        "spec": {k: v for k, v in spec.items() if v is not None},
    }


def env(**fields: Any) -> Doc:
    """An application with a runtime environment."""
    return {"runtime_env": fields}


def memory(**empty_dir: str) -> Doc:
    spec = {"volumes": [{"name": "dshm", "emptyDir": {"sizeLimit": "8Gi", **empty_dir}}]}
    return cluster({"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}, group={"template": {"spec": spec}})


QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
SCALED = cluster(enableInTreeAutoscaling=True)
NO_CPU = {
    "resources": {
        "limits": {"memory": "48Gi", "nvidia.com/gpu": 1},
        "requests": {"memory": "48Gi", "nvidia.com/gpu": 1},
    }
}
REQUESTED = {
    "resources": {
        "limits": {"memory": "48Gi", "nvidia.com/gpu": 1},
        "requests": {"cpu": 12, "memory": "48Gi", "nvidia.com/gpu": 1},
    }
}
SECOND = {
    "name": "more",
    "route_prefix": "/more",
    "args": {
        "llm_configs": [
            {
                **APPLICATION["args"]["llm_configs"][0],
                "model_loading_config": {"model_id": "other", "model_source": "Qwen/Qwen3-1.7B"},
            }
        ]
    },
}


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    rule: str
    broken: Doc
    mended: Doc
    severity: str = "error"


PAIRS = (
    Pair("ray-project/ray#33456", "runtime-env", service(env(working_dir="/home/ray/app")), service(env(working_dir="local:///home/ray/app"))),
    Pair("ray-project/ray#29354", "runtime-env", service(env(working_dir=".")), service(env(working_dir="https://github.com/ray-project/serve_config_examples/archive/b393e77.zip"))),
    Pair("a repository that is no package", "runtime-env", service(env(working_dir="https://github.com/ray-project/serve_config_examples/tree/master")), service(env(working_dir="s3://bucket/app.zip"))),
    Pair("two makers of packages", "runtime-env", job(runtimeEnvYAML="pip: [httpx]\nconda: base\n"), job(runtimeEnvYAML="uv: [httpx]\n")),
    Pair("a variable that is no text", "runtime-env", job(runtimeEnvYAML="env_vars: {OMP_NUM_THREADS: 1}\n"), job(runtimeEnvYAML='env_vars: {OMP_NUM_THREADS: "1"}\n')),
    Pair("a misspelt field", "runtime-env", service(env(env_var={"A": "1"})), service(env(env_vars={"A": "1"})), "warning"),
    Pair("ray-project/kuberay#1991", "ray-job-entrypoint", job(entrypointNumCpus=64), job(entrypointNumCpus=4)),
    Pair("GPUs that no pod has", "ray-job-entrypoint", job(entrypointNumGpus=2), job(entrypointNumGpus=1)),
    Pair("resources that are no JSON", "ray-job-entrypoint", job(entrypointResources="accelerator_type:L4: 1"), job(entrypointResources='{"accelerator_type:L4": 0.1}')),
    Pair("a submitter that is not started", "ray-job-entrypoint", job(submitterPodTemplate={"spec": {"containers": [{"name": "submit", "image": "rayproject/ray:2.60.0"}]}}), job(), "warning"),
    Pair("ray-project/kuberay#2612", "ray-autoscaler-cpu", service(ray=cluster(NO_CPU, enableInTreeAutoscaling=True)), service(ray=cluster(REQUESTED, enableInTreeAutoscaling=True))),
    Pair("ray-project/kuberay PR#675", "ray-pod-command", service(ray=cluster({"command": ["sh", "-c"], "args": ["echo ready; sleep infinity"]})), service(ray=cluster({"command": ["echo"], "args": ["ready"]}))),
    Pair("kubernetes-sigs/kueue PR#13996", "ray-kueue", service(labels=QUEUE, ray=SCALED), service(labels=QUEUE, ray=SCALED, annotations={"kueue.x-k8s.io/elastic-job": "true"})),
    Pair("project-codeflare/codeflare-sdk PR#1076", "ray-kueue", service(labels=QUEUE, ray=SCALED), service(labels=QUEUE)),
    Pair("kubernetes-sigs/kueue PR#780", "ray-kueue", job(QUEUE, shutdownAfterJobFinishes=False), job(QUEUE)),
    Pair("shared memory on disk", "network-shm-disk", service(ray=memory()), service(ray=memory(medium="Memory")), "warning"),
    Pair("another vLLM over the image's", "runtime-env", service(env(pip=["vllm==0.8.0", "company-metrics"])), service(env(pip=["company-metrics", "vllm-metrics==0.1"])), "warning"),
    Pair("another Ray over the image's", "runtime-env", service(env(pip={"packages": ["ray[serve]==2.9.0"]})), service(env(pip={"packages": ["ray[serve]==2.60.0"]}))),
    Pair("two models and one GPU", "gang-models-together", service({}, SECOND), service({}, SECOND, ray=cluster(group={"replicas": 2, "minReplicas": 2, "maxReplicas": 2}))),
)  # fmt: skip


def said(doc: Doc) -> Iterator[tuple[str, str]]:
    for finding in check(reading(manifests([copy.deepcopy(doc)], "x"), KNOWN).stack, {}):
        yield finding.rule, finding.severity


@pytest.mark.parametrize("doc", [service(), job(), service(ray=SCALED)])
def test_what_the_pairs_start_from_has_no_error(doc: Doc) -> None:
    assert {rule for rule, severity in said(doc) if severity == "error"} == set()


@pytest.mark.parametrize("pair", [pytest.param(p, id=f"{p.source} {p.rule}") for p in PAIRS])
def test_what_was_reported_is_said_and_its_mended_twin_passes(pair: Pair) -> None:
    assert (pair.rule, pair.severity) in set(said(pair.broken))
    mended = set(said(pair.mended))
    assert {rule for rule, severity in mended if severity == "error"} == set()
    assert pair.rule not in {rule for rule, _ in mended}


@pytest.mark.parametrize(("version", "severity"), [("2.54.0", "error"), ("2.58.0", "warning"), ("2.60.0", None)])
def test_archives_by_tar_came_with_newer_ray(version: str, severity: str | None) -> None:
    """ray-project/ray#62811."""
    doc = service(env(working_dir="s3://bucket/app.tar.gz"), ray={**cluster(), "rayVersion": version})
    assert {s for rule, s in said(doc) if rule == "runtime-env"} == ({severity} if severity else set())
