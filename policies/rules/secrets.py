"""Secrets in plain text: environment, arguments, annotations, Helm values, addresses.

Not for: Secret objects, whose content Pulumi keeps encrypted, or stack outputs (components/outputs.py). No message shows a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import SecretRef, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from ._values import chart_name
from .secret_shapes import MARKS, by_name, shape


def environment(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            yield from _env(group.where, group.env)
            for container in map(
                mapping, items(group.pod.get("containers"))[1:] + items(group.pod.get("initContainers"))
            ):
                yield from _env(
                    group.where,
                    {str(mapping(e).get("name")): mapping(e).get("value") for e in items(container.get("env"))},
                )
        for engine in workload.engines:
            if workload.by_kuberay:  # an engine of its own pods has the container's environment
                yield from _env(engine.where, engine.env)


def _env(where: str, env: Mapping[str, str | SecretRef | Any]) -> Iterator[Problem]:
    for name, value in env.items():
        if not isinstance(value, str):
            continue
        what = shape(value)
        if what is None and not by_name(name, value):
            continue
        yield error(
            where,
            f"environment variable {name} holds {what or 'a secret, by its name,'} in plain text: it is in the state, in the API server and in every log of the object",
            "put it into a Secret and refer to it (secret_env, huggingface_token)",
        )


Path = tuple[Any, ...]


def _found(value: Any, path: Path = ()) -> Iterator[tuple[str, str]]:
    """(path, what) of every secret in nested data, sorted. Paths are put into words only for what is found."""
    hits: list[tuple[str, str]] = []
    pending: list[tuple[Any, Path]] = [(value, path)]
    while pending:
        current, where = pending.pop()
        if isinstance(current, str):
            key = next((part for part in reversed(where) if isinstance(part, str)), "")
            what = shape(current) or ("a secret, by its name," if by_name(key, current) else None)
            if what is None and "--" in current and _FLAG.search(current):
                what = "a secret"
            if what is not None:
                hits.append((_words(where), what))
        elif isinstance(current, Mapping):
            pending.extend((v, (*where, str(k))) for k, v in current.items() if v)
        elif isinstance(current, (list, tuple)):
            pending.extend((v, (*where, i)) for i, v in enumerate(current) if v)
    yield from sorted(hits)


def _words(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


_FLAG = re.compile(r"--(?:api-key|hf-token|password|token|redis-password)(?:=|\s+)(?!\$)\S+")


def _plain(where: str, given: Any, path: Path = ()) -> Iterator[Problem]:
    for place, what in _found(given, path):
        yield error(
            where,
            f"{place} holds {what} in plain text",
            "put it into a Secret and let the container read it from its environment",
        )


def arguments(stack: Stack) -> Iterator[Problem]:
    """Engine arguments, application arguments, commands, ray start parameters, annotations and labels."""
    for workload in stack.workloads:
        yield from _plain(workload.where, {"annotations": workload.annotations, "labels": workload.labels})
        for app in () if _clean(workload.spec.get("serveConfigV2")) else workload.apps:
            yield from _plain(workload.where, _without_env(app.args), (f"args of app '{app.name}'",))
        for group in workload.pod_groups:
            given: dict[str, Any] = {"rayStartParams": group.ray_start_params, "annotations": group.annotations}
            for container in map(mapping, items(group.pod.get("containers"))):
                if container.get("command") or container.get("args"):
                    words = {k: container.get(k) for k in ("command", "args")}
                    given[f"container '{container.get('name')}'"] = words
            yield from _plain(group.where, given)
        tolerance = mapping(workload.fault_tolerance)
        if mapping(tolerance.get("redisPassword")).get("value"):
            yield error(
                workload.where,
                "gcsFaultToleranceOptions.redisPassword holds the password in plain text",
                "refer to a Secret: redisPassword.valueFrom.secretKeyRef (fault_tolerance.redis_password)",
            )
        if shape(str(tolerance.get("redisAddress") or "")):
            yield error(
                workload.where,
                "gcsFaultToleranceOptions.redisAddress holds a password in plain text",
                "give host and port only, and the password by fault_tolerance.redis_password",
            )


_SUSPECT = ('token"', 'passwd"', 'password"', 'secret"', 'key"', 'credential"', 'credentials"', "--")


def _clean(text: object) -> bool:
    """Whether serveConfigV2 is JSON without any sign of a secret, so that its applications need no walk."""
    if not isinstance(text, str) or not text.startswith("{") or any(mark in text for mark in MARKS):
        return False
    lower = text.lower()
    return not any(mark in lower for mark in _SUSPECT)


def _without_env(args: Any) -> Any:
    """Application arguments without runtime_env.env_vars, which environment() judges."""
    if isinstance(args, Mapping):
        return {k: _without_env(v) for k, v in args.items() if k != "env_vars"}
    if isinstance(args, (list, tuple)):
        return [_without_env(v) for v in args]
    return args


def helm_values(stack: Stack) -> Iterator[Problem]:
    for release in stack.releases:
        for place, what in _found(release.values):
            yield error(
                release.where,
                f"value {place} of chart {chart_name(release)} holds {what} in plain text: rendered objects and the release's record keep it, even "
                "where the config value is secret",
                "make a Secret and give the chart its name (most charts have existingSecret)",
            )


def objects(stack: Stack) -> Iterator[Problem]:
    """ConfigMaps and annotations of any object. Secrets are where secrets belong."""
    for item in stack.objects:
        if item.kind == "Secret":
            continue
        notes = dict(item.annotations)
        notes.pop("kubectl.kubernetes.io/last-applied-configuration", None)
        data = item.manifest.get("data") if item.kind == "ConfigMap" else None
        yield from _plain(item.where, {"annotations": notes, "data": data})


RULES: tuple[Rule, ...] = (
    Rule(
        id="secret-environment",
        title="No secret in the environment as text",
        why=(
            "A literal in env or runtime_env is part of the custom resource: everyone who may read it has the token, it is in Pulumi's state and in serveConfigV2 that Ray's dashboard "
            "shows."
        ),
        check=environment,
        sources=("pulumi-kubernetes#698",),
    ),
    Rule(
        id="secret-argument",
        title="No secret in arguments, annotations or addresses",
        why="Arguments are visible in the process list, in the dashboard and in logs; annotations to everyone who may list objects.",
        check=arguments,
        sources=("kuberay: gcsFaultToleranceOptions",),
    ),
    Rule(
        id="secret-helm-values",
        title="No secret as a Helm value",
        why=(
            "Chart resources render values into objects whose inputs lose the secret mark, and Helm's own release record keeps the values. A Secret made beside the release and named "
            "in its values has neither fault."
        ),
        check=helm_values,
        sources=("pulumi-kubernetes#999", "pulumi-kubernetes#1353"),
    ),
    Rule(
        id="secret-object",
        title="No secret in a ConfigMap or an annotation",
        why="ConfigMaps and annotations are neither encrypted nor masked, in Kubernetes or in Pulumi's state.",
        check=objects,
    ),
)
