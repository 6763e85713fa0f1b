"""`pulumi preview` of dev and prod by the real engine, with the real policy pack, Kubernetes provider and language host.

AWS's own provider is a download of hundreds of MB that no build needs; tests/e2e/aws_provider.py stands in for it. Not run here, then: that
provider's Check and Diff, its look-ups (add-on versions), charts and CRDs of a cluster that nobody can reach, and anything after the preview.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config import deep_merge
from local import stack, tools

pytestmark = pytest.mark.e2e
PACK = str(stack.REPO / "policies")
NO_ACCOUNT = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_CONFIG_FILE": "/dev/null",
}
AWS, KUBERNETES = "pulumi:providers:aws::aws", "pulumi:providers:kubernetes::kubernetes"


def preview(folder: Path, name: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    """A preview of the environment with these changes to its keys; `folder`/plan.json is what the engine would then do."""
    tools.ensure()
    config = copy.deepcopy(yaml.safe_load((stack.REPO / f"Pulumi.{name}.yaml").read_text())["config"])
    for key, change in changes.items():
        config[f"llm-serving:{key}"] = deep_merge(config[f"llm-serving:{key}"], change)
    python = {"name": "python", "options": {"virtualenv": sys.prefix}}
    project = {"name": "llm-serving", "main": str(stack.REPO), "runtime": python}
    for file, content in (("Pulumi.yaml", project), (f"Pulumi.{name}.yaml", {"config": config})):
        (folder / file).write_text(yaml.safe_dump(content))
    for each in ("home", "state", "bin"):
        (folder / each).mkdir()
    provider = folder / "bin" / "pulumi-resource-aws"
    provider.write_text(f'#!/bin/sh\nPYTHONPATH="{stack.REPO}" exec "{sys.executable}" -m tests.e2e.aws_provider\n')
    provider.chmod(0o755)
    ours = tools.environment()
    env = {
        **{key: value for key, value in ours.items() if key != "KUBECONFIG" and not key.startswith("AWS_")},
        **NO_ACCOUNT,
        "PATH": f"{provider.parent}:{ours['PATH']}",
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "test",
    }
    plain = ["pulumi", "--non-interactive", "--color", "never"]
    subprocess.run([*plain, "stack", "init", name], cwd=folder, env=env, capture_output=True, timeout=60, check=True)
    words = ["preview", "-s", name, "--policy-pack", PACK, "--save-plan", str(folder / "plan.json")]
    return subprocess.run(
        [*plain, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def before(goals: dict[str, dict[str, Any]], urn: str) -> set[str]:
    """URNs of all that must be there before `urn`, and on destroy goes after it: its dependencies, provider and parent, theirs, and
    so on (the engine's pkg/resource/graph, DependenciesOf)."""
    seen: set[str] = set()
    rest = [urn]
    while rest:
        goal = goals[rest.pop()]
        direct = {*goal.get("dependencies", []), goal.get("provider", "").rsplit("::", 1)[0], goal.get("parent", "")}
        new = {each for each in direct if each in goals} - seen
        seen |= new
        rest += new
    return seen


def of(urns: Iterable[str], type_: str) -> list[str]:
    return [urn for urn in urns if type_of(urn) == type_]


def type_of(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_engine_takes_the_environment_and_would_make_it_in_order(name: str, tmp_path: Path) -> None:
    run = preview(tmp_path, name)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"✅ llm-serving@v0.1.0 (local: {PACK})" in run.stdout
    for word in ("[mandatory]", "[advisory]", "error:", "failed"):
        assert word not in run.stdout
    goals = {
        urn: each["goal"] for urn, each in json.loads((tmp_path / "plan.json").read_text())["resourcePlans"].items()
    }
    assert f"+ {len(goals)} to create" in run.stdout

    types = {type_of(urn) for urn in goals}
    assert {"aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup", "kubernetes:helm.sh/v3:Release"} <= types
    (log_group,), (cluster,) = (
        of(goals, each) for each in ("aws:cloudwatch/logGroup:LogGroup", "aws:eks/cluster:Cluster")
    )
    assert log_group in before(goals, cluster), "a log group that the control plane makes itself is nobody's to delete"
    for urn, goal in goals.items():
        kind = type_of(urn)
        if goal["custom"] and kind.startswith(("aws:", "kubernetes:")):
            ours = AWS if kind.startswith("aws:") else KUBERNETES
            assert f"::{ours}" in goal["provider"], "a resource of a default provider follows whatever a person has set"
            assert type_of(goal["parent"]).startswith("llm-serving:"), urn
        if kind == "aws:eks/nodeGroup:NodeGroup":
            add_ons = {each.rsplit("::", 1)[1] for each in of(before(goals, urn), "aws:eks/addon:Addon")}
            assert any(each.endswith("vpc-cni") for each in add_ons)
        if kind == "kubernetes:helm.sh/v3:Release":
            assert set(of(goals, "aws:eks/nodeGroup:NodeGroup")) <= before(goals, urn)
        if kind == "kubernetes:ray.io/v1:RayService":
            assert set(of(goals, "kubernetes:helm.sh/v3:Release")) <= before(goals, urn)


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ({"min": 3}, "node pool 'l4': min 3 is more than max 2; set max to at least 3 [pool-size]"),
        (
            {"instance_types": ["p5.48xl"]},
            "node pool 'l4': instance type 'p5.48xl' is not in the catalog; did you mean 'p5.48xlarge'? [pool-type]",
        ),
        (
            {"zones": "us-east-1a"},
            "node pool 'l4': zones: \"us-east-1a\" was given; a list is wanted, e.g. [us-east-1a]",
        ),
    ],
)
def test_a_wrong_pool_stops_the_preview_before_any_resource(pool: dict[str, Any], says: str, tmp_path: Path) -> None:
    run = preview(tmp_path, "dev", node_pools={"l4": pool})
    assert run.returncode != 0
    assert says in " ".join((run.stdout + run.stderr).split())
    assert "aws:" not in run.stdout
