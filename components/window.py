"""Registers many services with Pulumi, no more than a window of them at a time.

At the end of a program Pulumi's Python SDK waits for all outstanding outputs at once, again after each that comes (wait_for_rpcs,
pulumi 3.272, runtime/stack.py): work that is their number squared. Of 1000 services registered at once a preview never ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import pulumi

WIDTH = 50
"""Services that are registered and not yet there. The engine makes fewer resources at a time than they have."""


class Awaited(Protocol):
    """What is made: `ready` resolves when it is there, in a preview when it is planned."""

    ready: pulumi.Output[Any]


Made = TypeVar("Made", bound=Awaited)


async def build(makers: Iterable[Callable[[], Made]], width: int = WIDTH) -> list[Made]:
    """All that the makers make, in their order. Up to `width` of them nothing is waited for. Raises what a resource failed with."""
    made: list[Made] = []
    outstanding: set[asyncio.Future[Any]] = set()
    for make in makers:
        if len(outstanding) >= width:
            arrived, outstanding = await asyncio.wait(outstanding, return_when=asyncio.FIRST_COMPLETED)
            for each in arrived:
                each.result()
        made.append(make())
        outstanding.add(asyncio.ensure_future(made[-1].ready.future()))
    return made
