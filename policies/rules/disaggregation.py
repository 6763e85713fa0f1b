"""Prefill and decode in engines of their own: both there, alike, and with connectors that speak to each other.

Not for: their ports and addresses (side_channels.py), or routing between replicas (routing.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog.lookup import closest_names
from policies.catalog.ray_releases import PREFILL_DECODE_SINCE, PREFILL_DECODE_V1_SINCE
from policies.facts import Engine, ServeApp, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, ray_version, seats, vllm_version
from ._values import before

NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
# vllm/distributed/kv_transfer/kv_connector/factory.py, of this version; and what earlier ones had.
_CHECKED = "0.29.0"
_EARLIER = ("LMCacheConnector", "P2pNcclConnector", "PyNcclConnector", "SharedStorageConnector")
_UPSTREAM = re.compile(r"(.*/)?(vllm|rayproject)/")  # other images may register connectors of their own
CONNECTORS = (
    "DecodeBenchConnector",
    "ExampleConnector",
    "ExampleHiddenStatesConnector",
    "FlexKVConnectorV1",
    "HF3FSKVConnector",
    "LMCacheConnectorV1",
    "LMCacheMPConnector",
    "MoRIIOConnector",
    "MooncakeConnector",
    "MooncakeStoreConnector",
    "MultiConnector",
    "NixlConnector",
    "NixlPullConnector",
    "NixlPushConnector",
    "OffloadingConnector",
    "SimpleCPUOffloadConnector",
)
# ray/llm/_internal/serve/engines/vllm/kv_transfer/factory.py, 2.60.0; others get no set-up of ports and ids.
_RAY_CONNECTORS = ("LMCacheConnectorV1", "MoRIIOConnector", "MultiConnector", "NixlConnector")
_BLOCK = 16
UNEVEN_SINCE = "0.12"  # vllm PR#27274: prefill with more tensor parallel than decode
_ROLES = ("kv_producer", "kv_consumer", "kv_both")
# Part of the hash that NIXL's two sides compare (nixl/metadata.py); the first two matter to any connector.
_ALIKE = ("dtype", "kv_cache_dtype", "attention_backend", "disable_hybrid_kv_cache_manager")
_ALWAYS = _ALIKE[:2]


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
            if first != second and (name in _ALWAYS or connector_of(right) in NIXL):
                yield error(
                    where,
                    f"prefill has {name} {first} and decode {second}: the connectors compare a hash of it and refuse the handshake",
                    f"give both the same {name}",
                )
        yield from _sizes(where, stack, prefill, decode)
        a, b = connector_of(left), connector_of(right)
        if a and b and a != b:
            yield error(
                where,
                f"prefill uses {a} and decode {b}: they do not speak to each other",
                "give both the same kv_connector",
            )


def _sizes(where: str, stack: Stack, prefill: Seat, decode: Seat) -> Iterator[Problem]:
    """Blocks and tensor parallel of both sides, as NIXL's worker compares them (nixl/base_worker.py)."""
    if connector_of(decode.engine) not in NIXL:
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
    """A setting as both sides come to see it: dtype auto is the model's own."""
    given = str(seat.args.get(name, "auto"))
    if name == "dtype":
        given = {"half": "float16", "float": "float32"}.get(given, given)
        return seat.row.dtype if given == "auto" and seat.row is not None else given
    return given


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


def connector_of(engine: Engine) -> str | None:
    name = mapping(engine.kv_transfer).get("kv_connector")
    return str(name) if name else None


def _no_connector(stack: Stack, seat: Seat, name: str) -> Iterator[Problem]:
    if name in _EARLIER and before(vllm_version(stack, seat.workload), _CHECKED):
        return
    near = closest_names(name, CONNECTORS, 1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    main = seat.group.main_container if seat.group is not None else {}
    image = str(main.get("image") or "")
    misspelt = bool(near) and abs(len(near[0]) - len(name)) <= 3
    own = bool(image) and not _UPSTREAM.match(image) and not misspelt
    yield (warning if own else error)(
        seat.engine.where,
        f"kv_connector '{name}' is none that vLLM has" + (", and so the image has to bring it" if own else ""),
        f"{hint}allowed: {', '.join(CONNECTORS)}, or a kv_connector_module_path",
    )


def connectors(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine = seat.engine
        config = mapping(engine.kv_transfer)
        if not config:
            continue
        for part in (config, *map(mapping, items(mapping(config.get("kv_connector_extra_config")).get("connectors")))):
            name = str(part.get("kv_connector") or "")
            if name and name not in CONNECTORS and not part.get("kv_connector_module_path"):
                yield from _no_connector(stack, seat, name)
        role, connector = config.get("kv_role"), connector_of(engine)
        if connector is None:
            yield error(
                engine.where, "kv_transfer_config has no kv_connector", "name the connector, e.g. NixlConnector"
            )
        elif role not in _ROLES:
            yield error(engine.where, f"kv_role is {role!r}; allowed: {', '.join(_ROLES)}", "use kv_both")
        elif (engine.role, role) in (("prefill", "kv_consumer"), ("decode", "kv_producer")):
            yield error(
                engine.where,
                f"kv_role {role} is the other side's: {engine.role} would wait for a cache it should make or take",
                "use kv_both on both sides",
            )
        if (
            seat.ray
            and engine.role in ("prefill", "decode")
            and connector in CONNECTORS
            and connector not in _RAY_CONNECTORS
        ):
            yield warning(
                engine.where,
                f"Ray Serve LLM has no set-up for {connector}: ports and engine ids are left to you",
                f"use one of {', '.join(_RAY_CONNECTORS)}",
            )
        if seat.ray and engine.role == "serve" and connector in NIXL:
            yield warning(
                engine.where,
                f"{connector} moves caches between engines and this app sends no request from prefill to decode: nothing is ever moved",
                "use disaggregation (prefill_config and decode_config), or take kv_transfer_config out",
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
        sources=("ray 2.60.0: prefill_decode/builder.py", "vllm 0.29.0: kv_connector/v1/nixl/metadata.py"),
    ),
    Rule(
        id="disaggregation-connector",
        title="The KV connector exists and has a role that suits the engine",
        why="An unknown connector or role stops the engine; a connector without a partner moves nothing.",
        check=connectors,
        sources=("vllm 0.29.0: config/kv_transfer.py, kv_connector/factory.py", "ray 2.60.0: kv_transfer/factory.py"),
    ),
    Rule(
        id="disaggregation-versions",
        title="Prefill/decode with a Ray that starts it",
        why="Before Ray 2.52 the builder's engines ask for a second placement group inside the one they are in, which vLLM's V1 engine does not survive.",
        check=versions,
        sources=("vllm#29688", "ray#59064"),
    ),
)
