"""Public reports about volumes, budgets, spreading, updates and health checks, and who runs on which node: each broken, and mended."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts.aws import EFS, FILE_SYSTEMS, LUSTRE
from policies.facts.wire import Resource, resource

from .resources import CLUSTER, GROUP, aws, case, objects, said, twins
from .test_reports_of_aws import ADDON, group
from .test_reports_of_objects import ALB, BUDGET, ENGINE, HPA
from .test_reports_of_other_kinds import GROUPS
from .test_reports_of_plugins_and_names import release

_SELECTS = "  selector: {matchLabels: {app: chat}}\n  template"
_POD = "      enableServiceLinks: false\n"
TWO = ENGINE.replace(_SELECTS, "  replicas: 2\n" + _SELECTS, 1)
SPREAD = TWO.replace(
    _POD,
    _POD + "      topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: chat}}}]\n",
)  # fmt: skip
GANG = (
    TWO.replace(
        "    metadata: {labels: {app: chat}}\n",
        '    metadata: {labels: {app: chat}, annotations: {scheduling.volcano.sh/group-min-member: "2"}}\n',
    )
    .replace(_POD, _POD + "      schedulerName: volcano\n")
    .replace("  replicas: 2\n", "  replicas: 2\n  strategy: {rollingUpdate: {maxSurge: 100%}}\n")
)
_HEALTH = "alb.ingress.kubernetes.io/healthcheck-"
CHECKED = ENGINE + ALB.replace(
    "  annotations: {",
    f"  annotations: {{{_HEALTH}path: /health, {_HEALTH}interval-seconds: '15', {_HEALTH}timeout-seconds: '5', ",
)
ORDER = GROUPS.replace("  leaderWorkerTemplate:", "  startupPolicy: LeaderCreated\n  leaderWorkerTemplate:", 1).replace(
    "          resources:",
    "          startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 200, periodSeconds: 10}\n          resources:",
    1,
)
BUCKETS = ENGINE + "---".join(
    f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  accessModes: [ReadOnlyMany]
  capacity: {{storage: 100Gi}}
  storageClassName: ""
  claimRef: {{namespace: serving, name: {name}}}
  mountOptions: [read-only, allow-other]
  csi: {{driver: s3.csi.aws.com, volumeHandle: {name}, volumeAttributes: {{bucketName: {name}-bucket}}}}
"""
    for name in ("weights", "adapters")
)
OBJECTS = (
    case("bank-vaults/vault-operator#1064", "disruption-pods", TWO + BUDGET, ("spec: {maxUnavailable: 1, selector: {matchLabels: {app: chat}}}", "spec: {maxUnavailable: 1, selector: {matchLabels: {app: chat, app.kubernetes.io/instance: chat}}}"), severity="warning"),
    case("aws/karpenter-provider-aws#2845", "pod-spread", SPREAD, ("DoNotSchedule, labelSelector: {matchLabels: {app: chat}}", "DoNotSchedule, labelSelector: {matchLabels: {app: vllm}}"), severity="warning"),
    case("aws/karpenter-provider-aws PR#1808", "pod-spread", SPREAD, (", labelSelector: {matchLabels: {app: chat}}", ""), severity="warning"),
    case("volcano-sh/volcano#4739", "upgrade-gang", GANG, ("  strategy: {rollingUpdate: {maxSurge: 100%}}\n", "")),
    case("kubernetes/kubernetes#110278", "scaler-zero", TWO.replace("  replicas: 2\n", "  replicas: 1\n") + HPA, ("  replicas: 1\n", "  replicas: 0\n")),
    case("kubernetes-sigs/aws-load-balancer-controller#2951", "ingress-health-times", CHECKED, ("timeout-seconds: '5'", "timeout-seconds: '15'")),
    case("kubernetes-sigs/lws PR#150", "leader-worker-order", ORDER, ("LeaderCreated", "LeaderReady")),
    case("awslabs/mountpoint-s3-csi-driver#625", "volume-handle", BUCKETS, ("volumeHandle: adapters", "volumeHandle: weights"), severity="warning"),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), OBJECTS)
def test_what_was_reported_of_objects_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))


def test_a_leader_without_probes_is_ready_at_once() -> None:
    ready = GROUPS.replace("  leaderWorkerTemplate:", "  startupPolicy: LeaderReady\n  leaderWorkerTemplate:", 1)
    assert "leader-worker-order" not in {rule for rule, _ in said(*objects(ready))}


def test_a_budget_for_pods_that_are_not_seen_is_fine() -> None:
    router = BUDGET.replace("{app: chat}", "{app: router, app.kubernetes.io/instance: chat}")
    assert "disruption-pods" not in {rule for rule, _ in said(*objects(ENGINE + router))}


def test_an_empty_selector_spreads_over_all_pods_of_the_namespace() -> None:
    everybody = SPREAD.replace("labelSelector: {matchLabels: {app: chat}}}]", "labelSelector: {}}]")
    assert "pod-spread" not in {rule for rule, _ in said(*objects(everybody))}


def volume(provisioner: str, name: str = "storageClassName: models, ") -> list[Resource]:
    return objects(f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: cache, namespace: serving}}
spec: {{accessModes: [ReadWriteOnce], {name}resources: {{requests: {{storage: 100Gi}}}}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: models}}
provisioner: {provisioner}
volumeBindingMode: WaitForFirstConsumer
parameters: {{type: gp3}}
""")


EKS = aws(CLUSTER, name="llm")
AUTO = aws(
    CLUSTER,
    name="llm",
    computeConfig={"enabled": True},
    kubernetesNetworkConfig={"elasticLoadBalancing": {"enabled": True}},
    storageConfig={"blockStorage": {"enabled": True}},
    accessConfig={"authenticationMode": "API"},
    bootstrapSelfManagedAddons=False,
)


def driver(**values: Any) -> list[Resource]:
    role = {"roleArn": "arn:aws:iam::123456789012:role/ebs", "serviceAccount": "ebs-csi-controller-sa"}
    agent = aws(ADDON, addonName="eks-pod-identity-agent", clusterName="llm")
    return [
        agent,
        aws(ADDON, addonName="aws-ebs-csi-driver", clusterName="llm", podIdentityAssociations=[role], **values),
    ]


NODES = resource(
    GROUP,
    "system",
    {
        "clusterName": "llm",
        "nodeRoleArn": "arn:aws:iam::123456789012:role/node",
        "subnetIds": ["subnet-0a", "subnet-0b"],
        "scalingConfig": {"minSize": 2, "maxSize": 2, "desiredSize": 2},
        "instanceTypes": ["m7i.xlarge"],
        "amiType": "AL2023_x86_64_STANDARD",
    },
    urn="urn:system",
)
OWNED = group(
    taints=[
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"},
        {"key": "team", "value": "ml", "effect": "NO_SCHEDULE"},
    ]
)


def plugin(*keys: str) -> Resource:
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
    return release("nvidia-device-plugin", "0.18.0", "kube-system", {"tolerations": tolerations} if keys else {})


AWS = (
    pytest.param("volume-driver", "warning", [AUTO, *volume("ebs.csi.aws.com")], [AUTO, *volume("ebs.csi.eks.amazonaws.com")], id="SigNoz/charts#621"),
    pytest.param("volume-driver", "warning", [EKS, *volume("kubernetes.io/aws-ebs")], [EKS, *driver(), *volume("ebs.csi.aws.com")], id="n8n-io/terraform-aws-n8n#22"),
    pytest.param("volume-driver", "warning", [EKS, *volume("ebs.csi.eks.amazonaws.com")], [AUTO, *volume("ebs.csi.eks.amazonaws.com")], id="Auto Mode's driver in another cluster"),
    pytest.param("volume-default-class", "warning", [EKS, *driver(), *volume("ebs.csi.aws.com", "")], [EKS, *driver(), *volume("ebs.csi.aws.com")], id="n8n-io/terraform-aws-n8n PR#45"),
    pytest.param("volume-default-class", "warning", [EKS, *driver(configurationValues="{}"), *volume("ebs.csi.aws.com", "")], [EKS, *driver(configurationValues='{"defaultStorageClass": {"enabled": true}}'), *volume("ebs.csi.aws.com", "")], id="a class that the driver makes"),
    pytest.param("gpu-plugin-tolerations", "error", [NODES, *OWNED, plugin()], [NODES, *OWNED, plugin("nvidia.com/gpu", "team")], id="eksctl-io/eksctl#5277"),
    pytest.param("pool-system", "warning", [EKS, *group()], [EKS, NODES, *group()], id="sighupio/furyctl#279"),
)  # fmt: skip


def mounted(kind: str, *ports: tuple[int, int]) -> list[Resource]:
    """A file system with the one group that it names."""
    rules = [{"protocol": "tcp", "fromPort": low, "toPort": high, "cidrBlocks": ["10.0.0.0/16"]} for low, high in ports]
    return [
        resource("aws:ec2/securityGroup:SecurityGroup", "files", {"id": "sg-files", "ingress": rules}, urn="urn:sg"),
        resource(kind, "models", {FILE_SYSTEMS[kind]: ["sg-files"], "deploymentType": "SCRATCH_2"}, urn="urn:fs"),
    ]


LNET, BACK, NFS, HTTPS = (988, 988), (1018, 1023), (2049, 2049), (443, 443)
FILES = (
    pytest.param("error", mounted(LUSTRE, HTTPS), mounted(LUSTRE, LNET, BACK), id="kubernetes-sigs/aws-fsx-csi-driver#32"),
    pytest.param("warning", mounted(LUSTRE, LNET), mounted(LUSTRE, (988, 1023)), id="aws-samples/aws-hpc-recipes#50"),
    pytest.param("error", mounted(EFS, HTTPS), mounted(EFS, NFS), id="EFS without NFS"),
)  # fmt: skip


@pytest.mark.parametrize(("severity", "broken", "mended"), FILES)
def test_file_systems_let_their_clients_in(severity: str, broken: list[Resource], mended: list[Resource]) -> None:
    twins("network-file-system", severity, broken, mended)


def test_groups_that_are_not_seen_or_have_rules_beside_them_are_not_refused() -> None:
    files, system = mounted(EFS, HTTPS)
    beside = resource(
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        "nfs",
        {
            "securityGroupId": "sg-files",
            "ipProtocol": "tcp",
            "fromPort": 2049,
            "toPort": 2049,
            "cidrIpv4": "10.0.0.0/8",
        },
        urn="urn:nfs",
    )
    for given in ([system], [files, beside, system]):
        assert "network-file-system" not in {rule for rule, _ in said(*given)}


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), AWS)
def test_what_was_reported_of_clusters_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: list[Resource], mended: list[Resource]
) -> None:
    twins(rule, severity, broken, mended)


def test_a_group_of_one_size_is_moved_by_nobody() -> None:
    assert "pool-desired-ignored" not in {rule for rule, _ in said(NODES)}
