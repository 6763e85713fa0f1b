"""Whatever stands in a manifest, a rule finds something or nothing and never raises."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies import rules
from policies.facts import AwsResource, Object, Release, Stack
from policies.facts import ray as ray_facts
from policies.facts import vllm as vllm_facts

from .stacks import COMPLIANT, VERSIONS

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)

MANIFEST: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "chat", "namespace": "default", "labels": {"kai.scheduler/queue": "team"}, "annotations": {}},
    "spec": {
        "serveConfigV2": '{"applications": [{"name": "a", "import_path": "x:y", "route_prefix": "/", "args": {"llm_configs": [{"engine_kwargs": {}}]}}]}',
        "upgradeStrategy": {
            "type": "NewClusterWithIncrementalUpgrade",
            "clusterUpgradeOptions": {"stepSizePercent": 1},
        },
        "rayClusterConfig": {
            "rayVersion": "2.60.0",
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"version": "v2", "idleTimeoutSeconds": 60, "env": []},
            "authOptions": {"mode": "token"},
            "gcsFaultToleranceOptions": {"redisAddress": "r:1", "redisPassword": {"value": "x"}},
            "headGroupSpec": {
                "rayStartParams": {"num-cpus": "0"},
                "serviceType": "ClusterIP",
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "name": "h",
                                "image": "x:1",
                                "env": [{"name": "A", "value": "b"}],
                                "resources": {"limits": {"cpu": "1", "memory": "8Gi"}},
                            }
                        ]
                    }
                },
            },
            "workerGroupSpecs": [
                {
                    "groupName": "l4",
                    "minReplicas": 1,
                    "replicas": 1,
                    "maxReplicas": 2,
                    "numOfHosts": 1,
                    "labels": {},
                    "resources": {"GPU": "1"},
                    "template": {
                        "metadata": {"annotations": {"gpu-fraction": "0.5"}},
                        "spec": {
                            "nodeSelector": {"llm-serving/pool": "l4"},
                            "tolerations": [{"key": "a"}],
                            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
                            "containers": [
                                {
                                    "name": "w",
                                    "image": "x:1",
                                    "securityContext": {"capabilities": {"add": []}},
                                    "livenessProbe": {"httpGet": {"path": "/-/healthz", "port": 8000}},
                                    "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
                                    "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "8Gi"}},
                                }
                            ],
                        },
                    },
                }
            ],
        },
    },
}


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of every value in nested data."""
    found = [at] if at else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths(inner, (*at, index))
    return found


PATHS = [path for path in paths(MANIFEST) if path != ("kind",)]


def broken(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The manifest with something else at one path."""
    whole = copy.deepcopy(MANIFEST)
    target: Any = whole
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    return whole


def around(**over: Any) -> Stack:
    """A whole stack beside the odd part."""
    base = COMPLIANT["kai fraction"]()
    return Stack(
        **{
            "pools": base.pools,
            "queues": base.queues,
            "releases": base.releases,
            "versions": VERSIONS,
            "batch_scheduler": "kai",
            "complete": True,
            **over,
        }
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from(PATHS), value=JUNK)
def test_odd_values_anywhere_in_a_ray_service(path: tuple[Any, ...], value: Any) -> None:
    workload = ray_facts.read(broken(path, value))
    rules.check(around(workloads=(workload,)))
    rules.check(around(workloads=(workload,), complete=False, batch_scheduler="volcano", pools=()))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    values=st.dictionaries(
        st.sampled_from(
            [
                "driver",
                "toolkit",
                "devicePlugin",
                "mig",
                "daemonsets",
                "nfd",
                "node-feature-discovery",
                "batchScheduler",
                "featureGates",
                "watchNamespace",
                "binder",
                "global",
                "kaiConfig",
            ]
        ),
        JUNK,
    ),
    chart=st.sampled_from(["gpu-operator", "kai-scheduler", "kuberay-operator", "x"]),
)
def test_odd_helm_values(values: dict[str, Any], chart: str) -> None:
    odd = Release(
        name="x", where="release 'x'", chart=chart, version=None, repository=None, namespace=None, values=values
    )
    base = COMPLIANT["mig"]()
    rules.check(around(pools=base.pools, workloads=base.workloads, releases=(odd,)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(
        ["Service", "Ingress", "ConfigMap", "Pod", "Deployment", "CronJob", "HorizontalPodAutoscaler"]
    ),
    spec=JUNK,
    metadata=JUNK,
)
def test_odd_objects(kind: str, spec: Any, metadata: Any) -> None:
    item = Object(
        api_version="v1",
        kind=kind,
        name="x",
        namespace="default",
        where="x",
        manifest={"spec": spec, "metadata": metadata, "data": spec},
    )
    rules.check(
        around(
            objects=(item,), workloads=(vllm_facts.read({"kind": "Deployment", "spec": spec, "metadata": metadata}),)
        )
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    type_=st.sampled_from(
        [
            "aws:ec2/securityGroup:SecurityGroup",
            "aws:ec2/launchTemplate:LaunchTemplate",
            "aws:eks/cluster:Cluster",
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        ]
    ),
    props=st.dictionaries(
        st.sampled_from(["ingress", "egress", "vpcConfig", "metadataOptions", "networkInterfaces", "fromPort"]), JUNK
    ),
)
def test_odd_aws_resources(type_: str, props: dict[str, Any]) -> None:
    rules.check(Stack(aws=(AwsResource(type=type_, name="x", where="x", props=props),)))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_a_missing_part_raises_nothing(path: tuple[Any, ...]) -> None:
    rules.check(around(workloads=(ray_facts.read(broken(path, None)),)))
