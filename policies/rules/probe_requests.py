"""What probes ask of a plain vLLM server: paths that it has, the scheme that it speaks, no key that they lack, and time to answer.

Not for: the probe's port (serve_ports.py), or how long a load takes (probes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import LOOPBACK
from .published import keyed

# GET routes of vllm/entrypoints, 0.29 to 0.32, that answer without a request body.
SERVED = (
    "/docs", "/fault_tolerance/status", "/health", "/is_paused", "/is_scaling_elastic_ep", "/is_sleeping", "/load", "/metrics", "/openapi.json", "/ping",
    "/ready", "/readyz", "/redoc", "/server_info", "/tokenizer_info", "/v1/models", "/version",
)  # fmt: skip
_GUARDED = ("/v1", "/v2", "/inference", "/cohere")  # where vLLM compares its key
_BEHIND = (
    "Deployment",
    "StatefulSet",
    "LeaderWorkerSet",
)  # Services send them requests; KServe brings a probe of its own
_TLS_BY_CLUSTER = (
    "LLMInferenceService"  # KServe's presets give vLLM a certificate where the cluster's config says so (EnableTLS)
)
# A saturated vLLM misses a second: three misses in 15 s took pods out and ended them (llm-d-benchmark PR#1734).
HASTY_SECONDS = 30


def _probes(group: PodGroup) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    given = {"liveness": group.liveness_probe, "readiness": group.readiness_probe, "startup": group.startup_probe}
    for name, probe in given.items():
        http = mapping(mapping(probe).get("httpGet"))
        if http:
            yield name, mapping(probe), http


def _plain(stack: Stack) -> Iterator[tuple[Workload, PodGroup, Mapping[str, Any]]]:
    for workload in stack.workloads:
        if workload.engines and not workload.by_kuberay:
            for group in workload.groups:
                yield workload, group, mapping(workload.engines[0].engine_args)


def requests(stack: Stack) -> Iterator[Problem]:
    for workload, group, args in _plain(stack):
        guarded = keyed(workload)
        encrypted = bool(args.get("ssl_certfile") or args.get("ssl_keyfile"))
        for name, _, http in _probes(group):
            path = str(http.get("path") or "/").partition("?")[0].rstrip("/") or "/"
            outcome = "the container is ended again and again" if name == "liveness" else "the pod is never ready"
            if path not in SERVED and not args.get("root_path"):
                yield (error if http.get("path") else warning)(  # without a path it is /, or one that is not known yet
                    group.where,
                    f"its {name} probe asks {path}, which vLLM's server does not have: it answers 404, and {outcome}",
                    "ask /health",
                )
                continue
            if guarded and path.startswith(_GUARDED) and not _authorized(http):
                yield error(
                    group.where,
                    f"its {name} probe asks {path}, where vLLM wants its key: it answers 401, and {outcome}",
                    "ask /health, which needs no key",
                )
            asked = str(http.get("scheme") or "HTTP").upper()
            if workload.kind != _TLS_BY_CLUSTER and (asked == "HTTPS") != encrypted:
                speaks = "HTTPS (ssl_certfile)" if encrypted else "HTTP"
                yield (error if http.get("scheme") else warning)(
                    group.where,
                    f"its {name} probe asks by {asked} and vLLM speaks {speaks}: {outcome}",
                    f"set scheme: {'HTTPS' if encrypted else 'HTTP'}",
                )


def _authorized(http: Mapping[str, Any]) -> bool:
    return any(
        str(mapping(each).get("name", "")).casefold() == "authorization" for each in items(http.get("httpHeaders"))
    )


def hasty(stack: Stack) -> Iterator[Problem]:
    for _, group, _ in _plain(stack):
        probe = mapping(group.liveness_probe)
        if not group.gpus or not mapping(probe.get("httpGet")):
            continue
        period, failures = _number(probe, "periodSeconds", 10), _number(probe, "failureThreshold", 3)
        timeout = _number(probe, "timeoutSeconds", 1)
        if timeout <= 1 and period * failures < HASTY_SECONDS:
            yield warning(
                group.where,
                f"its liveness probe gives vLLM {timeout} s to answer and ends it after {failures} misses, {period * failures} s: a server under load answers "
                "later, and is restarted with everything that it was doing",
                "set timeoutSeconds: 10 and failureThreshold: 6 or more",
            )


def missing(stack: Stack) -> Iterator[Problem]:
    for workload, group, args in _plain(stack):
        serves = group is workload.groups[0] and not args.get(
            "headless"
        )  # the others of a LeaderWorkerSet only compute
        if workload.kind in _BEHIND and serves and not (group.readiness_probe or group.startup_probe):
            yield warning(
                group.where,
                "it has no readiness and no startup probe: the pod is ready while vLLM still loads, gets requests that fail, and a rollout ends the pods that answer",
                "add a startupProbe and a readinessProbe that ask /health",
            )


def _number(probe: Mapping[str, Any], key: str, default: int) -> int:
    given = whole(probe.get(key))
    return default if given is None else given


def loopback(stack: Stack) -> Iterator[Problem]:
    """A server that listens on 127.0.0.1 is reached by nothing but its own pod."""
    for _, group, _ in _plain(stack):
        containers = [mapping(c) for c in items(group.pod.get("containers"))]
        first = containers[0] if containers else {}
        words = [str(word) for key in ("command", "args") for word in items(first.get(key))]
        for index, word in enumerate(words):
            host = (
                word.removeprefix("--host=")
                if word.startswith("--host=")
                else words[index + 1 : index + 2][0]
                if word == "--host" and words[index + 1 :]
                else ""
            )
            if host in LOOPBACK and (len(containers) == 1 or any(True for _ in _probes(group))):
                yield error(
                    group.where,
                    f"vLLM listens on {host}: probes and Services reach a pod by its address, where nobody listens",
                    "leave --host out, or set 0.0.0.0",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="probe-request",
        title="Probes ask what vLLM's server answers",
        why=(
            "The kubelet takes any status from 200 to 399 for health. A path that the server does not have, a path that wants a key, and the wrong scheme fail for ever: the pod "
            "is never ready, or is ended as often as it has loaded its model."
        ),
        check=requests,
        sources=("vllm 0.32: entrypoints (routes), entrypoints/serve/middleware/authenticate.py",),
    ),
    Rule(
        id="probe-none",
        title="An engine that loads gets no requests",
        why=(
            "Without a probe the kubelet takes a container for ready as soon as its process runs, minutes before vLLM answers. Each start, each scale-up and each rollout is an outage then."
        ),
        check=missing,
        sources=("vllm-project/aibrix PR#2264",),
    ),
    Rule(
        id="probe-hasty",
        title="A busy engine is not taken for a dead one",
        why=(
            "vLLM answers probes in the event loop that also takes requests apart. Under load the answer comes after the one second that a probe waits by default, and a liveness "
            "probe then ends an engine that is at work."
        ),
        check=hasty,
        sources=("llm-d-benchmark PR#1734", "scaleapi/llm-engine PR#255", "aibrix PR#2581"),
    ),
    Rule(
        id="engine-loopback",
        title="The engine listens where others can reach it",
        why="A server on a loopback address answers its own pod only; probes, Services and gateways connect to the pod's address.",
        check=loopback,
        sources=("https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/",),
    ),
)
