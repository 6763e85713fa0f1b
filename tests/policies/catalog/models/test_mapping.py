"""Inline model rows: what is wrong with one is said, all of it, with the place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.catalog import models
from policies.catalog.models.mapping import InvalidModel, from_mapping, to_mapping

_OK = {
    "name": "acme/tiny",
    "architecture": "LlamaForCausalLM",
    "layers": 2,
    "hidden_size": 64,
    "vocab_size": 1000,
    "attention_heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "max_position_embeddings": 2048,
    "parameters": 200000,
}


def test_a_complete_mapping_makes_a_row_with_defaults() -> None:
    row = from_mapping(_OK, "models 'acme/tiny'")
    assert (row.task, row.dtype, row.kind(0), row.quantization) == ("chat", "bfloat16", "full", None)


def test_nested_figures_are_read() -> None:
    row = from_mapping({**_OK, "moe": {"experts": 8, "active": 2, "intermediate_size": 32}})
    assert row.moe is not None
    assert row.is_moe_layer(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 3}, "models 'acme/tiny': layer is not a field of a model; did you mean layers?"),
        ({"hidden_size": "64"}, "models 'acme/tiny': hidden_size is '64', not an integer"),
        ({"tie_word_embeddings": 1}, "models 'acme/tiny': tie_word_embeddings is 1, not a bool"),
        ({"layers": True}, "models 'acme/tiny': layers is True, not an integer"),
        ({"layers": -1}, "models 'acme/tiny': layers is -1, which cannot be negative"),
        ({"layers": 0}, "models 'acme/tiny': layers is 0; it must be at least 1"),
        ({"task": "talk"}, "models 'acme/tiny': task is 'talk'; it is one of chat, embed, rerank, transcribe"),
        ({"moe": {"experts": 8}}, "models 'acme/tiny': moe.active is missing; moe.intermediate_size is missing"),
        ({"moe": 8}, "models 'acme/tiny': moe is 8, not a mapping"),
        (
            {"layer_kinds": ["sliding", "full"]},
            "models 'acme/tiny': layer_kinds has 'sliding', which needs sliding_window",
        ),
        ({"layer_kinds": "full"}, "models 'acme/tiny': layer_kinds is 'full', not a list"),
        ({"kv_heads": 3}, "models 'acme/tiny': attention_heads 4 is not a multiple of kv_heads 3"),
    ],
)
def test_a_mistake_is_named_with_its_place(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidModel) as caught:
        from_mapping({**_OK, **change}, "models 'acme/tiny'")
    assert str(caught.value) == message


def test_every_mistake_is_listed_at_once() -> None:
    with pytest.raises(InvalidModel) as caught:
        from_mapping({"name": "x", "heads": 1}, "here")
    assert len(caught.value.problems) == 11


@settings(deadline=None)  # the first look-up reads all rows
@given(st.sampled_from(models.names()))
def test_a_row_survives_being_written_and_read(name: str) -> None:
    row = models.get(name)
    assert from_mapping(to_mapping(row), name) == row


_VALUES = st.none() | st.integers() | st.text("ab1", max_size=3) | st.lists(st.text("ab1", max_size=3), max_size=2)


@given(st.dictionaries(st.sampled_from([*_OK, "moe", "mla", "aliases", "x"]), _VALUES))
def test_any_mapping_makes_a_row_or_a_refusal_with_problems(change: dict[str, object]) -> None:
    problems: tuple[str, ...] = ("none",)
    try:
        from_mapping({**_OK, **change})
    except InvalidModel as error:
        problems = error.problems
    assert problems
