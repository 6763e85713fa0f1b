"""Network interfaces that NCCL and Gloo are told to use: names that they read, and nodes' own names under hostNetwork.

Not for: variables that turn a network off (network.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._engines import on_gpus
from ._values import literal

_ADDRESS = re.compile(r"=?\d{1,3}(\.\d{1,3}){3}")
_LINK = "pod-id-link0"
_NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def named(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        if seat.ranks <= 1:
            continue
        for group in seat.groups:
            env = {**group.env, **seat.engine.env}
            for name in _NAMES:
                value = literal(env, name) or ""
                if _ADDRESS.fullmatch(value):
                    yield error(
                        group.where,
                        f"{name} is {value}, an address: it is the name of a device that is looked for, and none is called so",
                        f"leave {name} out, or name the device (eth0 in a pod)",
                    )
                elif name == "GLOO_SOCKET_IFNAME" and value.startswith(("^", "=")):
                    yield error(
                        group.where,
                        f"{name} is {value}: prefixes are NCCL's, Gloo looks for a device of that name and ends the engine",
                        "name one device (eth0 in a pod), or leave it out",
                    )
            listed_out = (literal(env, "NCCL_SOCKET_IFNAME") or "").removeprefix("^").split(",")
            excludes = (literal(env, "NCCL_SOCKET_IFNAME") or "").startswith("^")
            if group.host_network and excludes and not any(each and _LINK.startswith(each) for each in listed_out):
                yield warning(
                    group.where,
                    f"NCCL_SOCKET_IFNAME leaves out all but {_LINK}, which EKS Pod Identity adds to a node: it has the same address on every node, and ranks look for each other there",
                    f"add {_LINK} to the list, or name the node's device",
                )
            if group.host_network and seat.ranks > seat.gpus_per_pod > 0 and not env.keys() & {"GLOO_SOCKET_IFNAME"}:
                yield warning(
                    group.where,
                    "hostNetwork and an engine over several nodes without GLOO_SOCKET_IFNAME: Gloo takes the address of the node's name, which is often "
                    "127.0.0.1 in the node's own /etc/hosts, and ranks look for each other there",
                    "leave hostNetwork out, or set GLOO_SOCKET_IFNAME to the node's device",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-interface",
        title="Interfaces are named as NCCL and Gloo read them",
        why=(
            "NCCL takes a list of prefixes, with ^ for all but these; Gloo takes names as they are. Both take names and no addresses. vLLM makes a Gloo group for every engine with more "
            "than one worker, so that a name that does not exist ends it when it starts."
        ),
        check=named,
        sources=(
            "aws-samples/aws-do-eks PR#50",
            "aws-samples/aws-do-eks PR#51",
            "aws-samples/aws-do-eks PR#54",
            "aws-samples/aws-do-eks PR#69",
            "AMD-AGI/Primus PR#1063",
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
        ),
    ),
)
