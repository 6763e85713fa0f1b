"""Engines that public repositories run with success, reduced to the lines that were refused once: no error may be said of them."""

from __future__ import annotations

import pytest

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


def vllm(
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
    # sample-genai-on-eks-starter-kit: components/llm-model/vllm
    "vLLM on two Neuron cores": vllm(
        "--model=Qwen/Qwen3-8B, --tensor-parallel-size=2",
        image="example.com/mine/vllm-neuron:1",
        resources="aws.amazon.com/neuron: 1",
    ).replace("          volumeMounts: [{name: shm, mountPath: /dev/shm}]\n", ""),
    # kserve: opt-125m-cpu; aibrix: development/vllm. The build says that it needs no GPU.
    "vLLM built for CPUs": vllm(
        "--model=facebook/opt-125m", image="vllm/vllm-openai-cpu:v0.30.0", resources="cpu: 8, memory: 32Gi"
    ),
    # GoogleCloudPlatform/accelerated-platforms: online-inference-gpu
    "arguments from a ConfigMap": vllm(
        "--model=Qwen/Qwen3-0.6B, --max-model-len=$(LENGTH), --gpu-memory-utilization=$(PART)",
        env="{name: LENGTH, valueFrom: {configMapKeyRef: {name: runtime, key: LENGTH}}}, "
        "{name: PART, valueFrom: {configMapKeyRef: {name: runtime, key: PART}}}",
    ),
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
    # club-3090: models/gemma-4-12b; a list of the shell's own, which may be empty
    "flags in a variable before the model's own flag": vllm("--model=Qwen/Qwen3-0.6B, --max-num-seqs=8").replace(
        "args:",
        """command: [bash, -c, 'SPEC_ARGS=(); exec vllm serve "${SPEC_ARGS[@]}" "$@"', --]
          args:""",
    ),
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
    "a connector of an older vLLM in an image of one's own": vllm(
        """--model=Qwen/Qwen3-0.6B, '--kv-transfer-config={"kv_connector":"LMCacheConnector","kv_role":"kv_both"}'""",
        image="example.com/mine/vllm-openai:lmcache-v0.8.5",
    ),
}


@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS)
def test_what_runs_elsewhere_is_not_refused(text: str) -> None:
    assert {rule for rule, severity in said(*objects(text)) if severity == "error"} == set()
