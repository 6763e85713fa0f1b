"""Versions that go together inside the images: Ray and vLLM, head and workers, Python, the model's architecture.

Not for: cluster software (software.py), or CUDA against the nodes' driver (drivers.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from policies.catalog.architectures import FIRST_VLLM, LAST_VLLM
from policies.catalog.ray_releases import BY_MINOR, DATA_PARALLEL_SINCE, SERVE_LLM_SINCE, RayRelease, release_of
from policies.facts import Stack
from policies.finding import Problem, Rule, Severity, error, warning

from ._engines import RAY_KINDS, ray_version, seats, vllm_version
from ._values import before, version

# rayproject/ray-llm:2.56.0-py312-cu130, rayproject/ray:2.60.0.abc-py311-gpu, llm-serve:ray2.60.0-vllm0.29.0-py311-...
_RAY_TAG = re.compile(r"(?:^|[-_.])ray[-_v]?(\d+\.\d+\.\d+)|^v?(\d+\.\d+\.\d+)")
_PYTHON_TAG = re.compile(r"(?:^|[-_.])py(\d)(\d{1,2})(?=$|[-_.])")
_CUDA_TAG = re.compile(r"(?:^|[-_.])cu(?:da)?(\d{2})(\d)(?=$|[-_.])")
_BUILD = re.compile(r"-(?:cpu|cu\d+|gpu)(?=$|-)")  # of one release and one Python: rayproject/ray:2.37.0 and 2.37.0-gpu
_VLLM_TAG = re.compile(r"(?:^|[-_.])vllm[-_v]?(\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Image:
    """What the tag of an image says of its content; None where it says nothing."""

    ray: str | None
    python: str | None
    cuda: str | None
    vllm: str | None


@lru_cache(maxsize=4096)
def image_of(reference: str) -> Image:
    """Read a tag. A bare version counts as Ray's only for images that are called ray or ray-llm."""
    name, _, tag = reference.split("@")[0].rpartition(":")
    if not name or "/" in tag:
        return Image(None, None, None, None)
    repository = name.rsplit("/", 1)[-1]
    ray = _RAY_TAG.search(tag)
    bare = ray is not None and ray.group(1) is None
    python, cuda, vllm = _PYTHON_TAG.search(tag), _CUDA_TAG.search(tag), _VLLM_TAG.search(tag)
    named = repository in ("ray", "ray-llm", "ray-ml") if bare else True
    return Image(
        ray=(ray.group(1) or ray.group(2)) if ray and named else None,
        python=f"{python.group(1)}.{python.group(2)}" if python else None,
        cuda=f"{cuda.group(1)}.{cuda.group(2)}" if cuda else None,
        vllm=vllm.group(1) if vllm else None,
    )


def _minor(text: str | None) -> str | None:
    numbers = version(text)
    return f"{numbers[0]}.{numbers[1]}" if numbers and len(numbers) >= 2 else None


def images(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        first = workload.head if workload.kind in RAY_KINDS else None
        if workload.kind == "LeaderWorkerSet" and workload.groups:
            first = workload.groups[0]
        if first is None:
            continue
        role, known = "head" if first.head else "leader", image_of(first.image)
        for group in workload.groups:
            if not group.image or not first.image or _BUILD.sub("", group.image) == _BUILD.sub("", first.image):
                continue
            mine = image_of(group.image)
            for what, ours, theirs in (("Ray", mine.ray, known.ray), ("Python", mine.python, known.python)):
                if ours and theirs and ours != theirs:
                    yield error(
                        group.where,
                        f"its image has {what} {ours} and the {role}'s {theirs}: a worker joins only a {role} of the same {what}",
                        f"use one image for {role} and workers",
                    )
                    break
            else:
                yield warning(
                    group.where,
                    f"its image {group.image} is not the {role}'s {first.image}: Ray and Python must be the same in both",
                    f"use one image for {role} and workers, or make sure of it",
                )
        for pod in workload.pod_groups if workload.by_kuberay else ():
            found = image_of(pod.image).ray
            if found and workload.ray_version and version(found) != version(workload.ray_version):
                yield error(
                    pod.where,
                    f"rayVersion is {workload.ray_version} and its image has Ray {found}: KubeRay chooses probes, commands and autoscaler by rayVersion",
                    f"set ray_version: {found}, or use an image of Ray {workload.ray_version}",
                )


def ray_vllm(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if not workload.engines or workload.kind not in RAY_KINDS:
            continue
        ray = ray_version(stack, workload)
        found = next((image_of(pod.image).vllm for pod in workload.pod_groups if image_of(pod.image).vllm), None)
        vllm, row = found or vllm_version(stack, workload), release_of(ray)
        if row is not None and vllm is not None:
            for severity, message, mend in _pair(ray or "", vllm, row):
                yield Problem(workload.where, severity, message, mend)


@lru_cache(maxsize=1024)
def _pair(ray: str, vllm: str, row: RayRelease) -> tuple[tuple[Severity, str, str], ...]:
    """(severity, message, mend) of a pair that does not go together; empty for one that does."""
    other, first, last = _ray_for(vllm), row.vllm_first, row.vllm_last
    mend = (
        f"use vLLM {first}, which ray[llm] of {row.minor} asks for{f', or Ray {other} with this vLLM' if other else ''}"
    )
    if before(vllm, first) and _minor(vllm) != _minor(first):
        text = (
            f"Ray {ray} needs vLLM {first} or newer and this is {vllm}: ray.serve.llm imports modules it does not have"
        )
        return (("error", text, mend),)
    if _after(vllm, last) and not row.open_ended:
        why = "imports modules that vLLM has" if not row.breaks else "calls vLLM as it is"
        text = f"Ray {ray} {why} up to {last} and this is {vllm}: {row.breaks or 'ray.serve.llm cannot be imported'}"
        return (("error", text, mend),)
    if _after(vllm, last):
        text = f"Ray {ray} was compared with vLLM up to {last} and this is {vllm}"
    elif row.pinned and _minor(vllm) != _minor(first):
        text = f"ray[llm] {row.minor} pins vLLM {first} and this is {vllm}"
    else:
        return ()
    return (("warning", text, f"use vLLM {first}, or try the pair first"),)


def _after(vllm: str, last: str) -> bool:
    """Whether vLLM is newer than `last`, which is a minor (all its patches count) or one patch."""
    numbers, bound = version(vllm), version(last)
    return numbers is not None and bound is not None and numbers[: len(bound)] > bound


def _ray_for(vllm: str) -> str | None:
    """The newest Ray that goes with a vLLM; None where none that was compared does."""
    fitting = [
        row.minor
        for row in BY_MINOR.values()
        if not before(vllm, row.vllm_first) and (row.open_ended or not _after(vllm, row.vllm_last))
    ]
    return fitting[-1] if fitting else None


def serve_llm(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in RAY_KINDS:
            continue
        ray = ray_version(stack, workload)
        for app in workload.apps:
            builds = app.import_path.startswith("ray.serve.llm") or any(
                app.args.get(key) for key in ("llm_configs", "llm_config", "prefill_config", "decode_config")
            )
            if builds and before(ray, SERVE_LLM_SINCE):
                yield error(
                    f"{workload.where}: application '{app.name}'",
                    f"it needs ray.serve.llm, which came with Ray {SERVE_LLM_SINCE}, and this is Ray {ray}",
                    f"use Ray {SERVE_LLM_SINCE} or newer",
                )
            elif app.args.get("llm_config") and before(ray, DATA_PARALLEL_SINCE):
                yield error(
                    f"{workload.where}: application '{app.name}'",
                    f"data parallel needs build_dp_openai_app, which came with Ray {DATA_PARALLEL_SINCE}, and this is Ray {ray}",
                    f"use Ray {DATA_PARALLEL_SINCE} or newer, or replicas without data parallel",
                )
        bad = next((pod for pod in workload.pod_groups if "ray-llm:2.44.1" in pod.image), None)
        if bad is not None:
            yield warning(
                bad.where,
                "image ray-llm:2.44.1 was reported to fail with 'vLLM is not installed'",
                "use a newer ray-llm image",
            )


def architecture(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row, vllm = seat.row, vllm_version(stack, seat.workload)
        if row is None:
            continue
        last = LAST_VLLM.get(row.architecture)
        if last is not None and (version(vllm) or ())[:2] > (version(last) or ()):
            yield error(
                seat.engine.where,
                f"{row.name} is a {row.architecture}, which vLLM {last} was the last to run, and this is vLLM {vllm}: it refuses to start",
                f"use a newer model, or an image with vLLM {last}",
            )
        first = FIRST_VLLM.get(row.architecture)
        if first is None or not before(vllm, first):
            continue
        ray = ray_version(stack, seat.workload)
        newer = f" (with Ray {_newest_for(first)} or newer)" if seat.ray and ray else ""
        yield error(
            seat.engine.where,
            f"{row.name} is a {row.architecture}, which vLLM knows from {first} on, and this is vLLM {vllm}",
            f"use vLLM {first} or newer{newer}, or a model this vLLM knows",
        )


def _newest_for(vllm: str) -> str:
    return next((r.minor for r in BY_MINOR.values() if not before(r.vllm_first, vllm)), "2.60")


RULES: tuple[Rule, ...] = (
    Rule(
        id="version-images",
        title="Head and workers run one image, and rayVersion is that image's",
        why=(
            "A Ray worker joins only a head of the same Ray and Python. KubeRay cannot look into an image: it chooses probes, autoscaler and options by rayVersion, so "
            "a wrong one gives pods the wrong commands."
        ),
        check=images,
        sources=("kuberay#1265", "kuberay#148", "ray PR#15068"),
    ),
    Rule(
        id="version-ray-vllm",
        title="Ray and vLLM go together",
        why=(
            "Ray Serve LLM imports vLLM's internal modules, which move between releases. Outside the range of a Ray release, importing ray.serve.llm fails before any "
            "model is loaded."
        ),
        check=ray_vllm,
        sources=("ray#62497", "ray#58960", "ray#64006"),
    ),
    Rule(
        id="version-serve-llm",
        title="Ray has the parts of Serve LLM that the application uses",
        why="ray.serve.llm came with Ray 2.43, its prefill/decode and data-parallel builders later.",
        check=serve_llm,
        sources=("ray#51244", "ray#52136"),
    ),
    Rule(
        id="version-model",
        title="vLLM knows the model's architecture",
        why=(
            "vLLM runs the architectures in its registry; a model that is newer than the vLLM of the image fails when its config is read, and so does one whose "
            "architecture was taken out since (Baichuan and the first Qwen after 0.23)."
        ),
        check=architecture,
        sources=("ray#62497", "vllm: model_executor/models/registry.py of 0.8 to 0.32"),
    ),
)
