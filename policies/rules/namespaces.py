"""Namespaces: there when objects are put into them, and made once. Not for: names of what is in them (names.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

_OF_KUBERNETES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})


def there(stack: Stack) -> Iterator[Problem]:
    """On a cluster that is made here a namespace is there only if this stack makes it, or somebody did after an earlier update."""
    for name, count in sorted(Counter(stack.namespaces).items()):
        if count > 1:
            yield error(
                f"namespace '{name}'",
                f"{count} services make it (create_namespace): the second one fails, since it is there already",
                "let one of them make it",
            )
    if not stack.complete or not stack.fresh:
        return
    made = _OF_KUBERNETES | set(stack.namespaces) | {release.namespace for release in stack.releases}
    for workload in stack.workloads:
        if workload.namespace not in made:
            yield warning(
                workload.where,
                f"nothing here makes namespace '{workload.namespace}', and the cluster is made here: the first deployment fails with 'namespaces not found'",
                "set create_namespace: true",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="namespace-there",
        title="A namespace is there, and made once",
        why=(
            "Objects in a namespace that does not exist are refused, after the cluster and its nodes were made. A namespace that two services make is refused the second "
            "time: Pulumi creates, it does not adopt."
        ),
        check=there,
        sources=("pulumi-kubernetes 4.29 CHANGELOG: creation of objects that exist",),
    ),
)
