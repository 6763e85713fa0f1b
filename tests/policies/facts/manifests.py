"""Manifests in the shapes that other teams publish: KubeRay's LLM sample, vLLM's production stack, data-on-eks, LeaderWorkerSet."""

from __future__ import annotations

from typing import Any

import yaml

from policies.facts.wire import Resource, manifests

# After ray-operator/config/samples/ray-service.llm-serve.yaml: serveConfigV2 as a block of text, group with num-gpus.
KUBERAY_SAMPLE = """
apiVersion: ray.io/v1
kind: RayService
metadata: {name: ray-serve-llm}
spec:
  serveConfigV2: |
    applications:
    - name: llms
      import_path: ray.serve.llm:build_openai_app
      route_prefix: "/"
      args:
        llm_configs:
        - model_loading_config: {model_id: qwen2.5-7b-instruct, model_source: Qwen/Qwen2.5-7B-Instruct}
          engine_kwargs: {dtype: bfloat16, max_model_len: 1024, device: auto, gpu_memory_utilization: 0.75}
          deployment_config:
            autoscaling_config: {min_replicas: 1, max_replicas: 4, target_ongoing_requests: 64}
            max_ongoing_requests: 128
  rayClusterConfig:
    rayVersion: "2.46.0"
    headGroupSpec:
      rayStartParams: {num-cpus: "0", num-gpus: "0"}
      template:
        spec:
          containers:
          - name: ray-head
            image: rayproject/ray-llm:2.46.0-py311-cu124
            resources: {limits: {cpu: 2, memory: 4Gi}, requests: {cpu: 2, memory: 4Gi}}
    workerGroupSpecs:
    - groupName: gpu-group
      replicas: 1
      minReplicas: 1
      maxReplicas: 1
      rayStartParams: {num-gpus: "4"}
      template:
        spec:
          containers:
          - name: ray-worker
            image: rayproject/ray-llm:2.46.0-py311-cu124
            env:
            - {name: HUGGING_FACE_HUB_TOKEN, valueFrom: {secretKeyRef: {name: hf-token, key: hf_token}}}
            resources: {limits: {cpu: 32, memory: 32Gi, nvidia.com/gpu: "4"}, requests: {cpu: 32, memory: 32Gi}}
"""

# What the chart vllm-stack renders for one model: `vllm serve` as command, its options as args.
PRODUCTION_STACK = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm-llama3-deployment-vllm
  namespace: serving
  labels: {model: llama3, helm.sh/chart: vllm-stack-0.1.8}
spec:
  replicas: 2
  strategy: {type: Recreate}
  template:
    metadata: {labels: {model: llama3}}
    spec:
      containers:
      - name: vllm
        image: lmcache/vllm-openai:v0.11.0
        command: [vllm, serve, meta-llama/Llama-3.1-8B-Instruct, --host, 0.0.0.0, --port, "8000",
                  --max-model-len, "32768", --dtype, bfloat16, --tensor-parallel-size, "2", --enable-prefix-caching,
                  --gpu_memory_utilization, "0.95", --no-enable-chunked-prefill]
        env:
        - {name: HF_HOME, value: /data}
        - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: vllm-secrets, key: hf_token_llama3}}}
        startupProbe: {httpGet: {path: /health, port: 8000}, initialDelaySeconds: 15, periodSeconds: 10, failureThreshold: 60}
        resources: {requests: {cpu: 10, memory: 64Gi, nvidia.com/gpu: "2"}, limits: {nvidia.com/gpu: "2"}}
        volumeMounts: [{mountPath: /dev/shm, name: shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 20Gi}}]
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
"""

# After data-on-eks' vLLM with Ray Serve: an own app in serveConfigV2, one GPU worker group, Karpenter's labels.
DATA_ON_EKS = """
apiVersion: ray.io/v1
kind: RayService
metadata: {name: vllm, namespace: rayserve-vllm}
spec:
  serveConfigV2: |
    applications:
      - name: mistral
        import_path: "vllm_serve:deployment"
        runtime_env:
          env_vars: {MODEL_ID: mistralai/Mistral-7B-Instruct-v0.2, GPU_MEMORY_UTILIZATION: "0.9"}
        deployments:
          - name: mistral-deployment
            autoscaling_config: {min_replicas: 1, max_replicas: 1, target_num_ongoing_requests_per_replica: 1}
            ray_actor_options: {num_cpus: 1, num_gpus: 1}
  rayClusterConfig:
    rayVersion: "2.32.0"
    enableInTreeAutoscaling: true
    headGroupSpec:
      headService: {metadata: {name: vllm, namespace: rayserve-vllm}}
      rayStartParams: {dashboard-host: "0.0.0.0", num-cpus: "0"}
      template:
        spec:
          nodeSelector: {NodeGroupType: x86-cpu-karpenter}
          tolerations: [{key: ray-head, operator: Exists, effect: NoSchedule}]
          containers:
          - name: head
            image: public.ecr.aws/data-on-eks/ray2.32.0-py310-vllm-gpu:v3
            resources: {limits: {cpu: 2, memory: 12Gi}, requests: {cpu: 2, memory: 12Gi}}
    workerGroupSpecs:
    - groupName: gpu
      replicas: 1
      minReplicas: 1
      maxReplicas: 4
      rayStartParams: {}
      template:
        spec:
          nodeSelector: {NodeGroupType: g5-gpu-karpenter}
          tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
          containers:
          - name: ray-worker
            image: public.ecr.aws/data-on-eks/ray2.32.0-py310-vllm-gpu:v3
            resources: {limits: {cpu: 10, memory: 60Gi, nvidia.com/gpu: 4}, requests: {cpu: 10, memory: 60Gi}}
"""

# After vLLM's guide for LeaderWorkerSet: a shell starts Ray and the engine over two pods.
LEADER_WORKER_SET = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
        - name: vllm-leader
          image: vllm/vllm-openai:v0.11.2
          command: [sh, -c, "bash multi-node-serving.sh leader --ray_cluster_size=2; vllm serve meta-llama/Meta-Llama-3.1-405B-Instruct --port 8080 --tensor-parallel-size 8 --pipeline_parallel_size 2 --distributed-executor-backend ray"]
          resources: {limits: {nvidia.com/gpu: "8", memory: 1124Gi}}
    workerTemplate:
      spec:
        containers:
        - name: vllm-worker
          image: vllm/vllm-openai:v0.11.2
          resources: {limits: {nvidia.com/gpu: "8", memory: 1124Gi}}
"""

# KServe: a predictor by model format, and one with vLLM's own container.
PREDICTORS = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama, annotations: {serving.kserve.io/deploymentMode: RawDeployment}}
spec:
  predictor:
    minReplicas: 1
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama3, --max_model_len=8192]
      storageUri: hf://meta-llama/Llama-3.1-8B-Instruct
      env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}]
      resources: {limits: {cpu: "6", memory: 24Gi, nvidia.com/gpu: "1"}}
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: qwen}
spec:
  predictor:
    maxReplicas: 2
    containers:
    - name: kserve-container
      image: vllm/vllm-openai:v0.29.0
      args: [--model, Qwen/Qwen2.5-7B-Instruct, --max-model-len, "16384"]
      ports: [{containerPort: 8000, protocol: TCP}]
      resources: {limits: {cpu: "6", memory: 24Gi, nvidia.com/gpu: "1"}}
"""

# KServe: what its presets start, on one node; and the pods of further nodes.
LLM_SERVICE = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: qwen, namespace: llm}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: qwen}
  replicas: 2
  parallelism: {tensor: 2}
  router: {gateway: {}, route: {}, scheduler: {}}
  template:
    containers:
    - name: main
      image: vllm/vllm-openai:v0.29.0
      args: [--max-model-len=16384]
      resources: {limits: {cpu: "8", memory: 64Gi, nvidia.com/gpu: "2"}}
      volumeMounts: [{name: shm, mountPath: /dev/shm}]
    volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]
"""
LLM_WORKERS = """  worker:
    containers:
    - name: main
      image: vllm/vllm-openai:v0.29.0
      resources: {limits: {cpu: "16", memory: 64Gi, nvidia.com/gpu: "2"}}
"""


def load(text: str) -> dict[str, Any]:
    """The one object of a text."""
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def resources(*texts: str) -> list[Resource]:
    """Resources of several texts."""
    return manifests([load(text) for text in texts])
