"""How a model's files and its answers are read: Mistral's own formats, and parsers of reasoning.

Not for: tool calls (model_tools.py), GGUF and runners (model_use.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import switch
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats
from ._values import listed
from .model_access import from_hub
from .model_tools import foreign

_FILES = ("config_format", "load_format", "tokenizer_mode")
_HOME = "mistralai"
# vllm 0.29.0: reasoning/__init__.py and docs/features/reasoning_outputs.md. Families that mark reasoning in a way of their own.
_THINKS: dict[str, tuple[str, ...]] = {
    "DeepseekV32ForCausalLM": ("deepseek_v3", "deepseek_r1"),
    "DeepseekV3ForCausalLM": ("deepseek_r1", "deepseek_v3", "kimi_k2"),
    "Gemma4ForConditionalGeneration": ("gemma4",),
    "Glm4MoeForCausalLM": ("glm45", "glm47"),
    "GlmMoeDsaForCausalLM": ("glm45", "glm47"),
    "GptOssForCausalLM": ("openai_gptoss",),
    "KimiK25ForConditionalGeneration": ("kimi_k2",),
    "MiniMaxM2ForCausalLM": ("minimax_m2", "minimax_m2_append_think"),
}
# Architectures whose rows in the catalog write no reasoning, but for the distillations that are named after their teacher.
_SILENT = ("Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "LlamaForCausalLM", "Llama4ForConditionalGeneration", "MixtralForCausalLM", "Qwen2ForCausalLM")  # fmt: skip
_TEACHERS = ("r1", "qwq", "reason", "think", "nemotron", "deephermes", "magistral", "oss")
# Without an end mark these take the whole answer for reasoning, or wait for it.
_GREEDY = ("deepseek_r1", "qwen3")


def mistral(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        named = [name for name in _FILES if seat.args.get(name) == "mistral"]
        source = seat.engine.source
        if not named or not from_hub(seat) or source.split("/")[0].casefold() == _HOME:
            continue
        other = seat.row is not None and not seat.row.name.casefold().startswith(f"{_HOME}/")
        yield (error if other else warning)(
            seat.engine.where,
            f"{listed(named)} {'is' if len(named) == 1 else 'are'} mistral, and {source} "
            + (
                "has none of Mistral's own files (params.json, consolidated.safetensors, tekken.json): vLLM refuses to start"
                if other
                else "is not Mistral's repository: quantised and tuned copies mostly lack params.json and consolidated.safetensors"
            ),
            "leave them out: the usual files of the hub are read without",
        )


def reasoning(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        parser = seat.args.get("reasoning_parser")
        if not isinstance(parser, str) or seat.row is None or seat.args.get("reasoning_parser_plugin"):
            continue
        fitting = _THINKS.get(seat.row.architecture)
        if fitting and parser not in fitting:
            yield warning(
                seat.engine.where,
                f"reasoning_parser {parser} and {seat.row.name}, which marks its reasoning in another way: it arrives in the answer, or the answer in it",
                f"set reasoning_parser: {fitting[0]}",
            )
        elif not fitting and foreign(seat, parser):
            yield warning(
                seat.engine.where,
                f"reasoning_parser {parser} and {seat.row.name}, a model of another family: vLLM before 0.29 does not find its marks and refuses to start, newer ones find no reasoning",
                "leave reasoning_parser out, or set the one of the model's family",
            )
        elif seat.row.architecture in _SILENT and parser in _GREEDY and not _taught(seat):
            yield warning(
                seat.engine.where,
                f"reasoning_parser {parser} and {seat.row.name}, which writes no reasoning: the whole answer is taken for it, and clients get no content",
                "leave reasoning_parser out",
            )


# Rows whose tokenizer is Python code of their repository (tokenizer_config.json, auto_map), and no class of Transformers.
_OWN_TOKENIZER = ("Qwen/Qwen-14B-Chat", "baichuan-inc/Baichuan2-", "moonshotai/Kimi-K2")


def remote_code(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row, args = seat.row, seat.args
        if (
            row is None
            or not row.name.startswith(_OWN_TOKENIZER)
            or args.get("tokenizer")
            or args.get("skip_tokenizer_init")
        ):
            continue
        if switch(args.get("trust_remote_code")) is not True:
            yield warning(
                seat.engine.where,
                f"{row.name} brings its tokenizer as code in its repository and trust_remote_code is not set: vLLM refuses to start, or takes a tokenizer of "
                "another model for it",
                "set engine_args: {trust_remote_code: true, code_revision: ...} once the code has been read",
            )


def _taught(seat: Seat) -> bool:
    names = f"{seat.row.name if seat.row else ''} {seat.engine.source}".casefold()
    return any(teacher in names for teacher in _TEACHERS)


RULES: tuple[Rule, ...] = (
    Rule(
        id="model-mistral-files",
        title="Mistral's own file formats are for Mistral's own repositories",
        why=(
            "With config_format, load_format or tokenizer_mode mistral vLLM reads params.json, consolidated.safetensors and tekken.json, and nothing else. Models of others, and most "
            "quantised copies of Mistral's, have only the usual files."
        ),
        check=mistral,
        sources=("vllm PR#17132", "vllm#17210", "vllm#10534"),
    ),
    Rule(
        id="model-reasoning",
        title="Reasoning is parsed in the model's own format",
        why=(
            "Each family marks its reasoning in its own way, or not at all. The parser of another family leaves the marks in the answer; on a model that does not reason it "
            "finds no end of it, and the whole answer goes where clients do not look."
        ),
        check=reasoning,
        sources=("vllm#26239", "vllm#13125", "vllm-project/recipes#515", "vllm 0.29.0: reasoning/"),
    ),
    Rule(
        id="model-remote-code",
        title="Code that comes with a model is allowed where the model needs it",
        why=(
            "Transformers runs Python files of a repository only where trust_remote_code says so, and vLLM's own classes replace configuration and layers, not every "
            "tokenizer. The code runs with all that the pod may do: a fixed revision keeps it the one that was read."
        ),
        check=remote_code,
        sources=(
            "vllm-project/recipes#116",
            "vllm-project/tpu-inference#2927",
            "transformers 5.24: models/auto/tokenization_auto.py",
        ),
    ),
)
