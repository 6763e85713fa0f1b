"""`python -m policies.judge FILE...`: the rules over plain Kubernetes YAML, for teams without Pulumi.

Reads rendered manifests (files, folders, - for standard input). Not for: templates, which must be rendered first.
Exit code 1 when there is an error, 2 when a file cannot be read, else 0.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from policies import stated
from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.facts.ray import LOADER
from policies.facts.stack import EMPTY
from policies.facts.wire import PLACEHOLDER, Resource, manifests
from policies.finding import Finding
from policies.judgement import PLACEHOLDERS, judge

_SUFFIXES = (".yaml", ".yml", ".json")


class Format(StrEnum):
    """How findings are printed."""

    table = "table"
    json = "json"


class Unreadable(Exception):
    """A file that holds no manifests. The message says where and what to do."""


def main(
    files: Annotated[list[Path], typer.Argument(help="Manifests: files, folders, or - for standard input.")],
    environment: Annotated[
        Path | None, typer.Option(help="YAML file of what the manifests do not say: versions, pools, queues, budget.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="RULE=error, RULE=warning or RULE=off; may be repeated.")
    ] = None,
    format: Annotated[Format, typer.Option(help="table for people, json for machines.")] = Format.table,
) -> None:
    """Judge Kubernetes manifests of Ray Serve and vLLM."""
    try:
        known = _known(environment)
        patches = frozenset(patch for path in files for patch in kustomize_patches(path))
        resources = [each for path in files for each in read(path, patches)]
        levels = _levels(policy or [])
    except (Unreadable, stated.StatedError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    judged = judge(resources, known, overrides=levels, unknowns=PLACEHOLDERS)
    found = [(placed.finding, placed.urn) for placed in (*judged.findings, *judged.open)]
    if format is Format.json:
        print(json.dumps({"findings": [_plain(*each) for each in found]}, indent=2))
    else:
        _show(found, len(resources))
    if patches:
        what = ", ".join(sorted(str(path) for path in patches))
        print(
            f"not judged alone, since a kustomization patches with it: {what}; judge the output of kustomize build",
            file=sys.stderr,
        )
    if any(finding.severity == "error" for finding, _ in found):
        raise typer.Exit(1)


_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def kustomize_patches(path: Path) -> frozenset[Path]:
    """Files that a kustomization beside or above the file, or in the folder, patches with: a part of an object, not an object."""
    if str(path) == "-":
        return frozenset()
    folders = [folder for folder in path.rglob("*") if folder.is_dir()] if path.is_dir() else [path.parent.parent]
    base = path if path.is_dir() else path.parent
    listed = {patch for folder in (base, *folders) for patch in _patches_of(folder)}
    given = {path.resolve()} if path.is_file() else {file.resolve() for file in path.rglob("*")}
    return frozenset(patch for patch in listed if patch.resolve() in given)


def _patches_of(folder: Path) -> Iterator[Path]:
    for name in _KUSTOMIZATIONS:
        try:
            document = yaml.load((folder / name).read_text(encoding="utf-8"), Loader=LOADER)
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue  # none, or one that read() will speak of
        for key in ("patches", "patchesJson6902", "patchesStrategicMerge"):
            for entry in items(mapping(document).get(key)):
                named = entry if isinstance(entry, str) else mapping(entry).get("path")
                if isinstance(named, str) and (folder / named).is_file():
                    yield folder / named


def read(path: Path, without: Collection[Path] = ()) -> list[Resource]:
    """Resources of a file, of every manifest in a folder but the files in `without`, or of standard input. Raises Unreadable."""
    if path.resolve() in {each.resolve() for each in without}:
        return []
    if str(path) == "-":
        return manifests(_filled(_documents(sys.stdin.read(), "standard input")), "standard input")
    if path.is_dir():
        return [each for file in sorted(path.rglob("*")) if file.suffix in _SUFFIXES for each in read(file, without)]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path}: cannot be read ({error}); give rendered Kubernetes manifests") from None
    return manifests(_filled(_documents(text, str(path))), str(path))


def _documents(text: str, name: str) -> Iterator[Any]:
    try:
        yield from yaml.load_all(text, Loader=LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        mend = "render the template first (helm template, kustomize build)" if "{{" in text else "correct the file"
        raise Unreadable(f"{place}: not YAML: {getattr(error, 'problem', error)}; {mend}") from None


# $IMAGE, ${IMAGE}, <IMAGE> and <<IMAGE>>, as guides write what their readers put in; $(NAME) is Kubernetes' own.
_PLACEHOLDER = re.compile(
    r"\S*\$[A-Z_][A-Z0-9_]*\S*|.*\$\{[A-Za-z_][A-Za-z0-9_]*(?::?[-+=?][^{}]*)?\}.*|\S*<<?[A-Za-z][^<>]*>>?\S*"
    r"|(?:CHANGE|INSERT|PLACEHOLDER|REPLACE|YOUR)[_-][A-Z0-9_-]+"
)
_BLANK = re.compile(r"(?:--[a-z][\w-]*=)?<[A-Za-z][^<>]*>")
_FORBIDDEN = re.compile(r"[^a-z0-9.-]+")
_CAPITALS = re.compile(r"(?:.*/)?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?:[/:].*)?")  # IMAGE_NAME, registry/PROJECT_ID/image:tag
_LOWER_CASE = ("image", "serviceAccount", "serviceAccountName")  # values that have no capitals
_OF_SHELLS = frozenset(
    {
        "args",
        "command",
        "data",
        "entrypoint",
        "rayStartParams",  # KubeRay writes them into a line of bash
        "runtimeEnvYAML",
        "serveConfigV2",
        "stringData",
        "userData",
        "value",
    }
)


def _filled(documents: Iterator[Any]) -> Iterator[Any]:
    """Documents with what stands for a placeholder in place of each, so that no rule takes it for a value."""
    return map(_without, documents)


def _without(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        kept = _OF_SHELLS - ({"data"} if value.get("kind") == "Secret" else set())
        return {k: _words(v) if k in kept else _without(v, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_without(each, key) for each in value]
    if not isinstance(value, str) or key in ("apiVersion", "kind"):
        return value
    if key in ("name", "namespace"):  # it still tells its object from others
        return _FORBIDDEN.sub("-", value.lower()).strip("-") if _PLACEHOLDER.fullmatch(value) else value
    capitals = key in _LOWER_CASE and _CAPITALS.fullmatch(value)
    return PLACEHOLDER if capitals or _PLACEHOLDER.fullmatch(value) else value


def _words(value: Any) -> Any:
    """What a shell may read keeps its variables; a word of a command that is left blank is none."""
    if not isinstance(value, list):
        return value
    return [PLACEHOLDER if isinstance(word, str) and _BLANK.fullmatch(word) else word for word in value]


def _known(path: Path | None) -> Stack:
    if path is None:
        return EMPTY
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise Unreadable(f"{path}: cannot be read ({error}); give a YAML file of facts") from None
    if not isinstance(values, Mapping):
        raise Unreadable(f"{path}: holds {type(values).__name__}, not a mapping of facts")
    return stated.parse(values)


def _levels(given: list[str]) -> dict[str, str]:
    levels = {}
    for each in given:
        rule, equals, level = each.partition("=")
        if not equals:
            raise Unreadable(f"--policy {each}: no '='; write RULE=error, RULE=warning or RULE=off")
        levels[rule] = level
    return levels


def _plain(finding: Finding, origin: str) -> dict[str, str]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "place": finding.place,
        "message": finding.message,
        "mend": finding.mend,
        "file": origin,
    }


def _show(found: list[tuple[Finding, str]], count: int) -> None:
    console = Console()
    errors = sum(finding.severity == "error" for finding, _ in found)
    if found:
        table = Table(show_header=False, show_lines=True)
        for finding, origin in found:
            style = "red" if finding.severity == "error" else "yellow"
            # Text throughout: brackets of a message are no markup.
            what = Text.assemble(
                (finding.place, "bold"),
                (f"  {origin}\n" if origin else "\n", "dim"),
                f"{finding.message}\n",
                (f"{finding.mend}\n", "green"),
                (finding.rule, "dim"),
            )
            table.add_row(Text(finding.severity, style), what)
        console.print(table)
    console.print(f"{count} objects judged: {errors} errors, {len(found) - errors} warnings", highlight=False)


if __name__ == "__main__":
    typer.run(main)
