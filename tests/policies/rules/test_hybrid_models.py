"""Each test changes one thing that touches the cache of a model with linear attention."""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules
from policies.facts import Stack

from .engine_stacks import args, at, model, service, stack, whole, with_engine

REFUSED = [("hybrid-models", "error")]
LMCACHE = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def said(given: Stack) -> list[tuple[str, str]]:
    return [(f.rule, f.severity) for f in rules.check(given, rules=rules.hybrid_models.RULES)]


def hybrid(**engine_args: Any) -> Stack:
    return stack(workloads=(service(engines=(model("Qwen/Qwen3.5-27B", engine_args=engine_args),)),))


def moved(*parts: dict[str, Any]) -> dict[str, Any]:
    extra = {"connectors": list(parts)}
    return {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (hybrid(), []),
        (with_engine(hybrid(), kv_transfer=NIXL), []),
        (with_engine(hybrid(), kv_transfer=LMCACHE), REFUSED),
        (with_engine(hybrid(), kv_transfer=moved(NIXL, LMCACHE)), REFUSED),
        (with_engine(hybrid(), kv_transfer=moved(NIXL, {"kv_connector": "OffloadingConnector"})), []),
        (hybrid(disable_hybrid_kv_cache_manager=True), REFUSED),
        (hybrid(enable_chunked_prefill=False), REFUSED),
        (hybrid(enable_chunked_prefill=False, enable_prefix_caching=False), []),
        (hybrid(disable_chunked_mm_input=True), REFUSED),
        (hybrid(disable_chunked_mm_input=True, mamba_cache_mode="all"), []),
        (hybrid(mamba_block_size=1024), []),
        (hybrid(mamba_block_size=1024, enable_prefix_caching=False), REFUSED),
        (with_engine(whole(), kv_transfer=LMCACHE), []),
        (args(whole(), disable_hybrid_kv_cache_manager=True), []),
        (at(hybrid(enable_chunked_prefill=False), "2.55.0", "0.24.0"), [("hybrid-models", "warning")]),
    ],
)  # fmt: skip
def test_two_kinds_of_cache(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert said(given) == expected
