"""The estimate against what vLLM logged on real GPUs."""

from dataclasses import replace

import pytest

from policies.catalog import models
from policies.fit import estimate, rank_estimates
from policies.fit.shape import GIB
from tests.policies.fit.logs import ACTIVATIONS, CACHES, RUNS, Cache, Run


def _name(item: Run | Cache) -> str:
    return f"{item.model}-{item.date}"


@pytest.mark.parametrize("run", [run for run in RUNS if run.available_gib is not None], ids=_name)
def test_free_cache_memory_is_within_the_stated_band(run: Run) -> None:
    assert run.available_gib is not None
    ranks = rank_estimates(models.get(run.model), int(run.total_gib * 1024), run.shape, run.gpu, run.capability)
    rank = ranks[run.rank]
    assert abs(rank.available_kv - run.available_gib * GIB) <= rank.error_band


@pytest.mark.parametrize("run", [run for run in RUNS if run.weights_gib is not None], ids=_name)
def test_weights_are_within_two_percent(run: Run) -> None:
    assert run.weights_gib is not None
    ranks = rank_estimates(models.get(run.model), int(run.total_gib * 1024), run.shape, run.gpu, run.capability)
    assert ranks[run.rank].weights / GIB == pytest.approx(run.weights_gib, rel=0.02)


@pytest.mark.parametrize("cache", CACHES, ids=_name)
def test_tokens_and_concurrency_are_those_that_vllm_logged(cache: Cache) -> None:
    shape = replace(cache.shape, kv_cache_memory_bytes=int(cache.available_gib * GIB))
    # A GPU with room to spare, so that the size of the cache alone decides.
    result = estimate(models.get(cache.model), 4_000_000, shape)
    # The log rounds the memory to 0.01 GiB, which is up to a block or two.
    assert result.kv_tokens == pytest.approx(cache.tokens, rel=0.0005)
    if cache.concurrency is not None:
        assert round(result.max_concurrency, 2) == cache.concurrency


@pytest.mark.parametrize(("tokens", "activation", "graphs"), ACTIVATIONS)
def test_activation_and_graphs_of_a_hybrid_with_vision(tokens: int, activation: float, graphs: float) -> None:
    shape = replace(RUNS[0].shape, enforce_eager=False, gpu_memory_utilization=0.93, max_num_batched_tokens=tokens)
    result = estimate(models.get("Qwen/Qwen3.6-27B"), 32154, shape, "RTX 5090", (12, 0))
    assert result.activation / GIB == pytest.approx(activation, abs=0.45)
    assert result.cuda_graphs / GIB == pytest.approx(graphs, abs=0.25)


def test_every_run_says_where_and_when() -> None:
    for item in (*RUNS, *CACHES):
        assert item.url.startswith("https://")
        assert "2024" < item.date < "2027"
