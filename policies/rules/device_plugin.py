"""The NVIDIA device plugin's configuration: well formed, and the same sharing that each pool states.

Not for: whether a plugin is there at all (gpu_operator.py), or what pods ask for (shared_pods.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from policies.facts import Release, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name, dig, listed, releases
from .gpu_operator import PLUGINS, gpu_pools

CONFIG_LABEL = "nvidia.com/device-plugin.config"


@cache
def parsed(text: str) -> Any:
    """A YAML text of a ConfigMap or a chart; None for what is none."""
    import yaml  # only configurations of the device plugin need it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def configs(release: Release) -> dict[str, Mapping[str, Any]]:
    """Entries of devicePlugin.config.data (GPU Operator) or config.map (device plugin's own chart), parsed."""
    data = dig(release.values, "devicePlugin", "config", "data") or dig(release.values, "config", "map")
    found: dict[str, Mapping[str, Any]] = {}
    for key, text in mapping(data).items():
        found[str(key)] = mapping(parsed(text) if isinstance(text, str) else text)
    return found


def _config_maps(stack: Stack) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Configurations of the plugin in ConfigMaps that are seen, by the map's place."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for item in stack.of_kind("ConfigMap"):
        for key, text in mapping(item.manifest.get("data")).items():
            entry = mapping(parsed(text)) if isinstance(text, str) and "version: v1" in text else {}
            if "sharing" in entry or "migStrategy" in mapping(entry.get("flags")):
                found.setdefault(item.where, {})[str(key)] = entry
    return found


def plugin_config(stack: Stack) -> Iterator[Problem]:
    maps = _config_maps(stack)
    of_maps = {where.rpartition("/")[2]: entries for where, entries in maps.items()}
    for where, found in sorted(maps.items()):
        for key, entry in sorted(found.items()):
            yield from _entry(f"{where}: '{key}'", entry)
    for release in releases(stack, *PLUGINS):
        settings = mapping(dig(release.values, "devicePlugin", "config"))
        if settings.get("create") is True and not (settings.get("name") and settings.get("data")):
            yield error(
                release.where,
                "devicePlugin.config.create is true without name and data; the chart's template fails",
                "give devicePlugin.config.name and data",
            )
        own = configs(release)
        entries = own or of_maps.get(str(settings.get("name") or ""), {})
        default = settings.get("default")
        if default and entries and default not in entries:
            yield error(
                release.where,
                f"devicePlugin.config.default '{default}' is no entry of its data; entries: {listed(entries)}",
                "name an entry, or leave default out",
            )
        yield from _found(stack, release, settings)
        for key, entry in sorted(own.items()):
            yield from _entry(f"{release.where}: device-plugin config '{key}'", entry)
        yield from _pool_entries(stack, release, entries)


def _found(stack: Stack, release: Release, settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Whether the plugin finds the ConfigMap that a release names."""
    if chart_name(release) == "nvidia-device-plugin":
        own = mapping(release.values.get("config"))
        if own.get("default") and not own.get("name") and not own.get("map"):
            yield error(
                release.where,
                f"config.default is '{own['default']}' and config.name is not given: the chart mounts no configuration, and GPUs are advertised whole",
                "set config.name to the ConfigMap, and config.default to one of its entries",
            )
        settings = own
    name = str(settings.get("name") or "")
    spaces = sorted(item.namespace for item in stack.of_kind("ConfigMap") if name and item.name == name)
    if spaces and release.namespace and release.namespace not in spaces and not settings.get("create"):
        yield error(
            release.where,
            f"its device plugin mounts ConfigMap '{name}' of namespace '{release.namespace}', and that is in {listed(spaces)}: the plugin's pods wait for it for ever",
            f"put the ConfigMap into namespace '{release.namespace}'",
        )


def daemon_sets(stack: Stack) -> Iterator[Problem]:
    """The plugin's DaemonSet as it is deployed without a chart."""
    sharing = {
        (where.rpartition(" ")[2], key): entry
        for where, found in _config_maps(stack).items()
        for key, entry in found.items()
    }
    for item in stack.of_kind("DaemonSet"):
        pod = mapping(dig(item.spec, "template", "spec"))
        for container in map(mapping, items(pod.get("containers"))):
            if "k8s-device-plugin" not in str(container.get("image")):
                continue
            env = {str(mapping(each).get("name")) for each in items(container.get("env"))}
            words = " ".join(str(word) for key in ("command", "args") for word in items(container.get(key)))
            from_env = {
                f"{item.namespace}/{mapping(mapping(each).get('configMapRef')).get('name')}"
                for each in items(container.get("envFrom"))
            }
            mounted = {
                f"{item.namespace}/{mapping(mapping(each).get('configMap')).get('name')}"
                for each in items(pod.get("volumes"))
            }
            for (place, key), entry in sharing.items():
                if place in from_env and "CONFIG_FILE" not in env and "--config-file" not in words:
                    yield warning(
                        item.where,
                        f"it has ConfigMap {place} as environment, and the plugin reads its configuration from a file: '{key}' changes nothing",
                        "mount the ConfigMap, and name the file in CONFIG_FILE",
                    )
                told = "MPS_ROOT" in env or "--mps-root" in words
                if place in mounted and mapping(entry.get("sharing")).get("mps") and not told:
                    yield error(
                        item.where,
                        f"'{key}' of its configuration shares by MPS and it has no MPS_ROOT: the plugin ends (using MPS requires --mps-root to be specified)",
                        "install the plugin by its chart, which brings the MPS control daemon, or set MPS_ROOT and run that daemon",
                    )


def _entry(where: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    misplaced = [
        name
        for name in ("renameByDefault", "failRequestsGreaterThanOne", "timeSlicing", "mps", "resources")
        if name in mapping(entry.get("flags"))
    ]
    if misplaced:
        yield error(
            where, f"{listed(misplaced)} under flags is ignored", "move it under sharing.timeSlicing (or sharing.mps)"
        )
    sharing = mapping(entry.get("sharing"))
    loose = [
        name for name in ("renameByDefault", "failRequestsGreaterThanOne", "resources") if name in {**entry, **sharing}
    ]
    if loose:
        yield error(
            where,
            f"{listed(loose)} outside sharing.timeSlicing and sharing.mps is ignored",
            "move it under sharing.timeSlicing",
        )
    if sharing.get("timeSlicing") and sharing.get("mps"):
        yield error(where, "timeSlicing and mps are both given, and the plugin takes one", "keep one of them")
    for kind in ("timeSlicing", "mps"):
        chosen = mapping(sharing.get(kind))
        for resource in map(mapping, items(chosen.get("resources"))):
            replicas = resource.get("replicas")
            if not isinstance(replicas, (int, float)) or replicas < 2:
                yield error(
                    where,
                    f"{kind} replicas {replicas} of {resource.get('name')} shares nothing",
                    "give replicas of 2 or more",
                )
            if kind == "mps" and resource.get("name") != "nvidia.com/gpu":
                yield error(
                    where,
                    f"MPS shares nvidia.com/gpu only, not {resource.get('name')}",
                    "use timeSlicing, or name nvidia.com/gpu",
                )
        if kind in sharing and not items(chosen.get("resources")):
            yield error(where, f"{kind} names no resources", "give resources: [{name: nvidia.com/gpu, replicas: 4}]")


def _pool_entries(stack: Stack, release: Release, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    operator = str(dig(release.values, "mig", "strategy") or "single")
    for pool, ami in gpu_pools(stack):
        if ami.device_plugin:
            continue
        key = pool.labels.get(CONFIG_LABEL) or dig(release.values, "devicePlugin", "config", "default")
        entry = entries.get(str(key)) if key else None
        if key and pool.labels.get(CONFIG_LABEL) and entries and entry is None:
            yield error(
                release.where,
                f"{pool.where} is labelled {CONFIG_LABEL}={key} and devicePlugin.config has no such entry; entries: {listed(entries)}",
                "add the entry, or correct the label",
            )
            continue
        strategy = pool.sharing.strategy
        if strategy in ("time_slicing", "mps"):
            kind = "timeSlicing" if strategy == "time_slicing" else "mps"
            if not mapping(mapping(entry).get("sharing")).get(kind):
                yield error(
                    release.where,
                    f"{pool.where} shares its GPUs by {strategy} and the device plugin has no {kind} for it: the GPUs are advertised whole",
                    f"add sharing.{kind} to the entry of devicePlugin.config that the pool's label names",
                )
        if strategy == "mig":
            given = mapping(mapping(entry).get("flags")).get("migStrategy") or operator
            if given != pool.sharing.mig_strategy:
                yield error(
                    release.where,
                    f"MIG strategy is {given} and {pool.where} says {pool.sharing.mig_strategy}: its slices are advertised under another name",
                    f"set mig.strategy: {pool.sharing.mig_strategy}, or migStrategy in the pool's entry of devicePlugin.config",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="device-plugin-config",
        title="The device plugin's configuration says what the pools say",
        why=(
            "The plugin ignores keys in the wrong place: renameByDefault and failRequestsGreaterThanOne belong under sharing.timeSlicing, not under flags. "
            "A node takes the entry that its label names; without it GPUs are advertised whole, or MIG slices under the other strategy's names."
        ),
        check=plugin_config,
        sources=(
            "k8s-device-plugin#1433",
            "k8s-device-plugin#321",
            "k8s-device-plugin#990",
            "gpu-operator#412",
            "gpu-operator v26.7.0 values.yaml",
        ),
    ),
    Rule(
        id="device-plugin-daemon-set",
        title="A device plugin without a chart is given its configuration as a file",
        why=(
            "The plugin reads the file that CONFIG_FILE names; a ConfigMap as environment gives it nothing. MPS also needs the control daemon and its folder, which the chart "
            "brings and a DaemonSet of one's own has to."
        ),
        check=daemon_sets,
        sources=("k8s-device-plugin#615", "k8s-device-plugin#1132"),
    ),
)
