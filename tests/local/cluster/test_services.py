"""The node's services as data: readable configuration, no secret on a command line, a change that is noticed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
import yaml

from local.cluster.services import Plan, Service
from local.settings import Settings
from local.tools import NodePrograms


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(name="test", state_root=tmp_path)
    settings.state.mkdir()
    return settings


@pytest.fixture
def programs() -> NodePrograms:
    base = Path("/opt/node")
    return NodePrograms(
        kubernetes=base, coredns=base / "coredns", etcd=base / "etcd", containerd=base / "bin" / "containerd",
        runc=base / "runc", cni_plugins=base / "cni", busybox=base / "busybox",
    )  # fmt: skip


def _all(plan: Plan) -> dict[str, Service]:
    return {service.name: service for service in [*plan.storage(), *plan.control_plane(), *plan.rest()]}


def _written(settings: Settings, name: str) -> str:
    return (settings.run / "services" / f"{name}.json").read_text()


def test_the_eight_services_are_all_there(settings: Settings, programs: NodePrograms) -> None:
    assert list(_all(Plan(settings, programs))) == [
        "etcd", "containerd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns",
    ]  # fmt: skip


def test_the_same_settings_give_the_same_definitions(settings: Settings, programs: NodePrograms) -> None:
    texts = []
    for _ in range(2):
        services = _all(Plan(settings, programs))
        for service in services.values():
            service.write(settings, programs)
        texts.append([_written(settings, name) for name in services])
    assert texts[0] == texts[1]


def test_configuration_files_can_be_read_and_name_what_the_command_lines_name(
    settings: Settings, programs: NodePrograms
) -> None:
    services = _all(Plan(settings, programs))
    toml = next(text for path, text in services["containerd"].files.items() if path.suffix == ".toml")
    containerd = tomllib.loads(toml)
    runtime = containerd["plugins"]["io.containerd.grpc.v1.cri"]
    assert runtime["sandbox_image"] == "localhost/pause:1"
    assert runtime["restrict_oom_score_adj"] is True
    kubelet = yaml.safe_load(next(iter(services["kubelet"].files.values())))
    assert kubelet["containerRuntimeEndpoint"] == f"unix://{containerd['grpc']['address']}"
    assert kubelet["imageGCHighThresholdPercent"] == 100
    network = json.loads(
        next(text for path, text in services["containerd"].files.items() if path.suffix == ".conflist")
    )
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.0.0/16"}]]
    proxy = yaml.safe_load(next(iter(services["kube-proxy"].files.values())))
    assert proxy["clusterCIDR"] == "10.244.0.0/16"


def test_no_key_or_certificate_is_on_a_command_line(settings: Settings, programs: NodePrograms) -> None:
    for service in _all(Plan(settings, programs)).values():
        service.write(settings, programs)
        assert "BEGIN" not in _written(settings, service.name)
        assert all("BEGIN" not in text and "client-key-data" not in text for text in service.files.values())


def test_role_based_access_is_on_and_the_kubelet_asks_the_api_server(
    settings: Settings, programs: NodePrograms
) -> None:
    services = _all(Plan(settings, programs))
    assert "--authorization-mode=Node,RBAC" in services["kube-apiserver"].argv
    kubelet = yaml.safe_load(next(iter(services["kubelet"].files.values())))
    assert kubelet["authorization"] == {"mode": "Webhook"}
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}


def test_a_new_certificate_restarts_its_service_alone(settings: Settings, programs: NodePrograms) -> None:
    for service in _all(Plan(settings, programs)).values():
        service.write(settings, programs)
    before = {name: _written(settings, name) for name in _all(Plan(settings, programs))}
    (settings.state / "pki" / "kubelet-server.crt").unlink()
    for service in _all(Plan(settings, programs)).values():
        service.write(settings, programs)
    assert [name for name, text in before.items() if _written(settings, name) != text] == ["kubelet"]


def test_other_networks_are_used_everywhere(settings: Settings, programs: NodePrograms) -> None:
    other = replace(
        settings, node_network=IPv4Network("10.9.0.0/30"), pod_network=IPv4Network("10.8.0.0/16"),
        service_network=IPv4Network("10.7.0.0/16"),
    )  # fmt: skip
    assert other.node_address == IPv4Address("10.9.0.2")
    text = "".join(str(service) for service in _all(Plan(other, programs)).values()) + other.kubeconfig.read_text()
    for default in ("10.231.0", "10.244.0", "10.96.0"):
        assert default not in text
