"""Replica counts: the numbers of a worker group agree, and its pods bring the GPUs that replicas reserve.

Not for: what must be placed together (gang.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import PodGroup, Stack, Workload
from policies.finding import Problem, Rule, error, warning

from ._places import engine_groups, pods_at_most, pods_at_rest, ray_gpus
from ._values import amount, before

_RAY = ("RayService", "RayCluster", "RayJob")


def _groups(stack: Stack) -> Iterator[tuple[Workload, PodGroup]]:
    for workload in stack.workloads:
        if workload.kind in _RAY:
            for group in workload.groups:
                yield workload, group


def bounds(stack: Stack) -> Iterator[Problem]:
    kai = stack.batch_scheduler == "kai"
    for _, group in _groups(stack):
        low, high, now = group.min, group.max, group.replicas
        for name, value in (("minReplicas", low), ("replicas", now), ("maxReplicas", high)):
            if value is not None and value < 0:
                yield error(group.where, f"{name} is {value}, less than 0", "give 0 or more")
        if low is not None and high is not None and low > high:
            yield error(
                group.where,
                f"minReplicas {low} is more than maxReplicas {high}; KubeRay refuses the cluster",
                f"set maxReplicas to at least {low} or minReplicas to at most {high}",
            )
            continue
        if low and now is None:
            if kai:  # KubeRay itself raises replicas to minReplicas (GetWorkerGroupDesiredReplicas)
                yield error(
                    group.where,
                    f"minReplicas is {low} and replicas is not stated, which the CRD makes 0; KAI's pod-grouper refuses a group whose "
                    "minReplicas is more than its replicas",
                    f"set replicas to {low}",
                )
        elif low is not None and now is not None and now < low:
            yield (error if kai else warning)(
                group.where,
                f"replicas {now} is less than minReplicas {low}"
                + (
                    "; KAI's pod-grouper refuses such a group and no pod is placed" if kai else f"; KubeRay makes {low}"
                ),
                f"set replicas to {low}",
            )
        elif high is not None and now is not None and now > high:
            yield warning(
                group.where,
                f"replicas {now} is more than maxReplicas {high}; KubeRay makes {high}",
                f"set replicas to at most {high}, or raise maxReplicas",
            )


def replica_gpus(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in _RAY:
            continue
        head = ray_gpus(workload.head) if workload.head is not None and workload.head.gpus else 0.0
        for engine in workload.engines:
            groups = engine_groups(workload, engine)
            if engine.device == "cpu" or not groups:
                continue
            needed = engine.world * engine.data * engine.share
            most = head + sum(pods_at_most(workload, group) * ray_gpus(group) for group in groups)
            if needed > most + 1e-6:
                yield error(
                    engine.where,
                    f"one replica needs {amount(needed)} GPUs and all its pods together bring {amount(most)}, so it waits for ever",
                    f"raise worker.max, or lower tensor, pipeline or data parallel to {amount(most)} GPUs",
                )
            elif engine.min_replicas * needed > most + 1e-6:
                yield error(
                    engine.where,
                    f"{engine.min_replicas} replicas need {amount(engine.min_replicas * needed)} GPUs and all its pods together bring {amount(most)}",
                    "raise worker.max or lower replicas.min",
                )
            elif engine.max_replicas * needed > most + 1e-6:
                yield warning(
                    engine.where,
                    f"{engine.max_replicas} replicas need {amount(engine.max_replicas * needed)} GPUs and all its pods together bring "
                    f"{amount(most)}: the last replicas never start",
                    "raise worker.max or lower replicas.max",
                )


def together(stack: Stack) -> Iterator[Problem]:
    """Models of one cluster that each have room alone, and not all at once."""
    for workload in stack.workloads:
        if workload.kind not in _RAY or len(workload.engines) < 2:
            continue
        shares: dict[tuple[str, ...], list[tuple[str, float]]] = {}
        for engine in workload.engines:
            groups = engine_groups(workload, engine)
            need = engine.min_replicas * engine.world * engine.data * engine.share
            if engine.device != "cpu" and groups and need:
                shares.setdefault(tuple(group.name for group in groups), []).append((engine.model_id, need))
        known = {group.name: group for group in workload.groups}
        for names, needs in shares.items():
            most = sum(pods_at_most(workload, known[name]) * ray_gpus(known[name]) for name in names)
            if workload.head is not None and workload.head.gpus:
                most += ray_gpus(workload.head)
            total = sum(need for _, need in needs)
            if len(needs) > 1 and total > most + 1e-6 and all(need <= most + 1e-6 for _, need in needs):
                yield error(
                    workload.where,
                    f"its models need {amount(total)} GPUs at their fewest replicas ({', '.join(f'{name} {amount(need)}' for name, need in needs)}) and its pods bring "
                    f"{amount(most)}: one of them waits for ever",
                    "raise maxReplicas (worker.max), lower replicas.min, or give the models shares of a GPU",
                )


def replicas_per_node(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for engine in workload.engines:
            if engine.max_replicas_per_node is not None and workload.autoscaling:
                yield warning(
                    engine.where,
                    f"max_replicas_per_node {engine.max_replicas_per_node} makes replicas ask for a resource of Serve's own that no "
                    "worker group declares: the Ray autoscaler may find no node type for them",
                    "leave max_replicas_per_node out, or turn Ray's autoscaler off",
                )


def autoscaler_v2(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        second = workload.autoscaler_version == "v2" or (
            workload.autoscaler_version is None and workload.ray_version and not before(workload.ray_version, "2.47")
        )
        if workload.autoscaling and second and before(workload.ray_version, "2.54.0"):
            yield warning(
                workload.where,
                f"autoscaler v2 of Ray {workload.ray_version} stops working when maxReplicas is lowered while pods are pending",
                "use Ray 2.54 or newer, or autoscaler v1",
            )


def at_rest(stack: Stack) -> Iterator[Problem]:
    """A service that keeps fewer pods at rest than its models' fewest replicas need."""
    for workload in stack.workloads:
        if workload.kind != "RayService" or workload.autoscaling:
            continue
        for engine in workload.engines:
            groups = engine_groups(workload, engine)
            if engine.device == "cpu" or not groups:
                continue
            have = sum(pods_at_rest(workload, group) * ray_gpus(group) for group in groups)
            need = engine.min_replicas * engine.world * engine.data * engine.share
            most = sum(pods_at_most(workload, group) * ray_gpus(group) for group in groups)
            if have + 1e-6 < need <= most + 1e-6:
                yield error(
                    engine.where,
                    f"{engine.min_replicas} replicas need {amount(need)} GPUs, its pods bring {amount(have)} and Ray's autoscaler is off",
                    "raise worker.replicas, or set autoscaling.enabled",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="gang-replica-bounds",
        title="minReplicas <= replicas <= maxReplicas",
        why=(
            "KubeRay refuses minReplicas over maxReplicas and silently clamps replicas to the range. KAI's pod-grouper reads the custom "
            "resource itself and fails where minReplicas is more than replicas, whose default is 0."
        ),
        check=bounds,
        sources=(
            "kuberay: controllers/ray/utils/validation.go",
            "kuberay: util.go GetWorkerGroupDesiredReplicas",
            "KAI-Scheduler: ray_grouper.go",
        ),
    ),
    Rule(
        id="gang-replica-gpus",
        title="The pods of a service bring the GPUs of its replicas",
        why=(
            "A replica's placement group is placed as a whole. When all pods at their most bring fewer GPUs than one replica reserves, it "
            "waits without an error."
        ),
        check=replica_gpus,
        sources=("production-stack#653",),
    ),
    Rule(
        id="gang-static-pods",
        title="Without Ray's autoscaler the pods are there from the start",
        why="With enableInTreeAutoscaling off KubeRay makes `replicas` pods and no more, whatever Serve asks for.",
        check=at_rest,
    ),
    Rule(
        id="gang-models-together",
        title="All models of a cluster have GPUs at once",
        why="Ray places whoever comes first. Where the pods bring GPUs for one model alone the other one's replica waits, without an error of its own.",
        check=together,
        sources=("ray#58328",),
    ),
    Rule(
        id="gang-replicas-per-node",
        title="max_replicas_per_node does not go with Ray's autoscaler",
        why=(
            "Serve enforces the limit by an implicit resource on each node. The autoscaler matches demands with the resources that worker "
            "groups declare, does not know this one, and reports the demand as infeasible."
        ),
        check=replicas_per_node,
        sources=("ray#48471",),
    ),
    Rule(
        id="gang-autoscaler-v2",
        title="Autoscaler v2 before Ray 2.54 hangs when limits shrink",
        why=(
            "Its reconciler tries to stop Ray on pods that never started (ALLOCATED, QUEUED, RAY_INSTALLING), asserts, and repeats. The states were "
            "fixed one after another; 2.54.0 has all three (read in its wheel)."
        ),
        check=autoscaler_v2,
        sources=("ray#50868", "ray#59219", "ray#60412"),
    ),
)
