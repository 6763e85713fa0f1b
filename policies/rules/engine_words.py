"""Command lines of plain vLLM pods as lists of words: what Kubernetes hands over is not what a shell would have made of it.

Not for: names and values of arguments (engine_args.py, engine_values.py), or commands of Ray's pods (ray_pods.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.command_line import flat_words, in_one_word, taken_apart
from policies.facts.quantities import items, mapping, whole
from policies.facts.vllm import words as started
from policies.finding import Problem, Rule, error

from ._engines import vllm_version
from ._values import before

_IMAGE = re.compile(r"(^|.*/)vllm/vllm-openai([:@].*)?")
_SHELLS = ("ash", "bash", "dash", "sh", "zsh")
_STARTS = ("python", "python3", "serve", "vllm", *_SHELLS)
_SCRIPT = re.compile(r"-[a-z]*c")
_PARAMETER = re.compile(r"\$[@*0-9{]")
_NAME = re.compile(r"--served[-_]model[-_]name(=.*)?", re.DOTALL)
_BRACES = re.compile(r"\$\{\w+\}|\$[A-Za-z_]\w*")
_PUT_IN = re.compile(r"(?<!\$)\$\(([A-Za-z_]\w*)\)")
# What the controller of LeaderWorkerSets adds to each container, before the others (sigs.k8s.io/lws: pkg/utils/pod).
_OF_SET = ("LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX")
_SERVICES = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_|$)")  # of other Services, which Kubernetes sets
Found = tuple[str, str]  # message, mend


def words(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.by_kuberay:
            continue
        for engine in workload.engines:
            group = next((group for group in workload.groups if group.name in engine.groups), None)
            main = group.main_container if group is not None else {}
            added = _OF_SET if workload.kind in ("LeaderWorkerSet", "LLMInferenceService") else ()
            for message, mend in _judged(main, before(vllm_version(stack, workload), "0.9.0"), added):
                yield error(engine.where, message, mend)
        for group in workload.pod_groups if workload.kind == "LeaderWorkerSet" else ():
            for message, mend in _scripts(group.main_container):
                yield error(group.where, message, mend)


def _scripts(container: Mapping[str, Any]) -> Iterator[Found]:
    """What Kubernetes leaves of a shell's script, where a name in capitals is no variable that the container has: the shell takes
    $(NAME) for a command."""
    line = [str(word) for key in ("command", "args") for word in items(container.get(key))]
    at = _script(line) if line else None
    known = {*_OF_SET, *(str(mapping(entry).get("name")) for entry in items(container.get("env")))}
    for name in _PUT_IN.findall(line[at]) if at is not None and not container.get("envFrom") else ():
        if name.isupper() and name not in known and not _SERVICES.search(name):
            near = closest_names(name, known, 1)
            yield (
                f"its script has $({name}), and the container has no environment variable {name}: the shell runs a command of that name, and finds none",
                f"write $({near[0]})" if near else f"give it {name}; the leader's address is $(LWS_LEADER_ADDRESS)",
            )


def _judged(container: Mapping[str, Any], old: bool, added: tuple[str, ...]) -> Iterator[Found]:
    command, args = ([str(word) for word in items(container.get(key))] for key in ("command", "args"))
    line = [*command, *args]
    script = _script(line) if command else None
    if script is not None:
        said = [*_shell(line[script], line[script + 1 :])]
    else:
        said = [*_start(command, args, str(container.get("image") or ""))]
        yield from _each(line)
        yield from _variables(line, container, added)
    yield from said
    if not said:
        yield from _model(container, old)


def _script(line: list[str]) -> int | None:
    """Where the script of `sh -c` is among the words."""
    if line[0].rpartition("/")[2] not in _SHELLS:
        return None
    return next((at + 1 for at, word in enumerate(line[:-1]) if at and _SCRIPT.fullmatch(word)), None)


def _shell(script: str, rest: list[str]) -> Iterator[Found]:
    if rest and not _PARAMETER.search(script):
        yield (
            f"{rest[0]!r} comes after the script of the shell, which takes it for $0 and further words for $1: vLLM starts without them",
            "write the whole command in one word after -c, or leave the shell out",
        )


def _start(command: list[str], args: list[str], image: str) -> Iterator[Found]:
    if command and any(letter.isspace() for letter in command[0].strip()):
        yield (
            f"the command is one word, {_short(command[0])}: a program of that name is looked for, and no shell takes it apart",
            'write each word on its own, or ["sh", "-c", the whole]',
        )
    elif not command and args and args[0].rpartition("/")[2] in _STARTS and _IMAGE.fullmatch(image):
        yield (
            f"args begin with {args[0]!r}, and the image starts `vllm serve` itself: vLLM takes it for the model, and refuses what follows",
            "leave it out, or make it the container's command",
        )


def _each(line: list[str]) -> Iterator[Found]:
    for at, word in enumerate(line):
        _, equals, value = word.partition("=")
        if in_one_word(word):
            yield (
                f"{_short(word)} is one word: vLLM takes all of it for the name of an argument and ends",
                "give the flag and its value as two words, or with = between them",
            )
        elif word.startswith("--") and equals and len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            yield (
                f"{_short(word)} has quotes in the value: there is no shell that takes them off, and vLLM reads them",
                "leave the quotes around the value out",
            )
        elif not word.strip() and (at == 0 or "=" in line[at - 1] or not line[at - 1].startswith("-")):
            yield (
                "an empty word is among the arguments: vLLM takes it for one that it does not know, and ends",
                "leave it out",
            )


def _variables(line: list[str], container: Mapping[str, Any], added: tuple[str, ...]) -> Iterator[Found]:
    """Kubernetes puts $(NAME) in, where the container has that variable, and nothing else."""
    known = {*added, *(str(mapping(entry).get("name")) for entry in items(container.get("env")))}
    for word in line:
        for part in (word, word.partition("=")[2]):
            if _BRACES.fullmatch(part):
                name = part.strip("${}")
                yield (
                    f"{_short(word)}: no shell replaces the variable, and vLLM reads the text as it is",
                    f"write $({name})",
                )
        for name in _PUT_IN.findall(word) if not container.get("envFrom") else ():
            if name not in known and not _SERVICES.search(name):
                yield (
                    f"{_short(word)}: the container has no environment variable {name}, so that $({name}) stays as it is",
                    f"give it {name}",
                )


def _model(container: Mapping[str, Any], old: bool) -> Iterator[Found]:
    flat = flat_words(started(container))
    if old:  # --enable-chunked-prefill and others took a word then
        flat = [word for word in flat if word.lower() not in ("true", "false")]
    if "serve" not in flat:
        yield from _of_module(flat)
        return
    start = flat[flat.index("serve") + 1 :]
    line = taken_apart(["vllm", "serve", *start])
    if line.positional and not line.positional.startswith("$") and line.args.get("model"):
        yield (
            f"the model is given twice, {line.positional!r} and --model {line.args['model']!r}: vLLM moves the second to the front and refuses the first",
            "keep one of them",
        )
    if any("$" in word for word in start):
        return  # what a variable brings is not known
    if (
        start
        and start[0].startswith("-")
        and any(map(_NAME.fullmatch, start))
        and not line.args.get("model")
        and not any(word.partition("=")[0] == "--config" for word in start)
    ):
        yield (
            "there is a --served-model-name and the model is not the first word: vLLM asks for it there and ends",
            "put the model first, or after --model",
        )
    port = line.args.get("port")
    if port is not None and "--port" not in line.bare and whole(port) is None:
        yield f"--port is {port!r}, which is no number: vLLM refuses to start", "give a port, or leave it out"
    for word in line.bare:
        yield f"{word} has no value after it: vLLM refuses to start", "give it one, or leave it out"
    for word in line.extra:
        if word.strip():
            yield (
                f"{_short(word)} belongs to no flag: vLLM takes it for an argument that it does not know, and ends",
                "take it out, or give it its flag",
            )


def _of_module(flat: list[str]) -> Iterator[Found]:
    """`python -m vllm.entrypoints.openai.api_server` (vllm 0.29.0: its parser has the positional model, and nothing reads it)."""
    at = next((at for at, word in enumerate(flat) if word.startswith("vllm.entrypoints.")), None)
    line = taken_apart(["vllm", "serve", *flat[at + 1 :]]) if at is not None else None
    if line is not None and line.positional and "$" not in line.positional and not line.args.get("model"):
        yield (
            f"{_short(line.positional)} stands without --model after {flat[at or 0]}: as a module vLLM reads the model from there only, and serves its default one, or ends",
            f"write --model {line.positional}, or start it by `vllm serve`",
        )


def _short(word: str) -> str:
    return repr(word if len(word) <= 60 else f"{word[:57]}...")


RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-words",
        title="The command line is words that vLLM reads",
        why=(
            "Kubernetes starts a container with a list of words and no shell: a flag and its value in one word are one unknown flag, quotes stay, and args are "
            "handed to the image's own `vllm serve`. The pod ends a moment after its start, again and again."
        ),
        check=words,
        sources=(
            "vllm#4462",
            "vllm#8273",
            "vllm#22072",
            "vllm#27389",
            "vllm#37133",
            "llm-d/llm-d-model-service#57",
            "ai-dynamo/dynamo PR#8369",
            "grafana/mimir#9993",
            "vllm 0.29.0: utils/argparse_utils.py",
        ),
    ),
)
