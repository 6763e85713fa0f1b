"""What cluster software an environment installs: every Helm release with its merged values, and the queues. Pure.

For the plan, which judges it, and for the components, which create exactly this.
Not for: order and CRDs (components/cluster_software.py), or values that only a made cluster knows (names, ids).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from components import versions
from components.config import Environment, deep_merge
from components.config.software import Component
from components.manifests import (
    autoscaler,
    aws_addons,
    dra_driver,
    gateway,
    gpu_operator,
    kai,
    kuberay,
    monitoring,
    vllm_scaling,
    volcano,
)
from components.versions import Chart
from policies.facts import NodePool, Queue, Release

Predicate = Callable[[Environment, Sequence[NodePool]], bool]
Builder = Callable[[Environment, Sequence[NodePool]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One chart: the config that governs it, when it is needed, and its derived values."""

    field: str  # of Software
    chart: Chart
    needed: Predicate
    values: Builder

    def config(self, env: Environment) -> Component:
        config = getattr(env.software, self.field)
        assert isinstance(config, Component)
        return config

    def installed(self, env: Environment, pools: Sequence[NodePool]) -> bool:
        """As stated; else whether it is needed. A stated `true` of one of two charts under a field means the needed one."""
        stated = self.config(env).install
        if stated is None or (stated and self.field == "autoscaler"):
            return self.needed(env, pools)
        return stated


PARTS: tuple[Part, ...] = (
    Part(field="monitoring", chart=versions.MONITORING, needed=monitoring.needed, values=monitoring.values),
    Part(field="gateway", chart=versions.GATEWAY, needed=gateway.needed, values=gateway.values),
    Part(field="keda", chart=versions.KEDA, needed=vllm_scaling.keda_needed, values=vllm_scaling.keda_values),
    Part(field="gpu_operator", chart=versions.GPU_OPERATOR, needed=gpu_operator.needed, values=gpu_operator.values),
    Part(field="dra_driver", chart=versions.DRA_DRIVER, needed=dra_driver.needed, values=dra_driver.values),
    Part(field="efa_plugin", chart=versions.EFA_PLUGIN, needed=aws_addons.efa_needed, values=aws_addons.efa_values),
    Part(
        field="load_balancer_controller",
        chart=versions.LOAD_BALANCER_CONTROLLER,
        needed=aws_addons.load_balancer_controller_needed,
        values=aws_addons.load_balancer_controller_values,
    ),
    Part(
        field="autoscaler",
        chart=versions.KARPENTER,
        needed=autoscaler.karpenter_needed,
        values=autoscaler.karpenter_values,
    ),
    Part(
        field="autoscaler",
        chart=versions.CLUSTER_AUTOSCALER,
        needed=autoscaler.cluster_autoscaler_needed,
        values=autoscaler.cluster_autoscaler_values,
    ),
    Part(field="kai", chart=versions.KAI, needed=kai.needed, values=kai.values),
    Part(field="volcano", chart=versions.VOLCANO, needed=volcano.needed, values=volcano.values),
    Part(field="vgpu_plugin", chart=versions.VOLCANO_VGPU, needed=volcano.vgpu_needed, values=volcano.vgpu_values),
    Part(field="kuberay", chart=versions.KUBERAY, needed=kuberay.needed, values=kuberay.values),
)
"""Every part, in the order of installation."""


def installed(env: Environment, pools: Sequence[NodePool]) -> tuple[tuple[Part, Release], ...]:
    """The parts this environment installs, each with its release."""
    return tuple((part, _release(part, env, pools)) for part in PARTS if part.installed(env, pools))


def installs(chart: Chart, env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether this environment installs the chart, so that the account must be ready for it."""
    return any(part.chart is chart and part.installed(env, pools) for part in PARTS)


def releases(env: Environment, pools: Sequence[NodePool]) -> tuple[Release, ...]:
    """All releases this environment installs, in order, with merged values."""
    return tuple(release for _, release in installed(env, pools))


def present(env: Environment) -> tuple[str, ...]:
    """Charts whose software is said to be on the cluster already: `install: false`, or the name of a GatewayClass."""
    found = {part.chart.name for part in PARTS if part.config(env).install is False}
    if env.software.gateway.class_name is not None:
        found.add(versions.GATEWAY.name)
    return tuple(sorted(found))


def queues(env: Environment, pools: Sequence[NodePool]) -> list[dict[str, Any]]:
    """Queue objects of the batch scheduler, parents before children."""
    match env.software.batch_scheduler:
        case "kai":
            return kai.queues(env)
        case "volcano":
            return volcano.queues(env, pools)
        case _:
            return []


def queues_facts(env: Environment, pools: Sequence[NodePool]) -> tuple[Queue, ...]:
    """The queues as the rules see them; none without a batch scheduler that has such queues."""
    match env.software.batch_scheduler:
        case "kai":
            return kai.facts(env)
        case "volcano":
            return volcano.facts(env, pools)
        case _:
            return ()


def _release(part: Part, env: Environment, pools: Sequence[NodePool]) -> Release:
    config, chart = part.config(env), part.chart
    manifests = part.field == "kuberay" and env.software.kuberay.source == "manifests"
    oci = chart.repository.startswith("oci://")
    return Release(
        name=chart.name,
        where=f"software.{part.field}",
        chart=f"{chart.repository}/{chart.name}" if oci else chart.name,
        version=config.version or chart.version,
        repository=None if manifests or oci else chart.repository,
        namespace=chart.namespace,
        values=deep_merge(part.values(env, pools), config.values),
        kind="manifests" if manifests else "release",
        atomic=None if manifests else chart.rollback,  # atomic is a rollback when an upgrade fails
        timeout_seconds=config.timeout_seconds,
    )
