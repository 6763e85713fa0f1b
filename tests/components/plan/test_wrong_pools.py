"""Node pools as people get them wrong: each is refused, or warned of, by the name of the pool and with the mend. And odd ones that work."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from components.config import ConfigError, parse
from components.plan import assemble

Values = dict[str, Any]
BLOCK = {"id": "cr-0123456789abcdef0", "kind": "capacity_block"}
ODCR = {"id": "cr-0123456789abcdef1", "kind": "on_demand"}
P5 = {"instance_types": ["p5.48xlarge"]}
KARPENTER = {"kind": "karpenter", "instance_types": ["g6.2xlarge", "g6.4xlarge"], "ami_release": "v20261101"}
MIG = {"strategy": "mig", "mig_profile": "1g.10gb"}
BASE: Values = {
    "cluster": {"kind": "aws", "region": "us-east-1"},
    "image": "registry.example.com/llm-serve",
    "node_pools": {
        "core": {"instance_types": ["m7i.xlarge"], "min": 2, "max": 2},
        "gpu": {"instance_types": ["g6.2xlarge"], "max": 3},
    },
    "services": {
        "chat": {
            "pool": "gpu",
            "models": {"qwen": {"model": "Qwen/Qwen2.5-7B-Instruct", "engine_args": {"max_model_len": 8192}}},
        }
    },
    "policy": {"head-fault-tolerance": "off", "probe-single-replica": "off"},
}


def with_pools(pools: Values, **more: Values) -> Values:
    """The base with fields of its pools changed, new pools added, and None for a pool that is left out."""
    values = copy.deepcopy(BASE)
    for name, fields in pools.items():
        if fields is None:
            del values["node_pools"][name]
        else:
            values["node_pools"][name] = {**values["node_pools"].get(name, {}), **fields}
    for key, fields in more.items():
        values[key] = {**values.get(key, {}), **fields}
    return values


def gpu(**fields: Any) -> Values:
    return with_pools({"gpu": fields})


def found(values: Values, severity: str) -> list[str]:
    """Sentences about this config, of one severity."""
    try:
        env = parse(values)
    except ConfigError as error:
        return error.problems if severity == "error" else []
    return [each.sentence() for each in assemble(env, "test").plan.findings if each.severity == severity]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            gpu(instance_types=["p5.48xl"]),
            "node pool 'gpu': instance type 'p5.48xl' is not in the catalog; did you mean 'p5.48xlarge'",
        ),
        (
            gpu(instance_types=["G6.2xlarge"]),
            "node pool 'gpu': instance type 'G6.2xlarge' is none: EC2 writes 'g6.2xlarge'",
        ),
        (gpu(instance_types=["inf2.xlarge"]), "node pool 'gpu': instance type 'inf2.xlarge' has no NVIDIA GPU"),
        (gpu(instance_types=["m7i.2xlarge"]), "it asks for a GPU and node pool 'gpu' has none"),
        (gpu(efa=True), "node pool 'gpu': 'g6.2xlarge' has no Elastic Fabric Adapter; leave efa out"),
        (
            gpu(**P5, efa=True, zones=["us-east-1a", "us-east-1b"]),
            "node pool 'gpu': EFA nodes are in a cluster placement group",
        ),
        (
            gpu(**P5, reservation=BLOCK, zones=["us-east-1a", "us-east-1b"]),
            "node pool 'gpu': a capacity block lies in one zone and 2 are given",
        ),
        (
            gpu(instance_types=["p5.48xlarge", "p5e.48xlarge"], reservation=ODCR, zones=["us-east-1a"]),
            "node pool 'gpu': a capacity reservation holds one instance type and 2 are given",
        ),
        (
            gpu(**P5, reservation=BLOCK, zones=["us-east-1a"], capacity="spot"),
            "node pool 'gpu': it is spot and names a reservation",
        ),
        (
            gpu(instance_types=["p6e-gb200.36xlarge"]),
            "node pool 'gpu': 'p6e-gb200.36xlarge' is sold through Capacity Blocks only",
        ),
        (
            with_pools(
                {"gpu": {"reservation": ODCR}, "other": {"instance_types": ["g5.2xlarge"], "reservation": ODCR}}
            ),
            "node pool 'other': it names reservation cr-0123456789abcdef1, as node pool 'gpu' does",
        ),
        (
            gpu(sharing={"strategy": "mig", "mig_profile": "1g.5gb"}),
            "node pool 'gpu': its L4 GPUs cannot be cut by MIG",
        ),
        (gpu(min=4, max=2), "node pool 'gpu': min 4 is more than max 2; set max to at least 4"),
        (gpu(desired=9), "node pool 'gpu': desired 9 is outside min 0 and max 3"),
        (gpu(max=0), "node pool 'gpu': max is 0 and services are sent to it"),
        (gpu(zones=["us-west-2a"]), "node pool 'gpu': zone 'us-west-2a' has no subnet of the cluster"),
        (
            gpu(ami="AL2023_ARM_64_NVIDIA"),
            "node pool 'gpu': g6.2xlarge is x86_64 and AMI type AL2023_ARM_64_NVIDIA is arm64",
        ),
        (gpu(ami="AL2023_x86_64_STANDARD"), "no NVIDIA driver and runtime"),
        (gpu(ami="CUSTOM"), "node pool 'gpu': ami is CUSTOM and no AMI id is given"),
        (
            gpu(ami_release="v20261101"),
            "node pool 'gpu': ami_release 'v20261101' is no release of AL2023_x86_64_NVIDIA",
        ),
        (gpu(driver_version="595"), "node pool 'gpu': driver_version is a statement about an image"),
        (gpu(limits={"nvidia.com/gpu": 4}), "node pool 'gpu': limits are Karpenter's"),
        (
            gpu(labels={"node-role.kubernetes.io/gpu": ""}),
            "node pool 'gpu': nodes may not give themselves 'node-role.kubernetes.io/gpu'",
        ),
        (gpu(labels={"llm-serving/pool": "mine"}), "node pool 'gpu': label llm-serving/pool is set by the stack"),
        (gpu(placement_group="theirs"), "node pool 'gpu': placement_group 'theirs' lies in one zone"),
        (
            with_pools({"inference-pool-of-the-team-for-summaries": {"instance_types": ["g6.xlarge"]}}),
            "and may have 36",
        ),
        (gpu(**KARPENTER, min=1), "node pool 'gpu': min is 1 and Karpenter keeps no minimum"),
        (gpu(**KARPENTER, desired=1), "node pool 'gpu': desired belongs to managed node groups"),
        (gpu(**KARPENTER, limits={"nvidia.com/gpus": 4}), "did you mean 'nvidia.com/gpu'?"),
        (
            with_pools({"gpu": KARPENTER}, software={"autoscaler": {"kind": "cluster_autoscaler"}}),
            "node pool 'gpu': it is a Karpenter pool and the node autoscaler is cluster_autoscaler",
        ),
        (
            with_pools({"more": KARPENTER}),
            "node pool 'gpu': services need 1 of its nodes at rest, it starts with 0, and the node autoscaler is Karpenter",
        ),
        (with_pools({"core": None}), "node_pools: no node is there for the cluster's own pods"),
        (with_pools({"core": {"min": 0}}), "'core' keeps no node (min 0)"),
        (with_pools({"core": {"taints": [{"key": "dedicated"}]}}), "'core' is tainted dedicated"),
        (
            with_pools({"core": {"capacity": "spot", "instance_types": ["m7i.xlarge", "m6i.xlarge"]}}),
            "head: it runs on spot pool 'core'",
        ),
        (with_pools({"core": {"instance_types": ["m7i.large"]}}), "so the pod fits no node of node pool 'core'"),
        (
            {**with_pools({}), "cluster": {"kind": "existing"}},
            "node pool 'gpu': it is made of EC2 nodes and the cluster is kind: existing",
        ),
        (
            with_pools({}, cluster={"kubernetes_version": "1.29"}),
            "cluster: EKS makes no cluster of Kubernetes 1.29 any more",
        ),
    ],
)
def test_a_wrong_pool_is_refused_by_name_with_the_mend(values: Values, says: str) -> None:
    sentences = found(values, "error")
    assert any(says in each for each in sentences), sentences


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (gpu(taints=[]), "node pool 'gpu': its GPU nodes have no taint"),
        (gpu(capacity="spot"), "node pool 'gpu': spot capacity of g6.2xlarge alone"),
        (gpu(instance_types=["g6.2xlarge", "g5.2xlarge"]), "node pool 'gpu': its types have different GPUs (A10G, L4)"),
        (gpu(**P5, reservation=ODCR), "node pool 'gpu': its reservation lies in one zone, which is not stated"),
        (gpu(reservation=BLOCK, zones=["us-east-1a"]), "Capacity Blocks are offered for P and Trn instances"),
        (with_pools({"core": {"instance_types": ["m7g.xlarge"]}}), "unless it is built for both"),
        (with_pools({"core": {"max": 4}, "gpu": KARPENTER}), "node pool 'core': it has 2 nodes and max 4"),
        (gpu(**{**KARPENTER, "ami_release": None}), "node pool 'gpu': its image is the latest"),
        (
            with_pools({"gpu": {"max": 9}}, cluster={"network": {"cidr": "10.0.0.0/24"}}),
            "cluster.network: 177 addresses in the private subnets",
        ),
        (
            with_pools({}, cluster={"public_endpoint_cidrs": ["0.0.0.0/0"]}),
            "cluster: the Kubernetes API is open to the whole internet",
        ),
    ],
)
def test_a_pool_that_may_fail_is_warned_of(values: Values, says: str) -> None:
    assert found(values, "error") == []
    sentences = found(values, "warning")
    assert any(says in each for each in sentences), sentences


@pytest.mark.parametrize(
    "values",
    [
        BASE,
        gpu(**P5, reservation=ODCR, zones=["us-east-1b"], placement_group="theirs", efa=True, min=1),
        gpu(kind="karpenter", **P5, reservation=BLOCK, zones=["us-east-1a"]),
        gpu(instance_types=["g6.2xlarge", "g6.4xlarge", "g6.8xlarge"], capacity="spot"),
        gpu(**P5, sharing={**MIG, "mig_profile": "3g.40gb"}, max=1),
        gpu(**P5, sharing={"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "3g.40gb"}, max=1),
        gpu(
            instance_types=["g7.2xlarge"], ami_id="ami-0123456789abcdef0", driver_version="595.71.05", root_disk_gib=200
        ),
        gpu(ami_release="1.35.2-20261101", driver_version="580"),
        gpu(ami="BOTTLEROCKET_x86_64_NVIDIA", ami_release="1.54.0-5ed15786"),
        gpu(labels={"node.kubernetes.io/team": "a", "example.com/gpu": "l4"}, zones=["us-east-1c"]),
        gpu(taints=[{"key": "nvidia.com/gpu", "value": "true"}, {"key": "team", "value": "a", "effect": "NoExecute"}]),
        with_pools({"gpu": {"min": 1, "max": 1}}, software={"autoscaler": {"kind": "none"}}),
        with_pools(
            {
                "core": {"taints": [{"key": "CriticalAddonsOnly", "value": "true"}]},
                "apps": {"instance_types": ["m7i.xlarge"], "min": 1},
            }
        ),
        with_pools(
            {
                "batch": {"kind": "karpenter", "instance_types": ["m7g.4xlarge"], "capacity": "spot", "max": 8},
                "gpu": KARPENTER,
            }
        ),
        with_pools(
            {"core": None},
            cluster={
                "create": False,
                "name": "there",
                "network": {
                    "vpc_id": "vpc-0123456789abcdef0",
                    "private_subnet_ids": ["subnet-00000000000000001", "subnet-00000000000000002"],
                    "zones": ["us-east-1a", "us-east-1b"],
                },
            },
        ),
        {
            **with_pools({"core": {"kind": "existing", "cpu": 7, "memory_gib": 28}}),
            "node_pools": {
                "core": {"kind": "existing", "cpu": 7, "memory_gib": 28, "min": 1, "max": 2},
                "gpu": {"kind": "existing", "gpu": "L4", "gpus_per_node": 1, "cpu": 7, "memory_gib": 28, "max": 2},
            },
            "cluster": {"kind": "existing"},
        },
        with_pools({}, cluster={"region": "ap-southeast-7", "kubernetes_version": "1.36"}),
    ],
)
def test_a_pool_that_is_unusual_and_right_is_not_refused(values: Values) -> None:
    assert found(values, "error") == []
