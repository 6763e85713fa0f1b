"""Every field of an environment beside its services is read: pools that are there, software, queues, versions, ceilings.

Services have their own test (test_service_fields.py), and so has what AWS makes (test_aws_fields.py).
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from components import cluster
from components.config import Environment, deep_merge, parse
from components.manifests import releases
from components.plan import assemble, serial
from tests.components import fields
from tests.components.environments import WHOLE_GPU
from tests.components.program import run

Values = dict[str, Any]
LEAVES = dict(fields.leaves(Environment, skip=("services",)))
# The connection of the cluster has the test below; a discriminator only chooses the type.
ELSEWHERE = {"cluster.kind", "cluster.kubeconfig", "cluster.context", "node_pools.other.kind"}
# Read by the component that installs KubeRay without a chart: see test_cluster_software.py.
ELSEWHERE |= {"software.kuberay.directory", "software.kuberay.source"}

L4: Values = {"kind": "existing", "gpu": "L4", "gpus_per_node": 1, "cpu": 7, "memory_gib": 28, "max": 4}
# A pool and a queue called `other`, with the service on them: what is varied is in use.
BASE: Values = deep_merge(
    WHOLE_GPU,
    {
        "node_pools": {"other": {**L4, "driver_version": "580.95.05"}},
        "queues": {"other": {"gpu": {"quota": 2}}},
        "services": {"chat": {"pool": "other", "queue": "other"}},
    },
)


def software(name: str, **more: Any) -> Values:
    return {"software": {name: {"install": True, **more}}}


AWS: Values = {
    "cluster": {"kind": "aws", "region": "us-east-1", "kubernetes_version": None},
    "node_pools": {"l4": None, "other": None, "aws": {"instance_types": ["g6.2xlarge"], "max": 2}},
    "services": {"chat": {"pool": "aws"}},
}
SLICED: Values = {"sharing": {"strategy": "time_slicing", "replicas": 2}}
VOLCANO: Values = {"software": {"batch_scheduler": "volcano"}}
START: dict[str, Values] = {
    "queues": VOLCANO,
    "queues.other.gpu.guarantee": deep_merge(VOLCANO, {"queues": {"other": {"gpu": {"quota": 9}}}}),
    "queues.other.cpu.guarantee": deep_merge(VOLCANO, {"queues": {"other": {"cpu": {"quota": 9}}}}),
    "queues.other.memory_gib.guarantee": deep_merge(VOLCANO, {"queues": {"other": {"memory_gib": {"quota": 9}}}}),
    "queues.other.cpu.weight": {"software": {"batch_scheduler": "kai"}},
    "queues.other.memory_gib.weight": {"software": {"batch_scheduler": "kai"}},
    "node_pools.other.sharing": {"node_pools": {"other": SLICED}},
    "node_pools.other.sharing.mig_strategy": {"node_pools": {"other": {"gpu": "H100", "sharing": {"strategy": "mig", "mig_profile": "1g.10gb"}}}},
    "node_pools.other.sharing.mig_profile": {"node_pools": {"other": {"gpu": "H100", "sharing": {"strategy": "mig", "mig_profile": "1g.10gb"}}}},
    "node_pools.other.efa": {"node_pools": {"other": {"max": 8}}, "services": {"chat": {"models": {"qwen": {"parallel": {"pipeline": 2}}}}}},
    "software.kai": {"software": {"batch_scheduler": "kai"}},
    "software.volcano": VOLCANO,
    "software.vgpu_plugin": deep_merge(VOLCANO, software("vgpu_plugin")),
    "software.autoscaler": deep_merge(AWS, software("autoscaler", kind="cluster_autoscaler")),
    "software.dra_driver": software("dra_driver"),
    "software.efa_plugin": software("efa_plugin"),
    "software.load_balancer_controller": software("load_balancer_controller"),
    "software.monitoring": software("monitoring"),
    "software.keda": software("keda"),
    "software.gateway": software("gateway", class_name="envoy"),
    "software.gateway.class_name": deep_merge(
        software("gateway", class_name="envoy"), {"services": {"chat": {"upgrade": {"strategy": "incremental"}}}}
    ),
    "budget.vcpus": AWS,
    "cluster.kubernetes_version": {"software": {"batch_scheduler": "kai"}},
    "versions.cuda": {"node_pools": {"other": {"driver_version": "535.104.05"}}},
    "node_pools.other.labels": {"services": {"chat": {"worker": {"node_selector": {"other": "1"}}}}},
    "node_pools.other.spot": {"services": {"chat": {"head": {"pool": "other"}}}},
}  # fmt: skip
VALUE: dict[str, Any] = {
    "budget.gpus": {"L4": 1},
    "budget.usd_per_hour": 0.1,
    "budget.vcpus": {"G": 1},
    "cluster.kubernetes_version": "1.22",
    "image": "registry.example.com/other",
    "models": {"Qwen/Qwen2.5-7B-Instruct": {"layers": 1}},
    "policy": {"probe-single-replica": "error"},
    "node_pools.other.architecture": "arm64",
    "node_pools.other.cpu": 3,
    "node_pools.other.memory_gib": 9,
    "node_pools.other.driver_version": "470.57.02",
    "node_pools.other.gpu": "A10G",
    "software.autoscaler.kind": "karpenter",
    "node_pools.other.node_selector": {"a": "b"},
    "node_pools.other.sharing.mig_profile": "2g.20gb",
    "node_pools.other.taints": [{"key": "a"}],
    "queues.other.parent": "parent",
    "software.gateway.class_name": "other",
    "software.kuberay.watch_namespaces": ["default"],
    "software.kuberay.feature_gates": {"RayCronJob": True},
    "versions.cuda": "12.1",
    "versions.python": "3.13",
    "versions.ray": "2.55.0",
    "versions.vllm": "0.20.0",
}


@functools.lru_cache
def _effect(text: str) -> tuple[str, str, str, str]:
    env = parse(deep_merge(BASE, json.loads(text)))
    planned = assemble(env)
    queues = releases.queues(env, planned.pools)
    return serial.dumps(planned.plan), repr(planned.manifests), repr(queues), repr(planned.stack.releases)


def effect(changes: Values) -> tuple[str, str, str, str]:
    """(figures and findings, objects of services, queues, releases) of the base with changes."""
    return _effect(json.dumps(changes))


@pytest.mark.parametrize("path", sorted(set(LEAVES) - ELSEWHERE))
def test_a_field_that_is_varied_changes_an_object_a_release_or_the_plan(path: str) -> None:
    before = fields.longest_start(START, path)
    changed = []
    for value in fields.others(path, LEAVES[path], VALUE):
        for name in reversed(path.split(".")):
            value = {name: value}
        changed.append(effect(deep_merge(before, value)))
    assert any(each != effect(before) for each in changed)


def test_the_cluster_is_the_one_of_the_kubeconfig_and_context_that_are_given(tmp_path: Path) -> None:
    def provider(name: str, context: str) -> dict[str, Any]:
        (tmp_path / name).write_text("")
        env = parse(deep_merge(BASE, {"cluster": {"kubeconfig": str(tmp_path / name), "context": context}}))
        return run(lambda: cluster.build(env, ())).one("pulumi:providers:kubernetes").inputs

    assert provider("a", "x") != provider("b", "x")
    assert provider("a", "x") != provider("a", "y")
