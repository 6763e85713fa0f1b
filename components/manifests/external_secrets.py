"""Secrets that the External Secrets Operator fetches from a store: references only. Pure.

Source: external-secrets.io/v1 (external-secrets v2). Not for the store or its rights: those belong to whoever runs the operator.
"""

from __future__ import annotations

from typing import Any

from components.config.access import ExternalSecret
from components.derive.spec import ServiceSpec


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """One ExternalSecret for each entry of `secrets`, by name."""
    return [_secret(spec, name, secret) for name, secret in sorted(spec.config.secrets.items())]


def _secret(spec: ServiceSpec, name: str, secret: ExternalSecret) -> dict[str, Any]:
    data = []
    for key, remote in sorted(secret.keys.items()):
        reference = {"key": remote.name, **({"property": remote.property} if remote.property is not None else {})}
        data.append({"secretKey": key, "remoteRef": reference})
    return {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": {"name": name, "namespace": spec.config.namespace},
        "spec": {
            "refreshInterval": f"{secret.refresh_seconds}s",
            "secretStoreRef": {"kind": secret.store_kind, "name": secret.store},
            "target": {"name": name, "creationPolicy": "Owner"},
            "data": data,
        },
    }
