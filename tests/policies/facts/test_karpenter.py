"""NodePools and EC2NodeClasses as other teams write them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from policies.facts import NodePool, Taint
from policies.facts.stack import read
from policies.facts.wire import manifests

# The shape of a GPU pool beside its class, as platform repositories keep it.
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits: {cpu: 400, memory: 2000Gi, nvidia.com/gpu: 8}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
  template:
    metadata:
      labels: {workload: llm}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      startupTaints: [{key: ebs.csi.aws.com/agent-not-ready, effect: NoExecute}]
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-east-1b]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
"""
CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: KarpenterNodeRole
  instanceStorePolicy: RAID0
  blockDeviceMappings:
    - {deviceName: /dev/xvda, ebs: {volumeSize: 200Gi, volumeType: gp3}}
"""


def pool(*, requirements: list[dict[str, Any]] | None = None, node_class: Any = ..., **spec: Any) -> NodePool:
    """The pool, with requirements, parts of its spec or its class replaced."""
    given = yaml.safe_load(POOL)
    given["spec"].update(spec)
    if requirements is not None:
        given["spec"]["template"]["spec"]["requirements"] = requirements
    its_class = yaml.safe_load(CLASS) if node_class is ... else node_class
    (found,) = read(manifests([given, its_class])).pools
    return found


def needs(key: str, operator: str, *values: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def with_class(**spec: Any) -> dict[str, Any]:
    given = copy.deepcopy(yaml.safe_load(CLASS))
    given["spec"] = {**given["spec"], **spec}
    result: dict[str, Any] = given
    return result


def test_a_pool_by_family_has_the_family_s_types_as_far_as_its_limits_allow_one() -> None:
    got = pool()
    assert (got.name, got.kind, got.where) == ("gpu", "karpenter", "node pool 'gpu'")
    assert got.instance_types[0] == "g6.xlarge"
    assert "g6.48xlarge" in got.instance_types  # 192 CPUs and 8 GPUs are within the limits
    assert (got.gpu, got.gpu_mib, got.architecture) == ("L4", 23034, "x86_64")
    assert "g6.48xlarge" not in pool(limits={"cpu": 100}).instance_types


def test_the_largest_type_counts_for_room_since_karpenter_starts_what_fits() -> None:
    got = pool()
    assert (got.gpus_per_node, got.cpu_milli) == (8, 191450)


def test_the_most_nodes_are_those_of_the_smallest_type_within_the_limits() -> None:
    assert pool().max == 8
    assert pool(limits={}).max is None
    assert pool(limits={"cpu": 16}).max == 4


def test_spot_zones_labels_and_taints_are_read_and_startup_taints_are_not() -> None:
    got = pool()
    assert (got.spot, got.zones, got.zones_declared) == (True, ("us-east-1a", "us-east-1b"), True)
    assert got.taints == (Taint(key="nvidia.com/gpu", effect="NoSchedule"),)
    assert got.labels["workload"] == "llm"
    assert got.labels["karpenter.sh/nodepool"] == "gpu"
    assert got.labels["karpenter.k8s.aws/instance-gpu-name"] == "l4"


def test_without_a_capacity_type_nodes_are_on_demand() -> None:
    assert pool(requirements=[needs("node.kubernetes.io/instance-type", "In", "g6.xlarge")]).spot is False


def test_reserved_capacity_is_a_reservation_even_where_its_class_names_it_by_tags() -> None:
    reserved = [
        needs("node.kubernetes.io/instance-type", "In", "p5.48xlarge"),
        needs("karpenter.sh/capacity-type", "In", "reserved"),
    ]
    assert pool(requirements=reserved).reservation is not None
    named = with_class(capacityReservationSelectorTerms=[{"id": "cr-1"}])
    assert pool(requirements=reserved, node_class=named).reservation == "cr-1"


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (needs("karpenter.k8s.aws/instance-gpu-name", "In", "h100"), {"p5.4xlarge", "p5.48xlarge"}),
        (needs("karpenter.k8s.aws/instance-gpu-count", "Gt", "7"), None),
        (needs("karpenter.k8s.aws/instance-gpu-name", "In", "l40s"), None),
    ],
)
def test_types_are_chosen_by_the_labels_karpenter_gives(requirement: dict[str, Any], expected: set[str] | None) -> None:
    got = pool(requirements=[requirement], limits={})
    if expected is not None:
        assert set(got.instance_types) == expected
    assert got.gpus_per_node >= 1


def test_parts_of_an_l4_do_not_answer_to_gpu_labels_since_ec2_counts_none() -> None:
    got = pool(requirements=[needs("karpenter.k8s.aws/instance-gpu-name", "In", "l4")], limits={})
    assert not any(name.startswith(("g6f", "gr6f")) for name in got.instance_types)
    by_name = pool(requirements=[needs("node.kubernetes.io/instance-type", "In", "g6f.xlarge")], limits={})
    assert by_name.instance_types == ("g6f.xlarge",)


def test_operators_narrow_the_types() -> None:
    family = needs("karpenter.k8s.aws/instance-family", "In", "g6")
    sizes = "karpenter.k8s.aws/instance-size"
    assert set(pool(requirements=[family, needs(sizes, "In", "xlarge", "2xlarge")]).instance_types) == {
        "g6.xlarge",
        "g6.2xlarge",
    }
    assert "g6.xlarge" not in pool(requirements=[family, needs(sizes, "NotIn", "xlarge")]).instance_types
    assert pool(requirements=[family, needs("karpenter.k8s.aws/instance-cpu", "Lt", "5")]).instance_types == (
        "g6.xlarge",
    )


def test_a_type_named_by_hand_stays_though_the_catalog_lacks_it() -> None:
    got = pool(requirements=[needs("node.kubernetes.io/instance-type", "In", "p5.48xl")])
    assert (got.instance_types, got.gpu) == (("p5.48xl",), None)


def test_a_pool_of_several_gpus_names_none_and_a_pool_of_anything_no_types() -> None:
    mixed = pool(requirements=[needs("karpenter.k8s.aws/instance-category", "In", "g")], limits={})
    assert (mixed.gpu, mixed.instance_types) == (None, ())
    assert mixed.gpus_per_node == 8
    anything = pool(requirements=[needs("kubernetes.io/arch", "In", "amd64")], limits={})
    assert (anything.instance_types, anything.cpu_milli, anything.gpus_per_node) == ((), None, 0)


def test_a_static_pool_has_its_replicas() -> None:
    got = pool(replicas=2.0)
    assert (got.min, got.max) == (2, 2)


def test_the_class_tells_image_disk_and_hop_limit() -> None:
    got = pool()
    assert (got.ami_type, got.ami_id, got.driver_version) == ("AL2023_x86_64_NVIDIA", None, "580")
    assert (got.root_disk_gib, got.hop_limit) == (200, 1)
    assert got.nvme_gb == 250


def test_local_disks_are_no_room_without_raid0() -> None:
    assert pool(node_class=with_class(instanceStorePolicy=None)).nvme_gb is None


@pytest.mark.parametrize(
    ("terms", "ami"),
    [
        ([{"alias": "bottlerocket@v1.30.0"}], ("BOTTLEROCKET_x86_64_NVIDIA", None)),
        ([{"alias": "al2@latest"}], ("AL2_x86_64_GPU", None)),
        ([{"id": "ami-1"}], ("CUSTOM", "ami-1")),
        ([{"tags": {"team": "ml"}}], ("CUSTOM", None)),
    ],
)
def test_the_image_is_named_as_eks_names_it(terms: list[dict[str, Any]], ami: tuple[str, str | None]) -> None:
    got = pool(node_class=with_class(amiSelectorTerms=terms))
    assert (got.ami_type, got.ami_id) == ami


def test_of_bottlerocket_the_second_volume_counts_and_without_mappings_karpenter_s_own() -> None:
    two = [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "4Gi"}},
        {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "150Gi"}},
    ]
    alias = [{"alias": "bottlerocket@latest"}]
    assert pool(node_class=with_class(amiSelectorTerms=alias, blockDeviceMappings=two)).root_disk_gib == 150
    assert pool(node_class=with_class(blockDeviceMappings=[])).root_disk_gib == 20


def test_a_pool_whose_class_is_elsewhere_leaves_image_and_disk_open() -> None:
    got = pool(node_class=None)
    assert (got.ami_type, got.root_disk_gib, got.hop_limit) == (None, None, None)


def test_efa_is_what_the_class_declares_or_karpenter_adds_in_one_zone() -> None:
    p5 = [needs("node.kubernetes.io/instance-type", "In", "p5.48xlarge")]
    zone = needs("topology.kubernetes.io/zone", "In", "us-east-1a")
    assert pool(requirements=[*p5, zone]).efa_declared_interfaces == 32
    assert pool(requirements=p5).efa is False
    plain = with_class(networkInterfaces=[{"networkCardIndex": 0, "interfaceType": "interface"}])
    assert pool(requirements=[*p5, zone], node_class=plain).efa is False
