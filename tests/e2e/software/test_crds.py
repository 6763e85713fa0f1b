"""Objects for operators that do not run here before a real API server with the operators' own CRDs: schemas and CEL rules judge.

The CRDs come with the operators' Go modules. Each also refuses something, so that none of them judges in its sleep.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from components.config import deep_merge, parse
from components.manifests import gateway, releases
from components.node_pools import resolve
from components.plan import assemble
from local import gotools, tools
from tests.components.manifests.test_karpenter import POOLS, manifests
from tests.components.shapes import SHAPES
from tests.components.software_stacks import STACKS
from tests.e2e.software.conftest import Engine, Kube
from tests.e2e.test_manifests import NOT_HERE

pytestmark = pytest.mark.e2e

Values = dict[str, Any]
# Module -> folder of its CRDs, and those that are asked.
CRDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dra-driver": ("deployments/helm/dra-driver-nvidia-gpu/crds", ("resource.nvidia.com_computedomains",)),
    "envoy-gateway": (
        "charts/gateway-helm/charts/crds/crds/generated",
        ("gateway.envoyproxy.io_envoyproxies", "gateway.envoyproxy.io_securitypolicies"),
    ),
    "external-secrets": ("config/crds/bases", ("external-secrets.io_externalsecrets",)),
    "gateway-api": (
        "config/crd/standard",
        tuple(f"gateway.networking.k8s.io_{kind}" for kind in ("gatewayclasses", "gateways", "httproutes")),
    ),
    "karpenter": ("pkg/apis/crds", ("karpenter.k8s.aws_ec2nodeclasses", "karpenter.sh_nodepools")),
    "keda": ("config/crd/bases", ("keda.sh_scaledobjects",)),
    "prometheus-operator": ("example/prometheus-operator-crd", ("monitoring.coreos.com_podmonitors",)),
}
_GATEWAY = SHAPES["published_by_a_gateway_with_keys"]
_SCALED = SHAPES["plain_vllm_scaled_behind_an_ingress"]


def _expose(**gateway: Any) -> Values:
    changed: Values = deep_merge(_GATEWAY, {"services": {"chat": {"expose": {"gateway": gateway}}}})
    return changed


SERVICES: dict[str, Values] = {
    **SHAPES,
    "gateway of others": _expose(gateway="edge/public", tls_secret=None, load_balancer="none"),
    "gateway inside the VPC": _expose(load_balancer="internal", paths=["/v1", "/docs"], timeout_seconds=86400),
    "wildcard host": _expose(host="*.example.com", load_balancer="none"),
    "scaled from zero": deep_merge(
        _SCALED,
        {
            "services": {
                "plain": {
                    "models": {"qwen": {"replicas": {"min": 0, "max": 3}}},
                    "scaling": {"wake_query": 'sum(increase(requests_total{service="plain"}[2m]))'},
                }
            }
        },
    ),
    "a store of the namespace": deep_merge(
        _GATEWAY,
        {
            "services": {
                "chat": {
                    "secrets": {
                        "team-keys": {"store": "own", "store_kind": "SecretStore", "keys": {"a": {"name": "b"}}}
                    }
                }
            }
        },
    ),
}
KARPENTER: dict[str, Values] = {
    **POOLS,
    "an image of one's own": {"kind": "karpenter", "instance_types": ["g6.xlarge"], "ami_id": "ami-0123456789abcdef0"},
    "a pinned image": {"kind": "karpenter", "instance_types": ["g6.xlarge"], "ami_release": "v20261101"},
    "taints, zones and spot": {
        "kind": "karpenter",
        "instance_types": ["g6e.2xlarge", "g6e.4xlarge"],
        "capacity": "spot",
        "taints": [{"key": "team", "value": "a"}, {"key": "drain", "effect": "NoExecute"}],
        "zones": ["us-east-1a", "us-east-1b"],
    },
    "slices": {
        "kind": "karpenter",
        "instance_types": ["p5.48xlarge"],
        "sharing": {"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "1g.10gb"},
    },
}


def _objects() -> dict[str, Values]:
    found: dict[str, Values] = {}
    for name, shape in SERVICES.items():
        for objects in assemble(parse(shape), name).manifests.values():
            found |= {f"{each['kind']} of {name}": each for each in objects if each["kind"] in NOT_HERE}
    for name, fields in KARPENTER.items():
        found |= {f"{each['kind']} of {name}": each for each in manifests(fields)}
    envoy = gateway.objects(parse(STACKS["incremental"]), "default")
    return found | {f"{each['kind']} of Envoy Gateway": each for each in envoy}


OBJECTS = _objects()
_ROUTE, _POOL, _CLASS = "HTTPRoute of wildcard host", "NodePool of karpenter-l40s", "EC2NodeClass of karpenter-l40s"


def _path(*values: str) -> Values:
    matches = [{"path": {"type": "PathPrefix", "value": value}} for value in values]
    return {"rules": [{**OBJECTS[_ROUTE]["spec"]["rules"][0], "matches": matches}]}


def _labels(**labels: str) -> Values:
    return {"template": {"metadata": {"labels": {key.replace("__", "/"): value for key, value in labels.items()}}}}


# (object, what is changed in its spec, words with which its CRD refuses that). What the config's own types or a rule refuse is among them.
BROKEN: list[tuple[str, Values, str]] = [
    ("ComputeDomain of two_nodes_joined_by_nvlink", {"numNodes": -1}, "should be greater than or equal to 0"),
    (_CLASS, {"instanceProfile": "other"}, "must specify exactly one of ['role', 'instanceProfile']"),
    (_CLASS, {"tags": {"kubernetes.io/cluster/prod": "owned"}}, "tag contains a restricted tag"),
    (_CLASS, {"tags": {"karpenter.sh/nodepool": "a"}}, "tag contains a restricted tag"),
    ("EC2NodeClass of a pinned image", {"instanceStorePolicy": "RAID1"}, 'supported values: "RAID0"'),
    (_POOL, {"disruption": {"consolidateAfter": "soon"}}, "consolidateAfter"),
    (_POOL, _labels(**{"karpenter.k8s.aws__team": "a"}), 'label domain "karpenter.k8s.aws" is restricted'),
    (_POOL, _labels(**{"karpenter.sh__team": "a"}), 'label domain "karpenter.sh" is restricted'),
    (_POOL, {"limits": {"cpu": "8 cores"}}, "spec.limits.cpu"),
    ("Gateway of wildcard host", {"listeners": [{"name": "https", "protocol": "HTTP"}]}, "tls must not be specified"),
    ("Gateway of wildcard host", {"listeners": [{"name": "https", "tls": {"certificateRefs": [{"name": ""}]}}]}, "at least 1 chars"),
    ("GatewayClass of Envoy Gateway", {"controllerName": "envoy"}, "controllerName"),
    ("EnvoyProxy of Envoy Gateway", {"provider": {"type": "Docker"}}, "provider.type"),
    (_ROUTE, {"rules": [{"timeouts": {"request": "900"}}]}, "timeouts.request"),
    (_ROUTE, _path("/v1//x"), "must not contain '//'"),
    (_ROUTE, _path("/v1/../x"), "must not contain '/../'"),
    (_ROUTE, _path("/v1/."), "must not end with '/.'"),
    (_ROUTE, _path("/v1%2fx"), "must not contain '%2f'"),
    (_ROUTE, _path("/v1?x"), "must only contain valid characters"),
    (_ROUTE, _path("/" + "a" * 1024), "may not be more than 1024"),
    (_ROUTE, _path(*(f"/{number}" for number in range(65))), "must have at most 64 items"),
    ("SecurityPolicy of published_by_a_gateway_with_keys", {"targetRefs": None}, "targetRef"),
    ("ScaledObject of scaled from zero", {"maxReplicaCount": "three"}, "maxReplicaCount"),
    ("PodMonitor of wildcard host", {"podMetricsEndpoints": [{"port": "metrics", "interval": "soon"}]}, "interval"),
    ("ExternalSecret of a store of the namespace", {"target": {"creationPolicy": "Mine"}}, "creationPolicy"),
    ("ExternalSecret of a store of the namespace", {"secretStoreRef": {"name": "My Store"}}, "secretStoreRef.name"),
    ("ExternalSecret of a store of the namespace", {"data": [{"secretKey": "a b", "remoteRef": {"key": "c"}}]}, "secretKey"),
]  # fmt: skip
# What people may write and one might doubt.
FINE: list[tuple[str, Values]] = [
    (_ROUTE, _path("/", "/a-b_c.d~e!$&'()*+,;=:@", "/v1%20x", "/.well-known/a", "/...")),
    (_POOL, _labels(**{"karpenter.k8s.aws__instance-gpu-name": "l40s", "karpenter.sh__capacity-type": "spot"})),
    (_CLASS, {"tags": {"karpenter.sh/nodepools": "a"}}),
]


@pytest.fixture(scope="module")
def crds(kube: Kube) -> Iterator[None]:
    """The operators' CRDs, served; gone afterwards."""
    files = [
        gotools.fetch_module(module) / folder / f"{n}.yaml" for module, (folder, names) in CRDS.items() for n in names
    ]
    words = [word for file in files for word in ("-f", str(file))]
    kube("apply", "--server-side", *words)
    names = [f"crd/{yaml.safe_load(file.read_text())['metadata']['name']}" for file in files]
    kube("wait", "--for=condition=Established", "--timeout=60s", *names)
    yield
    kube("delete", "--wait=false", *names)


def verdict(kube: Kube, given: Values) -> str:
    """What the API server says against an object, "" where it takes it."""
    metadata = {key: value for key, value in given["metadata"].items() if key != "namespace"}
    result = subprocess.run(
        ["kubectl", "--kubeconfig", str(kube.kubeconfig), "create", "--dry-run=server", "--validate=strict", "-f", "-"],
        input=json.dumps({**given, "metadata": metadata}),
        env=tools.environment(),
        text=True,
        capture_output=True,
        check=False,
    )
    return result.stderr.strip() if result.returncode else ""


@pytest.mark.parametrize("what", OBJECTS)
def test_the_operator_s_crd_takes_the_object(kube: Kube, crds: None, what: str) -> None:
    assert verdict(kube, OBJECTS[what]) == ""


@pytest.mark.parametrize(("what", "changes", "says"), BROKEN)
def test_the_operator_s_crd_refuses_what_is_broken(
    kube: Kube, crds: None, what: str, changes: Values, says: str
) -> None:
    assert says in verdict(kube, deep_merge(OBJECTS[what], {"spec": changes}))


@pytest.mark.parametrize(("what", "changes"), FINE)
def test_the_operator_s_crd_takes_what_one_might_doubt(kube: Kube, crds: None, what: str, changes: Values) -> None:
    assert verdict(kube, deep_merge(OBJECTS[what], {"spec": changes})) == ""


def test_an_unknown_field_is_refused_for_every_kind(kube: Kube, crds: None) -> None:
    first = {each["kind"]: each for each in OBJECTS.values()}
    assert set(first) >= NOT_HERE
    for kind, each in first.items():
        assert "unknown field" in verdict(kube, deep_merge(each, {"spec": {"noSuchField": 1}})), kind


CHART = """\
import pulumi
import pulumi_kubernetes as k8s

config = pulumi.Config()
k8s.helm.v4.Chart(
    "driver",
    chart=config.require("chart"),
    namespace=config.require("namespace"),
    values=config.require_object("values"),
    skip_await=True,
    skip_crds=True,
    opts=pulumi.ResourceOptions(provider=k8s.Provider("kubernetes", kubeconfig=config.require("kubeconfig"))),
)
"""


def test_the_dra_driver_s_own_chart_takes_our_values(engine: Engine, kube: Kube) -> None:
    """The chart as its release has it, rendered by Helm's library; its image cannot be had here, so nothing runs."""
    env = parse(STACKS["aws_nvlink_between_nodes"])
    (release,) = [r for r in releases.releases(env, resolve(env)) if r.name == "dra-driver-nvidia-gpu"]
    chart = gotools.fetch_module("dra-driver") / "deployments" / "helm" / release.name
    namespace = release.namespace or ""
    kube.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
    engine.program = CHART
    engine.up(
        {
            "chart": str(chart),
            "kubeconfig": str(kube.kubeconfig),
            "namespace": namespace,
            "values": dict(release.values),
        }
    )
    classes = {each["metadata"]["name"] for each in kube.get("deviceclasses")["items"]}
    assert classes == {"compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com"}
    (plugin,) = kube.get("daemonsets", "-n", namespace)["items"]
    pod = plugin["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["containers"]] == ["compute-domains"]
    assert pod["affinity"] == release.values["kubeletPlugin"]["affinity"]
    assert [each for each in release.values["kubeletPlugin"]["tolerations"] if each not in pod["tolerations"]] == []
