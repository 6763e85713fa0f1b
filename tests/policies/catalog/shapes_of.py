"""Makes policies/catalog/object_shapes: `python -m tests.policies.catalog.shapes_of FOLDER`, where FOLDER holds the CRDs of SOURCES.

A CRD becomes the names of its fields, their types, choices of those with few, and what must be there; kinds of Kubernetes
itself come from its Python client, which is made from the API's own description. Descriptions, defaults and patterns are
left out. Not for: reading shapes (policies/catalog/objects.py).
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes
import yaml
from kubernetes import client

from policies.catalog.objects import FOLDER

# File of the CRD, as its project names it -> project, version or commit.
SOURCES: Mapping[str, str] = {
    "external-secrets.io_clustersecretstores": "external-secrets cc5bfbc22",
    "external-secrets.io_externalsecrets": "external-secrets cc5bfbc22",
    "external-secrets.io_secretstores": "external-secrets cc5bfbc22",
    "gateway.envoyproxy.io_backendtrafficpolicies": "envoyproxy/gateway v1.9.0",
    "gateway.envoyproxy.io_clienttrafficpolicies": "envoyproxy/gateway v1.9.0",
    "gateway.envoyproxy.io_securitypolicies": "envoyproxy/gateway v1.9.0",
    "gateway.networking.k8s.io_gateways": "gateway-api v1.6.1, experimental",
    "gateway.networking.k8s.io_httproutes": "gateway-api v1.6.1, experimental",
    "gateway.networking.k8s.io_referencegrants": "gateway-api v1.6.1, experimental",
    "inference.networking.k8s.io_inferencepools": "gateway-api-inference-extension 84436a96",
    "karpenter.k8s.aws_ec2nodeclasses": "karpenter-provider-aws v1.14.1",
    "karpenter.sh_nodepools": "karpenter-provider-aws v1.14.1",
    "keda.sh_scaledobjects": "kedacore/keda v2.20.2",
    "keda.sh_triggerauthentications": "kedacore/keda v2.20.2",
    "kueue.x-k8s.io_clusterqueues": "kueue ff69552e79",
    "kueue.x-k8s.io_localqueues": "kueue ff69552e79",
    "kueue.x-k8s.io_resourceflavors": "kueue ff69552e79",
    "leaderworkerset.x-k8s.io_leaderworkersets": "lws 060ab4d",
    "monitoring.coreos.com_podmonitors": "prometheus-operator 6adcebc50",
    "monitoring.coreos.com_prometheusrules": "prometheus-operator 6adcebc50",
    "monitoring.coreos.com_servicemonitors": "prometheus-operator 6adcebc50",
    "nvidia.com_clusterpolicies": "NVIDIA/gpu-operator a22dbf671",
    "scheduling.run.ai_podgroups": "KAI-Scheduler d5bc503a",
    "scheduling.run.ai_queues": "KAI-Scheduler d5bc503a",
    "scheduling.volcano.sh_podgroups": "volcano v1.15.1",
    "scheduling.volcano.sh_queues": "volcano v1.15.1",
}
KUBERNETES: Mapping[str, tuple[str, ...]] = {
    "": ("PersistentVolumeClaim", "Service", "ServiceAccount"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "networking.k8s.io": ("Ingress", "NetworkPolicy"),
    "policy": ("PodDisruptionBudget",),
    "resource.k8s.io": ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("StorageClass",),
}
_META = ("apiVersion", "kind", "metadata", "status")
_TYPES = {"string": "text", "integer": "whole", "number": "number", "boolean": "switch"}
_CLIENT_TYPES = {"str": "text", "int": "whole", "float": "number", "bool": "switch"}
_QUANTITIES = {"averageValue", "value", "requests", "limits", "capacity"}  # text or number, and the client says text
_ANOTHER_PLACE = re.compile(r"^spec\.provider\.(?!aws$)")  # stores of other clouds: only that they are there


def of_crd(crd: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The file of one kind."""
    spec = crd["spec"]
    versions = {each["name"]: each for each in spec["versions"]}
    return {
        "group": spec["group"],
        "kind": spec["names"]["kind"],
        "source": source,
        "unserved": sorted(name for name, each in versions.items() if not each["served"]),
        "versions": {
            name: _root(_shape(each["schema"]["openAPIV3Schema"], ""))
            for name, each in sorted(versions.items())
            if each["served"]
        },
    }


def _root(shape: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in shape.items() if key not in _META}


def _in_part(shape: dict[str, Any]) -> dict[str, Any]:
    """Of an object that is written down as a patch of the chart's: its spec may lack anything."""
    return {**shape, "spec": {key: value for key, value in shape["spec"].items() if key != "!"}}


def _shape(schema: Mapping[str, Any], path: str) -> Any:
    """A schema's shape; None where it says nothing that can be judged."""
    if schema.get("x-kubernetes-int-or-string") or _ANOTHER_PLACE.match(path):
        return None
    if schema.get("enum") and schema.get("type") == "string" and "" not in schema["enum"]:
        return [str(each) for each in schema["enum"] if each is not None]
    kind = str(schema.get("type"))
    if kind == "array":
        inner = _shape(schema["items"], f"{path}[]")
        return None if inner is None else {"[]": inner}
    if kind != "object":
        return _TYPES.get(kind)
    properties = schema.get("properties")
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return None
    if not properties:
        inner = _shape(schema["additionalProperties"], f"{path}.*") if schema.get("additionalProperties") else None
        return None if inner is None else {"{}": inner}
    if {"containers", "nodeSelector", "restartPolicy"} <= set(properties):
        return "@pod"
    found = {
        key: _shape(value, f"{path}.{key}" if path else key)
        for key, value in sorted(properties.items())
        if not (path == "" and key in _META)
    }
    required = sorted(key for key in schema.get("required", ()) if "default" not in properties[key])
    return {"!": required, **found} if required else found


def of_kubernetes(group: str, kind: str) -> dict[str, Any]:
    """The file of one kind of Kubernetes itself, in each version that the client has."""
    versions = {}
    for version in ("v1", "v1beta1", "v1beta2", "v2"):
        name = f"{version[0].upper()}{version[1:]}{kind}"
        model = getattr(client, name, None) or getattr(client, f"{group.partition('.')[0].title()}{name}", None)
        if model is not None:
            versions[version] = _root(_of_model(model, ()))
    source = f"kubernetes client {kubernetes.__version__}"
    return {"group": group, "kind": kind, "source": source, "unserved": [], "versions": versions}


def _of_model(model: type, above: tuple[type, ...]) -> Any:
    if model in above or model.__name__ == "V1ObjectMeta":
        return None
    if model.__name__ == "V1PodSpec":
        return "@pod"
    must = set(re.findall(r"`(\w+)`, must not be `None`", inspect.getsource(model)))
    types, names = model.openapi_types, model.attribute_map  # type: ignore[attr-defined]
    found = {names[key]: _of_type(types[key], names[key], (*above, model)) for key in sorted(types)}
    required = sorted(names[key] for key in must)
    return {"!": required, **found} if required else found


def _of_type(name: str, field: str, above: tuple[type, ...]) -> Any:
    if field in _QUANTITIES and name in ("str", "Dict[str, str]"):
        return None
    if name in _CLIENT_TYPES:
        return _CLIENT_TYPES[name]
    if match := re.fullmatch(r"[Ll]ist\[(.+)\]", name):
        inner = _of_type(match[1], "", above)
        return None if inner is None else {"[]": inner}
    if match := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", name):
        inner = _of_type(match[1], "", above)
        return None if inner is None else {"{}": inner}
    model = getattr(client, name, None)
    return _of_model(model, above) if inspect.isclass(model) and hasattr(model, "openapi_types") else None


def write(file: Mapping[str, Any]) -> None:
    path = FOLDER / f"{file['kind']}.{file['group'] or 'core'}.json"
    path.write_text(json.dumps(file, indent=None, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    for name, source in SOURCES.items():
        file = of_crd(yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8")), source)
        if name == "nvidia.com_clusterpolicies":
            file["versions"] = {version: _in_part(shape) for version, shape in file["versions"].items()}
        write(file)
    for group, kinds in KUBERNETES.items():
        for kind in kinds:
            write(of_kubernetes(group, kind))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
