"""EKS add-ons: their names, and configuration values as their schemas take them.

EKS checks both when the add-on is made, a quarter of an hour after the cluster was. Not for: add-on versions (cluster_versions.py).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.aws import ADDON
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed

# Add-ons of AWS and of the community (https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html). Vendors have
# others, so only a name that is nearly one of these is a mistake.
ADDONS = (
    "adot",
    "amazon-cloudwatch-observability",
    "aws-ebs-csi-driver",
    "aws-efs-csi-driver",
    "aws-fsx-csi-driver",
    "aws-guardduty-agent",
    "aws-mountpoint-s3-csi-driver",
    "aws-network-flow-monitoring-agent",
    "aws-privateca-connector-for-kubernetes",
    "aws-secrets-store-csi-driver-provider",
    "cert-manager",
    "coredns",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "external-dns",
    "fluent-bit",
    "kube-proxy",
    "kube-state-metrics",
    "metrics-server",
    "prometheus-node-exporter",
    "snapshot-controller",
    "vpc-cni",
)
_BROUGHT = ("coredns", "kube-proxy", "vpc-cni")
# Words of the schema's own form: whoever copies its path writes them as keys.
_OF_SCHEMAS = ("$ref", "$schema", "additionalProperties", "definitions", "properties", "VpcCni", "Coredns", "EbsCsi")
# The CNI's schema has text with the format of a switch or a number: JSON's true and 1 are refused.
_TEXTS = {"vpc-cni": ("enableNetworkPolicy", "enableWindowsIpam", "enableWindowsPrefixDelegation")}


def addons(stack: Stack) -> Iterator[Problem]:
    for each in stack.of_type(ADDON):
        name = str(mapping(each.props).get("addonName") or "")
        near = [] if name in ADDONS or "_" in name else [n for n in closest_names(name, ADDONS, 1) if _alike(name, n)]
        if near:
            yield error(each.where, f"EKS has no add-on '{name}'", f"did you mean '{near[0]}'?")


def _alike(given: str, name: str) -> bool:
    """Whether one is the other with a letter or two wrong: longer differences are another vendor's add-on."""
    return difflib.SequenceMatcher(None, given, name).ratio() > 0.88


def values(stack: Stack) -> Iterator[Problem]:
    for each in stack.of_type(ADDON):
        given = mapping(each.props).get("configurationValues")
        if not isinstance(given, str) or not given.strip():
            continue
        try:
            parsed: Any = json.loads(given)
        except json.JSONDecodeError:
            continue  # EKS takes YAML as well
        name = str(mapping(each.props).get("addonName") or "")
        if not isinstance(parsed, Mapping):
            yield error(each.where, "its configurationValues are no mapping", "give an object of the add-on's settings")
            continue
        copied = sorted(key for key in parsed if key in _OF_SCHEMAS)
        if copied:
            yield error(
                each.where,
                f"its configurationValues have {listed(copied)}, which are parts of the schema's own form: no setting is called so, and EKS refuses the add-on",
                "write the settings themselves at the top, e.g. enableNetworkPolicy",
            )
        texts = {key: parsed[key] for key in _TEXTS.get(name, ()) if key in parsed}
        texts |= {f"env.{key}": value for key, value in mapping(parsed.get("env")).items() if name == "vpc-cni"}
        wrong = [key for key, value in texts.items() if not isinstance(value, str)]
        if wrong:
            yield error(
                each.where,
                f"{listed(sorted(wrong))} of its configurationValues are no text, and the add-on's schema takes text alone",
                'put the values in quotes: "true", "1"',
            )


def conflicts(stack: Stack) -> Iterator[Problem]:
    """Add-ons over what EKS puts into a cluster by itself."""
    bare = {
        mapping(each.props).get("bootstrapSelfManagedAddons") is False
        for each in stack.aws
        if each.type == "aws:eks/cluster:Cluster"
    }
    for each in stack.of_type(ADDON) if bare == {False} else ():
        props = mapping(each.props)
        resolved = props.get("resolveConflictsOnCreate") or props.get("resolveConflicts")
        if props.get("addonName") in _BROUGHT and resolved != "OVERWRITE":
            yield warning(
                each.where,
                f"EKS puts {props['addonName']} into a new cluster by itself, and the add-on does not overwrite it: it can end in CREATE_FAILED (ConfigurationConflict)",
                "set resolveConflictsOnCreate: OVERWRITE, or the cluster's bootstrapSelfManagedAddons: false",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="eks-addon-name",
        title="Add-ons are ones that EKS has",
        why="A mistyped add-on is found after the cluster was made, which takes a quarter of an hour.",
        check=addons,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html",),
    ),
    Rule(
        id="eks-addon-values",
        title="Configuration values are ones that the add-on's schema takes",
        why=(
            "EKS compares configurationValues with the add-on's JSON schema, which allows nothing else (ConfigurationValue provided in request is not supported). The schema's "
            "definitions are no settings, and the CNI's switches and numbers are text."
        ),
        check=values,
        sources=(
            "terraform-aws-modules/terraform-aws-eks#2878",
            "amazon-vpc-cni-k8s#2272: its schema",
            "https://docs.aws.amazon.com/cli/latest/reference/eks/describe-addon-configuration.html",
        ),
    ),
    Rule(
        id="eks-addon-conflicts",
        title="Add-ons take over what EKS has put into the cluster",
        why=(
            "A new cluster has network, proxy and DNS from EKS, whose fields belong to another manager. An add-on that may not overwrite them fails at the first that differs, which came and "
            "went with releases of the add-ons."
        ),
        check=conflicts,
        sources=(
            "amazon-network-policy-controller-k8s#200",
            "zalando-incubator/kubernetes-on-aws PR#10377",
            "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html",
        ),
    ),
)
