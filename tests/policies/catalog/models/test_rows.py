"""Model rows against published sizes: parameters computed from each row's figures, and bytes of weight files."""

import json
from pathlib import Path

import pytest

from policies.catalog import models
from policies.catalog.lookup import UnknownRow
from policies.catalog.models.parameters import total_parameters
from policies.catalog.models.row import Model
from policies.fit.shape import EngineShape
from policies.fit.weights import stage_weight_bytes

_ROWS = tuple(models.get(name) for name in models.names())

# Parameters as their model cards state them, in billions, as precisely as stated.
_PUBLISHED = {
    "BAAI/bge-m3": 0.568,
    "MiniMaxAI/MiniMax-M2.5": 230,
    "Qwen/Qwen-14B-Chat": 14.2,
    "Qwen/Qwen2.5-0.5B-Instruct": 0.49,
    "Qwen/Qwen2.5-7B-Instruct": 7.61,
    "Qwen/Qwen2.5-14B-Instruct": 14.7,
    "Qwen/Qwen2.5-32B-Instruct": 32.5,
    "Qwen/Qwen2.5-72B-Instruct": 72.7,
    "Qwen/Qwen3-0.6B": 0.6,
    "Qwen/Qwen3-8B": 8.2,
    "Qwen/Qwen3-14B": 14.8,
    "Qwen/Qwen3-32B": 32.8,
    "Qwen/Qwen3-30B-A3B": 30.5,
    "Qwen/Qwen3-235B-A22B": 235,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 480,
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 80,
    "baichuan-inc/Baichuan2-7B-Chat": 7.5,
    "deepseek-ai/DeepSeek-V2-Lite-Chat": 15.7,
    "deepseek-ai/DeepSeek-V3": 671,
    "google/gemma-3-27b-it": 27.4,
    "huggyllama/llama-30b": 32.5,
    "meta-llama/Llama-2-7b-chat-hf": 6.74,
    "meta-llama/Llama-2-13b-chat-hf": 13.0,
    "meta-llama/Llama-2-70b-chat-hf": 69.0,
    "meta-llama/Llama-3.1-8B-Instruct": 8.03,
    "meta-llama/Llama-3.1-70B-Instruct": 70.6,
    "meta-llama/Llama-3.1-405B-Instruct": 405,
    "meta-llama/Llama-3.2-1B-Instruct": 1.23,
    "meta-llama/Llama-3.2-3B-Instruct": 3.21,
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 400,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 109,
    "microsoft/phi-4": 14.7,
    "mistralai/Mistral-Nemo-Instruct-2407": 12.2,
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 46.7,
    "mistralai/Mixtral-8x22B-Instruct-v0.1": 141,
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": 120,
    "openai/gpt-oss-20b": 21,
    "openai/gpt-oss-120b": 117,
    "openai/whisper-large-v3": 1.55,
    "openai/whisper-large-v3-turbo": 0.809,
    "openai/whisper-small": 0.244,
    "zai-org/GLM-4.5-Air": 106,
    "zai-org/GLM-5-FP8": 744,
}


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.name)
def test_computed_parameters_agree_with_the_row_within_a_thousandth(row: Model) -> None:
    # Encoders have biases and pooling layers that are not counted: 1 %.
    assert total_parameters(row) == pytest.approx(row.parameters, rel=0.01 if row.encoder_only else 0.0015)


@pytest.mark.parametrize(("name", "billions"), sorted(_PUBLISHED.items()))
def test_parameters_agree_with_the_model_card_within_its_rounding(name: str, billions: float) -> None:
    assert total_parameters(models.get(name)) / 1e9 == pytest.approx(billions, rel=0.015)


@pytest.mark.parametrize("row", [row for row in _ROWS if row.checkpoint_bytes], ids=lambda row: row.name)
def test_computed_bytes_agree_with_the_weight_files(row: Model) -> None:
    assert row.checkpoint_bytes is not None
    if row.quantization is None:
        # 2.5 %: Qwen3.5 files hold a layer for multi-token prediction, which an engine does not load.
        assert 2 * total_parameters(row) == pytest.approx(row.checkpoint_bytes, rel=0.025)
    else:
        # DeepSeek's files hold 14 B parameters for multi-token prediction; vLLM's second copy of kv_b_proj is not in them.
        assert stage_weight_bytes(row, EngineShape(), 0, row.layers) == pytest.approx(row.checkpoint_bytes, rel=0.035)


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.name)
def test_a_row_says_where_its_figures_were_read(row: Model) -> None:
    assert len(row.source) > 10
    assert row.checked_on >= "2026"


@pytest.mark.parametrize("path", sorted(models.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_files_are_sorted_small_and_named_after_their_model(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    row = json.loads(text)
    assert list(row) == sorted(row)
    assert path.name == models.file_name(row["name"])
    assert len(text) < 4096


def test_no_two_models_share_a_name_or_alias() -> None:
    spelled = [name.casefold() for row in _ROWS for name in (row.name, *row.aliases)]
    assert len(spelled) == len(set(spelled))


def test_a_model_is_found_by_id_alias_and_bare_name_in_any_case() -> None:
    row = models.get("meta-llama/Llama-3.1-8B-Instruct")
    assert models.get("META-LLAMA/llama-3.1-8b") is row
    assert models.get("Llama-3.1-8B-Instruct") is row
    assert models.get("deepseek-ai/DeepSeek-R1-Distill-Llama-8B") is row


def test_an_unknown_model_is_answered_with_close_ids_and_what_to_do() -> None:
    with pytest.raises(UnknownRow) as caught:
        models.get("Llama-3.1-8B-Instuct")
    assert caught.value.closest[0] == "meta-llama/Llama-3.1-8B-Instruct"
    assert str(caught.value).endswith(
        "? pin it with `python -m local.pin_model <id>`, or describe it inline under `models`"
    )
