"""Access to weights: gated models have a token where the engine needs it, and offline engines have their weights.

Not for: plain tokens in manifests (secrets.py), or IAM for buckets (network.py and the AWS rules).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import PodGroup, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, has_env, literal_env, ray_version, seats
from ._values import before

_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_ENGINE_CORE_SINCE = "2.49"  # before, the engine core of vLLM's V1 did not get the replica's runtime_env (ray#54812)


def from_hub(seat: Seat) -> bool:
    """Whether weights come from the Hugging Face hub."""
    source = seat.engine.source
    return "://" not in source and not source.startswith(("/", "./", "~")) and source.count("/") <= 1


# huggingface_hub 1.x, utils/_validators.py validate_repo_id
_REPOSITORY = re.compile(r"(\b[\w.-]{1,96}\b/)?\b[\w.-]{1,96}\b", re.ASCII)
_HUB = re.compile(r"(?:hf://|https?://(?:www\.)?huggingface\.co/)(?P<id>[^/?#]+(?:/[^/?#@]+)?).*")


def named(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        source = seat.engine.source
        if not source or any(mark in source for mark in "$<>{}") or "gguf" in source.casefold():
            continue
        address = _HUB.fullmatch(source)
        if address is not None:
            mend, why = (
                f"write {address['id']}",
                "and vLLM takes the id of a repository, a bucket or a folder, no address",
            )
        elif not from_hub(seat) or _taken(source) or has_env(seat, "VLLM_USE_MODELSCOPE"):
            continue
        elif "@" in source:
            name, _, revision = source.partition("@")
            mend, why = (
                f"write {name}, and the revision as engine_args: {{revision: {revision}}}",
                "and an id has no revision in it",
            )
        else:
            mend = "write organisation/name as on huggingface.co (names such as qwen2.5:7b are Ollama's)"
            why = "which is none that the hub takes: letters, digits, '-', '_', '.', and one '/'"
        yield error(
            seat.engine.where, f"its weights are to come from '{source}', {why}: the engine refuses to start", mend
        )


def _taken(source: str) -> bool:
    plain = "--" not in source and ".." not in source and not source.endswith(".git")
    return plain and _REPOSITORY.fullmatch(source) is not None


def gated(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row, engine = seat.row, seat.engine
        if row is None or not row.gated or not from_hub(seat) or _owner(engine.source) != _owner(row.name):
            continue
        if is_offline(seat) or has_env(seat, "HF_ENDPOINT") or seat.args.get("hf_token"):
            continue
        by_engine = any(name in engine.env for name in _TOKENS)
        if seat.workload.huggingface_token:
            continue
        if not by_engine and not _everywhere(seat):
            yield warning(
                engine.where,
                f"{row.name} is gated and no HF_TOKEN reaches its pods: unless its weights are in the image's cache, the download is refused (401)",
                "set huggingface_token: {secret, key}, or source: to a bucket or folder that has the weights",
            )
        elif by_engine and seat.ray:
            ray = ray_version(stack, seat.workload)
            message = "HF_TOKEN is in the runtime_env of the engine only"
            mend = "set huggingface_token: {secret, key}: it goes by reference into every Ray container"
            if before(ray, _ENGINE_CORE_SINCE):
                yield error(
                    engine.where,
                    f"{message}: in Ray {ray} the engine core does not get it, and a gated download is refused (401)",
                    mend,
                )
            else:
                yield warning(engine.where, f"{message}, where it stands in plain text in the manifest", mend)


def _owner(name: str) -> str:
    return name.split("/")[0].casefold() if "/" in name else ""


def is_offline(seat: Seat) -> bool:
    """Whether the engine asks the hub for nothing."""
    return any((literal_env(seat, name) or "").casefold() in ("1", "true", "yes", "on") for name in _OFFLINE)


def _everywhere(seat: Seat) -> bool:
    return any(name in group.env for group in seat.groups for name in _TOKENS) or any(map(_from_a_secret, seat.groups))


def _from_a_secret(group: PodGroup) -> bool:
    """Whether a whole Secret becomes environment: what is in it is not seen, a token as likely as not."""
    first = group.main_container
    return any("secretRef" in mapping(each) for each in items(first.get("envFrom")))


def offline(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if is_offline(seat) and from_hub(seat) and not any(has_env(seat, name) for name in ("HF_HOME", "HF_HUB_CACHE")):
            yield warning(
                seat.engine.where,
                f"the engine is offline (HF_HUB_OFFLINE) and its source is '{seat.engine.source}' on the hub: it starts only if the image's cache has it",
                "set source to the folder in the image or on the volume, or HF_HOME to the cache",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="model-source",
        title="Weights come from an id that the hub takes, a bucket, or a folder",
        why="What is no folder and no bucket is asked of the hub as the id of a repository. An address, a tag or a revision in it is refused before anything is downloaded.",
        check=named,
        sources=("huggingface_hub: utils/_validators.py", "vllm 0.29.0: transformers_utils/runai_utils.py"),
    ),
    Rule(
        id="model-token",
        title="Gated models have a token in every Ray container",
        why=(
            "The hub refuses gated weights without a token of an account that accepted the licence. Replica, engine core and download tasks are different processes: only "
            "the pods' environment reaches all of them, and only a Secret keeps it out of the manifest."
        ),
        check=gated,
        sources=("ray#54812", "vllm PR#21406"),
    ),
    Rule(
        id="model-offline",
        title="An engine without the hub has its weights",
        why="With HF_HUB_OFFLINE nothing is downloaded; a hub id is then looked up in the cache only.",
        check=offline,
    ),
)
