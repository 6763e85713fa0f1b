"""Reader of the command line of vLLM's server: flags become engine arguments, as vLLM's own parser reads them.

For: the reader of plain vLLM Deployments (vllm.py). Not for: whether an argument exists or has a good value (rules/engine_args.py).
"""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from policies.catalog.engine_args import ENGINE_ARGS, FRONTEND_ARGS, GONE, LATER, SERVER_ARGS
from policies.catalog.engine_flags import COMMA_FLAGS, JSON_FLAGS, LIST_FLAGS
from policies.catalog.engine_values import (
    CHOICES,
    FORMS,
    INTEGERS,
    LISTS,
    SWITCHES,
    TEXT_OR_LIST,
    TEXT_OR_MAPPING,
    TEXT_OR_SWITCH,
    TEXTS,
)


@dataclass
class Line:
    """A command line as argparse takes it apart. extra: words that nothing takes. bare: flags that stand without the value they need."""

    positional: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)


def command_line(words: list[str]) -> tuple[str | None, dict[str, Any]]:
    """(positional model, engine arguments) of a vLLM command: `vllm serve M --x 1`, `python -m vllm.entrypoints... --x=1`,
    `sh -c "vllm serve ..."`. Flags become names with underscores, JSON and numbers become values."""
    line = taken_apart(words)
    return line.positional, line.args


def taken_apart(words: list[str]) -> Line:
    line, serving = Line(), False
    flat = deque(flat_words(words))
    while flat:
        word = _long(flat.popleft(), [*flat][:1])
        if word == "serve" and not serving:
            serving = True
        elif word == "--":
            continue  # the end of a shell's own options
        elif word.startswith("--"):
            _flagged(line, word, flat)
        elif serving and (line.positional or "$").startswith("$") and word != "vllm" and not word.startswith("-"):
            line.positional = word  # after variables of a script, which may hold flags
        elif serving:
            line.extra.append(word)
    for key in [key for key, value in line.args.items() if key.startswith("no_") and value is True]:
        del line.args[key]
        line.args[key.removeprefix("no_")] = False
    return line


def _flagged(line: Line, word: str, after: deque[str]) -> None:
    """A flag and the words of `after` that are its values."""
    key, equals, text = word[2:].partition("=")
    if "." in key:
        if not equals and not after:
            line.bare.append(word)
        _nest(line.args, key, text if equals or not after else after.popleft())
        return
    name = _full(key.replace("-", "_"))
    if equals:
        # a switch takes no value, and `--enforce-eager=true` is refused: the text stays, so that it can be told from the flag
        line.args[name] = _read(name, text)
    elif name in LIST_FLAGS:
        several: list[Any] = []
        while after and not _flag(after[0]):
            several.append(_read(name, after.popleft()))
        line.args[name] = several
        if not several:
            line.bare.append(word)
    elif name not in _ALONE and after and not _flag(after[0]):
        line.args[name] = _read(name, after.popleft())
    else:
        line.args[name] = True
        if name in _FLAGS and name not in (*_ALONE, *TEXT_OR_SWITCH, *LATER):
            line.bare.append(word)


def _flag(word: str) -> bool:
    """Whether a word begins the next flag; a negative number (`--max-model-len -1`) is a value."""
    return word.startswith("-") and not re.fullmatch(r"-\d+(\.\d*)?", word)


def flat_words(words: list[str]) -> list[str]:
    """Words as they were meant: those of a shell's script, and a flag that stands with its value in one word apart from it."""
    flat: list[str] = []
    name = False  # whether the next word is $0 of a script that takes its words from after it
    for word in words:
        if name:
            name = False
        elif "vllm" in word and " " in word and not word.startswith("-"):
            script = _split(word)
            flat.extend(each for each in script if each != "$@")
            name = "$@" in script
        elif in_one_word(word):
            flat.extend(word.split() if " --" in word else word.split(None, 1))
        else:
            flat.append(word)
    return flat


def in_one_word(word: str) -> bool:
    """`--port 8000` as one word, which argparse takes for the name of a flag."""
    return word.startswith("--") and any(letter.isspace() for letter in word.partition("=")[0])


def _long(word: str, after: list[str]) -> str:
    """A short option in its long form: `-tp`, `-cc.mode=3`, `-O3`, `-O 2`."""
    if not word.startswith("-") or word.startswith("--"):
        return word
    if word.startswith("-O") and (word[2:3].isdigit() or word[2:3] == "="):
        return f"--optimization-level={word[2:].lstrip('=')}"
    if word == "-O" and after and after[0] in ("0", "1", "2", "3"):
        return "--optimization-level"
    key, mark, rest = re.fullmatch(r"-([^.=]*)([.=]?)(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    return f"--{_ALIASES[key]}{mark}{rest}" if key in _ALIASES else word


def _nest(args: dict[str, Any], key: str, text: str) -> None:
    """`--speculative-config.method mtp` is one key of a mapping; several flags of one mapping are put together, `+` makes a list."""
    flag, *path = key.split(".")
    value: Any = text.split(",") if path[-1].endswith("+") else _value(text)
    path[-1] = path[-1].removesuffix("+")
    name = _full(flag.replace("-", "_"))
    if not isinstance(args.get(name), dict):
        args[name] = {}
    inner = args[name]
    for step in path[:-1]:
        if not isinstance(inner.get(step), dict):
            inner[step] = {}
        inner = inner[step]
    last = path[-1]
    inner[last] = [*inner[last], *value] if isinstance(value, list) and isinstance(inner.get(last), list) else value


def _full(name: str) -> str:
    """argparse takes the beginning of a flag where only one flag begins so: `--tensor-parallel 2`."""
    if name in _FLAGS or name in GONE:
        return name
    if name.startswith("no_"):
        return f"no_{_full(name.removeprefix('no_'))}"
    begun = [flag for flag in _FLAGS if flag.startswith(name)]
    return begun[0] if len(begun) == 1 else name


# no JSON there: "1.0" is a revision
_TEXT = frozenset((*CHOICES, *FORMS, *LISTS, *TEXTS, *TEXT_OR_LIST, *TEXT_OR_SWITCH)) - JSON_FLAGS
_FLAGS = frozenset((*ENGINE_ARGS, *FRONTEND_ARGS, *SERVER_ARGS, *LATER))
# no value of theirs follows
_ALONE = frozenset((*SWITCHES, "disable_frontend_multiprocessing", "grpc", "headless", "omni"))
# Short options of vLLM 0.32 (engine/arg_utils.py add_cli_args); `--tp` is none, and argparse takes it for a beginning.
_ALIASES = {
    "ac": "attention_config",
    "asc": "api_server_count",
    "cc": "compilation_config",
    "dc": "diffusion_config",
    "dcp": "decode_context_parallel_size",
    "dp": "data_parallel_size",
    "dpa": "data_parallel_address",
    "dpb": "data_parallel_backend",
    "dpe": "data_parallel_external_lb",
    "dph": "data_parallel_hybrid_lb",
    "dpl": "data_parallel_size_local",
    "dpm": "data_parallel_multi_port_external_lb",
    "dpn": "data_parallel_rank",
    "dpp": "data_parallel_rpc_port",
    "dpr": "data_parallel_start_rank",
    "ep": "enable_expert_parallel",
    "n": "nnodes",
    "pcp": "prefill_context_parallel_size",
    "pp": "pipeline_parallel_size",
    "q": "quantization",
    "r": "node_rank",
    "sc": "speculative_config",
    "tp": "tensor_parallel_size",
}


_WHOLE = re.compile(r"\s*[+-]?\d+(_\d+)*\s*")
_ENDS = ";&|<>()\n"
_COMMAND = re.compile(r"vllm\s+serve|-m\s+vllm\.entrypoints")


def _split(script: str) -> list[str]:
    """Words of the vLLM command inside a shell script: from its name to the end of the command; the whole without one."""
    found = _COMMAND.search(script)
    text = (script[found.start() :] if found else script).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_ENDS)
    lexer.whitespace_split = True
    lexer.whitespace = " \t\r"  # the end of a line ends the command, but for one inside of quotes
    lexer.commenters = ""  # a shell takes # for a comment only where a word begins: ${HOSTNAME##*-} is none
    words: list[str] = []
    try:
        for word in lexer:
            if word.startswith("#") or (word and set(word) <= set(_ENDS)):
                break
            words.append(word)
    except ValueError:  # a quote that never closes
        return text.split()
    return words


def _read(name: str, text: str) -> Any:
    if name in COMMA_FLAGS:  # of vLLM, digits alone are a number: -1 is text (engine/arg_utils.py --device-ids)
        return [int(each) if each.isdigit() else each for each in map(str.strip, text.split(","))]
    if (name in INTEGERS or name == "max_model_len") and not _WHOLE.fullmatch(
        text
    ):  # 1.048576e+06 is a number of JSON's, and none for argparse
        return text
    if name in SWITCHES or name in _TEXT or (name in TEXT_OR_MAPPING and not text.lstrip().startswith("{")):
        return text
    return _value(text)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
