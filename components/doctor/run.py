"""All checks of a cluster against a plan, in the order of their places. Reads, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from components.checks import Check, unchecked
from components.config import Environment
from components.doctor import nodes, services, software
from components.doctor.live import Cluster, Item, Refused
from components.manifests import releases
from components.plan import Planned
from components.plan.result import PoolPlan


def checks(cluster: Cluster, env: Environment, planned: Planned) -> Iterator[Check]:
    """Every check. Raises nothing for a cluster that refuses: what could not be looked at is a check that says so."""
    yield from _attempt("cluster", "Kubernetes", lambda: software.kubernetes(cluster, planned.stack.versions))
    by_name = {pool.name: pool for pool in planned.plan.pools}
    pods = _list(cluster, "/api/v1/pods", fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    yield from _attempt("node pools", "nodes", lambda: _pools(cluster, planned, by_name, pods))
    yield from _attempt(
        "software", "versions", lambda: software.releases(planned.stack.releases, _controllers(cluster))
    )
    yield from software.queues(cluster, releases.queues(env, planned.pools))
    for service in planned.plan.services:
        yield from services.check(cluster, service, planned.manifests[service.name])
    yield from _attempt("services", "scheduling", lambda: services.waiting(planned.plan.services, pods()))


def _pools(
    cluster: Cluster, planned: Planned, plans: dict[str, PoolPlan], pods: Callable[[], list[Item]]
) -> Iterator[Check]:
    found = nodes.of_pools(planned.pools, _list(cluster, "/api/v1/nodes")())
    for each in found:
        yield from nodes.check(each, plans[each.pool.name])
    for each in found:
        yield from nodes.use(each, plans[each.pool.name], pods())


def _controllers(cluster: Cluster) -> list[Item]:
    found: list[Item] = []
    for kind, path in (("Deployment", "deployments"), ("DaemonSet", "daemonsets")):
        found += [{**each, "kind": kind} for each in _list(cluster, f"/apis/apps/v1/{path}")()]
    return found


def _list(cluster: Cluster, path: str, **query: str) -> Callable[[], list[Item]]:
    """A list that is fetched once, when it is first asked for."""
    kept: list[list[Item]] = []

    def fetch() -> list[Item]:
        if not kept:
            kept.append(cluster.list(path, **query) or [])
        return kept[0]

    return fetch


def _attempt(place: str, name: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    try:
        yield from look()
    except Refused as why:
        yield unchecked(place, name, str(why), "let the credentials read it, or look by hand")
