"""The work of a plan grows with its services and no faster. Counted in calls, which are the same on every machine."""

from __future__ import annotations

import cProfile
import pstats

from components.config import parse
from components.plan import assemble
from local.bench.environments import values


def _calls(services: int) -> dict[str, int]:
    """Function -> calls of it while so many services are planned."""
    env = parse(values(services))
    profile = cProfile.Profile()
    profile.runcall(assemble, env, "bench")
    stats: dict[tuple[str, int, str], tuple[int, ...]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    found: dict[str, int] = {}
    for (file, line, name), row in stats.items():
        found[f"{file}:{line} {name}"] = row[1]
    return found


def test_a_plan_of_four_times_as_many_services_takes_four_times_the_calls() -> None:
    assemble(parse(values(4)), "bench")  # catalogs and caches are paid once
    few, many = _calls(25), _calls(100)
    faster = {
        name: (few.get(name, 0), count) for name, count in many.items() if count > 2000 and count > 6 * few.get(name, 1)
    }
    assert faster == {}, "these grow faster than the services"
    assert sum(many.values()) < 4.4 * sum(few.values())
