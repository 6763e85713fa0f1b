"""KV connectors of vLLM: ones that exist, with a role, and with the connectors of which one is made.

Not for: prefill and decode as a pair (disaggregation.py), or sizes of caches (cache_offload.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.kv_connector_keys import KEYS
from policies.catalog.lookup import closest_names
from policies.facts import Engine, Stack
from policies.facts.quantities import items, mapping, switch
from policies.finding import Problem, Rule, error, warning
from policies.fit.engine import connectors as parts
from policies.fit.engine import one_kind

from ._engines import Seat, seats, vllm_version
from ._values import before
from .engine_values import as_read

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
_SEVERAL = "MultiConnector"
_MANAGER = "disable_hybrid_kv_cache_manager"
_LMCACHE = "lmcache."  # the installed LMCache brings the connector, and may read more
_ROLES = ("kv_producer", "kv_consumer", "kv_both")


def connector_of(engine: Engine) -> str | None:
    name = mapping(engine.kv_transfer).get("kv_connector")
    return str(name) if name else None


def carriers(engine: Engine) -> frozenset[str]:
    """Names of the connectors that carry caches: its own, or those of which a MultiConnector is made."""
    return frozenset(parts(engine.kv_transfer)) - {_SEVERAL, ""}


def by_nixl(engine: Engine) -> bool:
    return not carriers(engine).isdisjoint(NIXL)


def _no_connector(stack: Stack, seat: Seat, name: str) -> Iterator[Problem]:
    if name in _EARLIER and before(vllm_version(stack, seat.workload), _CHECKED):
        return
    near = closest_names(name, CONNECTORS, 1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    main = seat.group.main_container if seat.group is not None else {}
    image = str(main.get("image") or "")
    misspelt = bool(near) and abs(len(near[0]) - len(name)) <= 3
    own = bool(image) and not _UPSTREAM.match(image) and (name in _EARLIER or not misspelt)
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
        inside = [*map(mapping, items(mapping(config.get("kv_connector_extra_config")).get("connectors")))]
        for part in (config, *inside):
            name = str(part.get("kv_connector") or "")
            if name and name not in CONNECTORS and not part.get("kv_connector_module_path"):
                yield from _no_connector(stack, seat, name)
            yield from _keys(stack, seat, part)
        alone = one_kind(config)
        if alone and switch(seat.args.get(_MANAGER)) is False and as_read(stack, seat):
            yield error(
                engine.where,
                f"{_MANAGER} is false, and {alone} carries caches of one kind only: vLLM refuses to start",
                f"leave {_MANAGER} out, or take NixlConnector, MooncakeConnector or OffloadingConnector",
            )
        if connector_of(engine) == _SEVERAL:
            yield from _several(engine, inside)
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


def _keys(stack: Stack, seat: Seat, part: Mapping[str, Any]) -> Iterator[Problem]:
    name, given = str(part.get("kv_connector") or ""), mapping(part.get("kv_connector_extra_config"))
    known = KEYS.get(name)
    if known is None or "spec_module_path" in given or not as_read(stack, seat):
        return  # a module of one's own reads what it likes
    for key in given:
        if key not in known and not str(key).startswith(_LMCACHE):
            near = closest_names(str(key), known, 1)
            yield warning(
                seat.engine.where,
                f"{name} reads no {key} of kv_connector_extra_config: what it says has no effect",
                (f"did you mean {near[0]}? " if near else "") + f"it reads {', '.join(known)}",
            )


def _several(engine: Engine, inside: list[dict[str, Any]]) -> Iterator[Problem]:
    form = "set kv_connector_extra_config: {connectors: [{kv_connector: NixlConnector, kv_role: kv_both}, ...]}, or take one connector"
    if not inside:
        yield error(engine.where, f"{_SEVERAL} is not told of which connectors it is made: vLLM refuses to start", form)
    for part in inside:
        name, role = part.get("kv_connector"), part.get("kv_role")
        if not name:
            yield error(engine.where, f"a connector inside {_SEVERAL} has no kv_connector", form)
        elif role not in _ROLES:
            yield error(
                engine.where,
                f"kv_role of {name} inside {_SEVERAL} is {role!r}, for it takes none from outside; allowed: {', '.join(_ROLES)}",
                "use kv_both",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="disaggregation-connector",
        title="The KV connector exists and has a role that suits the engine",
        why="An unknown connector or role stops the engine; a connector without a partner moves nothing.",
        check=connectors,
        sources=(
            "vllm#20609",
            "LMCache#4267",
            "vllm 0.29.0: config/kv_transfer.py, kv_connector/factory.py, v1/multi_connector.py",
            "ray 2.60.0: kv_transfer/factory.py",
        ),
    ),
)
