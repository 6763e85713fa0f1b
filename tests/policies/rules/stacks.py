"""Stacks that no rule objects to, built from facts alone; tests break one thing in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from policies import rules
from policies.facts import (
    Engine,
    NodePool,
    PodGroup,
    Queue,
    Release,
    ServeApp,
    Sharing,
    Stack,
    Taint,
    Toleration,
    Versions,
    Workload,
)

IMAGE = "registry.example.com/llm-serve:ray2.60.0-1"
GPU = "nvidia.com/gpu"
GPU_TAINT = Taint(key=GPU, value="present")
TOLERATES_GPU = (Toleration(key=GPU, operator="Exists", effect="NoSchedule"),)
GPU_OPERATOR_VALUES: dict[str, Any] = {"driver": {"enabled": False}, "toolkit": {"enabled": False}}


def core(**over: Any) -> NodePool:
    """A CPU pool of m7i.2xlarge."""
    given: dict[str, Any] = {
        "name": "core",
        "where": "node pool 'core'",
        "kind": "managed",
        "instance_types": ("m7i.2xlarge",),
        "cpu_milli": 7910,
        "memory_mib": 29317,
        "min": 2,
        "max": 6,
        "desired": 2,
        "ami_type": "AL2023_x86_64_STANDARD",
        "labels": {"llm-serving/pool": "core"},
        "root_disk_gib": 50,
        "nvme_gb": 0,
        "price_usd_hour": 0.4,
    }
    return NodePool(**{**given, **over})


def l4(**over: Any) -> NodePool:
    """A GPU pool of g6.2xlarge, one L4 each."""
    name = over.get("name", "l4")
    given: dict[str, Any] = {
        "name": name,
        "where": f"node pool '{name}'",
        "kind": "managed",
        "instance_types": ("g6.2xlarge",),
        "gpu": "L4",
        "gpus_per_node": 1,
        "gpu_mib": 23034,
        "cpu_milli": 7910,
        "memory_mib": 29317,
        "min": 0,
        "max": 8,
        "desired": 0,
        "ami_type": "AL2023_x86_64_NVIDIA",
        "driver_version": "580",
        "taints": (GPU_TAINT,),
        "labels": {"llm-serving/pool": name},
        "root_disk_gib": 100,
        "nvme_gb": 450,
        "hop_limit": 1,
        "price_usd_hour": 0.9776,
    }
    return NodePool(**{**given, **over})


def h100(**over: Any) -> NodePool:
    """An EFA pool of p5.48xlarge, eight H100 each, in one zone, on a reservation."""
    given: dict[str, Any] = {
        "name": "h100",
        "where": "node pool 'h100'",
        "instance_types": ("p5.48xlarge",),
        "gpu": "H100",
        "gpus_per_node": 8,
        "gpu_mib": 81559,
        "cpu_milli": 191450,
        "memory_mib": 1938410,
        "labels": {"llm-serving/pool": "h100"},
        "zones": ("us-east-1b",),
        "zones_declared": True,
        "reservation": "cr-0a1b2c3d4e5f60718",
        "reservation_kind": "on_demand",
        "efa": True,
        "efa_declared_interfaces": 32,
        "price_usd_hour": 55.04,
    }
    return l4(**{**given, **over})


def head(**over: Any) -> PodGroup:
    """The head of service 'chat' on the CPU pool."""
    given: dict[str, Any] = {
        "name": "head",
        "where": "service 'chat': head",
        "head": True,
        "image": IMAGE,
        "cpu_milli": 2000,
        "memory_mib": 8192,
        "limits": {"cpu": "2", "memory": "8Gi"},
        "ray_start_params": {"num-cpus": "0", "num-gpus": "0"},
        "env": {"NVIDIA_VISIBLE_DEVICES": "void"},
        "annotations": {
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "karpenter.sh/do-not-disrupt": "true",
        },
        "node_selector": {"llm-serving/pool": "core"},
    }
    return PodGroup(**{**given, **over})


def workers(**over: Any) -> PodGroup:
    """Two to four worker pods of service 'chat', one L4 each."""
    name = over.get("name", "l4")
    given: dict[str, Any] = {
        "name": name,
        "where": f"service 'chat': worker group '{name}'",
        "min": 2,
        "replicas": 2,
        "max": 2,
        "image": IMAGE,
        "cpu_milli": 7000,
        "cpu_limit_milli": 7000,
        "memory_mib": 26624,
        "limits": {"cpu": "7", "memory": "26Gi", GPU: "1"},
        "gpu_resource": GPU,
        "gpus": 1.0,
        "gpu_containers": 1,
        "resources": {"CPU": "7", "GPU": "1"},
        "node_selector": {"llm-serving/pool": "l4"},
        "tolerations": TOLERATES_GPU,
    }
    return PodGroup(**{**given, **over})


def engine(**over: Any) -> Engine:
    """Two fixed replicas of an 8B model on one GPU each."""
    given: dict[str, Any] = {
        "where": "service 'chat': model 'llama'",
        "model_id": "llama",
        "source": "meta-llama/Llama-3.1-8B-Instruct",
        "catalog_id": "meta-llama/Llama-3.1-8B-Instruct",
        "engine_args": {"max_model_len": 8192},
        "bundles": ({"GPU": 1, "CPU": 1},),
        "bundles_form": "bundle_per_worker",
        "min_replicas": 2,
        "max_replicas": 2,
        "groups": ("l4",),
    }
    return Engine(**{**given, **over})


APP = ServeApp(name="chat", import_path="serve_apps.openai_chat.app:build", route_prefix="/", args={})


def service(**over: Any) -> Workload:
    """RayService 'chat' with GCS fault tolerance and token authentication."""
    given: dict[str, Any] = {
        "kind": "RayService",
        "name": "chat",
        "namespace": "default",
        "where": "service 'chat'",
        "ray_version": "2.60.0",
        "vllm_version": "0.29.0",
        "head": head(),
        "groups": (workers(),),
        "engines": (engine(),),
        "apps": (APP,),
        "upgrade_type": "NewCluster",
        "fault_tolerance": {"redisAddress": "redis.cache:6379"},
        "auth_mode": "token",
        "ready_timeout_seconds": 900,
    }
    return Workload(**{**given, **over})


def release(chart: str, version: str, values: dict[str, Any] | None = None, **over: Any) -> Release:
    """An atomic release with a timeout."""
    given: dict[str, Any] = {
        "name": chart,
        "where": f"release '{chart}'",
        "chart": chart,
        "version": version,
        "repository": "https://charts.example.com",
        "namespace": chart,
        "values": values or {},
        "atomic": True,
        "timeout_seconds": 900,
    }
    return Release(**{**given, **over})


def gpu_operator(**values: Any) -> Release:
    """GPU Operator as EKS accelerated AMIs need it."""
    return release("gpu-operator", "v26.7.0", {**GPU_OPERATOR_VALUES, **values})


def kuberay(**values: Any) -> Release:
    """KubeRay operator."""
    return release("kuberay-operator", "1.7.0", values)


VERSIONS = Versions(
    kubernetes="1.35", ray="2.60.0", vllm="0.29.0", kuberay="1.7.0", gpu_operator="26.7.0", karpenter="1.14.1"
)


def stack(**over: Any) -> Stack:
    """An AWS environment with service 'chat' on L4 nodes and the cluster-autoscaler."""
    given: dict[str, Any] = {
        "workloads": (service(),),
        "pools": (core(), l4()),
        "releases": (gpu_operator(), kuberay()),
        "versions": VERSIONS,
        "batch_scheduler": "none",
        "autoscaler": "cluster_autoscaler",
        "cluster": "aws",
        "zones": ("us-east-1a", "us-east-1b", "us-east-1c"),
        "complete": True,
        "cluster_made": True,
    }
    return Stack(**{**given, **over})


def kai_queues(**over: Any) -> tuple[Queue, ...]:
    """A parent and a leaf with eight GPUs."""
    leaf: dict[str, Any] = {
        "name": "team",
        "where": "queue 'team'",
        "scheduler": "kai",
        "parent": "serving",
        "gpu_quota": 8,
        "gpu_limit": 8,
        "cpu_quota": -1,
        "cpu_limit": -1,
        "memory_quota": -1,
        "memory_limit": -1,
    }
    parent = replace(Queue(**leaf), name="serving", where="queue 'serving'", parent=None)
    return (parent, Queue(**{**leaf, **over}))


KAI_LABELS = {"kai.scheduler/queue": "team", "ray.io/priority-class-name": "inference"}


def kai_stack(**over: Any) -> Stack:
    """The same service placed by KAI, in a leaf queue."""
    given: dict[str, Any] = {
        "workloads": (service(labels=KAI_LABELS),),
        "queues": kai_queues(),
        "batch_scheduler": "kai",
        "gpu_sharing_enabled": True,
        "versions": replace(VERSIONS, kai="0.17.0"),
        "releases": (
            gpu_operator(),
            kuberay(batchScheduler={"name": "kai-scheduler"}),
            release(
                "kai-scheduler", "v0.17.0", {"global": {"gpuSharing": True, "clusterAutoscaling": True}}, atomic=False
            ),
        ),
    }
    return stack(**{**given, **over})


def volcano_stack(**over: Any) -> Stack:
    """The same service placed by Volcano."""
    queue = Queue(
        name="team", where="queue 'team'", scheduler="volcano", gpu_quota=4, gpu_limit=8, cpu_limit=-1, memory_limit=-1
    )
    given: dict[str, Any] = {
        "workloads": (service(labels={"volcano.sh/queue-name": "team"}),),
        "queues": (queue,),
        "batch_scheduler": "volcano",
        "versions": replace(VERSIONS, volcano="1.15.1"),
        "releases": (
            gpu_operator(),
            kuberay(batchScheduler={"name": "volcano"}),
            release("volcano", "1.15.1"),
        ),
    }
    return stack(**{**given, **over})


def h100_workers(**over: Any) -> PodGroup:
    """Pods of eight H100 with EFA."""
    given: dict[str, Any] = {
        "name": "h100",
        "hosts": 2,
        "min": 1,
        "replicas": 1,
        "max": 1,
        "cpu_milli": 180_000,
        "memory_mib": 1_800_000,
        "limits": {GPU: "8", "vpc.amazonaws.com/efa": "32"},
        "gpus": 8.0,
        "resources": {"CPU": "180", "GPU": "8"},
        "node_selector": {"llm-serving/pool": "h100"},
    }
    return workers(**{**given, **over})


def two_node_service(**over: Any) -> Workload:
    """One engine over two nodes of eight GPUs: tensor parallel 8, pipeline parallel 2, with a second replica."""
    given: dict[str, Any] = {
        "groups": (h100_workers(replicas=2, min=2, max=2),),
        "engines": (engine(tensor=8, pipeline=2, bundles=({"GPU": 1},) * 16, groups=("h100",)),),
        "upgrade_type": "None",
    }
    return service(**{**given, **over})


def two_node_stack(**over: Any) -> Stack:
    """Engines over several nodes with EFA."""
    given: dict[str, Any] = {
        "workloads": (two_node_service(),),
        "pools": (core(), h100(max=4)),
        "releases": (gpu_operator(), kuberay(), release("aws-efa-k8s-device-plugin", "v0.5.30")),
    }
    return stack(**{**given, **over})


def karpenter_pool(**over: Any) -> NodePool:
    """A Karpenter pool of L4 nodes of two sizes."""
    given: dict[str, Any] = {
        "kind": "karpenter",
        "instance_types": ("g6.2xlarge", "g6.4xlarge"),
        "limits": {"cpu": "128", "memory": "512Gi", GPU: 8},
        "desired": None,
        "ami_release": "v20261101",
    }
    return l4(**{**given, **over})


def karpenter_stack(**over: Any) -> Stack:
    """The same service on Karpenter nodes."""
    given: dict[str, Any] = {
        "pools": (core(max=2), karpenter_pool()),  # nobody would add nodes to a group beside Karpenter
        "autoscaler": "karpenter",
        "releases": (gpu_operator(), kuberay(), release("karpenter", "1.14.1")),
    }
    return stack(**{**given, **over})


def mig_pool(**over: Any) -> NodePool:
    """H100 nodes cut into 1g.10gb, advertised by profile."""
    sharing = Sharing(strategy="mig", mig_strategy="mixed", mig_profile="1g.10gb")
    return h100(**{"efa": False, "min": 1, "desired": 1, "sharing": sharing, **over})


def mig_workers(**over: Any) -> PodGroup:
    """Pods of one 1g.10gb slice."""
    given: dict[str, Any] = {
        "name": "h100",
        "limits": {"nvidia.com/mig-1g.10gb": "1"},
        "gpu_resource": "nvidia.com/mig-1g.10gb",
        "node_selector": {"llm-serving/pool": "h100"},
    }
    return workers(**{**given, **over})


def mig_stack(**over: Any) -> Stack:
    """The same service on MIG slices."""
    given: dict[str, Any] = {
        "workloads": (service(groups=(mig_workers(),), engines=(engine(groups=("h100",)),)),),
        "pools": (core(), mig_pool()),
        "releases": (gpu_operator(mig={"strategy": "mixed"}), kuberay()),
    }
    return stack(**{**given, **over})


def sliced_pool(**over: Any) -> NodePool:
    """L4 nodes whose GPU is time-sliced in four."""
    labels = {"llm-serving/pool": "l4", "nvidia.com/device-plugin.config": "l4"}
    return l4(**{"labels": labels, "sharing": Sharing(strategy="time_slicing", replicas=4), **over})


SLICED_CONFIG: dict[str, Any] = {
    "create": True,
    "name": "device-plugin",
    "data": {
        "l4": "version: v1\nsharing:\n  timeSlicing:\n    failRequestsGreaterThanOne: true\n    resources: [{name: nvidia.com/gpu, replicas: 4}]\n"
    },
}


def sliced_stack(**over: Any) -> Stack:
    """The same service on time-sliced GPUs."""
    given: dict[str, Any] = {
        "workloads": (service(groups=(workers(cpu_milli=1500, memory_mib=6000),)),),
        "pools": (core(), sliced_pool()),
        "releases": (gpu_operator(devicePlugin={"config": SLICED_CONFIG}), kuberay()),
    }
    return stack(**{**given, **over})


def fraction_stack(**over: Any) -> Stack:
    """The same service on halves of a GPU by KAI."""
    half = workers(
        limits={"cpu": "3", "memory": "12Gi"},
        gpu_resource=None,
        gpus=0.0,
        gpu_containers=0,
        cpu_milli=3000,
        memory_mib=12288,
        annotations={"gpu-fraction": "0.5"},
    )
    given: dict[str, Any] = {
        "workloads": (service(labels=KAI_LABELS, groups=(half,)),),
        "pools": (core(), l4(sharing=Sharing(strategy="kai"))),
    }
    return kai_stack(**{**given, **over})


COMPLIANT = {
    "whole": stack,
    "kai": kai_stack,
    "volcano": volcano_stack,
    "two nodes": two_node_stack,
    "karpenter": karpenter_stack,
    "mig": mig_stack,
    "time slicing": sliced_stack,
    "kai fraction": fraction_stack,
}

MODULES = (
    rules.head_pod,
    rules.placement,
    rules.placement_gpu,
    rules.architecture,
    rules.capacity,
    rules.fragmentation,
    rules.budget,
    rules.pool_types,
    rules.pool_image,
    rules.pool_shape,
    rules.pool_reservation,
    rules.pool_labels,
    rules.pool_disk,
    rules.system_nodes,
    rules.karpenter,
    rules.gpu_operator,
    rules.device_plugin,
    rules.sharing,
    rules.sharing_nodes,
    rules.shared_pods,
    rules.kai,
    rules.gang,
    rules.replicas,
    rules.queues,
    rules.queue_shares,
    rules.upgrade,
    rules.network,
    rules.addresses,
    rules.shared_memory,
    rules.probes,
    rules.names,
    rules.kuberay_cluster,
    rules.kuberay_options,
    rules.kuberay_objects,
    rules.helm,
    rules.software,
    rules.operator_scope,
    rules.exposure,
    rules.pod_security,
    rules.secrets,
    rules.aws_exposure,
    rules.disruption,
    rules.kinds,
    rules.network_policies,
    rules.pod_scaling,
    rules.published,
)
PLATFORM = tuple(rule for module in MODULES for rule in module.RULES)


def found(given: Stack) -> list[tuple[str, str]]:
    """(rule, severity) of everything the platform's rules find, sorted and unique. Rules about models and engines are left out."""
    return sorted({(f.rule, f.severity) for f in rules.check(given, rules=PLATFORM)})


def sentences(given: Stack, rule: str) -> list[str]:
    """Full sentences of one rule."""
    return [f.sentence() for f in rules.check(given) if f.rule == rule]


def with_service(given: Stack | None = None, **over: Any) -> Stack:
    """The stack with fields of its first workload changed."""
    base = given or stack()
    return replace(base, workloads=(replace(base.workloads[0], **over), *base.workloads[1:]))


def with_head(given: Stack | None = None, **over: Any) -> Stack:
    """The stack with fields of the head changed."""
    base = given or stack()
    own = base.workloads[0].head
    assert own is not None
    return with_service(base, head=replace(own, **over))


def with_workers(given: Stack | None = None, **over: Any) -> Stack:
    """The stack with fields of the first worker group changed."""
    base = given or stack()
    groups = base.workloads[0].groups
    return with_service(base, groups=(replace(groups[0], **over), *groups[1:]))


def with_engine(given: Stack | None = None, **over: Any) -> Stack:
    """The stack with fields of the first engine changed."""
    base = given or stack()
    engines = base.workloads[0].engines
    return with_service(base, engines=(replace(engines[0], **over), *engines[1:]))


def with_pool(given: Stack | None = None, which: int = 1, **over: Any) -> Stack:
    """The stack with fields of one pool changed (the GPU pool by default)."""
    base = given or stack()
    pools = list(base.pools)
    pools[which] = replace(pools[which], **over)
    return replace(base, pools=tuple(pools))


def with_values(given: Stack | None = None, chart: str = "gpu-operator", **values: Any) -> Stack:
    """The stack with Helm values of one release changed."""
    base = given or stack()
    return replace(
        base,
        releases=tuple(replace(r, values={**r.values, **values}) if r.chart == chart else r for r in base.releases),
    )


def with_release(given: Stack | None = None, chart: str = "gpu-operator", **over: Any) -> Stack:
    """The stack with fields of one release changed."""
    base = given or stack()
    return replace(base, releases=tuple(replace(r, **over) if r.chart == chart else r for r in base.releases))


def without_release(chart: str, given: Stack | None = None) -> Stack:
    """The stack without a release."""
    base = given or stack()
    return replace(base, releases=tuple(r for r in base.releases if r.chart != chart))
