"""Tool calls: switched on, by a parser that this vLLM has, in the format that the model writes and the backend enforces, of a model for chats.

Not for: parsers of reasoning (model_formats.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog.engine_values import CHOICES
from policies.catalog.models.row import Model
from policies.facts import Stack
from policies.facts.quantities import mapping, switch
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats, vllm_version
from ._values import before

# vllm 0.29.0: tool_parsers/__init__.py and docs/features/tool_calling. The formats that a family writes calls in; a row not
# named here has none that is known. Parsers of any text (pythonic, json) that a chat template can ask for are let pass.
_PARSERS: dict[str, tuple[str, ...]] = {
    "DeepseekV32ForCausalLM": ("deepseek_v32", "deepseek_v31"),
    "DeepseekV3ForCausalLM": ("deepseek_v3", "deepseek_v31", "kimi_k2"),
    "Gemma4ForConditionalGeneration": ("gemma4",),
    "Glm4MoeForCausalLM": ("glm45", "glm47"),
    "GlmMoeDsaForCausalLM": ("glm45", "glm47"),
    "GptOssForCausalLM": ("openai",),
    "KimiK25ForConditionalGeneration": ("kimi_k2",),
    "MiniMaxM2ForCausalLM": ("minimax_m2",),
    "MistralForCausalLM": ("mistral", "hermes"),
    "MixtralForCausalLM": ("mistral", "hermes"),
}
_ANY_TEXT = ("pythonic",)
# Two formats of Qwen's: JSON, and XML of the coders and of Qwen3.5 (docs/features/tool_calling).
_JSON, _XML = ("hermes",), ("qwen3_coder", "qwen3_xml")
# Checkpoints that only go on with a text: their tokenizers have no chat template, and vLLM has none of its own for them
# (transformers_utils/chat_templates/registry.py).
_NO_TEMPLATE = re.compile(
    r"(google/gemma-(2-\d+b|3-\d+b-pt|4-[\w-]*b)|meta-llama/(meta-)?llama-[\d.]+-\d+b(-hf)?)$", re.IGNORECASE
)
FAMILIES = {
    "gemma4": "Gemma4",
    "glm45": "Glm",
    "glm47": "Glm",
    "kimi_k2": "Kimi",
    "minimax_m2": "MiniMax",
    "openai": "GptOss",
    "openai_gptoss": "GptOss",
}
"""Parsers (of calls or reasoning) of what only one family writes -> how its architectures begin."""
# What vLLM of a version said that it had, in its refusal of another name (vllm#9312, GLM-4.5#58, recipes#51).
_LISTED = (
    ("0.6.2", "hermes mistral"),
    (
        "0.10.0",
        "deepseek_v3 glm4_moe granite granite-20b-fc hermes hunyuan_a13b internlm jamba kimi_k2 llama3_json llama4_json "
        "llama4_pythonic minimax mistral phi4_mini_json pythonic qwen3_coder xlam",
    ),
    (
        "0.10.1",
        "deepseek_v3 glm45 granite granite-20b-fc hermes hunyuan_a13b internlm jamba kimi_k2 llama3_json llama4_json "
        "llama4_pythonic minimax mistral phi4_mini_json pythonic qwen3_coder step3 xlam",
    ),
)
# Parsers that have the form of their calls enforced (structural_tag_model), which the guidance backend does not read.
_ENFORCED = ("deepseek_v3", "deepseek_v31", "deepseek_v32", "deepseek_v4", "glm45", "glm47", "hermes", "kimi_k2", "kimi_k3", "llama3_json", "llama4_json", "minimax_m2", "openai", "qwen3_coder", "qwen3_xml")  # fmt: skip


def tools(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        yield from _template(seat)
        parser = seat.args.get("tool_call_parser")
        if not isinstance(parser, str) or not parser:
            continue
        if not switch(seat.args.get("enable_auto_tool_choice")):
            yield warning(
                seat.engine.where,
                f"tool_call_parser {parser} without enable_auto_tool_choice: requests with tools are answered with 400 ('\"auto\" tool choice requires')",
                "set enable_auto_tool_choice: true",
            )
        elif parser in _ENFORCED and mapping(seat.args.get("structured_outputs_config")).get("backend") == "guidance":
            yield warning(
                seat.engine.where,
                f"structured_outputs_config.backend guidance does not read the form in which tool_call_parser {parser} has calls enforced: requests with strict tools, "
                "or that require one, are refused",
                "leave the backend out, or set xgrammar",
            )
        late = None if seat.args.get("tool_parser_plugin") else _came_after(vllm_version(stack, seat.workload), parser)
        if late is not None:
            yield error(
                seat.engine.where,
                f"tool_call_parser {parser} came after vLLM {late}, and this is {vllm_version(stack, seat.workload)}: it refuses to start",
                "use a newer vLLM, or a parser of that version",
            )
        if foreign(seat, parser) and seat.row is not None and seat.row.architecture not in _PARSERS:
            yield warning(
                seat.engine.where,
                f"tool_call_parser {parser} and {seat.row.name}, a model of another family: calls arrive as text",
                "set the parser of the model's own format (hermes for Qwen, llama3_json for Llama 3, ...)",
            )
        fitting = _formats(seat.row, parser) if seat.row is not None else None
        if (
            fitting
            and parser not in (*fitting, *_ANY_TEXT)
            and not seat.args.get("chat_template")
            and seat.row is not None
        ):
            yield warning(
                seat.engine.where,
                f"tool_call_parser {parser} and {seat.row.name}, which writes calls in another format: they arrive as text",
                f"set tool_call_parser: {fitting[0]}",
            )


def _formats(row: Model, parser: str) -> tuple[str, ...] | None:
    """Parsers of the formats that a model writes calls in; None where that is not known."""
    if not row.architecture.startswith(("Qwen2", "Qwen3")) or parser not in (*_JSON, *_XML):
        return _PARSERS.get(row.architecture)
    writes_xml = row.architecture.startswith("Qwen3_5") or row.name.startswith("Qwen/Qwen3-Coder")
    return _XML if writes_xml else _JSON


def _template(seat: Seat) -> Iterator[Problem]:
    asked = [name for name in ("tool_call_parser", "reasoning_parser") if seat.args.get(name)]
    if asked and not seat.args.get("chat_template") and _NO_TEMPLATE.search(seat.engine.source):
        yield warning(
            seat.engine.where,
            f"{asked[0]} is for chats and {seat.engine.source} was not trained for any: it has no chat template, and every chat request is answered with 400",
            "serve the model that was tuned for chats (its name has -it or -Instruct), or give a chat_template",
        )


def foreign(seat: Seat, parser: str) -> bool:
    """Whether a parser is for what one family writes, and the model is of another."""
    prefix = FAMILIES.get(parser)
    return seat.row is not None and prefix is not None and not seat.row.architecture.startswith(prefix)


def _came_after(vllm: str | None, parser: str) -> str | None:
    """The newest version that is known to lack a parser of today, where `vllm` is not newer than that."""
    if parser not in CHOICES["tool_call_parser"]:
        return None
    lacking = [known for known, names in _LISTED if parser not in names.split()]
    return next((known for known in reversed(lacking) if vllm and not before(known, vllm)), None)


RULES: tuple[Rule, ...] = (
    Rule(
        id="model-tools",
        title="Tool calls are switched on, and parsed in the model's own format",
        why=(
            "A parser alone does nothing: without enable_auto_tool_choice every request with tools is refused. A parser of another family finds no call in what the "
            "model writes, and the client gets the call as text. A checkpoint without a chat template answers no chat at all."
        ),
        check=tools,
        sources=(
            "ray#53795",
            "vllm#29643",
            "vllm#55152",
            "vllm-project/recipes#51",
            "ai-dynamo/dynamo#13176",
            "QwenLM/Qwen3-Coder#537",
            "vllm#39279",
            "vllm 0.29.0: entrypoints/launchers/cli_args.py, tool_parsers",
        ),
    ),
)
