"""What public repositories run with success, reduced to the lines that were refused once: no error may be said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.judge import read
from policies.judgement import PLACEHOLDERS, judge

from .resources import objects, said

_VLLM = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
        - name: vllm
          image: IMAGE
          args: [ARGS]
          env: [ENV]
          resources: {limits: {RESOURCES}}
          readinessProbe: {httpGet: {path: /health, port: 8000}}
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]
"""


def _vllm(
    args: str, env: str = "", image: str = "vllm/vllm-openai:v0.30.0", resources: str = "nvidia.com/gpu: 1"
) -> str:
    filled = _VLLM.replace("ARGS", args).replace("ENV", env)
    return filled.replace("IMAGE", image).replace("RESOURCES", resources)


RUNS = {
    # kserve: docs/samples/llmisvc and config/llmisvcconfig: the presets give TLS, /dev/shm and a shell that takes quotes away.
    "an LLMInferenceService with TLS, workers and arguments in quotes": """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: coder}
spec:
  model: {uri: hf://deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct, name: coder}
  parallelism: {data: 16, dataLocal: 8, expert: true}
  template:
    containers:
      - name: main
        env:
          - name: VLLM_ADDITIONAL_ARGS
            value: >-
              --trust-remote-code
              --model-loader-extra-config '{"enable_multithread_load": true, "num_threads": 96}'
        resources: {limits: {nvidia.com/gpu: 8, memory: 600Gi, cpu: 48}}
        livenessProbe: {httpGet: {path: /health, port: 8000, scheme: HTTPS}, initialDelaySeconds: 300, failureThreshold: 60}
  worker:
    containers:
      - {name: main, resources: {limits: {nvidia.com/gpu: 8, memory: 600Gi, cpu: 48}}}
""",
    "an LLMInferenceService that starts its own server on the folder that KServe fills": """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: qwen}
spec:
  model: {uri: hf://Qwen/Qwen3-0.6B, name: qwen}
  template:
    containers:
      - name: main
        image: vllm/vllm-openai:v0.30.0
        command: [vllm, serve, /mnt/models, --served-model-name=qwen]
        resources: {limits: {nvidia.com/gpu: 1}}
""",
    "an LLMInferenceService whose container is read-only but for what the presets mount": """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: opt}
spec:
  model: {uri: hf://facebook/opt-125m, name: opt}
  template:
    containers:
      - name: main
        image: public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.19.0
        securityContext: {readOnlyRootFilesystem: true, runAsNonRoot: true}
        resources: {limits: {cpu: 8, memory: 32Gi}}
""",
    "an LLMInferenceService whose devices are claimed by an annotation": """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata:
  name: qwen
  annotations: {serving.kserve.io/exp-dra-device-class: gpu.nvidia.com}
spec:
  model: {uri: hf://Qwen/Qwen3-0.6B, name: qwen}
  template: {containers: [{name: main, resources: {limits: {cpu: 4, memory: 32Gi}}}]}
""",
    "an LLMInferenceService that leaves the pods to a config of the cluster's own": """
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: llama}
spec: {model: {uri: hf://Qwen/Qwen3-0.6B, name: llama}, replicas: 1, baseRefs: [{name: gpu-nodes}]}
""",
    # llm-on-openshift: examples/ui/gradio
    "a page that talks to vLLM, and says so in the name of its image": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: rag}
spec:
  selector: {matchLabels: {app: rag}}
  template:
    metadata: {labels: {app: rag}}
    spec:
      containers:
        - name: page
          image: quay.io/mine/gradio-rag-milvus-vllm-openai:v1
          readinessProbe: {httpGet: {path: /queue/status, port: 7860}}
""",
    # sample-genai-on-eks-starter-kit: components/llm-model/vllm
    "vLLM on two Neuron cores": _vllm(
        "--model=Qwen/Qwen3-8B, --tensor-parallel-size=2",
        image="example.com/mine/vllm-neuron:1",
        resources="aws.amazon.com/neuron: 1",
    ).replace("          volumeMounts: [{name: shm, mountPath: /dev/shm}]\n", ""),
    "KServe's own config, which names the keys of Secrets": """
apiVersion: v1
kind: ConfigMap
metadata: {name: inferenceservice-config, namespace: kserve}
data:
  credentials: |
    {"storageSpecSecretName": "storage-config", "s3": {"s3SecretAccessKeyName": "AWS_SECRET_ACCESS_KEY"}}
""",
    # kserve: opt-125m-cpu; aibrix: development/vllm. The build says that it needs no GPU.
    "vLLM built for CPUs": _vllm(
        "--model=facebook/opt-125m", image="vllm/vllm-openai-cpu:v0.30.0", resources="cpu: 8, memory: 32Gi"
    ),
    # GoogleCloudPlatform/accelerated-platforms: online-inference-gpu
    "arguments from a ConfigMap": _vllm(
        "--model=Qwen/Qwen3-0.6B, --max-model-len=$(LENGTH), --gpu-memory-utilization=$(PART)",
        env="{name: LENGTH, valueFrom: {configMapKeyRef: {name: runtime, key: LENGTH}}}, "
        "{name: PART, valueFrom: {configMapKeyRef: {name: runtime, key: PART}}}",
    ),
    # gpu-operator: internal/state/testdata; it watches GPUs, and serves nothing that would have to load.
    "a DaemonSet that claims the GPUs of its node": """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-dcgm, namespace: gpu-operator}
spec:
  selector: {matchLabels: {app: dcgm}}
  template:
    metadata: {labels: {app: dcgm}}
    spec:
      resourceClaims: [{name: admin-gpus, resourceClaimTemplateName: admin-gpus}]
      containers:
        - name: dcgm
          image: nvcr.io/nvidia/cloud-native/dcgm:4.5.2-1-ubuntu22.04
          securityContext: {privileged: true}
          livenessProbe: {tcpSocket: {port: 5555}, initialDelaySeconds: 15}
          resources: {claims: [{name: admin-gpus}]}
""",
    # kaito: docs/proposals; types of another cloud are not EC2's.
    "a NodePool of Karpenter on Azure": """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: llama}
spec:
  disruption: {consolidateAfter: 0s, consolidationPolicy: WhenEmpty}
  template:
    spec:
      nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [Standard_NC24ads_A100_v4]}
""",
    # karpenter-provider-aws: website/content/en/docs/concepts/nodeclasses.md
    "an Ubuntu image, with user data in the form of AL2's": """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: ubuntu}
spec:
  amiFamily: AL2
  amiSelectorTerms: [{id: ami-0a1b2c3d4e5f60718}]
  role: nodes
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: llm}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: llm}}]
  blockDeviceMappings: [{deviceName: /dev/sda1, ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}}]
""",
    # karpenter-provider-aws: website/content/en/docs/concepts/nodeoverlays.md and nodepools.md
    "types whose GPUs an overlay states, and types that only some regions have": """
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: part}
spec:
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g6f]}]
  capacity: {nvidia.com/gpu: 1}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: part}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g6f]}]
  limits: {nvidia.com/gpu: 4}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: old}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [p3.8xlarge]}]
  limits: {cpu: 100}
""",
    # terraform-aws-eks-blueprints: patterns/multi-node-vllm; vLLM before 0.11.1 takes the Ray that is there.
    "a group of pods that a script joins by Ray": """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  leaderWorkerTemplate:
    size: 4
    leaderTemplate:
      spec:
        containers:
          - name: vllm
            image: example.com/mine/vllm:1
            command: [sh, -c, "/vllm-workspace/ray_init.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE); python3 -m vllm.entrypoints.openai.api_server --port 8080 --model Qwen/Qwen3-32B --pipeline-parallel-size 4"]
            resources: {limits: {nvidia.com/gpu: 1}}
            volumeMounts: [{name: shm, mountPath: /dev/shm}]
        volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 15Gi}}]
    workerTemplate:
      spec:
        containers:
          - name: vllm
            image: example.com/mine/vllm:1
            command: [sh, -c, "/vllm-workspace/ray_init.sh worker --ray_address=$(LWS_LEADER_ADDRESS)"]
            resources: {limits: {nvidia.com/gpu: 1}}
            volumeMounts: [{name: shm, mountPath: /dev/shm}]
        volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 15Gi}}]
""",
    # llm-d: guides/wide-ep-lws; ranks are counted by the shell, from what the controller and the container say.
    "ranks of experts over the pods of a group": """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: decode}
spec:
  leaderWorkerTemplate:
    size: 4
    workerTemplate:
      spec:
        containers:
          - name: vllm
            image: example.com/mine/vllm:1
            command: [/bin/bash, -c]
            args:
              - |-
                START_RANK=$(( ${LWS_WORKER_INDEX:-0} * DP_SIZE_LOCAL ))
                MORE=""
                if [ "${LWS_GROUP_SIZE:-1}" -gt 1 ]; then
                  MORE="--enable-eplb"
                fi
                exec vllm serve $MORE \\
                  deepseek-ai/DeepSeek-R1-0528 \\
                  --port 8200 \\
                  --enable-expert-parallel --enable-eplb --data-parallel-hybrid-lb \\
                  --data-parallel-size $((LWS_GROUP_SIZE * DP_SIZE_LOCAL)) \\
                  --data-parallel-size-local $DP_SIZE_LOCAL \\
                  --data-parallel-address ${LWS_LEADER_ADDRESS} \\
                  --data-parallel-start-rank $START_RANK \\
                  --kv_transfer_config '{"kv_connector":"NixlConnector",
                                         "kv_role":"kv_both"}'
            env:
              - {name: DP_SIZE_LOCAL, value: "8"}
              - {name: VLLM_NIXL_SIDE_CHANNEL_HOST, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
            readinessProbe: {httpGet: {path: /health, port: 8200}}
            resources: {limits: {memory: 512Gi, nvidia.com/gpu: 8}}
            volumeMounts: [{name: shm, mountPath: /dev/shm}]
        volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]
""",
    # aibrix: test/regression; an image of one's own has the vLLM that it has.
    "a connector of an older vLLM in an image of one's own": _vllm(
        """--model=Qwen/Qwen3-0.6B, '--kv-transfer-config={"kv_connector":"LMCacheConnector","kv_role":"kv_both"}'""",
        image="example.com/mine/vllm-openai:lmcache-v0.8.5",
    ),
    "a route to a Redis, on the port that Ray's GCS has": """
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {name: cache}
spec:
  parentRefs: [{name: internal}]
  rules: [{backendRefs: [{name: redis, port: 6379}]}]
""",
    # GoogleCloudPlatform/kubernetes-engine-samples: ai-ml
    "a server on TPUs with privilege": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: maxengine}
spec:
  selector: {matchLabels: {app: maxengine}}
  template:
    metadata: {labels: {app: maxengine}}
    spec:
      containers:
        - name: server
          image: us-docker.pkg.dev/cloud-tpu-images/inference/maxengine-server:v0.2.2
          securityContext: {privileged: true}
          resources: {limits: {google.com/tpu: 4}}
""",
    # ai-on-eks: blueprints/inference; production-stack: deployment_on_cloud. Neither serves a model.
    "a web page by a tag that moves, and a pod that prepares a node": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: open-webui}
spec:
  selector: {matchLabels: {app: webui}}
  template:
    metadata: {labels: {app: webui}}
    spec: {containers: [{name: webui, image: "ghcr.io/open-webui/open-webui:main"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: expand-disk}
spec:
  containers: [{name: expand, image: "debian:12", securityContext: {privileged: true}, volumeMounts: [{name: host, mountPath: /host}]}]
  volumes: [{name: host, hostPath: {path: /}}]
""",
}


@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS)
def test_what_runs_elsewhere_is_not_refused(text: str) -> None:
    assert {rule for rule, severity in said(*objects(text)) if severity == "error"} == set()


@pytest.mark.parametrize(("ray", "told"), [("2.22.0", set()), ("2.40.0", {"serve-schema", "serve-option-values"})])
def test_names_that_an_older_ray_reads_are_told_for_a_newer_one_only(ray: str, told: set[str]) -> None:
    """ai-on-eks: blueprints/inference, with the builds of one release for CPUs and for GPUs that KubeRay's samples take."""
    service = f"""
apiVersion: ray.io/v1
kind: RayService
metadata: {{name: llama}}
spec:
  serveConfigV2: |
    applications:
      - name: llama
        import_path: serve:app
        deployments:
          - name: Llama
            max_concurrent_queries: 10
            autoscaling_config: {{min_replicas: 1, max_replicas: 2, target_num_ongoing_requests_per_replica: 1}}
  rayClusterConfig:
    rayVersion: {ray}
    headGroupSpec:
      template: {{spec: {{containers: [{{name: head, image: "rayproject/ray:{ray}", resources: {{limits: {{cpu: 4, memory: 16Gi}}}}}}]}}}}
    workerGroupSpecs:
      - groupName: gpu
        replicas: 1
        minReplicas: 1
        maxReplicas: 2
        template: {{spec: {{containers: [{{name: worker, image: "rayproject/ray:{ray}-gpu", resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}}}
"""
    names = {"serve-schema", "serve-option-values", "version-images"}
    assert {rule for rule, _ in said(*objects(service))} & names == told


def test_what_readers_of_a_guide_fill_in_is_no_value(tmp_path: Path) -> None:
    guide = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: "batch-${JOB_ID}", namespace: $NAMESPACE}
spec:
  entrypoint: python batch.py
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {node-ip-address: $MY_POD_IP, num-gpus: $GPUS}
      template: {spec: {containers: [{name: head, image: $REGISTRY/ray:$TAG, resources: {limits: {cpu: 4, memory: 16Gi}}}]}}
---
apiVersion: v1
kind: Service
metadata: {name: epp, namespace: $NAMESPACE}
spec: {selector: {app: epp}, ports: [{port: "${EPP_PORT:-9002}"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: $NAMESPACE}
spec:
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.30.0
          args: [--model=Qwen/Qwen3-0.6B, --max-model-len, <tokens>, --max-num-seqs=<requests>]
          resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Secret
metadata: {name: cloud, namespace: $NAMESPACE}
data: {token: <your token in base64>}
"""
    file = tmp_path / "guide.yaml"
    file.write_text(guide)
    judged = judge(read(file), unknowns=PLACEHOLDERS)
    assert [placed.finding.sentence() for placed in judged.findings if placed.finding.severity == "error"] == []
    assert {placed.finding.place for placed in judged.open} >= {"Service namespace/epp"}
