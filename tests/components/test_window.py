"""Many services are registered a window at a time; few of them at once, as before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from components import window


class Ready:
    """An output that resolves when the test says so."""

    def __init__(self) -> None:
        self.resolved: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def future(self) -> Awaitable[Any]:
        return self.resolved


class Service:
    """What a maker makes; all that are not there yet are in `outstanding`."""

    def __init__(self, name: int, outstanding: list[Service]) -> None:
        self.name = name
        self.ready: Any = Ready()
        outstanding.append(self)


def run(count: int, width: int, arrive: Callable[[Service], None]) -> tuple[list[int], int]:
    """(names in the order of what was made, most that were outstanding at once) while `arrive` is called for one after the other."""
    most = 0

    async def main() -> list[Service]:
        nonlocal most
        outstanding: list[Service] = []
        building = asyncio.ensure_future(
            window.build((partial(Service, name, outstanding) for name in range(count)), width)
        )
        while not building.done():
            await asyncio.sleep(0)
            most = max(most, len(outstanding))
            if len(outstanding) >= width:
                arrive(outstanding.pop())
        return await building

    return [each.name for each in asyncio.run(main())], most


def there(service: Service) -> None:
    service.ready.resolved.set_result("id")


@pytest.mark.parametrize(("count", "most"), [(3, 3), (4, 4), (11, 4)])
def test_no_more_than_the_window_are_outstanding(count: int, most: int) -> None:
    assert run(count, 4, there) == (list(range(count)), most)


def test_what_fits_the_window_is_not_waited_for() -> None:
    async def main() -> None:
        building = window.build(partial(Service, name, []) for name in range(window.WIDTH))
        with pytest.raises(StopIteration):
            building.send(None)

    asyncio.run(main())


def test_a_service_that_failed_ends_the_program() -> None:
    def fail(service: Service) -> None:
        service.ready.resolved.set_exception(RuntimeError(f"service {service.name} was refused"))

    with pytest.raises(RuntimeError, match="was refused"):
        run(6, 4, fail)
