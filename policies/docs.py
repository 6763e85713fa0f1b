"""The page about the rules, made from the rules: `python -m policies.docs` writes policies/RULES.md.

Not for: prose that is not in a rule. A test holds the page to the rules.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from policies.finding import Rule
from policies.rules import RULES

PAGE = Path(__file__).with_name("RULES.md")
_PROJECTS = {
    "ray": "ray-project/ray",
    "kuberay": "ray-project/kuberay",
    "vllm": "vllm-project/vllm",
    "kai": "kai-scheduler/KAI-Scheduler",
    "volcano": "volcano-sh/volcano",
    "gpu-operator": "NVIDIA/gpu-operator",
    "k8s-device-plugin": "NVIDIA/k8s-device-plugin",
    "kdp": "NVIDIA/k8s-device-plugin",
    "nccl": "NVIDIA/nccl",
    "karpenter": "kubernetes-sigs/karpenter",
    "karpenter-provider-aws": "aws/karpenter-provider-aws",
    "amazon-eks-ami": "awslabs/amazon-eks-ami",
    "amazon-vpc-cni-k8s": "aws/amazon-vpc-cni-k8s",
    "aws-ofi-nccl": "aws/aws-ofi-nccl",
    "containers-roadmap": "aws/containers-roadmap",
    "doeks": "awslabs/data-on-eks",
    "aieks": "awslabs/ai-on-eks",
    "ai-on-eks": "awslabs/ai-on-eks",
    "production-stack": "vllm-project/production-stack",
    "pulumi-kubernetes": "pulumi/pulumi-kubernetes",
    "pulumi-eks": "pulumi/pulumi-eks",
    "pulumi-policy": "pulumi/pulumi-policy",
}
_REPORT = re.compile(r"([\w.-]+(?:/[\w.-]+)?)#(\d+)$")


def severities(rule: Rule) -> tuple[str, ...]:
    """Severities a rule can speak with, read from its code: error and warning, as functions or values, that its check reaches."""
    found = set(_reached(rule.check.__module__, rule.check.__name__))
    return tuple(name for name in ("error", "warning") if name in found)


@cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _reached(module: str, name: str) -> Iterator[str]:
    """Names of error and warning that a function mentions, and the functions it mentions, in its module and imported ones."""
    pending, seen = [(module, name)], set()
    while pending:
        place = pending.pop()
        node = _functions(place[0]).get(place[1])
        if place in seen or node is None:
            continue
        seen.add(place)
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and part.value in ("error", "warning"):
                yield part.value  # a severity that is handed on as a value
            elif isinstance(part, ast.Name):
                if part.id in ("error", "warning"):
                    yield part.id
                else:
                    pending.append(_home(place[0], part.id))


def _home(module: str, name: str) -> tuple[str, str]:
    """Where a function that a module mentions is defined."""
    value = getattr(sys.modules[module], name, None)
    home = getattr(value, "__module__", None)
    return (home, name) if isinstance(home, str) and home.startswith("policies.rules") else (module, name)


def link(source: str) -> str:
    """A source as a link where it names a public report or page."""
    match = _REPORT.fullmatch(source)
    if match:
        project = _PROJECTS.get(match.group(1), match.group(1))
        if "/" in project:
            return f"[{source}](https://github.com/{project}/issues/{match.group(2)})"
    if source.startswith("https://"):
        return f"[{source.removeprefix('https://').rstrip('/')}]({source})"
    if re.fullmatch(r"CVE-\d+-\d+", source):
        return f"[{source}](https://nvd.nist.gov/vuln/detail/{source})"
    return source


def _heading(module: ModuleType) -> str:
    return (inspect.getdoc(module) or module.__name__).split("\n\n")[0].replace("\n", " ").rstrip(".")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page(rules: tuple[Rule, ...] = RULES) -> str:
    """The whole page as Markdown: a section for each module, a row for each rule, in the order in which rules run."""
    by_module: dict[str, list[Rule]] = {}
    for rule in rules:
        by_module.setdefault(rule.check.__module__, []).append(rule)
    lines = [
        "# Rules",
        "",
        f"{len(rules)} rules judge a stack before anything is created: in the plan, in the components, and in the policy pack over what others",
        "create. An error is certain to fail or to harm; a warning can work. `policy: {<rule id>: error | warning | off}` in an environment",
        "changes a rule's severity there. This page is made from the rules (`python -m policies.docs`).",
    ]
    for module, own in by_module.items():
        lines += [
            "",
            f"## {_heading(sys.modules[module])}",
            "",
            "| rule | severity | what holds | why | sources |",
            "|---|---|---|---|---|",
        ]
        for rule in own:
            cells = (
                f"`{rule.id}`",
                ", ".join(severities(rule)),
                rule.title,
                rule.why,
                "<br>".join(link(source) for source in rule.sources),
            )
            lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the page, or with --check say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m policies.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the page is not up to date")
    given = parser.parse_args(argv)
    text = page()
    if given.check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != text:
            print(f"{PAGE.name} is not up to date; run python -m policies.docs", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
