"""The commands: steps in order, times at the end, an obstacle told in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from local import __main__ as commands
from local import stack, tools
from local.errors import LocalError
from local.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three steps that only note that they ran."""
    ran: list[str] = []
    made = tuple((name, lambda run, name=name: ran.append(name)) for name in ("one", "two", "three"))  # type: ignore[misc]
    monkeypatch.setattr(commands, "STEPS", made)
    monkeypatch.setattr(tools, "trim", lambda: None)
    return ran


def test_up_runs_the_steps_in_order_and_shows_their_times(steps: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    commands.up()
    assert steps == ["one", "two", "three"]
    said = capfd.readouterr().err
    assert [word for word in said.split() if word in ("one", "two", "three", "all")][-4:] == [
        "one",
        "two",
        "three",
        "all",
    ]


def test_up_can_stop_after_a_step(steps: list[str]) -> None:
    commands.up(until="two")
    assert steps == ["one", "two"]


@pytest.mark.parametrize("there", [False, True])
def test_what_pulumi_noted_of_a_cluster_that_is_gone_is_forgotten(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, forgotten = Settings(state_root=tmp_path), []
    if there:
        settings.etcd.mkdir(parents=True)
    monkeypatch.setattr(tools, "forget_stack", forgotten.append)
    monkeypatch.setattr(commands.cluster, "up", lambda settings: None)
    commands.start_cluster(commands.Run(settings=settings, kubeconfig=None))
    assert forgotten == ([] if there else ["local"])


def test_an_unknown_step_is_told_with_those_there_are(steps: list[str]) -> None:
    with pytest.raises(LocalError) as caught:
        commands.up(until="four")
    assert str(caught.value) == "there is no step 'four'\n  to fix: give one of: one, two, three"
    assert steps == []


def test_an_interrupted_step_says_that_the_same_command_goes_on(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(run: commands.Run) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "STEPS", (("one", interrupted), *commands.STEPS[1:]))
    result = CliRunner().invoke(commands.app, ["up"])
    assert result.exit_code == 130
    assert steps == []
    assert "interrupted in step 'one'; the same command goes on from here" in capfd.readouterr().err + result.output


def test_an_obstacle_ends_with_exit_code_one_and_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "local", "preflight", "--kubeconfig", "/no/such"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: this machine is not ready:\nkubeconfig '/no/such' is not a file\n")
    assert "Traceback" not in done.stderr


def test_a_kubeconfig_that_is_only_exported_is_not_taken_by_make(tmp_path: Path) -> None:
    def asked(*words: str) -> str:
        environment = os.environ | {"KUBECONFIG": "/exported/production"}
        made = ["make", "--dry-run", "--silent", "--old-file=.venv/.stamp", "up", *words]
        return subprocess.run(made, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True).stdout

    assert "--kubeconfig" not in asked()
    assert '--kubeconfig "/given"' in asked("KUBECONFIG=/given")


def test_down_of_a_given_cluster_destroys_the_stack_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("LLM_LOCAL_STATE", str(tmp_path / "none"))
    destroyed: list[str] = []
    monkeypatch.setattr(stack, "destroy", lambda: destroyed.append("stack"))
    monkeypatch.setattr(commands.cluster, "down", lambda *_, **__: destroyed.append("cluster"))
    tools.remember_kubeconfig(tmp_path / "config")
    commands.down()
    assert destroyed == ["stack"]
    assert tools.given_kubeconfig() is None


def test_down_of_our_own_cluster_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("LLM_LOCAL_STATE", str(tmp_path))
    (tmp_path / "local").mkdir()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LocalError, match="taking the local cluster down needs root"):
        commands.down()


def test_nothing_is_fetched_before_the_checks_and_nothing_runs_before_its_tools() -> None:
    assert [name for name, _ in commands.STEPS][:6] == ["preflight", "tools", "cluster", "images", "pulumi", "stack"]
