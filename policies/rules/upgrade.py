"""RayService upgrades: strategies that KubeRay accepts, and room for what an upgrade adds.

Not for: edits that need no new cluster; they never reach these rules (cluster_change.py says which they are).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._places import nodes_at_least
from ._values import before
from .capacity import demands

INCREMENTAL = "NewClusterWithIncrementalUpgrade"
TYPES = {
    "RayService": ("NewCluster", INCREMENTAL, "None"),
    "RayCluster": ("Recreate", "None"),
}


def strategy(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        allowed = TYPES.get(workload.kind)
        if allowed and workload.upgrade_type is not None and workload.upgrade_type not in allowed:
            yield error(
                workload.where,
                f"upgradeStrategy.type '{workload.upgrade_type}' is refused by KubeRay; allowed: {', '.join(allowed)}",
                "use one of them (upgrade.strategy)",
            )


def incremental(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "RayService" or workload.upgrade_type != INCREMENTAL:
            continue
        where, options = workload.where, workload.upgrade_options
        if not workload.autoscaling:
            yield error(
                where,
                "an incremental upgrade needs Ray's autoscaler, which is off (it moves pods from the old cluster to the new)",
                "set autoscaling.enabled: true",
            )
        gateway = str(options.get("gatewayClassName") or "")
        if not gateway:
            yield error(
                where,
                "an incremental upgrade splits traffic by a Gateway and no gatewayClassName is given",
                "set software.gateway.class_name, or upgrade.gateway_class",
            )
        elif stack.complete and stack.gateway_class != gateway:
            there = (
                f"the environment's is '{stack.gateway_class}'"
                if stack.gateway_class
                else "the environment has no Gateway API"
            )
            yield error(where, f"GatewayClass '{gateway}' is not there: {there}", "set software.gateway")
        yield from _percentages(where, options)
        if before(stack.versions.kuberay, "1.5.0"):
            yield error(
                where, f"KubeRay {stack.versions.kuberay} has no incremental upgrade", "use KubeRay 1.7 or newer"
            )
        elif before(stack.versions.kuberay, "1.7.0"):
            yield warning(
                where,
                f"in KubeRay {stack.versions.kuberay} the gate RayServiceIncrementalUpgrade is off by default",
                "switch it on (software.kuberay.feature_gates), or use KubeRay 1.7",
            )
        if stack.batch_scheduler == "kai" and any(group.min for group in workload.groups):
            yield error(
                where,
                "KubeRay leaves replicas of the pending cluster empty in an incremental upgrade, and KAI's pod-grouper refuses a group whose "
                "minReplicas is more than its replicas",
                "use upgrade.strategy new_cluster, or worker.min: 0",
            )


def _percentages(where: str, options: object) -> Iterator[Problem]:
    values = mapping(options)
    surge = 100 if values.get("maxSurgePercent") is None else whole(values.get("maxSurgePercent"))
    step, interval = whole(values.get("stepSizePercent")), whole(values.get("intervalSeconds"))
    for name, value in (("maxSurgePercent", surge), ("stepSizePercent", step)):
        if value is None or not 0 <= value <= 100:
            yield error(where, f"{name} {values.get(name)} is not between 0 and 100", f"set {name} between 1 and 100")
    if step is not None and surge is not None and 0 <= surge < step <= 100:
        yield error(
            where,
            f"stepSizePercent {step} is more than maxSurgePercent {surge}: a step may not move more than the new cluster may hold",
            f"set step_size_percent to at most {surge}",
        )
    if step == 0 or surge == 0:
        yield warning(where, "a step or surge of 0 % never moves traffic to the new cluster", "set both to at least 1")
    if interval is None or interval <= 0:
        yield error(
            where,
            f"intervalSeconds {values.get('intervalSeconds')} is not more than 0",
            "set interval_seconds to at least 1",
        )


def head_service(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        name = mapping(mapping(workload.head_service).get("metadata")).get("name")
        if workload.kind == "RayService" and name:  # a RayJob has one cluster at a time, also between retries
            yield error(
                workload.where,
                f"headService.metadata.name '{name}' is set: old and new cluster would share the name, so upgrades hang and KubeRay refuses it",
                f"leave it out; the head Service of the active cluster is {workload.name}-head-svc",
            )


def room(stack: Stack) -> Iterator[Problem]:
    """Whether a second cluster at rest finds nodes: pool by pool, one upgrade at a time."""
    for demand in demands(stack):
        pool, most = demand.pool, demand.pool.max
        if most is None or not pool.gpus_per_node:
            continue
        rest = [pair for pairs in demand.rest.values() for pair in pairs]
        part, big = sum(p * n for p, n in rest), sum(n for p, n in rest if p > 0.5)
        if nodes_at_least(rest) > most:
            continue  # capacity-pool speaks
        for where, second in demand.extra.items():
            needed = nodes_at_least([(part + sum(p * n for p, n in second), 1)])
            needed = max(needed, big + sum(n for p, n in second if p > 0.5))
            if needed > most:
                yield warning(
                    where,
                    f"an upgrade runs a second cluster beside the first, {needed} nodes of {pool.where} at rest, and the pool has at most {most}: the new "
                    "cluster stays pending and the upgrade never ends",
                    f"raise the pool's max to {needed}, or use upgrade.strategy incremental (a part at a time) or none",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="upgrade-strategy",
        title="The upgrade strategy is one that KubeRay knows",
        why="The CRD does not list the values; the operator checks them and stops reconciling the service.",
        check=strategy,
        sources=("kuberay: controllers/ray/utils/validation.go ValidateRayServiceSpec",),
    ),
    Rule(
        id="upgrade-incremental",
        title="An incremental upgrade has all it needs",
        why=(
            "KubeRay refuses it without Ray's autoscaler, a GatewayClass, an interval, and a step no larger than the surge. Without the Gateway API in "
            "the cluster its routes are never made."
        ),
        check=incremental,
        sources=("kuberay: controllers/ray/utils/validation.go ValidateClusterUpgradeOptions", "kuberay#4601"),
    ),
    Rule(
        id="upgrade-head-service",
        title="The head Service of a RayService has no name of its own",
        why=(
            "During an upgrade two clusters exist. A fixed head Service name points both at one Service: the new cluster's workers join the old head, and "
            "the upgrade hangs. KubeRay now refuses it."
        ),
        check=head_service,
        sources=("kuberay#2433", "ai-on-eks#169"),
    ),
    Rule(
        id="upgrade-room",
        title="The pool has room for the second cluster of an upgrade",
        why=(
            "Any edit of rayClusterConfig beyond replicas, tolerations and serveConfigV2 starts a new RayCluster and keeps the old one until the new one "
            "serves. Without free GPUs the new pods stay pending, and the service keeps running the old version."
        ),
        check=room,
        sources=("kuberay: rayservice_controller.go shouldPrepareNewCluster",),
    ),
)
