"""Public reports about time-outs of routes, issuers, pull secrets, users of volumes and roles of service accounts: each broken, and mended."""

from __future__ import annotations

import json

import pytest

from policies.facts.wire import Resource, resource

from .resources import case, objects, said, twins
from .test_reports_of_aws import ROLE
from .test_reports_of_objects import ENGINE, INGRESS, ROUTE

_POD = "      enableServiceLinks: false\n"
_TIMES = "timeouts: {request: 900s, backendRequest: 600s}"
TIMED = ENGINE + ROUTE.replace(
    "backendRefs: [{name: chat, port: 80}]}", f"backendRefs: [{{name: chat, port: 80}}], {_TIMES}}}"
)
CLASS = TIMED + """---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: envoy}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
"""  # fmt: skip
POLICY = TIMED.replace(f", {_TIMES}", "") + """---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: long, namespace: serving}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: chat}], timeout: {http: {requestTimeout: 15m}}}
"""  # fmt: skip
_ACME = 'spec: {acme: {server: "https://acme-v02.api.letsencrypt.org/directory", email: team@company.com, privateKeySecretRef: {name: letsencrypt}, solvers: [{http01: {ingress: {ingressClassName: nginx}}}]}}'
ISSUED = (
    ENGINE
    + INGRESS.replace("  annotations: {", "  annotations: {cert-manager.io/issuer: letsencrypt, ").replace(
        "  rules:", "  tls: [{hosts: [chat.example.com], secretName: chat-tls}]\n  rules:"
    )
    + f"""---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {{name: letsencrypt, namespace: serving}}
{_ACME}
"""
)
PULLED = ENGINE.replace(_POD, _POD + "      imagePullSecrets: [{name: registry}]\n") + """
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: serving}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: eyJhdXRocyI6e319}
"""  # fmt: skip
RANGE = ENGINE.replace("nvidia.com/gpu: 1, memory: 24Gi", "nvidia.com/gpu: 1") + """
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: serving}
spec: {limits: [{type: Container, default: {memory: 32Gi}, defaultRequest: {memory: 24Gi}}]}
"""  # fmt: skip
OWNED = ENGINE.replace(
    "        startupProbe",
    "        env: [{name: HF_HOME, value: /models}]\n        volumeMounts: [{name: models, mountPath: /models}]\n        startupProbe",
).replace(
    _POD,
    _POD
    + "      securityContext: {runAsUser: 2000, runAsGroup: 2000, fsGroup: 2000}\n      volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]\n",
) + """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models, namespace: serving}
spec: {accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 200Gi}}}
"""  # fmt: skip
RANKS = """
apiVersion: v1
kind: Service
metadata: {name: ranks, namespace: serving}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: ranks}, ports: [{name: rpc, port: 29500}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ranks, namespace: serving}
spec:
  serviceName: ranks
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: ranks}}
  template:
    metadata: {labels: {app: ranks}}
    spec:
      enableServiceLinks: false
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.29.0
        command: [sh, -c, "vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 8 --pipeline-parallel-size 2 --max-model-len 8192 --nnodes 2 --node-rank ${HOSTNAME##*-} --master-addr ranks-0.ranks"]
        resources: {limits: {nvidia.com/gpu: 8, memory: 1000Gi}}
        startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 200, periodSeconds: 10}
        volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]
"""
ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: s3, namespace: ray, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/s3"}}
"""
OBJECTS = (
    case("modelplaneai/modelplane PR#174", "route-timeout", TIMED, (f", {_TIMES}", ""), severity="warning"),
    case("a class of Envoy Gateway's", "route-timeout", CLASS, (f", {_TIMES}", ""), severity="warning"),
    case("defilantech/LLMKube#734", "route-timeout", TIMED, (_TIMES, "timeouts: {request: 60s}"), severity="warning"),
    case("kubernetes-sigs/gateway-api PR#2492", "route-timeout-order", TIMED, ("backendRequest: 600s", "backendRequest: 20m")),
    case("cert-manager/cert-manager#3066", "ingress-issuer", ISSUED, ("kind: Issuer\nmetadata: {name: letsencrypt, namespace: serving}", "kind: Issuer\nmetadata: {name: letsencrypt, namespace: cert-manager}")),
    case("an issuer of the other kind", "ingress-issuer", ISSUED, ("cert-manager.io/issuer", "cert-manager.io/cluster-issuer")),
    case("kubernetes/website#6793", "secret-pull", PULLED, ("type: kubernetes.io/dockerconfigjson", "type: Opaque")),
    case("NVIDIA/aicr PR#70", "namespace-default-memory", RANGE, ("default: {memory: 32Gi}, defaultRequest: {memory: 24Gi}", "default: {memory: 512Mi}, defaultRequest: {memory: 256Mi}")),
    case("kubernetes/kubernetes#123882", "pod-places", ENGINE, (_POD, _POD + "      preemptionPolicy: Never\n")),
    case("defilantech/LLMKube#418", "volume-owner", OWNED, (", fsGroup: 2000}", "}"), severity="warning"),
    case("vllm-project/aibrix PR#1441", "stable-names", RANKS, (" publishNotReadyAddresses: true,", ""), severity="warning"),
    case("kserve/kserve#3482", "kserve-endpoint", ACCOUNT, ("eks.amazonaws.com/role-arn", "serving.kserve.io/s3-endpoint: s3.amazonaws.com, eks.amazonaws.com/role-arn"), severity="warning"),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), OBJECTS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(POLICY, id="a policy of Envoy's says how long"),
        pytest.param(TIMED.replace(f", {_TIMES}", "").replace("gatewayClassName: envoy", "gatewayClassName: istio"), id="Istio has no timeout"),
        pytest.param(TIMED.replace(_TIMES, "timeouts: {request: 0s}"), id="switched off"),
    ],
)  # fmt: skip
def test_a_route_that_waits_is_fine(given: str) -> None:
    assert "route-timeout" not in {rule for rule, _ in said(*objects(given))}


def test_a_volume_that_is_given_away_before_is_fine() -> None:
    given = OWNED.replace(", fsGroup: 2000}", "}").replace(
        "      containers:",
        "      initContainers: [{name: own, image: busybox:1.37, command: [chown, '2000', /models], securityContext: {runAsUser: 0}, volumeMounts: [{name: models, mountPath: /models}]}]\n      containers:",
        1,
    )
    assert "volume-owner" not in {rule for rule, _ in said(*objects(given))}


_OIDC = "oidc.eks.us-east-1.amazonaws.com/id/ABC"


def irsa(subject: str, operator: str = "StringEquals") -> Resource:
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{_OIDC}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {operator: {f"{_OIDC}:aud": "sts.amazonaws.com", f"{_OIDC}:sub": subject}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    props = {"name": "s3", "arn": "arn:aws:iam::123456789012:role/s3", "assumeRolePolicy": policy}
    return resource(ROLE, "s3", props, urn="urn:s3")


@pytest.mark.parametrize(
    "mended",
    [irsa("system:serviceaccount:ray:s3"), irsa("system:serviceaccount:ray:*", "StringLike")],
)
def test_a_role_lets_in_the_account_that_names_it(mended: Resource) -> None:
    broken = irsa("system:serviceaccount:ray:single-user")  # awslabs/data-on-eks#338
    twins("eks-service-account-trust", "error", [broken, *objects(ACCOUNT)], [mended, *objects(ACCOUNT)])


def test_a_patch_of_kustomize_that_names_no_target_is_not_judged() -> None:
    patch = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: serving}
spec: {maxReplicas: 3}
"""
    assert "scaler-target" not in {rule for rule, _ in said(*objects(ENGINE + patch))}
