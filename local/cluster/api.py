"""A thin client of the local API server, for what starting the cluster needs: is it well, apply this, read that.

Not a Kubernetes client: everything beyond the start of the cluster uses kubectl, Pulumi or the kubernetes library.
"""

from __future__ import annotations

import json
import ssl
from types import TracebackType
from typing import Any

import httpx

from local.cluster.certs import KeyPair


class Api:
    """Requests to the API server as the cluster's administrator. Use as a context manager."""

    def __init__(self, server: str, authority: KeyPair, client: KeyPair) -> None:
        self._tls = ssl.create_default_context(cafile=str(authority.certificate))
        self._tls.load_cert_chain(client.certificate, client.key)
        # The proxy settings of the environment are for the world outside, not for the node.
        self._http = httpx.Client(base_url=server, verify=self._tls, timeout=10, trust_env=False)

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def well(self, url: str) -> bool:
        """Whether a health URL, of the API server or another component, answers 200."""
        try:
            return self._http.get(url, timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> dict[str, Any] | None:
        """The object or list at an API path; None when there is none or no answer."""
        try:
            response = self._http.get(path)
        except httpx.HTTPError:
            return None
        return dict(response.json()) if response.status_code == 200 else None

    def apply(self, path: str, body: dict[str, Any]) -> None:
        """Server-side apply of one object. Raises httpx.HTTPStatusError when refused."""
        response = self._http.patch(
            path,
            params={"fieldManager": "llm-serving-stack-local", "force": "true"},
            headers={"Content-Type": "application/apply-patch+yaml"},
            content=json.dumps(body),
        )
        response.raise_for_status()
