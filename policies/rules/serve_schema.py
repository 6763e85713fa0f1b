"""Fields of a Serve config that Serve does not have or whose values are of another type, and arguments of Ray's LLM builders.

Not for: options of deployments (serve_options.py), fields of an LLMConfig (serve_llm.py), or names and routes (kuberay_objects.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.catalog.serve_schema import BUILDERS, READ_IN, SERVE
from policies.facts import Stack, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._engines import RAY_KINDS, ray_version
from ._schema import Found, inside
from ._values import before, version
from .serve_options import RENAMED, RENAMED_IN, logging


def schema(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in RAY_KINDS or not workload.serve_config:
            continue
        ray = ray_version(stack, workload)
        read = (version(ray) or READ_IN)[:2] == READ_IN
        for message, mend, certain in _config(workload):
            renamed = next((new for old, new in RENAMED.items() if f"'{old}'" in message), None)
            if renamed and before(ray, RENAMED_IN):
                continue
            mend = f"call it {renamed}" if renamed else mend
            yield (error if certain and read else warning)(workload.where, message, mend)
        given = workload.serve_config
        yield from logging(workload.where, given.get("logging_config"), "logging_config")
        for app in map(mapping, items(given.get("applications"))):
            yield from logging(
                f"{workload.where}: application '{app.get('name', '')}'", app.get("logging_config"), "logging_config"
            )


def _config(workload: Workload) -> Iterator[Found]:
    yield from inside(workload.serve_config, SERVE, "serveConfigV2", lax=True)
    for index, app in enumerate(map(mapping, items(workload.serve_config.get("applications")))):
        if app.get("name") == "":
            yield f"serveConfigV2.applications[{index}].name is empty: Serve refuses the config", "give it a name", True
        for name in ("host", "port"):
            if name in app:
                yield (
                    f"serveConfigV2.applications[{index}].{name} is {app[name]!r}: Serve takes it for all applications only, and refuses the config",
                    f"move it to http_options.{name}",
                    True,
                )
        shape, args = BUILDERS.get(str(app.get("import_path"))), app.get("args")
        if shape is not None and (args is None or isinstance(args, Mapping)):
            yield from inside(args or {}, shape, f"serveConfigV2.applications[{index}].args", lax=True)


RULES: tuple[Rule, ...] = (
    Rule(
        id="serve-schema",
        title="A Serve config has fields that Serve has, of the types that it reads",
        why=(
            "Serve ignores a misspelt field of the config, of an application or of http_options without a word, so that what it was meant for never happens. It refuses the "
            "whole config for one value of another type; KubeRay then tells that in the RayService's status only."
        ),
        check=schema,
        sources=("ray 2.60.0: serve/schema.py, llm/_internal/serve/core/ingress/builder.py",),
    ),
)
