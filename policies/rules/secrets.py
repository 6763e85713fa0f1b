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

from ._places import pods_of
from ._values import chart_name

# What tokens look like, by their makers' published prefixes.
_SHAPES = re.compile(
    r"(?P<hf>\bhf_[A-Za-z0-9]{20,})|(?P<aws>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)|(?P<key>-----BEGIN [A-Z ]*PRIVATE KEY-----)"
    r"|(?P<github>\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,})|(?P<gitlab>\bglpat-[A-Za-z0-9_-]{20,})"
    r"|(?P<openai>\bsk-[A-Za-z0-9_-]{20,})|(?P<nvidia>\bnvapi-[A-Za-z0-9_-]{20,})|(?P<slack>\bxox[abprs]-[A-Za-z0-9-]{10,})"
    r"|(?P<google>\bAIza[0-9A-Za-z_-]{35})|(?P<jwt>\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.)"
    r"|(?P<url>\b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@$<{]+@)"
)
_WHAT = {
    "hf": "a Hugging Face token",
    "aws": "an AWS access key",
    "key": "a private key",
    "github": "a GitHub token",
    "gitlab": "a GitLab token",
    "openai": "an API key",
    "nvidia": "an NVIDIA API key",
    "slack": "a Slack token",
    "google": "a Google API key",
    "jwt": "a signed token",
    "url": "an address with a password",
}
# Names that hold a secret: the word at the end, so that MAX_TOKENS, TOKENIZERS_PARALLELISM and TOKEN_FILE do not match.
_NAME = re.compile(
    r"(^|[_-])(token|passwd|password|secret|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret[_-]?access[_-]?key|credentials?|auth[_-]?token)$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Identifiers that are no secrets by themselves.
_HARMLESS = ("AWS_ACCESS_KEY_ID",)


def shape(text: str) -> str | None:
    """What a text holds, if it looks like a secret."""
    if len(text) < 12:
        return None
    match = _SHAPES.search(text)
    return _WHAT[match.lastgroup or ""] if match else None


def by_name(name: str, value: object) -> bool:
    """Whether a setting of that name with that literal value is a secret in plain text."""
    if (
        not isinstance(value, str)
        or not value.strip()
        or value.lower() in ("true", "false", "none", "null", "auto", "disabled", "token", "changeme-by-secret")
    ):
        return False
    if value.startswith(("$", "{{", "/", "file:")) or value.isdigit():
        return False
    return name not in _HARMLESS and bool(_NAME.search(_CAMEL.sub("_", name)))


def environment(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in pods_of(workload):
            yield from _env(group.where, group.env)
            for container in map(
                mapping, items(group.pod.get("containers"))[1:] + items(group.pod.get("initContainers"))
            ):
                yield from _env(
                    group.where,
                    {str(mapping(e).get("name")): mapping(e).get("value") for e in items(container.get("env"))},
                )
        for engine in workload.engines:
            if workload.kind != "Deployment":  # a Deployment's engine has the container's own environment
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


def _strings(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """(path, key, text) of every text in nested data."""
    pending: list[tuple[Any, str, str]] = [(value, path, "")]
    while pending:
        current, where, key = pending.pop()
        if isinstance(current, Mapping):
            pending.extend((v, f"{where}.{k}" if where else str(k), str(k)) for k, v in current.items())
        elif isinstance(current, (list, tuple)):
            pending.extend((v, f"{where}[{i}]", key) for i, v in enumerate(current))
        elif isinstance(current, str):
            yield where, key, current


def arguments(stack: Stack) -> Iterator[Problem]:
    """Engine arguments, application arguments, commands, ray start parameters, annotations and labels."""
    for workload in stack.workloads:
        for path, key, text in sorted(_strings({"annotations": workload.annotations, "labels": workload.labels}, "")):
            yield from _plain(workload.where, path, key, text)
        for app in workload.apps:
            for path, key, text in sorted(_strings(_without_env(app.args), f"args of app '{app.name}'")):
                yield from _plain(workload.where, path, key, text)
        for group in pods_of(workload):
            given: dict[str, Any] = {"rayStartParams": group.ray_start_params, "annotations": group.annotations}
            for container in map(mapping, items(group.pod.get("containers"))):
                given[f"container '{container.get('name')}'"] = {k: container.get(k) for k in ("command", "args")}
            for path, key, text in sorted(_strings(given, "")):
                yield from _plain(group.where, path, key, text)
        tolerance = mapping(workload.fault_tolerance)
        if mapping(tolerance.get("redisPassword")).get("value"):
            yield error(
                workload.where,
                "gcsFaultToleranceOptions.redisPassword holds the password in plain text",
                "refer to a Secret: redisPassword.valueFrom.secretKeyRef (fault_tolerance.redis_password)",
            )
        address = str(tolerance.get("redisAddress") or "")
        if shape(address):
            yield error(
                workload.where,
                "gcsFaultToleranceOptions.redisAddress holds a password in plain text",
                "give host and port only, and the password by fault_tolerance.redis_password",
            )


def _without_env(args: Mapping[str, Any]) -> Any:
    """Application arguments without runtime_env.env_vars, which environment() judges."""
    if isinstance(args, Mapping):
        return {k: _without_env(v) for k, v in args.items() if k != "env_vars"}
    if isinstance(args, (list, tuple)):
        return [_without_env(v) for v in args]
    return args


_FLAG = re.compile(r"--(?:api-key|hf-token|password|token|redis-password)(?:=|\s+)(?!\$)\S+")


def _plain(where: str, path: str, key: str, text: str) -> Iterator[Problem]:
    what = shape(text) or ("a secret" if by_name(key, text) or _FLAG.search(text) else None)
    if what is not None:
        yield error(
            where,
            f"{path} holds {what} in plain text",
            "put it into a Secret and let the container read it from its environment",
        )


def helm_values(stack: Stack) -> Iterator[Problem]:
    for release in stack.releases:
        for path, key, text in sorted(_strings(release.values, "")):
            what = shape(text) or ("a secret, by its name," if by_name(key, text) else None)
            if what is not None:
                yield error(
                    release.where,
                    f"value {path} of chart {chart_name(release)} holds {what} in plain text: rendered objects and the release's record keep it, even where the config value is secret",
                    "make a Secret and give the chart its name (most charts have existingSecret)",
                )


def objects(stack: Stack) -> Iterator[Problem]:
    """ConfigMaps and annotations of any object. Secrets are where secrets belong."""
    for item in stack.objects:
        if item.kind == "Secret":
            continue
        manifest = mapping(item.manifest)
        given: dict[str, Any] = {"annotations": mapping(manifest.get("metadata")).get("annotations")}
        if item.kind == "ConfigMap":
            given["data"] = manifest.get("data")
        for path, key, text in sorted(_strings(given, "")):
            if key == "kubectl.kubernetes.io/last-applied-configuration":
                continue
            what = shape(text) or ("a secret, by its name," if by_name(key, text) else None)
            if what is not None:
                yield error(item.where, f"{path} holds {what} in plain text", "put it into a Secret")


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
