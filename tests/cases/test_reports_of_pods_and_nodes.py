"""Public reports about pods and the nodes that they ask for, queues' names, scripts and Secrets: each broken, and mended."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from policies import stated
from policies.facts.stack import EMPTY, Stack, reading
from policies.facts.wire import Resource, manifests
from policies.rules import check

from .resources import CLUSTER, aws, case, objects, said, twins
from .test_reports_of_access import entry
from .test_reports_of_aws import POOL, group
from .test_reports_of_objects import ENGINE, KEDA
from .test_reports_of_other_kinds import CLAIM, GROUPS
from .test_reports_of_plugins_and_names import release
from .test_reports_of_ray_objects import KNOWN, cluster, service

_SHARE = "{cpu: {quota: -1, limit: -1, overQuotaWeight: 1}, gpu: {quota: -1, limit: -1, overQuotaWeight: 1}, memory: {quota: -1, limit: -1, overQuotaWeight: 1}}"
QUEUED = f"""
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: root}}
spec: {{resources: {_SHARE}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: team}}
spec: {{parentQueue: root, resources: {_SHARE}}}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {{name: racks}}
spec: {{levels: [{{nodeLabel: example.com/rack}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: job, namespace: serving, labels: {{kai.scheduler/queue: team}}, annotations: {{kai.scheduler/topology: racks, kai.scheduler/topology-required-placement: example.com/rack}}}}
spec:
  schedulerName: kai-scheduler
  containers: [{{name: main, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""
VOLCANO = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: test}
spec: {weight: 1, reclaimable: false, capability: {cpu: "20", memory: 400Gi}}
"""
ASKS = POOL.replace(
    "{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [l4]}",
    "{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}",
) + """---
apiVersion: v1
kind: Pod
metadata: {name: gpu, namespace: serving}
spec:
  nodeSelector: {karpenter.sh/nodepool: gpu}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {limits: {nvidia.com/gpu: 1}}}]
"""  # fmt: skip
EFA = GROUPS.replace("nvidia.com/gpu: 8,", "nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32,").replace(
    "          resources:", "          env: [{name: FI_PROVIDER, value: efa}]\n          resources:"
)
SHM = "volumes: [{name: shm,"
SCALED = GROUPS + "---\n" + KEDA.replace(
    "scaleTargetRef: {name: chat}",
    "scaleTargetRef: {apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: chat}",
)  # fmt: skip
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: huggingface, namespace: serving}
type: Opaque
data: {token: aGZfeHh4eHh4eHh4}
"""
PAIRS = (
    case("romanbaron/KAI-Scheduler#1", "queue-scheduler", QUEUED, ("  schedulerName: kai-scheduler\n", ""), severity="warning"),
    case("NVIDIA/nvcf PR#603", "kai-topology", QUEUED, ("kai.scheduler/topology: racks", "kai.scheduler/topology: nvlink-cliques"), severity="warning"),
    case("volcano-sh/volcano#4867", "queue-resources", VOLCANO, ("memory: 400Gi", "mem: 400Gi"), severity="warning"),
    case("aws/karpenter-provider-aws#7754", "karpenter-chips", ASKS, ("values: [g5]", "values: [g4ad]")),
    case("a family of which one size is not counted", "karpenter-gpu-count", ASKS, ("values: [g5]", "values: [p5]"), severity="warning"),
    case("awslabs/ai-on-sagemaker-hyperpod PR#134", "network-efa-pods", EFA, (", vpc.amazonaws.com/efa: 32", ""), severity="warning"),
    case("all interfaces of the node", "network-efa-pods", EFA, (SHM, "volumes: [{name: verbs, hostPath: {path: /dev/infiniband}}, {name: shm,"), severity="warning"),
    case("llm-d/llm-d-autoscaling PR#1517", "scaler-target", SCALED, ("leaderworkerset.x-k8s.io/v1, kind", "leaderworkerset.x-k8s.io/v1alpha1, kind")),
    case("ogx-ai/ogx PR#1914", "secret-data", SECRET, ("aGZfeHh4eHh4eHh4", "$(HF_TOKEN)")),
    case("a value as it is", "secret-data", SECRET, ("data: {token: aGZfeHh4eHh4eHh4}", "data: {token: hf_xxxxxxxxx}")),
    case("volcano-sh/kthena#487", "engine-words", GROUPS, ("$(LWS_LEADER_ADDRESS)", "$(LEADER_NODE_ADDRESS)")),
    case("ai-dynamo/modelexpress PR#406", "fit-memory", ENGINE, ("Qwen/Qwen2.5-7B-Instruct", "deepseek-ai/DeepSeek-V3")),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), PAIRS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))


def test_a_large_model_over_enough_gpus_of_any_kind_is_not_refused() -> None:
    spread = ENGINE.replace('Qwen/Qwen2.5-7B-Instruct, --max-model-len, "8192"', 'deepseek-ai/DeepSeek-V3, --max-model-len, "8192", --tensor-parallel-size, "8"').replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 8")  # fmt: skip
    assert "deepseek" in spread.lower()
    assert ("fit-memory", "error") not in said(*objects(spread))


def test_pods_whose_gpus_come_by_claims_are_read() -> None:
    gated = CLAIM.replace(
        "spec:\n  resourceClaims", "spec:\n  schedulingGates: [{name: example.com/hold}]\n  resourceClaims"
    )
    assert ("pod-gates", "warning") in said(*objects(gated))
    assert "pod-gates" not in {rule for rule, _ in said(*objects(CLAIM))}


API = aws(CLUSTER, accessConfig={"authenticationMode": "API"})
GROWS = group(scalingConfig={"minSize": 1, "maxSize": 4, "desiredSize": 1})
SCALER = release("cluster-autoscaler", "9.52.1", "kube-system", {"autoDiscovery": {"clusterName": "llm"}})


@pytest.mark.parametrize(
    ("rule", "broken", "mended"),
    [
        pytest.param("eks-node-entry", [API, *objects(POOL)], [API, entry(type="EC2_LINUX"), *objects(POOL)], id="awslabs/ai-on-eks#111"),
        pytest.param("eks-node-entry", [API, *objects(POOL)], [API, *group(nodeRoleArn="arn:aws:iam::123456789012:role/KarpenterNodeRole"), *objects(POOL)], id="an entry that a node group brings"),
        pytest.param("eks-node-entry", [API, *objects(POOL)], [API, entry("not known yet"), *objects(POOL)], id="an entry for a role that is not made yet"),
        pytest.param("pool-scaled", [aws(CLUSTER), *GROWS], [aws(CLUSTER), *GROWS, SCALER], id="modelplaneai/modelplane#166"),
        pytest.param("pool-scaled", [aws(CLUSTER), *GROWS], [aws(CLUSTER), *group(scalingConfig={"minSize": 4, "maxSize": 4, "desiredSize": 4})], id="a group of one size"),
    ],
)  # fmt: skip
def test_nodes_that_do_not_come_are_warned_of(rule: str, broken: list[Resource], mended: list[Resource]) -> None:
    twins(rule, "warning", broken, mended)


@pytest.mark.parametrize(
    ("kind", "image", "severity"),
    [
        ("inf2.8xlarge", "AL2023_x86_64_STANDARD", "error"),  # eksctl-io/eksctl#7683
        ("inf2.8xlarge", "AL2023_x86_64_NEURON", "warning"),
        ("g4ad.xlarge", "AL2023_x86_64_NVIDIA", "error"),  # pulumi/pulumi-eks PR#1534
        ("g4ad.xlarge", "AL2023_x86_64_STANDARD", "warning"),
    ],
)
def test_accelerators_of_other_makers_are_refused_with_an_image_that_does_not_drive_them(
    kind: str, image: str, severity: str
) -> None:
    found = said(*group(instanceTypes=[kind], amiType=image, taints=None))
    assert {each for each in found if each[0] == "pool-type"} == {("pool-type", severity)}


def gates(*enabled: str) -> list[Resource]:
    values: dict[str, Any] = {"featureGates": [{"name": name, "enabled": True} for name in enabled]}
    return [release("kuberay-operator", "1.7.0", "ray", values)]


@pytest.mark.parametrize(
    ("operator", "severity"),
    [([], "warning"), (gates(), "error"), (gates("RayClusterNetworkPolicy"), None)],
)
def test_a_gate_is_judged_by_the_operator_that_is_seen(operator: list[Resource], severity: str | None) -> None:
    """ray-project/ray PR#65074."""
    doc = service(ray=cluster(networkPolicy={"mode": "DenyAllEgress"}))
    known: Stack = reading([*manifests([copy.deepcopy(doc)], "x"), *operator], KNOWN).stack
    assert {f.severity for f in check(known) if f.rule == "kuberay-gates"} == ({severity} if severity else set())


def test_an_update_of_the_only_pod_needs_a_second_gpu() -> None:
    """ai-runway/airunway#400."""
    pools = {"l4": {"gpu": "L4", "gpus_per_node": 1, "cpu": 7, "memory_gib": 28, "max": 1, "labels": {"team": "ml"}}}
    known, placed = (
        stated.parse({"pools": pools}),
        ENGINE.replace("      enable", "      nodeSelector: {team: ml}\n      enable", 1),
    )
    again = placed.replace("spec:\n  selector", "spec:\n  strategy: {type: Recreate}\n  selector", 1)
    assert ("upgrade-rollout", "warning") in said(*objects(placed), known=known)
    assert "upgrade-rollout" not in {rule for rule, _ in said(*objects(again), known=known)}
    assert "upgrade-rollout" not in {rule for rule, _ in said(*objects(placed), known=EMPTY)}
