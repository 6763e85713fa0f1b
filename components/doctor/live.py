"""A live cluster, read through the Kubernetes API as it answers: lists and objects as plain data.

Plain paths in place of the client's typed classes: kinds of Ray, KAI and Volcano have none, and an answer that a newer server
gives is kept as it is. Not for judging.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

PAGE = 500
SECONDS = 20

Item = Mapping[str, Any]


class Refused(Exception):
    """The cluster did not answer what was asked. The message says why."""


class Cluster(Protocol):
    """What the checks ask of a cluster."""

    def get(self, path: str) -> Item | None:
        """The answer to GET; None where there is no such thing. Raises Refused."""

    def list(self, path: str, **query: str) -> list[Item] | None:
        """All items of a collection; None where the kind is not there. Raises Refused."""


class KubernetesCluster:
    """A cluster by a kubeconfig: `file` and `context`, or those of the environment."""

    def __init__(self, file: Path | None = None, context: str | None = None) -> None:
        from kubernetes import config  # a second of imports that only this needs

        try:
            self._client = config.new_client_from_config(str(file) if file else None, context)  # type: ignore[no-untyped-call]
        except (config.ConfigException, OSError) as error:
            raise Refused(f"no kubeconfig: {error}") from None

    def get(self, path: str) -> Item | None:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        headers: dict[str, str] = {"Accept": "application/json"}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        try:
            answer = self._client.call_api(
                "GET", self._client.configuration.host + path, header_params=headers, _request_timeout=SECONDS
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise Refused(f"GET {path} answers {error.status} {error.reason}") from None
        except (HTTPError, OSError) as error:
            raise Refused(f"{self._client.configuration.host} is not reached ({type(error).__name__})") from None
        body = answer.read()
        if answer.status == 404:
            return None
        if answer.status >= 300:
            raise Refused(f"GET {path} answers {answer.status} {answer.reason}")
        found: Item = json.loads(body)
        return found

    def list(self, path: str, **query: str) -> list[Item] | None:
        items: list[Item] = []
        more = ""
        while True:
            page = self.get(
                f"{path}?{urlencode({**query, 'limit': str(PAGE), **({'continue': more} if more else {})})}"
            )
            if page is None:
                return None
            items += page.get("items") or []
            more = str((page.get("metadata") or {}).get("continue") or "")
            if not more:
                return items


def object_path(cluster: Cluster, manifest: Item) -> str | None:
    """Path of the object that a manifest declares; None where the cluster does not have its kind. Raises Refused."""
    version, kind, metadata = str(manifest["apiVersion"]), str(manifest["kind"]), manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for resource in (cluster.get(root) or {}).get("resources") or []:
        if resource.get("kind") == kind and "/" not in str(resource.get("name")):
            place = (
                f"/namespaces/{quote(str(metadata.get('namespace', 'default')))}" if resource.get("namespaced") else ""
            )
            return f"{root}{place}/{resource['name']}/{quote(str(metadata['name']))}"
    return None
