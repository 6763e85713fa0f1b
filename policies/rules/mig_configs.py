"""MIG configurations of one's own (mig-parted), in the ConfigMap that the GPU Operator's MIG manager reads.

Not for: profiles that pools name (sharing.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error

from ._values import listed

_FILE = "config.yaml"
_PROFILE = re.compile(r"(?P<slices>[1-7])g\.(?P<gb>\d+)gb(\+me(\.all)?|\+gfx|-me)?")
_SLICES = 7  # of every GPU but A30, which has 4


def configs(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("ConfigMap"):
        for name, text in mapping(item.manifest.get("data")).items():
            if "mig-configs" not in str(text):
                continue
            if name != _FILE:
                yield error(
                    item.where,
                    f"its MIG configurations are under the key '{name}', and the MIG manager reads {_FILE}",
                    f"call the key {_FILE}",
                )
            try:
                given = mapping(yaml.safe_load(str(text)))
            except yaml.YAMLError:
                yield error(
                    item.where, f"'{name}' is not YAML: no configuration in it can be chosen", "correct the text"
                )
                continue
            for config, entries in mapping(given.get("mig-configs")).items():
                for entry in map(mapping, items(entries)):
                    yield from _entry(item.where, str(config), entry)


def _entry(where: str, config: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    devices = mapping(entry.get("mig-devices"))
    wrong = [str(name) for name in devices if not _PROFILE.fullmatch(str(name))]
    if wrong:
        yield error(
            where, f"configuration '{config}' names {listed(wrong)}, which is no MIG profile", "write 1g.10gb, say"
        )
        return
    if entry.get("mig-enabled") is False and devices:
        yield error(where, f"configuration '{config}' switches MIG off and names instances", "set mig-enabled: true")
    slices = 0
    for name, count in devices.items():
        match = _PROFILE.fullmatch(str(name))
        slices += int(match["slices"]) * (whole(count) or 0) if match else 0
    if slices > _SLICES:
        yield error(
            where,
            f"configuration '{config}' asks for {slices} compute slices of one GPU ({', '.join(f'{n} x {name}' for name, n in devices.items())}), and a GPU has {_SLICES}",
            "ask for fewer instances",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="mig-configs",
        title="MIG configurations can be made",
        why=(
            "The MIG manager reads the ConfigMap's key config.yaml and hands it to mig-parted. What cannot be made ends in the node label mig.config.state: failed, and the node "
            "advertises nothing."
        ),
        check=configs,
        sources=("NVIDIA/mig-parted v0.15.0", "gpu-operator v26.7.0: values.yaml migManager.config"),
    ),
)
