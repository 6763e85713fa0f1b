"""What stops `up` is said before anything starts, all at once, with what to do."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections import namedtuple
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from local import pins, preflight, tools
from local.errors import LocalError
from local.preflight import Obstacle
from local.settings import Settings

Usage = namedtuple("Usage", "total used free")
GIB = 1024**3


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(name="never", state_root=tmp_path / "state")


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything; each test takes one thing away."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GIB, 0, 100 * GIB))
    monkeypatch.setattr(tools, "to_build", lambda own_cluster: [])
    monkeypatch.setattr("local.debs.unavailable", list)
    for name in ("namespaces", "free_memory"):
        monkeypatch.setattr(preflight, name, lambda: iter(()))
    monkeypatch.setattr(preflight, "host_routes", list)


@pytest.mark.usefixtures("ready")
def test_a_machine_with_everything_passes(settings: Settings) -> None:
    preflight.check(settings)


@pytest.mark.usefixtures("ready")
def test_without_root_it_says_so_and_names_the_way_out(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LocalError) as caught:
        preflight.check(settings)
    assert str(caught.value) == (
        "this machine is not ready:\n"
        "the local cluster needs root (namespaces, mounts, control groups)\n"
        "  to fix: sudo make up, or use a cluster of your own: make up KUBECONFIG=PATH\n"
        "  to fix: the above, then run again; nothing was started"
    )


@pytest.mark.usefixtures("ready")
def test_all_obstacles_are_told_at_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GIB, 0, GIB))
    monkeypatch.setattr("local.debs.unavailable", list)
    monkeypatch.setattr(preflight, "host_routes", lambda: [(settings.pod_network, "docker0")])
    with pytest.raises(LocalError) as caught:
        preflight.check(settings)
    assert "1.0 GiB of disk are free" in str(caught.value)
    assert "network 10.244.0.0/16 of the local cluster is taken" in str(caught.value)


def test_too_little_disk_adds_up_what_lies_on_one_device(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GIB, 0, 5.25 * GIB))
    monkeypatch.setattr(tools, "to_build", lambda own_cluster: ["something"])
    needed = preflight.CACHE_GIB + preflight.STATE_GIB
    assert list(preflight.free_space(settings)) == [
        Obstacle(
            f"5.2 GiB of disk are free for {tmp_path}/state and {tmp_path}/cache/llm-serving-stack, {needed} GiB are needed",
            "free some, or set XDG_CACHE_HOME or LLM_LOCAL_STATE to folders on a bigger disk",
        )
    ]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GIB, 0, needed * GIB))
    assert list(preflight.free_space(settings)) == []


def test_a_network_that_the_machine_reaches_otherwise_is_refused_with_a_free_one(settings: Settings) -> None:
    docker = IPv4Network("10.244.3.0/24"), "br-1234"
    assert list(preflight.free_networks(settings, [docker])) == [
        Obstacle(
            "network 10.244.0.0/16 of the local cluster is taken: this machine reaches 10.244.3.0/24 through br-1234",
            "give another one, for instance LLM_LOCAL_POD_NETWORK=10.245.0.0/16",
        )
    ]


@pytest.mark.parametrize("route", ["10.0.0.0/8", "192.0.2.0/24", "10.97.0.0/16"])
def test_a_wider_route_or_another_network_is_no_obstacle(settings: Settings, route: str) -> None:
    assert list(preflight.free_networks(settings, [(IPv4Network(route), "tun0")])) == []


def test_routes_of_our_own_link_are_no_obstacle(settings: Settings) -> None:
    own = [(settings.node_network, settings.host_link), (settings.service_network, settings.host_link)]
    assert list(preflight.free_networks(settings, own)) == []


def test_a_kubeconfig_that_is_no_file_is_told(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "to_build", lambda own_cluster: [])
    with pytest.raises(LocalError, match="kubeconfig '/no/such' is not a file"):
        preflight.check(settings, Path("/no/such"))


def test_with_a_given_cluster_neither_root_nor_disk_is_asked_for(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(GIB, GIB, 0))
    monkeypatch.setattr(tools, "to_build", lambda own_cluster: [])
    given = tmp_path / "config"
    given.write_text("")
    preflight.check(settings, given)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A module proxy on this machine that has CoreDNS alone; yields the paths it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if "coredns" in self.path else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("GOPROXY", f"http://127.0.0.1:{server.server_address[1]},direct")
    yield asked
    server.shutdown()
    server.server_close()


def test_a_module_that_the_proxy_lacks_is_told_before_anything_is_built(proxy: list[str]) -> None:
    found = list(preflight._go_proxy_answers([pins.GO_MODULES["coredns"], pins.GO_MODULES["kwok"]]))
    assert found == [
        Obstacle(
            f"Go module sigs.k8s.io/kwok {pins.KWOK} cannot be fetched: HTTP 404",
            "check the network and `go env GOPROXY`",
        )
    ]
    assert proxy == [
        f"/github.com/coredns/coredns/@v/{pins.COREDNS}.info",
        f"/sigs.k8s.io/kwok/@v/{pins.KWOK}.info",
    ]


def test_a_proxy_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "http://127.0.0.1:9")
    (found,) = preflight._go_proxy_answers([pins.GO_MODULES["coredns"]])
    assert found.problem.startswith(f"Go module github.com/coredns/coredns {pins.COREDNS} cannot be fetched: ")
