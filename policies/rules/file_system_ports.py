"""Security groups of file systems that pods mount: the ports of their protocol are open. Not for: what is open to the world (aws_exposure.py)."""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import AwsResource, Stack, Values
from policies.facts.aws import EFS, LUSTRE
from policies.facts.quantities import whole
from policies.finding import Problem, Rule, error, warning

_NFS, _LNET, _MORE = 2049, 988, (1018, 1023)


def ports(stack: Stack) -> Iterator[Problem]:
    for each in stack.aws:
        if each.doors is None:
            continue
        if each.type == EFS and not _open(each, _NFS, _NFS):
            yield error(
                each.where,
                f"its security groups let nobody in at port {_NFS}, over which EFS is mounted: pods wait in ContainerCreating until the mount times out",
                f"let the nodes' security group in at tcp {_NFS}",
            )
        elif each.type == LUSTRE and not _open(each, _LNET, _LNET):
            yield error(
                each.where,
                f"its security groups let nobody in at port {_LNET}: FSx makes no file system without it (do not permit Lustre LNET network traffic on port {_LNET})",
                f"let the group itself and the nodes' security group in at tcp {_LNET} and {_MORE[0]}-{_MORE[1]}",
            )
        elif each.type == LUSTRE and not _open(each, *_MORE):
            yield warning(
                each.where,
                f"its security groups do not let ports {_MORE[0]}-{_MORE[1]} in: clients and servers of Lustre call each other back there, and mounts hang",
                f"let the group itself and the nodes' security group in at tcp {_MORE[0]}-{_MORE[1]}",
            )


def _open(of: AwsResource, low: int, high: int) -> bool:
    return any(_covers(rule, low, high) for rule in of.doors or ())


def _covers(rule: Values, low: int, high: int) -> bool:
    """Whether a rule lets all of these ports in; one whose ports are not known may."""
    if str(rule.get("protocol")) in ("-1", "all", "None"):
        return True
    first, last = whole(rule.get("fromPort")), whole(rule.get("toPort"))
    return first is None or last is None or (first <= low and high <= last)


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-file-system",
        title="Nodes reach the file systems that their pods mount",
        why=(
            "EFS is mounted over port 2049, Lustre over 988 and 1018 to 1023. FSx looks at the groups before it makes the file system; EFS does not, and the driver's mount times out in "
            "every pod."
        ),
        check=ports,
        sources=(
            "aws-fsx-csi-driver#32",
            "aws-samples/aws-hpc-recipes#50",
            "https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html",
            "https://docs.aws.amazon.com/efs/latest/ug/network-access.html",
        ),
    ),
)
