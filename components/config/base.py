"""What all config models share: frozen, no unknown key, documented fields; and the names Kubernetes allows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints


class Strict(BaseModel):
    """Base of every config model. Field docstrings become the descriptions in the reference (reference.py reads them).

    Importing is kept cheap, since every command and every program pays for it: validators are built once, for the whole
    environment, when it is read (defer_build; so defaults are made by model_construct, which needs none), and docstrings are
    read by who prints them (pydantic's use_attribute_docstrings parses the source of each class at import).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, protected_namespaces=())


# RFC 1035 label: what KubeRay asks of a name (controllers/ray/utils/validation.go); lengths are judged by rules,
# which can name the object that the name ends up in.
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Json = dict[str, JsonValue]
Env = dict[str, str]
Labels = dict[str, str]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]


class SecretKey(Strict):
    """A key of a Kubernetes Secret that exists in the service's namespace. Only the reference is ever stored."""

    secret: str
    """Name of the Secret."""
    key: str
    """Key inside the Secret."""


class Taint(Strict):
    """A node taint; the matching toleration of the pods is derived from it."""

    key: str
    """Taint key, e.g. nvidia.com/gpu."""
    value: str = ""
    """Taint value; empty for none."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What happens to pods without the toleration."""


class Toleration(Strict):
    """A pod toleration given by hand, beside those derived from the pool's taints."""

    key: str = ""
    """Taint key; empty with operator Exists tolerates everything."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether the value counts."""
    value: str = ""
    """Taint value for Equal."""
    effect: str = ""
    """Effect; empty matches all."""


def deep_merge(base: Any, patch: Any) -> Any:
    """Merge `patch` over `base`: mappings by key (null deletes), lists of named mappings by name, all else replaced.

    The name of a list item is its `groupName`, `name`, `model_id`, `mountPath` or `key`, the first that both have. This is the part of
    Kubernetes' strategic merge that patches to Ray pods need (containers, env, volumes, worker groups).
    """
    if isinstance(base, dict) and isinstance(patch, dict):
        merged = dict(base)
        for key, value in patch.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = deep_merge(merged[key], value) if key in merged else value
        return merged
    if isinstance(base, list) and isinstance(patch, list):
        return _merge_named(base, patch)
    return patch


def _merge_named(base: list[Any], patch: list[Any]) -> list[Any]:
    for key in ("groupName", "name", "model_id", "mountPath", "key"):
        if all(isinstance(item, dict) and key in item for item in [*base, *patch]) and patch:
            merged = list(base)
            index = {item[key]: position for position, item in enumerate(base)}
            for item in patch:
                if item[key] in index:
                    merged[index[item[key]]] = deep_merge(merged[index[item[key]]], item)
                else:
                    merged.append(item)
            return merged
    return patch
