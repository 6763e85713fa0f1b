"""Settings that nothing reads: written for another kind of service, or beside a setting that is not there.

Not for: unknown keys (the config refuses them when it is read), or settings that are read and wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

_OTHER = {
    "ray_service": "use kind: ray_job for a job",
    "ray_cluster": "use kind: ray_service, which deploys the engines itself",
    "ray_job": "use kind: ray_service for an endpoint",
    "vllm": "use kind: ray_service, which has them",
}


def unread(stack: Stack) -> Iterator[Problem]:
    for each in stack.unread:
        severity = error if each.certain else warning
        names = ", ".join(each.fields)
        if each.kind is not None:
            them = "it" if len(each.fields) == 1 else "them"
            yield severity(
                each.where,
                f"kind {each.kind} does not read {names}: nothing comes of {them}",
                f"leave {them} out, or {_OTHER[each.kind]}",
            )
        else:
            is_, them = ("is", "it") if len(each.fields) == 1 else ("are", "them")
            yield severity(
                each.where,
                f"{names} {is_} read only with {each.needs}",
                f"leave {them} out, or set {each.needs}",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="config-unread",
        title="Everything that is stated is read",
        why=(
            "A setting that belongs to another kind of service, or to another value of its neighbour, changes nothing, and who wrote it believes that it does: "
            "an address of Redis without the backend, a second model of a plain vLLM, a MIG profile on nodes that advertise whole GPUs. Where what was asked for "
            "would be missing altogether, or a door open that was to be shut, it is an error."
        ),
        check=unread,
    ),
)
