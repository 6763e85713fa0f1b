"""What would fit: every change that is offered fits, and the cheapest comes first."""

from dataclasses import replace

import pytest

from policies.catalog import gpus, instances, models
from policies.fit import EngineShape, divisibility, estimate, largest_max_model_len, minimum_gpus, what_would_fit

_H100 = gpus.get("H100").cuda_memory_mib


def _texts(model: str, instance: str, shape: EngineShape) -> list[str]:
    return [change.text for change in what_would_fit(models.get(model), shape, instances.get(instance))]


def test_an_eight_billion_model_on_an_l4_is_offered_a_shorter_context_first() -> None:
    texts = _texts("Llama-3.1-8B", "g6.xlarge", EngineShape())
    assert texts[:2] == ["max_model_len 21504 (USD 0.80/h)", "instance_type g6e.xlarge (USD 1.86/h)"]


def test_405b_on_one_h100_node_is_offered_fp8() -> None:
    shape = EngineShape(tensor_parallel_size=8, max_model_len=8192)
    assert _texts("Llama-3.1-405B", "p5.48xlarge", shape)[0] == "quantization fp8 (USD 55.04/h)"


def test_an_engine_on_one_of_four_gpus_is_offered_more_of_them() -> None:
    texts = _texts("Qwen/Qwen2.5-14B-Instruct", "g5.12xlarge", EngineShape())
    assert "tensor_parallel_size 2 (USD 5.67/h)" in texts


def test_a_trillion_parameters_are_offered_whole_nodes_only() -> None:
    changes = what_would_fit(models.get("moonshotai/Kimi-K2.5"), EngineShape(), instances.get("g6.xlarge"))
    assert [change.instance for change in changes] == ["p5en.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge"]
    assert {change.also for change in changes} <= {"tensor_parallel_size 4", "tensor_parallel_size 8"}


def test_nothing_is_offered_for_a_model_that_no_node_holds() -> None:
    huge = replace(models.get("Llama-3.1-405B"), name="acme/huge", layers=1260)
    assert what_would_fit(huge, EngineShape(), instances.get("p5.48xlarge")) == ()


@pytest.mark.parametrize("instance", ["g4dn.xlarge", "g6.xlarge", "g5.12xlarge", "p5.48xlarge"])
@pytest.mark.parametrize("model", ["Llama-3.1-8B", "Llama-3.1-70B", "Qwen/Qwen3-30B-A3B", "BAAI/bge-m3"])
def test_every_change_fits_divides_and_is_in_order_of_price(model: str, instance: str) -> None:
    row = models.get(model)
    changes = what_would_fit(row, EngineShape(), instances.get(instance))
    prices = [float("inf") if change.usd_per_hour is None else change.usd_per_hour for change in changes]
    assert prices == sorted(prices)
    for change in changes:
        assert change.estimate.verdict == "fits"
        assert change.engine_usd_per_hour is None or change.engine_usd_per_hour <= (change.usd_per_hour or 0)
        gpu = instances.gpu_of(instances.get(change.instance))
        assert gpu is not None
        if change.field == "instance_type" and row.dtype == "bfloat16":
            assert gpu.bf16


def test_the_largest_length_is_one_that_starts_and_the_next_block_does_not() -> None:
    model = models.get("Llama-3.1-8B")
    memory = gpus.get("L4").cuda_memory_mib
    longest = largest_max_model_len(model, memory, EngineShape())
    assert estimate(model, memory, EngineShape(max_model_len=longest)).spare >= 0
    assert estimate(model, memory, EngineShape(max_model_len=longest + 16)).spare < 0
    assert largest_max_model_len(models.get("Llama-3.1-70B"), memory, EngineShape()) == 0


@pytest.mark.parametrize(
    ("model", "memory", "length", "expected"),
    [
        ("Llama-3.1-8B", _H100, None, (1, 1)),
        ("Llama-3.1-70B", _H100, 8192, (2, 1)),
        ("Llama-3.1-70B", _H100, None, (4, 1)),
        ("Llama-3.1-405B", _H100, 8192, (8, 2)),
        ("deepseek-ai/DeepSeek-R1", _H100, 8192, (8, 2)),
        ("deepseek-ai/DeepSeek-R1", gpus.get("H200").cuda_memory_mib, 8192, (8, 1)),
        ("Qwen/Qwen2-7B", 14909, 4096, (2, 1)),
    ],
)
def test_minimum_gpus(model: str, memory: int, length: int | None, expected: tuple[int, int]) -> None:
    shape = minimum_gpus(models.get(model), memory, EngineShape(max_model_len=length))
    assert shape is not None
    assert (shape.tensor_parallel_size, shape.pipeline_parallel_size) == expected
    assert not divisibility(models.get(model), shape)


def test_minimum_gpus_is_none_where_sixty_four_are_too_few() -> None:
    assert minimum_gpus(models.get("moonshotai/Kimi-K2-Instruct"), 14909, EngineShape()) is None
