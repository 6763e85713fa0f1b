"""References to Secrets: keys that the Secret has, where it is seen being made. Not for: secrets in plain text (secrets.py).

A Secret that is not seen may be there; one that this stack makes, or has fetched by the External Secrets Operator, has the keys that are
stated and no others.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import PodGroup, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed
from .pod_resources import containers

Keys = Mapping[tuple[str, str], frozenset[str]]


def keys(stack: Stack) -> Iterator[Problem]:
    known = _known(stack)
    if not known:
        return
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for what, name, key in sorted(set(_asked(group))):
                have = known.get((workload.namespace, name))
                if have is None:
                    near = closest_names(name, [n for space, n in known if space == workload.namespace], 1)
                    if near and near[0].replace("_", "-").casefold() == name.replace("_", "-").casefold():
                        yield error(
                            group.where,
                            f"{what} is of Secret '{name}', which is not there",
                            f"did you mean '{near[0]}'?",
                        )
                elif key not in have:
                    near = closest_names(key, have, 1)
                    yield error(
                        group.where,
                        f"{what} is key '{key}' of Secret '{name}', which has {listed(sorted(have))}: its pods stay in CreateContainerConfigError",
                        f"did you mean '{near[0]}'?" if near else "name a key that it has, or add the key to it",
                    )


_PULL = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")


def pulls(stack: Stack) -> Iterator[Problem]:
    """Secrets that images are pulled with, of a type that kubelet reads."""
    types = {
        (s.namespace, s.name): str(s.manifest.get("type") or "Opaque") for s in stack.of_kind("Secret", group="v1")
    }
    for workload in stack.workloads if types else ():
        for group in workload.pod_groups:
            for each in map(mapping, items(group.pod.get("imagePullSecrets"))):
                kind = types.get((workload.namespace, str(each.get("name"))), _PULL[1])
                if kind not in _PULL:
                    yield error(
                        group.where,
                        f"its pull secret '{each.get('name')}' is of type {kind}, which kubelet does not read: images are pulled without credentials (ImagePullBackOff)",
                        f"make it of type {_PULL[1]}, with key .dockerconfigjson",
                    )


def encoded(stack: Stack) -> Iterator[Problem]:
    """Values under data are base64; the value itself is never shown."""
    for item in stack.of_kind("Secret", group="v1"):
        for key, value in sorted(mapping(item.manifest.get("data")).items()):
            if isinstance(value, str) and not _base64(value):
                yield error(
                    item.where,
                    f"its data '{key}' is no base64: the API server refuses the Secret",
                    "put the value as it is under stringData, or encode it",
                )


def _base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split("\n")), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _asked(group: PodGroup) -> Iterator[tuple[str, str, str]]:
    """(what asks, Secret, key) of all containers; optional ones are left out."""
    for _, container in containers(mapping(group.pod)):
        for entry in map(mapping, items(container.get("env"))):
            reference = mapping(mapping(entry.get("valueFrom")).get("secretKeyRef"))
            if reference.get("name") and reference.get("key") and reference.get("optional") is not True:
                yield str(entry.get("name")), str(reference["name"]), str(reference["key"])
    for volume in map(mapping, items(group.pod.get("volumes"))):
        secret = mapping(volume.get("secret"))
        for entry in map(mapping, items(secret.get("items"))):
            if secret.get("secretName") and entry.get("key") and secret.get("optional") is not True:
                yield f"volume '{volume.get('name')}'", str(secret["secretName"]), str(entry["key"])


def _known(stack: Stack) -> Keys:
    found: dict[tuple[str, str], frozenset[str]] = {}
    for item in stack.of_kind("Secret", "ExternalSecret"):
        if item.kind == "Secret" and item.api_version == "v1":
            stated = {**mapping(item.manifest.get("data")), **mapping(item.manifest.get("stringData"))}
            if stated:
                found[item.namespace, item.name] = frozenset(map(str, stated))
        elif item.kind == "ExternalSecret":
            name, given = _fetched(item.name, item.spec)
            if given is not None:
                found[item.namespace, name] = given
    return found


def _fetched(name: str, spec: Mapping[str, Any]) -> tuple[str, frozenset[str] | None]:
    """Name and keys of the Secret that an ExternalSecret makes; None where the store decides the keys."""
    target = mapping(spec.get("target"))
    template = mapping(mapping(target.get("template")).get("data"))
    name = str(target.get("name") or name)
    if items(spec.get("dataFrom")) or mapping(target.get("template")).get("templateFrom"):
        return name, None
    if template and mapping(target.get("template")).get("mergePolicy") != "Merge":
        return name, frozenset(map(str, template))
    return name, frozenset({*map(str, template), *(str(mapping(e).get("secretKey")) for e in items(spec.get("data")))})


_STORES = ("ClusterSecretStore", "SecretStore")


def external(stack: Stack) -> Iterator[Problem]:
    """ExternalSecrets whose store is of the other kind."""
    stores = stack.of_kind(*_STORES)
    for item in stack.of_kind("ExternalSecret"):
        reference = mapping(item.spec.get("secretStoreRef"))
        if not reference.get("name"):
            continue
        kind, name = str(reference.get("kind") or "SecretStore"), str(reference["name"])
        there = {s.name for s in stores if s.kind == kind and (kind == _STORES[0] or s.namespace == item.namespace)}
        other = {s.name for s in stores if s.kind != kind}
        if kind in _STORES and name not in there and name in other:
            right = next(each for each in _STORES if each != kind)
            yield error(
                item.where,
                f"{kind} '{name}' is not there, and a {right} of that name is: nothing is fetched",
                f"set secretStoreRef.kind: {right}",
            )


# Regions are named by area, direction and number; a list of them would refuse the next one.
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)?-(central|(north|south)(east|west)?|east|west)-\d")


def external_values(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind(*_STORES):
        region = mapping(mapping(item.spec.get("provider")).get("aws")).get("region")
        if isinstance(region, str) and region and not _REGION.fullmatch(region):
            yield error(
                item.where,
                f"its region '{region}' is not the name of one: AWS has no address of that name, and no Secret is made",
                "write a region such as us-west-2",
            )
    for item in stack.of_kind("ExternalSecret"):
        if item.api_version == "external-secrets.io/v1beta1":
            yield warning(
                item.where,
                "external-secrets.io/v1beta1 is no longer served by External Secrets 0.17 and newer",
                "write it for external-secrets.io/v1",
            )
        kind = mapping(item.spec.get("secretStoreRef")).get("kind")
        if kind is not None and kind not in _STORES:
            yield error(
                item.where, f"secretStoreRef is of kind '{kind}'; allowed: {', '.join(_STORES)}", f"use {_STORES[0]}"
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="secret-store",
        title="An ExternalSecret names a store of its kind",
        why=(
            "secretStoreRef.kind is SecretStore unless it is stated, and a ClusterSecretStore of that name is not found then. The Secret is never made, and pods wait in "
            "CreateContainerConfigError."
        ),
        check=external,
        sources=("https://external-secrets.io/latest/api/externalsecret/",),
    ),
    Rule(
        id="secret-store-kind",
        title="An ExternalSecret is written for the operator that reads it, and its store names a region",
        why="The operator knows two kinds of stores, and since 0.17 one version of its objects. Others are refused, or have no controller.",
        check=external_values,
        sources=(
            "external-secrets#720",
            "https://external-secrets.io/latest/api/externalsecret/",
        ),
    ),
    Rule(
        id="secret-keys",
        title="A Secret has the key that is asked of it",
        why=(
            "A pod that asks for a key which its Secret lacks is placed, its node is paid for, and its container is never made (CreateContainerConfigError). Keys differ "
            "between guides: token, HF_TOKEN, hf_api_token."
        ),
        check=keys,
        sources=("https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-environment-variables",),
    ),
    Rule(
        id="secret-pull",
        title="Pull secrets are of the type that kubelet reads",
        why="kubelet takes credentials from Secrets of two types and skips others without a word. The type cannot be changed later: the Secret has to be made anew.",
        check=pulls,
        sources=("kubernetes/website#6793", "kubernetes/kubernetes#20786"),
    ),
    Rule(
        id="secret-data",
        title="Values under a Secret's data are base64",
        why="data holds encoded values, stringData the values themselves. A token, or a variable that nobody has replaced, under data is refused, or decoded into something else.",
        check=encoded,
        sources=("ogx-ai/ogx PR#1914", "https://kubernetes.io/docs/concepts/configuration/secret/"),
    ),
)
