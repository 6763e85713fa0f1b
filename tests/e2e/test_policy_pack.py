"""The pack under the real engine, provider and language host: other teams' programs rendered to files, and our own stack."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.config import parse
from components.plan import assemble
from local import stack, tools
from tests.components.shapes import SHAPES

pytestmark = pytest.mark.e2e
PACK = str(stack.REPO / "policies")
PROGRAM = Path(__file__).parent / "team"
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"
# The shape has one replica and no Redis; both are warned of, and a team may say that it knows.
KNOWN = {"head-fault-tolerance": {"warnings": "disabled"}, "probe-single-replica": {"warnings": "disabled"}}


class Team:
    """Another team with a stack in a file backend of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rendered = folder / "rendered"
        for each in ("home", "state", "rendered"):
            (folder / each).mkdir()
        shutil.copytree(PROGRAM, folder / "program")  # the engine writes the stack's config beside the program
        tools.ensure()
        # Without KUBECONFIG: a provider that renders to files takes none.
        self._env = {
            **{key: value for key, value in tools.environment().items() if key != "KUBECONFIG"},
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
        }
        self.pulumi("stack", "init", "dev")
        self.set(directory=str(self.rendered))

    def pulumi(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", "--non-interactive", "--color", "never", *words],
            cwd=self.folder / "program",
            env=self._env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def set(self, *, secret: bool = False, **values: str) -> None:
        for key, value in values.items():
            kind = "--secret" if secret else "--plaintext"
            done = self.pulumi("config", "set", kind, "-s", "dev", "--", key, value)
            assert done.returncode == 0, done.stderr

    def run(self, verb: str, *words: str, config: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """preview or up with the pack, `config` being its configuration beside KNOWN."""
        file = self.folder / "policies.json"
        file.write_text(json.dumps({**KNOWN, **(config or {})}))
        pack = ("--policy-pack", PACK, "--policy-pack-config", str(file))
        return self.pulumi(verb, "-s", "dev", *pack, *words)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def service(**cluster: Any) -> str:
    """A compliant RayService, changed in its rayClusterConfig's head group."""
    manifest = assemble(parse(SHAPES["whole_gpu"]), "test").manifests["chat"][0]
    manifest = copy.deepcopy(manifest)
    manifest["spec"]["rayClusterConfig"]["headGroupSpec"].update(cluster)
    return json.dumps(manifest)


def policies_of(run: subprocess.CompletedProcess[str]) -> str:
    """The part of the output that tells of policies, on one line a violation."""
    match = re.search(r"^Policies:\n(.*?)(?=^\S|\Z)", run.stdout, re.MULTILINE | re.DOTALL)
    assert match, run.stdout + run.stderr
    return match[1]


def test_a_compliant_program_passes_and_shows_nothing(team: Team) -> None:
    team.set(manifest=service())
    run = team.run("preview")
    assert run.returncode == 0, run.stdout
    assert policies_of(run).strip() == f"✅ llm-serving@v0.1.0 (local: {PACK})"


def test_a_violation_stops_the_preview_and_names_the_resource(team: Team) -> None:
    team.set(manifest=service(serviceType="LoadBalancer"))
    run = team.run("preview")
    assert run.returncode != 0
    said = policies_of(run)
    assert "[mandatory]  security-head-exposed  (kubernetes:ray.io/v1:RayService: llm)" in said
    assert "RayService team/chat: head: its Service is a LoadBalancer" in said
    assert said.count("[mandatory]") == 1
    assert "[advisory]" not in said


def test_an_unknown_value_is_listed_and_no_mandatory_rule_goes_off(team: Team) -> None:
    team.set(manifest=service(serviceType="LoadBalancer"), unknown="true")
    run = team.run("preview")
    assert run.returncode != 0
    said = policies_of(run)
    assert "[mandatory]  security-head-exposed" in said
    assert "[advisory]  not-judged  (kubernetes:ray.io/v1:RayService: llm)" in said
    assert "workerGroupSpecs[0].template.spec.containers[0].env[" in said
    assert "can't run policy" not in run.stdout


def test_levels_and_facts_are_configured_for_each_environment(team: Team) -> None:
    team.set(manifest=service(serviceType="LoadBalancer"))
    lenient = team.run("preview", config={"security-head-exposed": "advisory"})
    assert lenient.returncode == 0, lenient.stdout
    assert "[advisory]  security-head-exposed" in policies_of(lenient)
    assert "security-head-exposed" not in team.run("preview", config={"security-head-exposed": "disabled"}).stdout
    team.set(manifest=service())
    labels = {"llm-serving/pool": "l4"}
    small = {"gpu": "L4", "gpus_per_node": 1, "cpu": 2, "memory_gib": 200, "labels": labels}
    facts = team.run("preview", config={"environment": {"pools": {"l4": small}}})
    assert facts.returncode != 0
    assert "[mandatory]  placement-node-size  (kubernetes:ray.io/v1:RayService: llm)" in policies_of(facts)
    assert "node pool 'l4'" in policies_of(facts)


def test_the_engine_refuses_a_configuration_that_is_against_the_schema(team: Team) -> None:
    team.set(manifest=service())
    run = team.run("preview", config={"environment": {"batch_scheduler": "slurm"}})
    assert run.returncode != 0
    assert "batch_scheduler" in run.stdout + run.stderr


def test_an_update_without_a_preview_stops_before_the_resource_is_made(team: Team) -> None:
    team.set(manifest=service(serviceType="LoadBalancer"))
    run = team.run("up", "--yes", "--skip-preview")
    assert run.returncode != 0
    assert "security-head-exposed" in policies_of(run)
    made = [path.name for path in team.rendered.rglob("*.yaml")]
    assert any("namespace" in name for name in made)
    assert not any("rayservice" in name for name in made)


def test_an_update_of_a_compliant_program_goes_through(team: Team) -> None:
    team.set(manifest=service())
    run = team.run("up", "--yes")
    assert run.returncode == 0, run.stdout
    assert "[advisory]" not in run.stdout
    assert any("rayservice" in path.name for path in team.rendered.rglob("*.yaml"))


def test_a_secret_that_a_chart_would_show_is_found_and_never_printed(team: Team) -> None:
    chart = team.folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: kai-scheduler\nversion: 0.17.0\n")
    (chart / "values.yaml").write_text("token: none\n")
    (chart / "templates" / "config.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"
        '  labels: {helm.sh/chart: "{{ .Chart.Name }}-{{ .Chart.Version }}"}\ndata: {hub: "{{ .Values.token }}"}\n'
    )
    team.set(manifest=service(), chart=str(chart))
    team.set(token=TOKEN, secret=True)
    run = team.run("preview")
    assert run.returncode != 0
    said = policies_of(run)
    assert "[mandatory]  secret-object  (kubernetes:core/v1:ConfigMap: chart:default/chart)" in said
    assert "data.hub holds a Hugging Face token in plain text" in said
    assert "[advisory]  helm-hooks  (kubernetes:helm.sh/v4:Chart: chart)" in said
    assert TOKEN not in run.stdout + run.stderr


def test_our_own_stack_passes_its_own_policies(up: None) -> None:
    run = stack.pulumi("preview", "--stack", stack.STACK, "--policy-pack", PACK, "--color", "never", capture=True)
    said = policies_of(run)
    assert said.strip() == f"✅ llm-serving@v0.1.0 (local: {PACK})"
