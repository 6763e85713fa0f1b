"""Programs on PATH are used when they fit; the environment makes plain pulumi and kubectl work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local import builds, gobuild, pins, tools


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    for variable in ("PULUMI_HOME", "PULUMI_CONFIG_PASSPHRASE", "KUBECONFIG"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def _program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "fits"),
    [("v1.33.1", True), ("v1.34.9", True), ("v1.35.0", True), ("v1.32.4-dispatcher", False), ("v1.36.0", False)],
)
def test_a_kubectl_within_one_minor_version_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    found = _program(home / "bin", "kubectl", f"Client Version: {version}")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    assert tools._kubectl_on_path() == (found if fits else None)


@pytest.mark.parametrize(
    ("version", "fits"), [("v3.215.0", True), ("v3.300.1", True), ("v3.100.0", False), ("?", False)]
)
def test_a_pulumi_that_speaks_the_providers_protocol_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    found = _program(home / "bin", "pulumi", version)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    assert tools._pulumi_on_path() == (found if fits else None)


def test_what_is_on_path_need_not_be_built(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(tools, "_kubectl_on_path", lambda: None)
    missing = tools.to_build(own_cluster=False)
    assert set(missing) == {builds.KUBECTL, builds.PULUMI, builds.PULUMI_KUBERNETES}
    _program(home / "bin", "pulumi", "v3.280.0")
    _program(home / "bin", "pulumi-resource-kubernetes", "")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    assert set(tools.to_build(own_cluster=False)) == {builds.KUBECTL}
    assert {builds.KUBERNETES, builds.COREDNS, builds.KUBERAY} <= set(tools.to_build(own_cluster=True))


def test_our_own_links_are_not_taken_for_what_the_person_has(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = _program(home / "built", "pulumi", "v3.280.0")
    tools._link("pulumi", target)
    monkeypatch.setenv("PATH", f"{tools._bin()}:/usr/bin:/bin")
    assert tools._pulumi_on_path() is None


def test_the_cli_itself_lies_beside_the_language_host(home: Path) -> None:
    for name in ("first", "second", "second"):
        tools._place_pulumi(_program(home / name, "pulumi", name))
        said = subprocess.run([tools._bin() / "pulumi"], capture_output=True, text=True, check=True)
        assert said.stdout == f"{name}\n"
        assert not (tools._bin() / "pulumi").is_symlink()


def test_a_link_follows_its_target(home: Path) -> None:
    for name in ("one", "two"):
        tools._link("pulumi", _program(home / name, "pulumi", name))
        said = subprocess.run([tools._bin() / "pulumi"], capture_output=True, text=True, check=True)
        assert said.stdout == f"{name}\n"


def test_the_environment_points_at_a_file_backend_and_our_programs() -> None:
    environment = tools.environment()
    assert environment["PATH"].split(os.pathsep)[:2] == [str(tools._bin()), str(Path(sys.executable).parent)]
    assert environment["PULUMI_BACKEND_URL"] == f"file://{tools.state()}/pulumi-state"
    assert Path(environment["PULUMI_HOME"]).is_dir()
    assert environment["KUBERAY_MANIFESTS"].endswith(f"ray-operator@{pins.KUBERAY}/config/default")
    assert environment["PULUMI_CONFIG_PASSPHRASE"] == ""


def test_the_environment_is_the_same_inside_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    first = tools.environment()
    for name, value in first.items():
        monkeypatch.setenv(name, value)
    assert tools.environment() == first
    assert tools.changed_environment() == {}


def test_a_persons_passphrase_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "mine")
    assert tools.environment()["PULUMI_CONFIG_PASSPHRASE"] == "mine"


def test_a_given_kubeconfig_is_remembered_until_it_is_forgotten(home: Path) -> None:
    given = home / "config"
    given.write_text("")
    tools.remember_kubeconfig(given)
    assert tools.environment()["KUBECONFIG"] == str(given)
    tools.remember_kubeconfig(None)
    assert tools.environment()["KUBECONFIG"] == "/var/lib/llm-serving-stack/local/kubeconfig"


def test_the_language_host_runs_by_this_python_whatever_path_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    tools._language_host()
    lines = (tools._bin() / "pulumi-language-python").read_text().splitlines()
    assert lines[0] == f"#!{sys.executable}"


def test_an_official_language_host_is_preferred(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    official = _program(home / "bin", "pulumi-language-python", "")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    tools._language_host()
    assert (tools._bin() / "pulumi-language-python").readlink() == official


def test_the_built_provider_says_which_commit_it_is() -> None:
    assert builds.provider_version() == "4.25.0-20260115033456.f47bc2d6f199"
    assert gobuild._short(pins.PULUMI_KUBERNETES) == "v4.0.0"


def test_only_the_stack_of_the_cluster_that_is_gone_is_forgotten() -> None:
    noted = tools.state() / "pulumi-state" / ".pulumi"
    files = [
        f"{kind}/project/{name}"
        for name in ("local", "dev", "local-two")
        for kind, name in (("stacks", f"{name}.json"), ("stacks", f"{name}.json.bak"), ("history", f"{name}/1.json"))
    ]
    for file in [*files, "meta.yaml"]:
        (noted / file).parent.mkdir(parents=True, exist_ok=True)
        (noted / file).touch()
    tools.forget_stack("local")
    left = {str(path.relative_to(noted)) for path in noted.rglob("*") if path.is_file()}
    assert left == {"meta.yaml", *(file for file in files if "/local." not in file and "/local/" not in file)}
    assert len(left) == 7
