"""KServe's InferenceService and LLMInferenceService: settings that its webhooks refuse together, and where a download's token goes.

Source of the refusals: kserve 029a167b, pkg/apis/serving/v1alpha1/llm_inference_service_validation.go. Not for: the engine inside, which
is judged like any other (facts/kserve.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import dig

_LLM = "LLMInferenceService"
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def _specs(stack: Stack) -> Iterator[tuple[Workload, Mapping[str, Any]]]:
    for workload in stack.workloads:
        if workload.kind == _LLM:
            yield workload, mapping(mapping(workload.manifest).get("spec"))


def routers(stack: Stack) -> Iterator[Problem]:
    for workload, spec in _specs(stack):
        router = mapping(spec.get("router"))
        gateway, route = router.get("gateway"), router.get("route")
        own = bool(items(dig(gateway, "refs")))
        http = mapping(dig(route, "http"))
        routes, inline = items(http.get("refs")), mapping(http.get("spec"))
        if routes and inline:
            yield error(
                workload.where, "router.route.http has refs and spec: KServe's webhook takes one of them", "keep one"
            )
        if routes and gateway is not None and not own:
            yield error(
                workload.where,
                "router.route.http.refs names routes of one's own and router.gateway is KServe's: its webhook refuses them together",
                "name the Gateway of these routes in router.gateway.refs, or leave router.gateway out",
            )
        if inline.get("parentRefs") and own:
            yield error(
                workload.where,
                "router.route.http.spec has parentRefs and router.gateway has refs: KServe's webhook takes one of them",
                "leave parentRefs out",
            )
        if own and route is not None and not mapping(route):
            yield warning(
                workload.where,
                "router.gateway.refs names a Gateway and router.route is {}: KServe's webhook refuses that in releases of 2025",
                "leave router.route out, or name routes of your own in router.route.http.refs",
            )


def sizes(stack: Stack) -> Iterator[Problem]:
    for workload, spec in _specs(stack):
        for name, part in (("", spec), ("prefill: ", mapping(spec.get("prefill")))):
            for message, mend in _sizes(part):
                yield error(workload.where, f"{name}{message}: KServe's webhook refuses it", mend)


def _sizes(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    given = mapping(part.get("parallelism"))
    over = [key for key in ("data", "dataLocal", "pipeline") if given.get(key) is not None]
    if part.get("worker") is not None and not over:
        yield (
            "it has a worker and parallelism says neither pipeline nor data",
            "set parallelism.pipeline, or data and dataLocal",
        )
    if "pipeline" in over and len(over) > 1:
        yield "parallelism has pipeline and data", "keep one of them"
    elif len(over) == 1 and over[0] != "pipeline":
        yield f"parallelism.{over[0]} is given alone", "set data and dataLocal"
    for key in over:
        size = whole(given[key])
        if size is not None and size <= 0:
            yield f"parallelism.{key} is {size}", "give 1 or more"


def tokens(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "InferenceService":
            continue
        predictor = mapping(dig(workload.manifest, "spec", "predictor"))
        model = mapping(predictor.get("model"))
        uri = str(model.get("storageUri") or dig(model, "storage", "path") or "")
        given = {str(mapping(each).get("name")) for each in items(model.get("env"))} & {*_TOKENS}
        if uri.startswith("hf://") and given and not predictor.get("serviceAccountName") and not model.get("storage"):
            yield warning(
                workload.where,
                f"{min(given)} is in the environment of the server, and {uri} is downloaded by KServe's storage-initializer before it: a gated model is refused (401)",
                "put the token into a Secret of the predictor's serviceAccountName, or leave storageUri out and let vLLM download",
            )


_ENDPOINT, _ROLE = "serving.kserve.io/s3-endpoint", "eks.amazonaws.com/role-arn"


def endpoints(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("ServiceAccount"):
        if item.annotations.get(_ENDPOINT) and item.annotations.get(_ROLE):
            yield warning(
                item.where,
                f"it has a role and {_ENDPOINT}: KServe's initialiser sends every call there, the one to STS too, and gets no credentials of the role",
                f"leave {_ENDPOINT} out: with a role the bucket is of AWS",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kserve-router",
        title="Gateway and routes of an LLMInferenceService go together",
        why="KServe makes Gateway and route, or takes both from elsewhere. Its webhook refuses mixtures of the two, when the object is created.",
        check=routers,
        sources=("opendatahub-io/models-as-a-service#144", "kserve 029a167b: llm_inference_service_validation.go"),
    ),
    Rule(
        id="kserve-parallelism",
        title="Sizes of an LLMInferenceService go together",
        why="A worker needs a size that says how many pods there are, of stages or of ranks, and ranks are counted in all and on one node. KServe's webhook refuses anything else.",
        check=sizes,
        sources=("kserve 029a167b: llm_inference_service_validation.go",),
    ),
    Rule(
        id="kserve-endpoint",
        title="An S3 endpoint stands beside keys, not beside a role",
        why="The endpoint becomes AWS_ENDPOINT_URL, which boto3 takes for every service. AssumeRoleWithWebIdentity then goes to S3, which answers with an error, and no model is downloaded.",
        check=endpoints,
        sources=("kserve#3482",),
    ),
    Rule(
        id="kserve-token",
        title="The token is where the download is",
        why=(
            "storageUri is fetched by an init container that KServe adds. It gets the token from a Secret of the service account or from storage.key, not from the server's environment; a "
            "gated model then ends in 401 before the server starts."
        ),
        check=tokens,
        sources=("kserve/website#482", "kserve#4400", "kserve#6260"),
    ),
)
