"""Scaling of plain vLLM by a HorizontalPodAutoscaler or by KEDA: it sees the load, and can come back from zero.

Not for a number of pods that program and autoscaler both write (helm.py), or for Ray's autoscalers (serve_autoscaling.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import Stack, Values, Workload
from policies.facts.quantities import mapping
from policies.facts.scalers import KINDS, Scaler, all_of
from policies.finding import Problem, Rule, error, warning

_HPA = "HorizontalPodAutoscaler"
# Metrics that a pod of the workload reports itself: at zero pods there are none.
_OF_THE_PODS = re.compile(r"\bvllm[:_]")
_TEXT = re.compile(r"\"[^\"]*\"|'[^']*'")


def _scaled(stack: Stack) -> Iterator[tuple[Scaler, Workload]]:
    """Scalers with the workloads they scale, where both are seen."""
    workloads = {(w.namespace, w.kind, w.name): w for w in stack.workloads}
    for scaler in all_of(stack.of_kind(*KINDS)):
        workload = workloads.get((scaler.namespace, scaler.target_kind, scaler.target))
        if workload is not None:
            yield scaler, workload


def zero(stack: Stack) -> Iterator[Problem]:
    for scaler, workload in _scaled(stack):
        if scaler.kind == _HPA and scaler.min > 0 and workload.spec.get("replicas") == 0:
            yield error(
                scaler.where,
                f"{workload.where} says replicas: 0, which switches an HPA off (ScalingDisabled): no pod is ever made",
                "leave replicas out",
            )
        if scaler.min > 0 or not workload.engines:
            continue
        if scaler.kind == _HPA:
            yield error(
                scaler.where,
                "minReplicas is 0 and an HPA has at least one pod (0 is behind the gate HPAScaleToZero)",
                "set replicas.min to 1, or scale by KEDA with a query that sees requests ahead of the pods (scaling.by: keda, scaling.wake_query)",
            )
        elif not any(map(_wakes, scaler.triggers)):
            yield error(
                scaler.where,
                "it scales to zero pods, and every trigger reads what the pods themselves report: at zero nothing reports, nothing "
                "wakes them, and their Service refuses every connection",
                "set replicas.min to 1, give scaling.wake_query (requests at a gateway), or use kind ray_service, which holds the "
                "first request",
            )


def _wakes(trigger: Values) -> bool:
    """Whether a trigger can see load while there is no pod."""
    kind = str(trigger.get("type", ""))
    if kind in ("cpu", "memory"):
        return False
    if kind != "prometheus":
        return True
    query = str(mapping(trigger.get("metadata")).get("query", ""))
    return not _OF_THE_PODS.search(_TEXT.sub("", query))


def source(stack: Stack) -> Iterator[Problem]:
    for scaler in all_of(stack.of_kind(*KINDS)):
        for trigger in scaler.triggers:
            metadata = mapping(trigger.get("metadata"))
            if trigger.get("type") != "prometheus" or str(metadata.get("serverAddress") or ""):
                continue
            yield error(
                scaler.where,
                "its Prometheus trigger has no serverAddress, so KEDA refuses it",
                "set scaling.prometheus to the address of a Prometheus that is there, or install one with software.monitoring.install: true",
            )
            break


def bounds(stack: Stack) -> Iterator[Problem]:
    seen: dict[tuple[str, str, str], Scaler] = {}
    for scaler in all_of(stack.of_kind(*KINDS)):
        if scaler.max < max(1, scaler.min):
            yield error(
                scaler.where,
                f"it may have {scaler.max} pods at most and {scaler.min} at least",
                f"set replicas.max to at least {max(1, scaler.min)}",
            )
        target = (scaler.namespace, scaler.target_kind, scaler.target)
        other = seen.setdefault(target, scaler)
        if other is not scaler:
            yield error(
                scaler.where,
                f"{other.where} scales {scaler.target_kind} '{scaler.target}' too: each undoes what the other does",
                "keep one of them (KEDA makes an HPA of its own)",
            )


def load(stack: Stack) -> Iterator[Problem]:
    for scaler, workload in _scaled(stack):
        if scaler.kind != _HPA or not any(engine.device == "gpu" for engine in workload.engines):
            continue
        names = {str(mapping(metric.get("resource")).get("name", "")) for metric in scaler.triggers} - {""}
        for name in sorted(names & {"cpu", "memory"}):
            what = (
                "one core polls whether or not requests wait" if name == "cpu" else "it holds what it took at its start"
            )
            yield warning(
                scaler.where,
                f"it scales on {name}, which says nothing of the load of an engine on a GPU: {what}",
                "scale on requests in flight: scaling.by: keda, or scaling.metric with a metric of the pods",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="scaler-zero",
        title="What scales to zero can come back",
        why=(
            "KEDA wakes a Deployment when a trigger is over its activation threshold. Queries over vllm:num_requests_waiting have no series without a pod, and a Service without "
            "endpoints refuses connections instead of holding them, so the first request neither waits nor counts."
        ),
        check=zero,
        sources=(
            "kubernetes/kubernetes#110278",
            "https://keda.sh/docs/latest/concepts/scaling-deployments/",
            "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
        ),
    ),
    Rule(
        id="scaler-source",
        title="A scaler knows whom to ask",
        why="KEDA's Prometheus scaler requires serverAddress; without it the ScaledObject is never ready and the number of pods never changes.",
        check=source,
        sources=("https://keda.sh/docs/latest/scalers/prometheus/",),
    ),
    Rule(
        id="scaler-bounds",
        title="One scaler for each workload, with room to scale",
        why="The HPA that KEDA makes and another one each set the number of replicas, and the last writer wins every fifteen seconds.",
        check=bounds,
        sources=("https://keda.sh/docs/latest/concepts/scaling-deployments/",),
    ),
    Rule(
        id="scaler-load",
        title="A scaler of GPU engines sees requests",
        why="vLLM's engine loop polls with about one core whatever the load, and weights and KV cache are taken at the start: CPU and memory of the pod are flat.",
        check=load,
        sources=("vllm: docs/deployment/k8s.md", "vllm: docs/usage/metrics.md"),
    ),
)
