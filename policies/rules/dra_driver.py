"""NVIDIA's DRA driver, which makes ComputeDomains real: there, fit for the cluster, and beside the device plugin.

Not for: the pods that claim a channel (compute_domain.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Object, Release, Stack
from policies.facts.nodes import nvlink_between_nodes as joined
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._lost import lost
from ._values import before, chart_name, dig, releases, true
from .compute_domain import domains

CHART, OLD_CHART = "dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu"  # the second up to 25.12
_GPU_CLASSES = ("gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com")
LEAST_DRIVER = "570.158.01"
"""NVIDIA driver that the plugin needs with IMEXDaemonsWithDNSNames, its default (the driver's documentation, prerequisites)."""


def driver(stack: Stack) -> Iterator[Problem]:
    made = [each for found in domains(stack).values() for each in found]
    installed = [release for release in stack.releases if chart_name(release) in (CHART, OLD_CHART)]
    if made and stack.complete and not installed and CHART not in stack.present:
        yield error(
            made[0].where,
            "nothing acts on it: NVIDIA's DRA driver is not installed, and the pods that claim its channel never start",
            "set software.dra_driver.install: true; or false, where another team has installed it",
        )
    for release in installed:
        if release.values_known:
            yield from _values(release, made, stack)
    yield from _versions(made, installed, stack)


def _values(release: Release, made: list[Object], stack: Stack) -> Iterator[Problem]:
    values, place = release.values, release.where
    if made and not true(dig(values, "resources", "computeDomains", "enabled"), True):
        yield error(
            place,
            f"resources.computeDomains.enabled is false and {made[0].where} needs its controller: the pods that claim the channel never start",
            "leave resources.computeDomains.enabled out",
        )
    if true(dig(values, "resources", "gpus", "enabled"), True):
        if not true(values.get("gpuResourcesEnabledOverride"), False):
            yield error(
                place,
                "resources.gpus.enabled is true (the chart's default) without gpuResourcesEnabledOverride, and the chart refuses to be rendered",
                "set resources.gpus.enabled: false; the device plugin hands out the GPUs",
            )
        elif _plugin(stack):
            yield warning(
                place,
                "resources.gpus.enabled is true and a device plugin is installed: on a node that has both, each gives the same GPUs away",
                "set resources.gpus.enabled: false, or devicePlugin.enabled: false of the GPU Operator",
            )
    else:
        for item in _asking(stack):
            yield error(
                item.where,
                f"it asks for a GPU of a device class that {place} does not make (resources.gpus.enabled is false): the claim is never allocated, and its pods stay pending",
                "ask the device plugin for nvidia.com/gpu, or switch resources.gpus.enabled on",
            )
    pools = [pool for pool in stack.pools if joined(pool)]
    operators = releases(stack, "gpu-operator")
    if pools and operators:
        by_operator = true(dig(operators[0].values, "driver", "enabled"), True)
        root = str(values.get("nvidiaDriverRoot") or "/")
        wanted = "/run/nvidia/driver" if by_operator else "/"
        if root.rstrip("/") != wanted.rstrip("/") and root in ("/", "/run/nvidia/driver"):
            brings = "brings the driver" if by_operator else "leaves the driver to the nodes' image"
            yield error(
                place,
                f"nvidiaDriverRoot is '{root}' and the GPU Operator {brings}: the plugin finds no driver, and never starts",
                f"set nvidiaDriverRoot: {wanted}",
            )


def _asking(stack: Stack) -> Iterator[Object]:
    """Claims and templates for NVIDIA's GPUs."""
    for item in stack.of_kind("ResourceClaim", "ResourceClaimTemplate", group="resource.k8s.io/"):
        if any(name in _GPU_CLASSES for name in _classes(item)):
            yield item


def _classes(item: Object) -> Iterator[str]:
    """Device classes that a claim, or a template of claims, asks for."""
    spec = dig(item.spec, "spec") if item.kind == "ResourceClaimTemplate" else item.spec
    for request in map(mapping, items(dig(spec, "devices", "requests"))):
        for each in (mapping(request.get("exactly")), request, *map(mapping, items(request.get("firstAvailable")))):
            if each.get("deviceClassName"):
                yield str(each["deviceClassName"])


def classes(stack: Stack) -> Iterator[Problem]:
    made = {item.name for item in stack.of_kind("DeviceClass", group="resource.k8s.io/")}
    claims = stack.of_kind("ResourceClaim", "ResourceClaimTemplate", group="resource.k8s.io/") if made else ()
    named = {name for item in claims for name in _classes(item)}
    for item in claims:
        for name in _classes(item):
            if name not in _GPU_CLASSES:
                yield from lost(item.where, "DeviceClass", name, made, named, "its pods stay pending")


def _plugin(stack: Stack) -> bool:
    operators = releases(stack, "gpu-operator")
    if any(true(dig(each.values, "devicePlugin", "enabled"), True) for each in operators):
        return True
    return any(chart_name(release) == "nvidia-device-plugin" for release in stack.releases)


def _versions(made: list[Object], installed: list[Release], stack: Stack) -> Iterator[Problem]:
    kubernetes = stack.versions.kubernetes
    if installed and before(kubernetes, "1.32"):
        yield error(
            installed[0].where,
            f"the chart takes Kubernetes 1.32 and newer, and the cluster has {kubernetes}",
            "use Kubernetes 1.34 or newer, where dynamic resource allocation is on by default",
        )
    elif made and stack.cluster == "aws" and before(kubernetes, "1.33"):
        yield error(
            made[0].where,
            f"EKS has dynamic resource allocation from Kubernetes 1.33 on, and the cluster has {kubernetes}",
            "use 1.34 or newer",
        )
    elif made and stack.cluster != "aws" and before(kubernetes, "1.34"):
        yield warning(
            made[0].where,
            f"Kubernetes {kubernetes} has dynamic resource allocation only where feature gate DynamicResourceAllocation and resource.k8s.io/v1beta1 are switched on",
            "use Kubernetes 1.34 or newer, or see that both are on",
        )
    for release in installed:
        elastic = [each for each in made if not whole(dig(each.manifest, "spec", "numNodes"))]
        if chart_name(release) == OLD_CHART and before(release.version, "25.8") and elastic:
            yield error(
                release.where,
                f"version {release.version} holds pods back until numNodes of them have come, and {elastic[0].where} has 0 (elastic, since 25.8)",
                f"use chart {CHART}, or 25.8.0 or newer",
            )
    if not made and not installed:
        return
    for pool in stack.pools:
        # "570" alone may be any of the branch: judged is what is older than it, or says all its numbers.
        told = "." in str(pool.driver_version) or before(pool.driver_version, "570")
        if joined(pool) and told and before(pool.driver_version, LEAST_DRIVER):
            yield error(
                pool.where,
                f"its nodes have driver {pool.driver_version}, and the DRA driver's plugin needs {LEAST_DRIVER} or newer to start",
                "use an image with a newer driver (EKS' NVIDIA AMIs have 580)",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="compute-domain-driver",
        title="NVIDIA's DRA driver is there, fits the cluster, and leaves the GPUs to the device plugin",
        why=(
            "A ComputeDomain is made real by the driver's controller and its plugin on the nodes, by dynamic resource allocation, which Kubernetes has by default "
            "since 1.34 (EKS: 1.33). The chart also hands out GPUs by default and refuses to be rendered until one says which of the two shall."
        ),
        check=driver,
        sources=(
            "dra-driver-nvidia-gpu#338",
            "dra-driver-nvidia-gpu v0.5.0: deployments/helm/dra-driver-nvidia-gpu (values.yaml, templates/validation.yaml, Chart.yaml)",
            "https://dra-driver-nvidia-gpu.sigs.k8s.io/docs/prerequisites/",
        ),
    ),
    Rule(
        id="device-class",
        title="A claim asks for a device class that is there",
        why="Device classes are made by a driver's chart or operator, each with names of its own. A claim for another name is stored, and its pods are never placed (device class does not exist).",
        check=classes,
        sources=(
            "llm-d/llm-d#1754",
            "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
        ),
    ),
)
