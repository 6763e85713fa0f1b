"""Queues of the batch scheduler: made whether the stack installs the scheduler or finds it there.

Not for deciding what is in them (manifests/kai.py, manifests/volcano.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from components.software_release import apply_all


class Queues(pulumi.ComponentResource):
    """`ready`: every queue, each made after its parent; on destroy children go first, as both schedulers demand."""

    ready: tuple[pulumi.Resource, ...]

    def __init__(
        self,
        name: str,
        *,
        manifests: Sequence[Mapping[str, Any]],
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("llm-serving:software:Queues", name, {}, opts)
        self.ready = tuple(apply_all("queue", manifests, after, self))
        self.register_outputs({})
