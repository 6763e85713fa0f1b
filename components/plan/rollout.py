"""What an edit of a service does to what runs: nothing, pods more or less, replicas replaced in place, or a second cluster.

For: the plan's changes. Not for: which figures differ (changes.py), or which fields KubeRay hashes (policies/cluster_change.py).
Sources: kuberay v1.7.0 rayservice_controller.go; ray 2.60.0 serve/_private/deploy_utils.py get_app_code_version (import path,
arguments and runtime_env make the code version of all deployments of an application) and serve/schema.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from policies.cluster_change import differences, new_cluster_reasons

Manifest = Mapping[str, Any]
Effect = Literal[
    "new", "removed", "replaced", "new_cluster", "incremental", "rolling", "serve_update", "in_place", "kept", "none"
]
SENTENCES: dict[Effect, str] = {
    "new": "is made",
    "removed": "is deleted, and its endpoint with it",
    "replaced": "is deleted and made anew: no answers between",
    "new_cluster": "a second Ray cluster starts beside the running one and takes over when it is ready",
    "incremental": "a second Ray cluster takes over step by step",
    "rolling": "the Deployment replaces its pods, a quarter more at a time",
    "serve_update": "Serve replaces the replicas of an application in place",
    "in_place": "objects change in place",
    "kept": "what runs stays as it is",
    "none": "nothing",
}
_OURS = ("pulumi.com/", "app.kubernetes.io/managed-by", "kubectl.kubernetes.io/")


@dataclass(frozen=True, slots=True)
class Rollout:
    """Effect of an edit, what of it is worth knowing, and the paths in the manifests that cause it."""

    effect: Effect
    note: str = ""
    causes: tuple[str, ...] = ()


def rollout(before: Sequence[Manifest], after: Sequence[Manifest]) -> Rollout:
    """Of one service's objects, the workload first. Empty: the service was not, or is no more, there."""
    (old, *around_old), (new, *around_new) = _workload_first(before), _workload_first(after)
    if old is None or new is None:
        return Rollout("none" if old is new else "new" if old is None else "removed")
    old, new = _plain(old), _plain(new)
    if _identity(old) != _identity(new):
        return Rollout("replaced", causes=tuple(differences(_identity(old), _identity(new))))
    found = _OF_KIND[new["kind"]](old, new)
    if found.effect == "none":
        causes = tuple(sorted({*differences(old, new), *_surroundings(around_old, around_new)}))
        return (
            Rollout("in_place", "labels, annotations and what surrounds the pods: no pod restarts", causes)
            if causes
            else found
        )
    return found


def _workload_first(objects: Sequence[Manifest]) -> list[Manifest | None]:
    """The workload and what is beside it, without the namespace; [None] for no workload."""
    workload = next((each for each in objects if each.get("kind") in _OF_KIND), None)
    rest = [each for each in objects if each is not workload and each.get("kind") != "Namespace"]
    return [workload, *rest] if workload is not None else [None]


def _plain(manifest: Manifest) -> dict[str, Any]:
    """Without what Pulumi and kubectl add to metadata."""
    metadata = dict(manifest.get("metadata") or {})
    for key in ("annotations", "labels"):
        kept = {k: v for k, v in (metadata.pop(key, None) or {}).items() if not k.startswith(_OURS)}
        if kept:
            metadata[key] = kept
    return {**manifest, "metadata": metadata}


def _identity(manifest: Manifest) -> dict[str, Any]:
    metadata = manifest["metadata"]
    return {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": {"name": metadata.get("name"), "namespace": metadata.get("namespace", "default")},
    }


def _service(old: Manifest, new: Manifest) -> Rollout:
    before, after = old["spec"], new["spec"]
    reasons = tuple(f"rayClusterConfig.{path}" for path in new_cluster_reasons(old, new))
    if reasons:
        strategy = (after.get("upgradeStrategy") or {}).get("type")
        if strategy in (None, "NewCluster"):
            return Rollout("new_cluster", "", reasons)
        if strategy == "NewClusterWithIncrementalUpgrade":
            return Rollout("incremental", "", reasons)
        note = "upgrade.strategy is none: KubeRay leaves the running cluster alone until the service is made anew"
        return Rollout("kept", note, reasons)
    serve = _serve(before.get("serveConfigV2"), after.get("serveConfigV2"))
    if serve is not None:
        return serve
    causes = tuple(
        f"rayClusterConfig.{path}" for path in differences(before["rayClusterConfig"], after["rayClusterConfig"])
    )
    if causes:
        return Rollout(
            "in_place", "pods are added or removed, or settings hold for pods that are made from now on", causes
        )
    return Rollout("none")


def _serve(before: Any, after: Any) -> Rollout | None:
    """What Serve makes of another config; None for the same."""
    old, new = _config(before), _config(after)
    if old == new:
        return None
    causes: list[str] = []
    apps: list[str] = []
    had, has = _applications(old), _applications(new)
    for name in sorted({*had, *has}):
        paths = list(_named(had.get(name), has.get(name)))
        if paths:
            apps.append(name)
            causes += [f"application '{name}': {path}" for path in paths]
    if not apps:
        note = "http_options are read when Serve starts; the running one keeps its own"
        return Rollout("kept", note, tuple(differences(old, new)))
    note = f"every deployment of {', '.join(repr(app) for app in apps)}"
    alone = [model for app in apps if app in had and app in has for model in _alone(has[app])]
    if alone:
        note += f"; requests to {', '.join(alone)} wait while the only replica is replaced, unless replicas.surge_percent is 100"
    return Rollout("serve_update", note, tuple(causes))


def _alone(app: Mapping[str, Any]) -> Iterator[str]:
    """Models of an application that run on one replica, which Serve ends before it starts the next."""
    args = app.get("args") or {}
    for llm in args.get("llm_configs") or [] if isinstance(args, dict) else []:
        options = llm.get("deployment_config") or {}
        least = (options.get("autoscaling_config") or {}).get("min_replicas", options.get("num_replicas", 1))
        if least == 1 and not options.get("max_surge_percent"):
            yield str((llm.get("model_loading_config") or {}).get("model_id"))


def _config(text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        return {}
    import yaml

    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = yaml.safe_load(text)
    return found if isinstance(found, dict) else {}


def _applications(config: Mapping[str, Any]) -> dict[str, Any]:
    return {str(app.get("name")): app for app in config.get("applications") or [] if isinstance(app, dict)}


def _named(old: Any, new: Any) -> Iterator[str]:
    """Differences of an application, models by their names in place of numbers."""
    if old is None or new is None:
        yield "new" if old is None else "gone"
        return
    yield from sorted(differences(_by_model(old), _by_model(new)))


def _by_model(app: Mapping[str, Any]) -> dict[str, Any]:
    args = dict(app.get("args") or {})
    configs = args.pop("llm_configs", None)
    if isinstance(configs, list):
        for config in configs:
            name = ((config or {}).get("model_loading_config") or {}).get("model_id")
            args[f"llm_configs[{name}]"] = config
    return {**app, "args": args}


def _cluster(old: Manifest, new: Manifest) -> Rollout:
    """KubeRay's RayCluster controller scales groups and makes pods anew only under upgradeStrategy Recreate."""
    wrapped = [{"spec": {"rayClusterConfig": each["spec"]}} for each in (old, new)]
    reasons = new_cluster_reasons(*wrapped)
    if not reasons:
        causes = tuple(differences(old["spec"], new["spec"]))
        return Rollout("in_place", "worker groups grow or shrink", causes) if causes else Rollout("none")
    if (new["spec"].get("upgradeStrategy") or {}).get("type") == "Recreate":
        return Rollout("replaced", "KubeRay deletes all pods and makes them anew", reasons)
    return Rollout("kept", "running pods stay; those that are made later are of the new kind", reasons)


def _job(old: Manifest, new: Manifest) -> Rollout:
    causes = tuple(sorted(differences(old["spec"], new["spec"])))
    return (
        Rollout("replaced", "KubeRay reads a job once: the changed one runs from its start", causes)
        if causes
        else Rollout("none")
    )


def _deployment(old: Manifest, new: Manifest) -> Rollout:
    template = differences(old["spec"].get("template"), new["spec"].get("template"), "template")
    if template:
        return Rollout("rolling", "", tuple(sorted(template)))
    causes = tuple(sorted(differences(old["spec"], new["spec"])))
    return Rollout("in_place", "pods are added or removed", causes) if causes else Rollout("none")


def _surroundings(before: Sequence[Manifest | None], after: Sequence[Manifest | None]) -> Iterator[str]:
    """Objects beside the workload that come, go or change, as `NetworkPolicy chat`."""
    old, new = ({f"{m['kind']} {m['metadata'].get('name')}": _plain(m) for m in each if m} for each in (before, after))
    yield from (name for name in {*old, *new} if old.get(name) != new.get(name))


_OF_KIND: dict[str, Callable[[Manifest, Manifest], Rollout]] = {
    "RayService": _service,
    "RayCluster": _cluster,
    "RayJob": _job,
    "Deployment": _deployment,
}
