"""Prefill and decode in engines of their own: both there, alike, and with connectors that speak to each other.

Not for: names and roles of connectors (kv_connectors.py), their ports and addresses (side_channels.py), or routing between replicas (routing.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.ray_releases import PREFILL_DECODE_SINCE, PREFILL_DECODE_V1_SINCE
from policies.facts import ServeApp, Stack, Workload
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning
from policies.fit.engine import one_kind

from ._engines import Seat, ray_version, seats, vllm_version
from ._values import before
from .kv_connectors import by_nixl, carriers, connector_of
from .speculation import WITH_LAYERS, family

_BLOCK = 16
UNEVEN_SINCE = "0.12"  # vllm PR#27274: prefill with more tensor parallel than decode
# Part of the hash that NIXL's two sides compare (nixl/metadata.py); the first two matter to any connector.
_MANAGER = "disable_hybrid_kv_cache_manager"
_ALIKE = ("dtype", "kv_cache_dtype", "attention_backend", _MANAGER)
_ALWAYS = _ALIKE[:2]
# What NIXL hashes of a draft that has layers in the cache.
_OF_DRAFT = ("model", "revision", "code_revision", "parallel_drafting", "kv_cache_dtype")


def pairs(stack: Stack) -> Iterator[tuple[Workload, Seat, Seat]]:
    prefills = {(s.workload.where, s.engine.model_id): s for s in seats(stack) if s.engine.role == "prefill"}
    for seat in seats(stack):
        key = (seat.workload.where, seat.engine.model_id)
        if seat.engine.role == "decode" and key in prefills:
            yield seat.workload, prefills[key], seat


def pairing(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for app in workload.apps:
            yield from _app(workload, app)
    for _, prefill, decode in pairs(stack):
        where = decode.engine.where.removesuffix(": decode")
        left, right = prefill.engine, decode.engine
        if left.source != right.source:
            message = f"prefill loads {left.source} and decode {right.source}: the caches of different weights do not fit each other"
            yield error(where, message, "give both the same model")
        for name in _ALIKE:
            first, second = (_format(seat, name) for seat in (prefill, decode))
            if first != second and (name in _ALWAYS or by_nixl(right)):
                yield error(
                    where,
                    f"prefill has {name} {first} and decode {second}: the connectors compare a hash of it and refuse the handshake",
                    f"give both the same {name}",
                )
        drafts = _draft(prefill), _draft(decode)
        if by_nixl(right) and drafts[0] != drafts[1]:
            yield error(
                where,
                f"prefill speculates by {_named(drafts[0])} and decode by {_named(drafts[1])}: a draft has layers in the cache, the connectors compare a hash of it and refuse the handshake",
                "give both the same speculative_config",
            )
        yield from _sizes(where, stack, prefill, decode)
        a, b = connector_of(left), connector_of(right)
        if not decode.ray and not (a and b):  # Ray refuses the pair (_app)
            missing = " and ".join(side for side, name in (("prefill", a), ("decode", b)) if not name)
            yield warning(
                where,
                f"{missing} {'has' if a or b else 'have'} no kv_transfer_config: prefill's caches never arrive, and decode computes every prompt again",
                'give both --kv-transfer-config \'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\', in args or VLLM_ADDITIONAL_ARGS',
            )
        if a and b and carriers(left).isdisjoint(carriers(right)):
            yield error(
                where,
                f"prefill uses {a} and decode {b}: they do not speak to each other",
                "give both the same kv_connector",
            )


def _sizes(where: str, stack: Stack, prefill: Seat, decode: Seat) -> Iterator[Problem]:
    """Blocks and tensor parallel of both sides, as NIXL's worker compares them (nixl/base_worker.py)."""
    if not by_nixl(decode.engine):
        return
    first, second = (whole(seat.args.get("block_size")) or _BLOCK for seat in (prefill, decode))
    more = prefill.engine.tensor > decode.engine.tensor
    if first != second and (more or second % first):
        why = "prefill has more tensor parallel than decode" if more else "decode's is no multiple of prefill's"
        yield error(
            where,
            f"prefill has block_size {first} and decode {second}, and {why}: the first transfer fails an assertion and ends the engine",
            "give both the same block_size",
        )
    version = vllm_version(stack, decode.workload)
    if more and before(version, UNEVEN_SINCE):
        yield error(
            where,
            f"prefill has tensor parallel {prefill.engine.tensor} and decode {decode.engine.tensor}: vLLM {version} transfers only to as many workers, or more",
            f"use vLLM {UNEVEN_SINCE} or newer, or give prefill at most {decode.engine.tensor}",
        )


def _format(seat: Seat, name: str) -> str:
    """A setting as both sides come to see it: dtype auto is the model's own, and some connectors turn the hybrid manager off."""
    given = str(seat.args.get(name, "auto"))
    if name == _MANAGER:
        return str(switch(seat.args.get(name)) or one_kind(seat.engine.kv_transfer) is not None)
    if name == "dtype":
        given = {"half": "float16", "float": "float32"}.get(given, given)
        return seat.row.dtype if given == "auto" and seat.row is not None else given
    return given


def _draft(seat: Seat) -> tuple[str, ...]:
    """Method and what is given of a draft that has layers in the cache; empty without one."""
    config = mapping(seat.args.get("speculative_config"))
    method = family(config)
    return (method, *(str(config.get(name)) for name in _OF_DRAFT)) if method in WITH_LAYERS else ()


def _named(draft: tuple[str, ...]) -> str:
    return " ".join(part for part in draft[:2] if part != "None") or "no draft"


def _app(workload: Workload, app: ServeApp) -> Iterator[Problem]:
    prefill, decode = app.args.get("prefill_config"), app.args.get("decode_config")
    where = f"{workload.where}: application '{app.name}'"
    if (prefill is None) != (decode is None):
        missing = "decode_config" if decode is None else "prefill_config"
        yield error(
            where,
            f"{missing} is missing: prefill and decode go together",
            f"give {missing}, or serve the model by llm_configs",
        )
        return
    if not isinstance(prefill, dict) or not isinstance(decode, dict):
        return
    names = [mapping(side.get("model_loading_config")).get("model_id") for side in (prefill, decode)]
    if names[0] != names[1]:
        yield error(
            where,
            f"prefill serves model_id '{names[0]}' and decode '{names[1]}': Ray refuses the pair",
            "give both the same model_id",
        )
    paths = [mapping(side.get("lora_config")).get("dynamic_lora_loading_path") for side in (prefill, decode)]
    if paths[0] != paths[1]:
        yield error(
            where,
            "prefill and decode differ in lora_config: both must load the same adapters",
            "give both the same lora_config",
        )
    for side, config in (("prefill", prefill), ("decode", decode)):
        if not mapping(config.get("engine_kwargs")).get("kv_transfer_config"):
            yield error(
                where,
                f"{side} has no kv_transfer_config: Ray refuses the pair",
                "give both kv_transfer_config: {kv_connector: NixlConnector, kv_role: kv_both}",
            )


def versions(stack: Stack) -> Iterator[Problem]:
    for workload, _, decode in pairs(stack):
        ray = ray_version(stack, workload)
        if before(ray, PREFILL_DECODE_SINCE):
            text = f"Ray {ray} has no build_pd_openai_app in ray.serve.llm (it came with {PREFILL_DECODE_SINCE})"
        elif before(ray, PREFILL_DECODE_V1_SINCE):
            text = f"the prefill/decode builder of Ray {ray} asks for a placement group inside the replica's, and vLLM's V1 engine does not start"
        else:
            continue
        yield warning(decode.engine.where.removesuffix(": decode"), text, f"use Ray {PREFILL_DECODE_V1_SINCE} or newer")


RULES: tuple[Rule, ...] = (
    Rule(
        id="disaggregation-pair",
        title="Prefill and decode are a pair",
        why="Ray refuses a side without the other, without kv_transfer_config, or with another name; vLLM's connectors refuse a peer whose cache has another format.",
        check=pairing,
        sources=(
            "kserve#5987",
            "vllm PR#49230",
            "ai-dynamo/dynamo PR#12821",
            "ray 2.60.0: prefill_decode/builder.py",
            "vllm 0.29.0: kv_connector/v1/nixl/metadata.py",
        ),
    ),
    Rule(
        id="disaggregation-versions",
        title="Prefill/decode with a Ray that starts it",
        why="Before Ray 2.52 the builder's engines ask for a second placement group inside the one they are in, which vLLM's V1 engine does not survive.",
        check=versions,
        sources=("vllm#29688", "ray#59064"),
    ),
)
