"""Cluster software against what is declared: the operator of every kind, one batch scheduler, gates that are on.

Not for: how a chart is installed (helm.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import dig, releases, true

SCHEDULERS = ("volcano", "yunikorn", "kai-scheduler", "scheduler-plugins")


def batch_scheduler(stack: Stack) -> Iterator[Problem]:
    for release in releases(stack, "kuberay-operator"):
        settings = mapping(dig(release.values, "batchScheduler"))
        name, legacy = str(settings.get("name") or ""), true(settings.get("enabled"), False)
        if name and legacy:
            yield error(
                release.where,
                f"batchScheduler.enabled (which means volcano) and batchScheduler.name '{name}' are both set, and the operator refuses to start",
                "set batchScheduler.name only",
            )
            continue
        if name and name not in SCHEDULERS:
            yield error(
                release.where,
                f"batchScheduler.name '{name}' is unknown to KubeRay; allowed: {', '.join(SCHEDULERS)}",
                "use one of them, or leave it out",
            )
            continue
        given = {"kai-scheduler": "kai", "": "volcano" if legacy else "none"}.get(name, name)
        if stack.batch_scheduler is not None and given != stack.batch_scheduler:
            yield error(
                release.where,
                f"KubeRay hands pods to {given} and the environment's batch scheduler is {stack.batch_scheduler}",
                f"set batchScheduler.name: {_kuberay_name(stack.batch_scheduler)}",
            )


def _kuberay_name(scheduler: str) -> str:
    return {"kai": "kai-scheduler", "none": '""'}.get(scheduler, scheduler)


def one_scheduler(stack: Stack) -> Iterator[Problem]:
    kai, volcano = releases(stack, "kai-scheduler"), releases(stack, "volcano")
    if kai and volcano:
        yield warning(
            volcano[0].where,
            "KAI and Volcano are both installed: each counts the GPUs of all nodes as its own to give, and pods of one are refused by the kubelet after the other's "
            "took the device",
            "install one batch scheduler",
        )
    for installed, name in ((kai, "kai"), (volcano, "volcano")):
        if (
            stack.complete
            and stack.cluster == "aws"
            and stack.releases
            and stack.batch_scheduler == name
            and not installed
        ):
            yield error(
                "batch scheduler",
                f"pods go to {name}, which is not installed: they stay pending without an event",
                f"set software.{name}.install: true",
            )


def operator(stack: Stack) -> Iterator[Problem]:
    if not stack.complete or stack.cluster != "aws" or not stack.releases:
        return
    ray = [workload for workload in stack.workloads if workload.by_kuberay]
    if ray and not releases(stack, "kuberay-operator"):
        yield error(
            ray[0].where,
            f"a {ray[0].kind} needs the KubeRay operator, which is not installed: the API server does not know the kind",
            "set software.kuberay.install: true",
        )


def gateway(stack: Stack) -> Iterator[Problem]:
    """Feature gates of KubeRay that a workload needs."""
    gates = {
        str(mapping(gate).get("name")): mapping(gate).get("enabled") is True
        for release in releases(stack, "kuberay-operator")
        for gate in items(dig(release.values, "featureGates"))
    }
    if not releases(stack, "kuberay-operator"):
        return
    for workload in stack.workloads:
        backend = str(mapping(workload.fault_tolerance).get("backend") or "")
        if backend == "rocksdb" and not gates.get("GCSFaultToleranceEmbeddedStorage"):
            yield error(
                workload.where,
                "fault tolerance by rocksdb needs KubeRay's gate GCSFaultToleranceEmbeddedStorage, which is off",
                "set software.kuberay.feature_gates: {GCSFaultToleranceEmbeddedStorage: true}, or use redis",
            )
        if (
            workload.upgrade_type == "NewClusterWithIncrementalUpgrade"
            and gates.get("RayServiceIncrementalUpgrade") is False
        ):
            yield error(
                workload.where,
                "an incremental upgrade needs KubeRay's gate RayServiceIncrementalUpgrade, which is switched off",
                "leave the gate out of software.kuberay.feature_gates",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="helm-batch-scheduler",
        title="KubeRay knows one batch scheduler, the environment's",
        why="The operator takes a scheduler by name for all clusters. The old switch and the name together are a documented error.",
        check=batch_scheduler,
        sources=("kuberay v1.7.0: helm-chart/kuberay-operator/values.yaml",),
    ),
    Rule(
        id="helm-one-scheduler",
        title="Exactly one batch scheduler places GPU pods",
        why="Two schedulers that do not know of each other give the same GPU twice; a scheduler that is not there gives none.",
        check=one_scheduler,
    ),
    Rule(
        id="helm-operator",
        title="The operator of every kind is installed",
        why="A custom resource without its operator is refused by the API server, or accepted and never acted on.",
        check=operator,
        sources=("pulumi-kubernetes#1712", "pulumi-kubernetes#1735", "pulumi-kubernetes#1023"),
    ),
    Rule(
        id="helm-feature-gates",
        title="KubeRay's gates are on for what is used",
        why="Fields behind a gate that is off are refused by the operator, after the objects were accepted by the API server.",
        check=gateway,
        sources=("kuberay: controllers/ray/utils/validation.go",),
    ),
)
