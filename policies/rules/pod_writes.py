"""Users of a pod and folders that they can write: what the image runs as, and where weights, caches and sockets go.

Not for: privileges (pod_security.py), or whether the volumes that are mounted exist (pod_template.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats
from ._values import listed, literal
from .model_access import from_hub, is_offline

# Images of a model server that have no USER and no home for another one.
_ROOT = re.compile(r"(^|.*/)(vllm/vllm-openai|lmcache/vllm-openai)([:@].*)?")
_RAY = re.compile(r"(^|.*/)rayproject/ray(-llm|-ml)?([:@].*)?")
_HOMES = ("HF_HOME", "HF_HUB_CACHE", "HOME", "XDG_CACHE_HOME")
_SCRATCH = ("/tmp", "/var/tmp")


def _security(group: PodGroup, key: str) -> Any:
    """A field of the first container's security context, else of the pod's."""
    own = mapping(group.main_container.get("securityContext"))
    return own[key] if key in own else mapping(group.pod.get("securityContext")).get(key)


def _serving(stack: Stack) -> Iterator[tuple[Workload, PodGroup]]:
    for workload in stack.workloads:
        if workload.engines or workload.by_kuberay:
            for group in workload.pod_groups:
                if group.pod:
                    yield workload, group


def users(stack: Stack) -> Iterator[Problem]:
    for workload, group in _serving(stack):
        user, strict = whole(_security(group, "runAsUser")), _security(group, "runAsNonRoot") is True
        root = bool(_ROOT.fullmatch(group.image))
        if strict and (user == 0 or (user is None and root)):
            what = "runAsUser is 0" if user == 0 else f"the image {group.image} runs as root"
            yield error(
                group.where,
                f"runAsNonRoot is set and {what}: the kubelet refuses the container (CreateContainerConfigError)",
                "leave runAsNonRoot out, or set runAsUser and folders of that user (HOME, HF_HOME) on a volume",
            )
        elif (
            user
            and root
            and workload.engines
            and not any(name in group.env for name in _HOMES)
            and "/.cache" not in _mounts(group)
        ):
            yield error(
                group.where,
                f"it runs as user {user}, whom the image {group.image} does not know: its home is /, and weights and compiled kernels go to /.cache, which is root's",
                "mount a volume that the user can write (fsGroup) and set HOME and HF_HOME to it, and USER to a name",
            )


def writable(stack: Stack) -> Iterator[Problem]:
    for workload, group in _serving(stack):
        if _security(group, "readOnlyRootFilesystem") is not True or "TMPDIR" in group.env:
            continue
        mounts = _mounts(group)
        if not any(path.startswith(_SCRATCH) and not read_only for path, read_only in mounts.items()):
            needs = (
                "Ray keeps sessions and sockets" if workload.by_kuberay else "vLLM keeps sockets and compiled kernels"
            )
            yield error(
                group.where,
                f"readOnlyRootFilesystem is set and nothing writable is mounted at /tmp, where {needs}: it ends when it starts",
                "mount an emptyDir at /tmp, and one at the home's .cache",
            )


def _mounts(group: PodGroup) -> dict[str, bool]:
    """Mount path -> whether it is read-only, of the first container."""
    volumes = {str(mapping(v).get("name")): mapping(v) for v in items(group.pod.get("volumes"))}
    found = {}
    for mount in map(mapping, items(group.main_container.get("volumeMounts"))):
        volume = volumes.get(str(mount.get("name")), {})
        fixed = any(kind in volume for kind in ("configMap", "secret", "projected", "downwardAPI", "image"))
        claim = mapping(volume.get("persistentVolumeClaim"))
        found[str(mount.get("mountPath", "")).rstrip("/") or "/"] = (
            mount.get("readOnly") is True or fixed or claim.get("readOnly") is True
        )
    return found


def _cache(seat: Seat, group: PodGroup) -> str | None:
    """Folder that downloads go to; None where it is not known."""
    for name, below in (
        ("HF_HUB_CACHE", ""),
        ("HF_HOME", "/hub"),
        ("XDG_CACHE_HOME", "/huggingface/hub"),
        ("HOME", "/.cache/huggingface/hub"),
    ):
        if name in group.env or name in seat.engine.env:
            value = literal({**group.env, **seat.engine.env}, name)
            return f"{value.rstrip('/')}{below}" if value and value.startswith("/") else None
    if _ROOT.fullmatch(group.image) and not whole(_security(group, "runAsUser")):
        return "/root/.cache/huggingface/hub"
    return "/home/ray/.cache/huggingface/hub" if _RAY.fullmatch(group.image) else None


def cache(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        download = seat.args.get("download_dir")
        if not from_hub(seat) or is_offline(seat):
            continue
        for group in seat.groups:
            folder = str(download) if isinstance(download, str) and download.startswith("/") else _cache(seat, group)
            if folder is None or not group.pod:
                continue
            under = [
                (path, read_only)
                for path, read_only in _mounts(group).items()
                if path == "/" or folder == path or folder.startswith(f"{path}/")
            ]
            path, read_only = max(under, key=lambda each: len(each[0]), default=("", False))
            fixed = _security(group, "readOnlyRootFilesystem") is True
            if path and read_only:
                yield warning(
                    group.where,
                    f"{seat.engine.source} is downloaded to {folder}, and {path} is mounted read-only: it starts only where the volume has this model, at this revision",
                    "mount it writable, or set source to the model's folder on it (or HF_HUB_OFFLINE=1)",
                )
            elif not path and fixed:
                yield error(
                    group.where,
                    f"{seat.engine.source} is downloaded to {folder}, and readOnlyRootFilesystem leaves it no writable folder",
                    "mount a volume there, or set HF_HOME to one",
                )
            break


_KSERVE = (
    "InferenceService",
    "LLMInferenceService",
)  # its storage initialiser fills /mnt/models, and adapters beside it


def folders(stack: Stack) -> Iterator[Problem]:
    """Files that arguments name, in images whose content is known."""
    for seat in seats(stack):
        for group in seat.groups[:1]:
            if not group.pod or not (_ROOT.fullmatch(group.image) or _RAY.fullmatch(group.image)):
                continue
            mounts = [*_mounts(group), *(("/mnt",) if seat.workload.kind in _KSERVE else ())]
            made = any(mapping(group.main_container.get("lifecycle")).values())
            for name, path in _named(seat):
                if (
                    not made
                    and path.startswith(
                        (
                            "/models",
                            "/mnt",
                            "/data",
                            "/weights",
                            "/lora",
                            "/adapters",
                            "/templates",
                            "/config",
                            "/cache",
                        )
                    )
                    and not any(path == mount or path.startswith(f"{mount}/") for mount in mounts)
                ):
                    yield error(
                        seat.engine.where,
                        f"{name} is {path}, and no volume is mounted there ({'mounted: ' + listed(mounts) if mounts else 'nothing is mounted'}): the image "
                        f"{group.image} has no such folder",
                        "mount the volume that has it, or correct the path",
                    )


def _named(seat: Seat) -> Iterator[tuple[str, str]]:
    if seat.engine.source.startswith("/"):
        yield "the model's folder", seat.engine.source
    for name in (
        "tokenizer",
        "chat_template",
        "tool_parser_plugin",
        "hf_config_path",
        "generation_config",
        "reasoning_parser_plugin",
    ):
        value = seat.args.get(name)
        if isinstance(value, str) and value.startswith("/"):
            yield name, value
    for each in items(seat.args.get("lora_modules")):
        path = str(each.get("path", "")) if isinstance(each, Mapping) else str(each).partition("=")[2]
        if path.startswith("/"):
            yield "a LoRA module", path


RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-user",
        title="The image runs as the user that the pod asks for",
        why=(
            "vLLM's image has no USER: it runs as root, and with runAsNonRoot alone the kubelet does not start it. As another user it has no home, so that the first download or "
            "compilation is refused."
        ),
        check=users,
        sources=("vllm#9118", "kserve#5666", "inference-benchmarker PR#47"),
    ),
    Rule(
        id="pod-scratch",
        title="A read-only root filesystem leaves /tmp writable",
        why="Ray's sessions, vLLM's sockets between processes and Python's temporary files are in /tmp. Without it the first process ends.",
        check=writable,
        sources=("vllm 0.32: envs.py VLLM_RPC_BASE_PATH", "ray 2.60.0: _private/node.py"),
    ),
    Rule(
        id="model-cache-folder",
        title="Downloads have a folder that can be written",
        why=(
            "A model of the hub is written to HF_HOME, else to the home's .cache. Where that is on a read-only mount the download fails, unless the volume has the same "
            "revision already, and then a lock file still cannot be made."
        ),
        check=cache,
        sources=("https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables",),
    ),
    Rule(
        id="model-folder",
        title="Folders that arguments name are mounted",
        why="A path that is not there is taken for a repository on the hub, or ends the engine when it starts.",
        check=folders,
        sources=("vllm 0.29.0: transformers_utils/repo_utils.py",),
    ),
)
