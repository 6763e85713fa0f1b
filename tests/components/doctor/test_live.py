"""The real Kubernetes client against a small API server, and the command on top of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from typer.testing import CliRunner

from components.config import parse
from components.doctor.__main__ import app
from components.doctor.live import KubernetesCluster, Refused, object_path
from tests.components.doctor.fake import FakeCluster, as_planned
from tests.components.environments import WHOLE_GPU

TOKEN = "read-only"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked, query = urlsplit(self.path), parse_qs(urlsplit(self.path).query)
        cluster: FakeCluster = self.server.cluster  # type: ignore[attr-defined]
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self._send(401, {"message": "Unauthorized"})
        if asked.path in cluster.lists:
            return self._send(200, self._page(cluster.lists[asked.path], query))
        found = cluster.answers.get(asked.path)
        if isinstance(found, str):
            return self._send(403, {"message": found})
        self._send(200 if found is not None else 404, found or {"message": "not found"})

    @staticmethod
    def _page(items: list[Any], query: dict[str, list[str]]) -> dict[str, Any]:
        """Pages of one item, as a server with a small limit gives them."""
        start = int(query.get("continue", ["0"])[0])
        more = f"{start + 1}" if start + 1 < len(items) else ""
        return {"items": items[start : start + 1], "metadata": {"continue": more}}

    def _send(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[FakeCluster, Path]]:
    cluster, _ = as_planned(parse(WHOLE_GPU))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.cluster = cluster  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield cluster, kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()


def kubeconfig(folder: Path, server: str, token: str = TOKEN) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    return path


def test_lists_are_read_to_their_last_page_and_what_is_not_there_is_none(served: tuple[FakeCluster, Path]) -> None:
    cluster, file = served
    live = KubernetesCluster(file)
    nodes = live.list("/api/v1/nodes")
    assert nodes == cluster.lists["/api/v1/nodes"]
    assert len(nodes or ()) == 2
    assert live.get("/apis/nothing/v1") is None
    assert live.list("/apis/nothing/v1/things") is None
    manifest = {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "chat"}}
    assert object_path(live, manifest) == "/apis/ray.io/v1/namespaces/default/rayservices/chat"
    assert object_path(live, {**manifest, "kind": "RayCronJob"}) is None


def test_a_refusal_and_a_cluster_that_is_not_reached_say_so(served: tuple[FakeCluster, Path], tmp_path: Path) -> None:
    cluster, file = served
    cluster.answers["/version"] = "forbidden"
    with pytest.raises(Refused, match="GET /version answers 403"):
        KubernetesCluster(file).get("/version")
    with pytest.raises(Refused, match="answers 401"):
        KubernetesCluster(
            kubeconfig(tmp_path, yaml.safe_load(file.read_text())["clusters"][0]["cluster"]["server"], "other")
        ).get("/version")
    with pytest.raises(Refused, match="is not reached"):
        KubernetesCluster(kubeconfig(tmp_path, "http://127.0.0.1:1")).get("/version")
    with pytest.raises(Refused, match="no kubeconfig"):
        KubernetesCluster(tmp_path / "none")


@pytest.mark.parametrize(("tag", "code"), [(None, 0), ("other", 1)])
def test_the_command_ends_with_1_on_drift(
    served: tuple[FakeCluster, Path], tmp_path: Path, tag: str | None, code: int
) -> None:
    cluster, file = served
    if tag is not None:
        live = cluster.object("RayService", "chat")
        live["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = tag
    environment = tmp_path / "Pulumi.dev.yaml"
    environment.write_text(yaml.safe_dump(WHOLE_GPU))
    shown = CliRunner().invoke(app, [str(environment), "--kubeconfig", str(file)])
    assert shown.exit_code == code, shown.output
    plain = CliRunner().invoke(app, [str(environment), "--kubeconfig", str(file), "--format", "json"])
    document = json.loads(plain.output)
    assert document["environment"] == "dev"
    states = {check["status"] for check in document["checks"]}
    assert states == ({"pass"} if tag is None else {"pass", "error"})


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    bad = tmp_path / "Pulumi.dev.yaml"
    bad.write_text("services: 1")
    assert CliRunner().invoke(app, [str(bad)]).exit_code == 1
    assert CliRunner().invoke(app, [str(bad), "--format", "xml"]).exit_code == 2
    bad.write_text("{}")
    assert CliRunner().invoke(app, [str(bad), "--kubeconfig", str(tmp_path / "none")]).exit_code == 2
