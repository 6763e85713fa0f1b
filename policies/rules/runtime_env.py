"""Runtime environments of Serve applications, engines and jobs: fields that go together, and packages that Ray can fetch.

Not for: secrets in their variables (secrets.py), or names of variables (environment_variables.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from policies.catalog.lookup import closest_names
from policies.facts import Stack, Workload
from policies.facts.quantities import items, mapping
from policies.facts.ray import LOADER
from policies.finding import Problem, Rule, error, warning

from ._engines import ray_version
from ._values import before, listed

# ray 2.60.0: runtime_env/runtime_env.py known_fields, _private/runtime_env/{protocol,validation}.py.
FIELDS = (
    "_nsight", "_rocprof_sys", "conda", "config", "container", "env_vars", "excludes", "image_uri", "java_jars", "pip", "py_executable", "py_modules", "uv",
    "worker_process_setup_hook", "working_dir",
)  # fmt: skip
_ONE_OF = ("conda", "pip", "uv")
_BESIDE_IMAGE = ("config", "env_vars", "image_uri", "container")
_REMOTE = ("abfss", "azure", "file", "gs", "http", "https", "s3")
_OTHERS = ("gcs", "local")
_PACKAGES = {"working_dir": (".zip", ".jar"), "py_modules": (".zip", ".whl", ".jar")}
_ARCHIVES, _ARCHIVES_NOT_IN, _ARCHIVES_IN = (".tar.gz", ".tgz", ".tar.xz"), "2.56", "2.60"  # ray#62811
_REQUIREMENT = re.compile(r"(ray|vllm)(?:\[[^\]]*\])?\s*(?:==\s*([\w.]+)|[<>~!].*)?", re.IGNORECASE)
_URI = re.compile(r"([a-z0-9]+)://")


def environments(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind == "RayService":
            for place, env in _of_service(workload):
                yield from _judge(
                    place,
                    env,
                    ray_version(stack, workload),
                    remote=place.startswith(f"{workload.where}: application") and ": model" not in place,
                )
        elif workload.kind == "RayJob":
            env = _of_job(workload)
            if env:
                yield from _judge(f"{workload.where}: runtimeEnvYAML", env, ray_version(stack, workload), remote=False)


def _of_service(workload: Workload) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for app in map(mapping, items(workload.serve_config.get("applications"))):
        where = f"{workload.where}: application '{app.get('name', 'default')}'"
        if app.get("runtime_env"):
            yield where, mapping(app["runtime_env"])
        args = mapping(app.get("args"))
        for config in (
            *items(args.get("llm_configs")),
            args.get("llm_config"),
            args.get("prefill_config"),
            args.get("decode_config"),
        ):
            env = mapping(mapping(config).get("runtime_env"))
            if env:
                model = mapping(mapping(config).get("model_loading_config")).get("model_id")
                yield f"{where}: model '{model}'", env


def _of_job(workload: Workload) -> Mapping[str, Any]:
    text = workload.spec.get("runtimeEnvYAML")
    try:
        return mapping(yaml.load(text, Loader=LOADER)) if isinstance(text, str) else {}
    except yaml.YAMLError:
        return {}  # kuberay-schema speaks


def _judge(where: str, env: Mapping[str, Any], ray: str | None, remote: bool) -> Iterator[Problem]:
    several = [name for name in _ONE_OF if env.get(name) is not None]
    if len(several) > 1:
        yield error(
            where,
            f"runtime_env has {' and '.join(several)}: Ray refuses them together",
            "keep one; conda takes packages of pip inside its own list",
        )
    image = next((name for name in ("image_uri", "container") if env.get(name)), None)
    others = sorted(set(env) - set(_BESIDE_IMAGE))
    if image and others:
        yield error(
            where,
            f"runtime_env has {image} and {listed(others)}: Ray takes only env_vars and config beside it",
            "put them into the image",
        )
    yield from _installed(where, env, ray)
    for name in sorted(set(map(str, env)) - set(FIELDS)):
        near = closest_names(name, FIELDS, 1)
        yield warning(
            where,
            f"runtime_env has no '{name}': Ray ignores it",
            f"did you mean '{near[0]}'?" if near else "take it out",
        )
    for name, value in sorted(mapping(env.get("env_vars")).items(), key=str):
        if not isinstance(value, str):
            yield error(
                where,
                f"runtime_env.env_vars {name} is {value!r}, no text: Ray refuses it",
                f'write "{value}" in quotes',
            )
    for field in ("working_dir", "py_modules"):
        given = env.get(field)
        for uri in [given] if isinstance(given, str) else items(given):
            yield from _package(where, field, str(uri), ray, remote)


def _requirements(env: Mapping[str, Any]) -> Iterator[str]:
    """What pip or uv is to install, as `vllm==0.8.0`."""
    for name in ("pip", "uv"):
        given = env.get(name)
        yield from map(str, items(given.get("packages") if isinstance(given, Mapping) else given))


def _installed(where: str, env: Mapping[str, Any], ray: str | None) -> Iterator[Problem]:
    for requirement in _requirements(env):
        found = _REQUIREMENT.fullmatch(requirement.strip())
        if found and found[1].lower() == "vllm":
            yield warning(
                where,
                f"runtime_env installs {requirement} over the image's: gigabytes on each node while a replica starts, with another torch and CUDA than Ray was released with",
                "put it into the image",
            )
        elif found and found[2] and ray and found[2] != ray:
            yield error(
                where,
                f"runtime_env installs {requirement} and the cluster runs Ray {ray}: Ray refuses to change its own version",
                "take it out: Ray is in the image",
            )


def _package(where: str, field: str, uri: str, ray: str | None, remote: bool) -> Iterator[Problem]:
    found = _URI.match(uri)
    if not found:
        if remote:
            yield error(
                where,
                f"{field} '{uri}' is no address: Serve has no folder to send, takes packages that are elsewhere already, and refuses the config",
                "give a .zip in a bucket or at an https address, local:///<folder of the image>, or put the code into the image",
            )
        return
    path = uri.split("?", 1)[0]
    if found[1] in _REMOTE and path.endswith(_ARCHIVES):
        if before(ray, _ARCHIVES_IN):
            yield (error if before(ray, _ARCHIVES_NOT_IN) else warning)(
                where,
                f"{field} {path} is a tar archive, which Ray {ray} {'refuses' if before(ray, _ARCHIVES_NOT_IN) else 'may refuse'}",
                "give a .zip",
            )
        return
    if found[1] in _REMOTE and not path.endswith(_PACKAGES[field]):
        yield error(
            where,
            f"{field} {path} is no package: Ray fetches {', '.join(_PACKAGES[field][:-1])} and tar archives, and refuses the rest",
            "give the address of a .zip (https://github.com/<owner>/<name>/archive/<commit>.zip for a repository)",
        )
    elif found[1] not in (*_REMOTE, *_OTHERS):
        yield error(
            where,
            f"{field} {path} has a scheme that Ray does not know; allowed: {', '.join((*_REMOTE, 'local'))}",
            "use one of these",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="runtime-env",
        title="Runtime environments are ones that Ray makes",
        why=(
            "KubeRay checks that runtimeEnvYAML is YAML and no more, and serveConfigV2 is text to it. What is wrong in a runtime_env is found when the application is built or the job "
            "starts, on GPUs that are up; an unknown field is ignored."
        ),
        check=environments,
        sources=(
            "ray#33456",
            "ray#62811",
            "ray#29354",
            "ray 2.60.0: runtime_env/runtime_env.py, _private/runtime_env/dependency_utils.py, serve/schema.py",
        ),
    ),
)
