"""What public repositories run around engines, reduced to the lines that were refused once: no error may be said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.judge import read
from policies.judgement import PLACEHOLDERS, judge

from .resources import objects, said
from .test_public_engines import vllm

RUNS = {
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
    "KServe's own config, which names the keys of Secrets": """
apiVersion: v1
kind: ConfigMap
metadata: {name: inferenceservice-config, namespace: kserve}
data:
  credentials: |
    {"storageSpecSecretName": "storage-config", "s3": {"s3SecretAccessKeyName": "AWS_SECRET_ACCESS_KEY"}}
""",
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
    "a job on GPUs and a helper of an engine by tags that move": """
apiVersion: batch/v1
kind: Job
metadata: {name: tune}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: tune, image: "axolotlai/axolotl:main-latest", resources: {limits: {nvidia.com/gpu: 1}}}]
---"""
    + vllm("--model=Qwen/Qwen3-0.6B").replace(
        "      containers:", "      initContainers: [{name: fetch, image: alpine/git}]\n      containers:"
    ),
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
