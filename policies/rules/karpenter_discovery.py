"""Tags by which an EC2NodeClass finds its subnets and security groups, against those that the stack makes.

What others made is not seen: only where all of the stack's are seen and none has the tag. Not for: the rest of a class
(karpenter_objects.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed

_KINDS = {
    "subnetSelectorTerms": ("aws:ec2/subnet:Subnet", "subnet"),
    "securityGroupSelectorTerms": ("aws:ec2/securityGroup:SecurityGroup", "security group"),
}


def discovery(stack: Stack) -> Iterator[Problem]:
    classes = stack.of_kind("EC2NodeClass")
    if not classes or not stack.aws:
        return
    for item in classes:
        spec = item.spec
        for field, (kind, noun) in _KINDS.items():
            made = [
                {str(k): str(v) for k, v in mapping(r.props.get("tags")).items()} for r in stack.aws if r.type == kind
            ]
            terms = [mapping(term) for term in items(spec.get(field))]
            if not made or not terms or any(not term.get("tags") for term in terms):
                continue
            wanted = [{str(k): str(v) for k, v in mapping(term["tags"]).items()} for term in terms]
            if any(_has(tags, term) for tags in made for term in wanted):
                continue
            near = _near(made, wanted)
            # EKS makes a security group of the cluster, which no program sees; it makes no subnets.
            if near is None and noun == "security group":
                continue
            shown = listed(f"{key}={value}" for term in wanted for key, value in sorted(term.items()))
            yield (error if near else warning)(
                item.where,
                f"it looks for {noun}s with {shown}, and none of the {len(made)} of this stack has it{f' ({near})' if near else ''}: no node is started",
                f"tag the {noun}s so, or select them by id",
            )


def _has(tags: Mapping[str, str], term: Mapping[str, str]) -> bool:
    return all(key in tags and value in ("*", tags[key]) for key, value in term.items())


def _near(made: Sequence[Mapping[str, str]], wanted: Sequence[Mapping[str, Any]]) -> str | None:
    """What they have instead, where they have the tag with another value."""
    for term in wanted:
        for key in term:
            values = sorted({tags[key] for tags in made if key in tags})
            if values:
                return f"they have {key}={', '.join(values)}"
    return None


RULES: tuple[Rule, ...] = (
    Rule(
        id="karpenter-discovery",
        title="Subnets and security groups have the tags that Karpenter looks for",
        why=(
            "A class that finds no subnet or security group is not ready (SubnetsNotFound), and its pools start nothing. The tag is written in two places, often with the "
            "cluster's name in it, and the names drift apart."
        ),
        check=discovery,
        sources=("https://karpenter.sh/docs/concepts/nodeclasses/#specsubnetselectorterms",),
    ),
)
