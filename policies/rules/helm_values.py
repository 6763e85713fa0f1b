"""Helm values: keys that the chart reads, and values that switch off what the stack needs.

Helm takes any key without a word; one that no template reads does nothing. Not for: versions and hooks of releases (helm.py), what the
AMI brings (gpu_operator.py), KAI's values (kai.py), or secrets (secrets.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog import amis, chart_keys
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Release, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name, dig, listed, releases, true, version

_MIG = ("mixed", "none", "single")
_MOST = 6  # a values file of another chart has hundreds


def read(stack: Stack) -> Iterator[Problem]:
    for release in stack.releases:
        name, given = chart_name(release), str(release.version or "").removeprefix("v")
        if not release.values_known or not release.values or release.version is None:
            continue
        keys = chart_keys.known(name, given)
        same = keys is not None
        if keys is None:
            versions = chart_keys.listed(name)
            keys = chart_keys.known(name, versions[-1]) if versions else None
        if keys is None:
            continue
        said = 0
        for path in chart_keys.unread(release.values, keys):
            meant = chart_keys.near(path, keys, dig(release.values, *path.split(".")))
            if not meant and not same:
                continue  # of a version that is not known key by key
            said += 1
            if said > _MOST:
                break
            yield warning(
                release.where,
                f"chart {name} {given} does not read the value {path}: nothing comes of it",
                f"did you mean {' or '.join(meant)}?" if meant else "leave it out",
            )


def _gpu_pools(stack: Stack) -> list[NodePool]:
    return [pool for pool in stack.pools if pool.gpus_per_node or pool.gpu]


def operator(stack: Stack) -> Iterator[Problem]:
    pools = _gpu_pools(stack)
    for release in releases(stack, "gpu-operator"):
        values = mapping(release.values)
        if pools:
            yield from _discovery(release, values, stack)
            if true(dig(values, "sandboxWorkloads", "enabled"), False):
                default = str(dig(values, "sandboxWorkloads", "defaultWorkload") or "container")
                bare = [p for p in pools if p.labels.get("nvidia.com/gpu.workload.config", default) != "container"]
                if bare:
                    yield error(
                        release.where,
                        f"sandboxWorkloads gives nodes of {bare[0].where} to virtual machines ({default}): they advertise no nvidia.com/gpu to containers",
                        "set sandboxWorkloads.defaultWorkload: container, or label the pool nvidia.com/gpu.workload.config: container",
                    )
        cut = [pool for pool in pools if pool.sharing.strategy == "mig" and _by_operator(pool)]
        if cut and not true(dig(values, "migManager", "enabled"), True):
            yield error(
                release.where,
                f"migManager.enabled is false and GPUs of {cut[0].where} are to be cut into {cut[0].sharing.mig_profile}: nobody cuts them",
                "leave migManager on",
            )
        strategy = dig(values, "mig", "strategy")
        if strategy not in (None, "", *_MIG):  # the template leaves an empty one out: each pool's entry says its own
            yield error(
                release.where,
                f"mig.strategy is '{strategy}'; allowed: {', '.join(_MIG)}",
                "use single, or mixed for several profiles",
            )
        if cut and strategy == "none":
            yield warning(
                release.where,
                f"mig.strategy is none and GPUs of {cut[0].where} are cut by MIG: instances are labelled and advertised only as far as the plugin's own configuration says",
                f"set mig.strategy: {cut[0].sharing.mig_strategy}",
            )


def _by_operator(pool: NodePool) -> bool:
    """Whether the operator cuts the pool's GPUs: not on nodes that are there as they are, nor where the system does it."""
    if pool.kind == "existing" or pool.ami_type is None:
        return False
    try:
        return amis.get(pool.ami_type).operating_system != "bottlerocket"
    except UnknownRow:
        return True


def _discovery(release: Release, values: Mapping[str, Any], stack: Stack) -> Iterator[Problem]:
    """The operator knows GPU nodes by feature.node.kubernetes.io/pci-10de.present, which NFD sets from the vendor alone."""
    if not true(dig(values, "nfd", "enabled"), True):
        others = any("node-feature-discovery" in chart_name(each) for each in stack.releases)
        sure = stack.complete and stack.fresh and not others
        if not others:
            yield (error if sure else warning)(
                release.where,
                "nfd.enabled is false: without Node Feature Discovery no node is known to have a GPU, and the operator starts nothing on it",
                "leave nfd on, or install node-feature-discovery beside it",
            )
        return
    fields = items(dig(values, "node-feature-discovery", "worker", "config", "sources", "pci", "deviceLabelFields"))
    if fields and fields != ["vendor"]:
        yield error(
            release.where,
            f"NFD's deviceLabelFields are {listed(fields)}: nodes get another label than pci-10de.present, by which the operator knows those with GPUs",
            "set deviceLabelFields: [vendor]",
        )


def kuberay(stack: Stack) -> Iterator[Problem]:
    for release in releases(stack, "kuberay-operator"):
        gates = dig(release.values, "featureGates")
        if gates is not None and not isinstance(gates, (list, tuple)):
            yield error(
                release.where,
                "featureGates is no list: the chart's template reads a list of name and enabled, and fails",
                "write featureGates: [{name: ..., enabled: true}] (software.kuberay.feature_gates makes it)",
            )
        chart, image = version(release.version), version(dig(release.values, "image", "tag"))
        if chart and image and len(chart) > 1 and len(image) > 1 and chart[:2] != image[:2]:
            yield error(
                release.where,
                f"image.tag is {dig(release.values, 'image', 'tag')} and the chart is {release.version}: the operator runs against CRDs and roles of another release",
                "leave image.tag out, or use the chart of that release",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="helm-values-read",
        title="The chart reads the values that are set",
        why=(
            "Helm stores any value and says nothing of one that no template reads: a key that is mistyped, one level too high, or of another version of the chart. What it was "
            "meant for never happens."
        ),
        check=read,
        sources=(
            "https://helm.sh/docs/chart_template_guide/values_files/",
            "the charts' values.yaml and templates: policies/catalog/chart_values",
        ),
    ),
    Rule(
        id="operator-values",
        title="The GPU Operator finds the GPUs, cuts them, and gives them to containers",
        why=(
            "The operator starts its parts on nodes that Node Feature Discovery has labelled with NVIDIA's vendor number. Without that label, or with nodes given to virtual "
            "machines, or with the part off that cuts GPUs, everything is installed and no pod gets a GPU."
        ),
        check=operator,
        sources=(
            "gpu-operator#423",
            "gpu-operator#78",
            "gpu-operator#114",
            "gpu-operator#1469",
            "k8s-device-plugin#1213",
        ),
    ),
    Rule(
        id="kuberay-values",
        title="KubeRay's image and gates are those of its chart",
        why="CRDs, roles and flags belong to one release of the operator. Another image reads other fields and ends at gates that it does not know.",
        check=kuberay,
        sources=("kuberay v1.7.0: helm-chart/kuberay-operator",),
    ),
)
