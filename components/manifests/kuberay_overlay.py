"""KubeRay without a chart: a kustomization over the one that the operator's Go module publishes. Pure: text in, text out.

For clusters that reach no chart repository. Our overlay sets namespace, image, flags and the RBAC that the batch scheduler
needs (the published ClusterRole of v1.6 and v1.7 has none for PodGroups; the chart adds it the same way).
Source: ray-project/kuberay v1.6.1 (ray-operator/config/default, rbac, manager; helm-chart templates/_helpers.tpl).
"""

from __future__ import annotations

import json
import posixpath
from typing import Any

import yaml

from components.config import Environment
from components.manifests import kuberay
from components.versions import KUBERAY

OPERATOR = "kuberay-operator"
POD_GROUPS = {
    "scheduler-plugins": ("scheduling.x-k8s.io", ("create", "get", "list", "watch")),
    "volcano": ("scheduling.volcano.sh", ("create", "delete", "get", "list", "update", "watch")),
}

_UNAWAITED = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": OPERATOR, "annotations": {"pulumi.com/skipAwait": "true"}},
}


def files(env: Environment, published: str) -> dict[str, str]:
    """Files of the overlay, by name. `published` is the path from the overlay's folder to config/default."""
    config = posixpath.dirname(published.rstrip("/"))
    written = {
        "namespace.yaml": _dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUBERAY.namespace}}),
    }
    scheduler = env.software.batch_scheduler
    if scheduler in POD_GROUPS:
        written["batch_scheduler_rbac.yaml"] = _pod_group_rbac(*POD_GROUPS[scheduler])
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": KUBERAY.namespace,
        "resources": [posixpath.join(config, "rbac"), posixpath.join(config, "manager"), *sorted(written)],
        "images": [_image(env)],
        "patches": [
            {"target": {"kind": "Deployment", "name": OPERATOR}, "patch": json.dumps(_patch(env))},
            # Its port is for metrics: nothing waits for it, and the engine's wait for endpoints takes ten seconds more.
            {"target": {"kind": "Service", "name": OPERATOR}, "patch": json.dumps(_UNAWAITED)},
        ],
    }
    return written | {"kustomization.yaml": _dump(kustomization)}


def _patch(env: Environment) -> list[dict[str, Any]]:
    container = "/spec/template/spec/containers/0"
    return [
        {"op": "add", "path": f"{container}/args", "value": kuberay.arguments(env)},
        {"op": "add", "path": f"{container}/resources", "value": kuberay.resources(env)},
    ]


def _image(env: Environment) -> dict[str, str]:
    given = env.software.kuberay.image
    if given is None:
        return {"name": "kuberay/operator", "newName": "quay.io/kuberay/operator", "newTag": f"v{kuberay.version(env)}"}
    if "@" in given:
        name, digest = given.split("@", 1)
        return {"name": "kuberay/operator", "newName": name, "digest": digest}
    parts = kuberay.image_values(given)
    return {"name": "kuberay/operator", "newName": parts["repository"], "newTag": parts.get("tag", "latest")}


def _pod_group_rbac(group: str, verbs: tuple[str, ...]) -> str:
    name = f"{OPERATOR}-batch-scheduler"
    api = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": ["podgroups"], "verbs": list(verbs)}],
    }
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": KUBERAY.namespace}],
    }
    return yaml.safe_dump_all([role, binding], sort_keys=True)


def _dump(value: dict[str, Any]) -> str:
    return yaml.safe_dump(value, sort_keys=True)
