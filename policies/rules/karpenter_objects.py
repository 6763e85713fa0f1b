"""NodePool and EC2NodeClass as Karpenter reads them: requirements that some instance meets, and classes that are valid.

A NodePool that no instance meets is valid and starts nothing; its pods wait, and only Karpenter's log says why. Judged on the objects
as they are, whoever wrote them. Sources: karpenter-provider-aws 1d92708, pkg/apis/crds and pkg/apis/v1/labels.go. Not for: limits and
minimum (karpenter.py), or images and disks (pool_*.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.catalog import gpus
from policies.catalog.karpenter import LABELS
from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._class_disks import disks, for_gpus
from ._values import listed

_DOMAINS = ("karpenter.k8s.aws", "karpenter.sh")
_AWS = "karpenter.k8s.aws/instance-"
_CAPACITY = ("on-demand", "reserved", "spot")
_OPERATORS = ("DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn")
_GPU_NAMES = tuple(sorted({each.karpenter_name for each in gpus.GPUS if each.karpenter_name}))
# Values that Karpenter's labels can have; a label that is not here is not judged.
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "karpenter.sh/capacity-type": _CAPACITY,
    "kubernetes.io/arch": ("amd64", "arm64"),
    "kubernetes.io/os": ("linux", "windows"),
    f"{_AWS}gpu-manufacturer": ("amd", "aws", "habana", "nvidia"),
    f"{_AWS}gpu-name": tuple(sorted({*_GPU_NAMES, "gaudi-hl-205", "k80", "m60", "radeon-pro-v520", "v100"})),
}
_NUMBERS = ("cpu", "generation", "gpu-count", "gpu-memory", "local-nvme", "memory")
_FEWEST_PODS = (
    10  # DaemonSets of EKS, Karpenter's own taints aside: CNI, kube-proxy, Pod Identity, EBS, GPU operator's four
)


def requirements(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("NodePool", group="karpenter.sh/"):
        nodes = mapping(mapping(item.spec.get("template")).get("spec"))
        for each in map(mapping, items(nodes.get("requirements"))):
            yield from _requirement(item.where, each)
        yield from _taken_twice(item.where, [mapping(each) for each in items(nodes.get("requirements"))])


def _requirement(where: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    key, operator, values = (
        str(given.get("key", "")),
        given.get("operator"),
        [str(v) for v in items(given.get("values"))],
    )
    if operator is None:
        return
    if operator not in _OPERATORS:
        yield error(where, f"requirement {key} has operator '{operator}'", f"use one of {', '.join(_OPERATORS)}")
        return
    if operator in ("In", "NotIn") and given.get("values") is None:
        yield error(where, f"requirement {key} {operator} names no value", "name one, or use Exists or DoesNotExist")
    if operator in ("Gt", "Gte", "Lt", "Lte") and (len(values) != 1 or whole(values[0]) is None):
        yield error(
            where,
            f"requirement {key} {operator} takes one whole number, and has {listed(values) or 'none'}",
            "give one",
        )
    if key.partition("/")[0].endswith(_DOMAINS) and key not in LABELS:
        near = closest_names(key, LABELS, 1)
        yield error(
            where,
            f"'{key}' is none of Karpenter's labels: the API server refuses the NodePool",
            f"did you mean {near[0]}?" if near else "leave it out",
        )
    known = _KNOWN.get(key)
    if known and operator in ("In", "NotIn"):
        for value in values:
            if value not in known:
                near = closest_names(value, known, 1)
                yield (error if len(values) == 1 and operator == "In" else warning)(
                    where,
                    f"no instance has {key} '{value}'"
                    + (": nothing is started" if len(values) == 1 and operator == "In" else ""),
                    f"did you mean '{near[0]}'?" if near else f"use one of {', '.join(known)}",
                )
    if key.removeprefix(_AWS) in _NUMBERS and operator in ("In", "NotIn"):
        wrong = [value for value in values if not value.isdigit()]
        if wrong:
            unit = " (MiB, without unit)" if key.endswith("memory") else ""
            yield error(
                where,
                f"{key} is a whole number{unit}, and the requirement has {listed(wrong)}",
                "write the number alone",
            )
    least = whole(given.get("minValues"))
    if least is not None and operator == "In" and least > len(set(values)):
        yield error(
            where,
            f"requirement {key} names {len(set(values))} values and asks for {least} (minValues): Karpenter starts nothing",
            f"name {least} values, or lower minValues",
        )


def _taken_twice(where: str, given: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Two lists for one label of which no value is in both."""
    lists: dict[str, list[set[str]]] = {}
    for each in given:
        if each.get("operator") == "In":
            lists.setdefault(str(each.get("key")), []).append({str(v) for v in items(each.get("values"))})
    for key, sets in lists.items():
        if len(sets) > 1 and not set.intersection(*sets):
            yield error(
                where, f"its requirements on {key} have no value in common: nothing is started", "keep one of them"
            )


def classes(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("EC2NodeClass", group="karpenter.k8s.aws/"):
        spec = item.spec
        roles = [key for key in ("role", "instanceProfile") if spec.get(key)]
        if len(roles) != 1:
            yield error(
                item.where,
                f"it has {'role and instanceProfile' if roles else 'neither role nor instanceProfile'}: the API server takes exactly one",
                "set role to the nodes' IAM role",
            )
        for key in ("amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"):
            if key in spec and not items(spec[key]):  # one that is not there is the schema's to tell
                yield error(item.where, f"its {key} are empty: the class chooses nothing", f"set {key}")
        terms = [mapping(term) for term in items(spec.get("amiSelectorTerms"))]
        aliases = [str(term["alias"]) for term in terms if term.get("alias")]
        if aliases and (len(terms) > 1 or len(terms[0]) > 1):
            yield error(
                item.where,
                f"alias {aliases[0]} stands beside other amiSelectorTerms: the API server takes an alias alone",
                "keep the alias, or select by id, name, tags or ssmParameter",
            )
        if not aliases and terms and spec.get("amiFamily") in (None, "Custom") and not spec.get("userData"):
            yield warning(
                item.where,
                "its images are selected without an alias, amiFamily is Custom (the default then) and there is no userData: nothing tells a node of its cluster",
                "set amiFamily to what the image is made from (AL2023, Bottlerocket), or give userData",
            )
        for alias in aliases:
            if "@" not in alias:
                yield error(
                    item.where, f"alias '{alias}' has no version", f"write {alias}@v20261101, or {alias}@latest"
                )
        yield from disks(item.where, spec, aliases, for_gpus(stack, item.name))
        most = whole(mapping(spec.get("kubelet")).get("maxPods"))
        if most is not None and most < _FEWEST_PODS:
            yield error(
                item.where,
                f"kubelet.maxPods is {most}: the node's own DaemonSets take as many, and no instance has room for another pod",
                "leave maxPods out, or give it room for DaemonSets and engines",
            )


def references(stack: Stack) -> Iterator[Problem]:
    """Pools that name a class: where classes are seen, one that is nearly another is a mistake."""
    names = [item.name for item in stack.of_kind("EC2NodeClass", group="karpenter.k8s.aws/")]
    for item in stack.of_kind("NodePool", group="karpenter.sh/"):
        given = mapping(mapping(mapping(item.spec.get("template")).get("spec")).get("nodeClassRef"))
        name = str(given.get("name") or "")
        if not given or item.api_version != "karpenter.sh/v1":
            continue  # told by the schema, and by its age
        if not name or not given.get("kind") or not given.get("group"):
            missing = [key for key in ("group", "kind", "name") if not given.get(key)]
            yield error(
                item.where, f"its nodeClassRef lacks {listed(missing)}", "name group, kind and name of the class"
            )
        elif given.get("kind") == "EC2NodeClass" and names and name not in names and closest_names(name, names, 1):
            yield error(
                item.where,
                f"EC2NodeClass '{name}' is not there: the pool is never ready",
                f"did you mean '{closest_names(name, names, 1)[0]}'?",
            )
    for item in stack.objects:
        old = item.api_version in (
            "karpenter.sh/v1alpha5",
            "karpenter.sh/v1beta1",
            "karpenter.k8s.aws/v1beta1",
            "karpenter.k8s.aws/v1alpha1",
        )
        if old:
            yield error(item.where, f"Karpenter 1.0 and newer do not know {item.api_version}", "write it for v1")


RULES: tuple[Rule, ...] = (
    Rule(
        id="karpenter-requirements",
        title="Some instance meets a NodePool's requirements",
        why=(
            "Requirements are compared with labels letter by letter: GPUs are l4 and a10g, capacity is on-demand, memory is in MiB. One that nothing meets makes no error; "
            "the pods wait for a node that never comes."
        ),
        check=requirements,
        sources=(
            "karpenter-provider-aws#6884",
            "karpenter-provider-aws#5527",
            "https://karpenter.sh/docs/concepts/scheduling/",
        ),
    ),
    Rule(
        id="karpenter-class",
        title="An EC2NodeClass is one that Karpenter takes, and its disk is the one that is used",
        why=(
            "The class names one role, images, subnets and security groups. The disk that holds images and weights has another name on Bottlerocket than on AL2023; "
            "a mapping of the wrong name adds an empty disk and leaves 20 GiB for everything."
        ),
        check=classes,
        sources=(
            "karpenter-provider-aws#5283",
            "karpenter-provider-aws#6884",
            "karpenter-provider-aws#7928",
            "https://karpenter.sh/docs/concepts/nodeclasses/",
        ),
    ),
    Rule(
        id="karpenter-references",
        title="A NodePool names a class that is there, in a version that Karpenter reads",
        why="A pool without its class is never ready, and objects of v1beta1 and older are not known to Karpenter 1.0 and newer.",
        check=references,
        sources=("https://karpenter.sh/docs/upgrading/v1-migration/",),
    ),
)
