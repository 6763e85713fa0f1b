"""Public reports about objects of Karpenter, KEDA, DRA, Kueue, LeaderWorkerSet and others, as YAML: each broken, and mended."""

from __future__ import annotations

import pytest

from .resources import case, objects, twins
from .test_reports_of_aws import POOL
from .test_reports_of_objects import ALB, ENGINE, KEDA

SPARING = POOL.replace("  limits:", "  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}\n  limits:")
BEHAVIOR = ENGINE + KEDA.replace(
    "  triggers:",
    "  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}}\n  triggers:",
)
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: single-gpu, namespace: serving}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: gpu, namespace: serving}
spec:
  resourceClaims: [{name: gpu0, resourceClaimTemplateName: single-gpu}]
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {claims: [{name: gpu0}]}}]
"""

SYSTEM_DISK = POOL.replace("al2023@v20261101", "bottlerocket@v1.54.0").replace(
    "[{deviceName: /dev/xvda, ebs: {volumeSize: 200Gi",
    "[{deviceName: /dev/xvda, ebs: {volumeSize: 4Gi, volumeType: gp3}}, {deviceName: /dev/xvdb, ebs: {volumeSize: 200Gi",
)
STORE = """
apiVersion: external-secrets.io/v1
kind: ClusterSecretStore
metadata: {name: aws}
spec: {provider: {aws: {service: SecretsManager, region: sa-east-1, auth: {jwt: {serviceAccountRef: {name: external-secrets, namespace: external-secrets}}}}}}
"""


SCHEMAS = (
    case("aws/karpenter-provider-aws#7319", "object-schema", SPARING, ("consolidateAfter: 10m}", "consolidateAfter: 10m, expireAfter: 168h}")),
    case("luminartech/helm-charts-public PR#380", "object-schema", SPARING, (", consolidateAfter: 10m}", "}")),
    case("a field that a newer Karpenter may have", "object-schema", SPARING, ("consolidateAfter: 10m}", "consolidateAfter: 10m, driftPolicy: Never}"), severity="warning"),
    case("kedacore/keda#2724", "object-schema", BEHAVIOR, ("{horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}}", "{behavior: {scaleDown: {stabilizationWindowSeconds: 300}}}")),
    case("a number in quotes", "object-schema", BEHAVIOR, ("minReplicaCount: 1", 'minReplicaCount: "1"')),
    case("kubernetes-sigs/dra-driver-nvidia-gpu#713", "object-schema", CLAIM, ("exactly: {deviceClassName: gpu.nvidia.com}", "deviceClassName: gpu.nvidia.com")),
    case("kubernetes-sigs/dra-driver-nvidia-gpu#46", "object-schema", CLAIM, ("resource.k8s.io/v1\n", "resource.k8s.io/v1alpha2\n")),
    case("aws/karpenter-provider-aws#7928", "karpenter-class", POOL, ("volumeSize: 200Gi", "volumeSize: 10Gi")),
    case("aws/karpenter-provider-aws#5283", "karpenter-class", SYSTEM_DISK, ("volumeSize: 4Gi", "volumeSize: 2Gi")),
    case("external-secrets/external-secrets#720", "secret-store-kind", STORE, ("sa-east-1", "sa-esat-1")),
    case("a zone for a region", "secret-store-kind", STORE, ("sa-east-1", "sa-east-1a")),
    case("a region that came later", "secret-store-kind", STORE.replace("sa-east-1", "eusc-de-east-1"), ("eusc-de-east-1", "east-1")),
)  # fmt: skip

KUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: l4}
spec: {nodeLabels: {node.kubernetes.io/instance-type: g6.2xlarge}, nodeTaints: [{key: team, value: research, effect: NoSchedule}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: l4
      resources: [{name: cpu, nominalQuota: 64}, {name: memory, nominalQuota: 512Gi}, {name: nvidia.com/gpu, nominalQuota: 8}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: gpus, namespace: serving}
spec: {clusterQueue: gpus}
---
apiVersion: batch/v1
kind: Job
metadata: {name: bench, namespace: serving, labels: {kueue.x-k8s.io/queue-name: gpus}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      tolerations: [{key: team, operator: Equal, value: research, effect: NoSchedule}]
      containers: [{name: bench, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}}]
"""
GPUS = ", {name: nvidia.com/gpu, nominalQuota: 8}"
TOLERATED = "tolerations: [{key: team, operator: Equal, value: research, effect: NoSchedule}]"
FSX = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fsx}
provisioner: fsx.csi.aws.com
parameters: {subnetId: subnet-0a1b2c3d, securityGroupIds: sg-0a1b2c3d, deploymentType: PERSISTENT_2, perUnitStorageThroughput: "250"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: weights, namespace: serving}
spec: {accessModes: [ReadWriteMany], storageClassName: fsx, resources: {requests: {storage: 1200Gi}}}
"""
EFS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: efs}
provisioner: efs.csi.aws.com
parameters: {provisioningMode: efs-ap, fileSystemId: fs-0a1b2c3d, directoryPerms: "700"}
"""
HEALTHY = ENGINE + ALB.replace(
    "  annotations: {", "  annotations: {alb.ingress.kubernetes.io/healthcheck-path: /health, "
)
PATH = "alb.ingress.kubernetes.io/healthcheck-path: /health"
_POD = """
        enableServiceLinks: false
        containers:
        - name: vllm
          image: vllm/vllm-openai:v0.29.0
          command: [sh, -c, "%s"]
          resources: {limits: {nvidia.com/gpu: 8, memory: 1000Gi}}
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
        volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]
"""
GROUPS = f"""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: chat, namespace: serving}}
spec:
  replicas: 3
  rolloutStrategy: {{type: RollingUpdate, rollingUpdateConfiguration: {{maxUnavailable: 1, maxSurge: 0}}}}
  leaderWorkerTemplate:
    size: 2
    subGroupPolicy: {{subGroupSize: 2}}
    leaderTemplate:
      spec:{_POD % "ray start --head; vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 8 --pipeline-parallel-size 2 --max-model-len 8192 --distributed-executor-backend ray"}
    workerTemplate:
      spec:{_POD % "ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"}
"""
OTHERS = (
    case("kubernetes-sigs/kueue#931", "kueue-queue", KUEUE, ("[cpu, memory, nvidia.com/gpu]", "[cpu, memory]"), (GPUS, "")),
    case("openshift-psap/fournos PR#74", "kueue-queue", KUEUE, (GPUS, "")),
    case("kubernetes-sigs/kueue#3158", "kueue-queue", KUEUE, (TOLERATED, "tolerations: [{key: team, value: serving}]")),
    case("a queue of another namespace", "kueue-queue", KUEUE, ("metadata: {name: gpus, namespace: serving}", "metadata: {name: gpus, namespace: research}")),
    case("a queue that leads nowhere", "kueue-queue", KUEUE, ("spec: {clusterQueue: gpus}", "spec: {clusterQueue: gpu}")),
    case("a resource that Kueue may turn into another", "kueue-queue", KUEUE.replace("cpu, memory, nvidia.com/gpu]", "cpu, memory, nvidia.com/gpu, vpc.amazonaws.com/efa]").replace(GPUS, f"{GPUS}, {{name: vpc.amazonaws.com/efa, nominalQuota: 8}}").replace("nvidia.com/gpu: 1}", "nvidia.com/gpu: 1, vpc.amazonaws.com/efa: 1}"), (", vpc.amazonaws.com/efa]", "]"), (", {name: vpc.amazonaws.com/efa, nominalQuota: 8}", ""), severity="warning"),
    case("kubernetes-sigs/aws-fsx-csi-driver PR#232", "volume-class", FSX, (', perUnitStorageThroughput: "250"', "")),
    case("kubernetes-sigs/aws-fsx-csi-driver#287", "volume-class", FSX, ("PERSISTENT_2", "SCRATCH_2"), severity="warning"),
    case("a throughput of the older generation", "volume-class", FSX, ('"250"', '"200"')),
    case("a type that FSx does not have", "volume-class", FSX, ("PERSISTENT_2", "PERSISTENT-2")),
    case("an EFS class without a file system", "volume-class", EFS, ("fileSystemId: fs-0a1b2c3d, ", "")),
    case("wso2/kubernetes-apim#81", "volume-access", FSX, ("storageClassName: fsx", "storageClassName: gp3")),
    case("EBS by a name of one's own", "volume-access", FSX, ("fsx.csi.aws.com\nparameters: {subnetId: subnet-0a1b2c3d, securityGroupIds: sg-0a1b2c3d, deploymentType: PERSISTENT_2, perUnitStorageThroughput: \"250\"}", "ebs.csi.aws.com")),
    case("jupyter-infra/jupyter-k8s PR#342", "ingress-health", HEALTHY, (f"{PATH}, ", ""), severity="warning"),
    case("kubernetes-sigs/aws-load-balancer-controller#2279", "ingress-health", HEALTHY, (PATH, "service.beta.kubernetes.io/aws-load-balancer-healthcheck-path: /health"), severity="warning"),
    case("404 among others", "ingress-health", HEALTHY.replace(PATH, "alb.ingress.kubernetes.io/success-codes: 200-499"), ("200-499", '"200,302"'), severity="warning"),
    case("kubernetes-sigs/lws PR#1008", "leader-worker-set", GROUPS, ("subGroupSize: 2", "subGroupSize: 3")),
    case("kubernetes-sigs/lws PR#65", "leader-worker-set", GROUPS, ("maxUnavailable: 1", "maxUnavailable: 0")),
    case("a tenth of three groups", "leader-worker-set", GROUPS, ("maxUnavailable: 1", "maxUnavailable: 10%")),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), [*SCHEMAS, *OTHERS])
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))
