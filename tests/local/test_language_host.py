"""The language host under the real Pulumi CLI: programs and policy packs, and what a person reads when they fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from local import tools

HOST = Path(__file__).parents[2] / "local" / "language_host" / "bin"
PYTHON = Path(tools.__file__).parents[1] / ".venv" / "bin"
PATH = os.pathsep.join([str(HOST), str(tools.state() / "bin"), str(PYTHON), os.environ["PATH"]])

pytestmark = pytest.mark.skipif(
    shutil.which("pulumi", path=PATH) is None, reason="the Pulumi CLI is not built: make up"
)

POLICY = """
from pulumi_policy import EnforcementLevel, PolicyPack, StackValidationPolicy

def no_big_answers(args, report):
    for resource in args.resources:
        if resource.name == "answer":
            report("the answer is too big")

PolicyPack(
    name="pack",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[StackValidationPolicy(name="no-big-answers", description="small answers", validate=no_big_answers)],
)
"""
RESOURCE = """
import pulumi

class Answer(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__("test:index:Answer", name)
        self.register_outputs({})

Answer("answer")
"""


class Project:
    """A Pulumi project in a folder, with a file backend of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "PATH": PATH,
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{folder}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        (folder / "Pulumi.yaml").write_text("name: tiny\nruntime: python\n")

    def program(self, text: str) -> None:
        (self.folder / "__main__.py").write_text(text)

    def policy_pack(self, text: str) -> Path:
        pack = self.folder / "pack"
        pack.mkdir()
        (pack / "PulumiPolicy.yaml").write_text("runtime: python\n")
        (pack / "__main__.py").write_text(text)
        return pack

    def pulumi(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["pulumi", *words, "--non-interactive", "--color", "never"]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, capture_output=True, check=False
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    result = made.pulumi("stack", "init", "test")
    assert result.returncode == 0, result.stderr
    return made


def test_a_program_runs_with_config_and_exports_outputs(project: Project) -> None:
    project.program("import pulumi\npulumi.export('twice', pulumi.Config().require_int('number') * 2)\n")
    project.pulumi("config", "set", "number", "21")
    result = project.pulumi("up", "--yes", "--skip-preview")
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(project.pulumi("stack", "output", "--json").stdout) == {"twice": 42}


def test_a_program_imports_modules_of_its_own_folder(project: Project) -> None:
    (project.folder / "beside.py").write_text("VALUE = 'beside'\n")
    project.program("import pulumi\nimport beside\npulumi.export('value', beside.VALUE)\n")
    project.pulumi("up", "--yes", "--skip-preview")
    assert json.loads(project.pulumi("stack", "output", "--json").stdout) == {"value": "beside"}


def test_an_error_made_for_people_is_printed_alone_and_nothing_is_created(project: Project) -> None:
    project.program(
        RESOURCE
        + "class Wrong(Exception):\n    user_facing = True\n\nraise Wrong(\"node pool 'h100': no such type\")\n"
    )
    result = project.pulumi("preview")
    assert result.returncode != 0
    assert "error: node pool 'h100': no such type" in result.stdout
    assert result.stdout.partition("Diagnostics:")[2].count("no such type") == 1
    assert "Traceback" not in result.stdout + result.stderr


def test_any_other_error_is_printed_with_the_programs_own_frames_only(project: Project) -> None:
    project.program("def fails():\n    return {}['missing']\n\nfails()\n")
    result = project.pulumi("preview")
    assert result.returncode != 0
    assert "KeyError: 'missing'" in result.stdout
    assert "line 2, in fails" in result.stdout
    assert "runpy" not in result.stdout
    assert "server.py" not in result.stdout


def test_a_program_that_does_not_compile_says_where(project: Project) -> None:
    project.program("import pulumi\nthis is no python\n")
    result = project.pulumi("preview")
    assert result.returncode != 0
    assert "__main__.py" in result.stdout
    assert "line 2" in result.stdout
    assert "SyntaxError" in result.stdout


def test_a_program_that_exits_with_a_code_fails_and_one_that_exits_with_none_does_not(project: Project) -> None:
    project.program("import sys\nsys.exit(3)\n")
    result = project.pulumi("preview")
    assert result.returncode != 0
    assert "the program ended with exit code 3" in result.stdout
    project.program("import sys\nsys.exit()\n")
    assert project.pulumi("preview").returncode == 0


def test_a_mandatory_policy_fails_the_preview_and_a_program_that_keeps_it_passes(project: Project) -> None:
    project.program(RESOURCE)
    pack = project.policy_pack(POLICY)
    result = project.pulumi("preview", "--policy-pack", str(pack))
    assert result.returncode != 0
    assert "no-big-answers" in result.stdout
    assert "the answer is too big" in result.stdout
    project.program(RESOURCE.replace('"answer"', '"small"'))
    result = project.pulumi("preview", "--policy-pack", str(pack))
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_policy_pack_that_cannot_be_loaded_says_why(project: Project) -> None:
    project.program(RESOURCE)
    pack = project.policy_pack("import no_such_module\n")
    result = project.pulumi("preview", "--policy-pack", str(pack))
    assert result.returncode != 0
    assert "no_such_module" in result.stdout + result.stderr


def test_about_lists_the_packages_beside_the_program(project: Project) -> None:
    project.program("import pulumi\n")
    result = project.pulumi("about", "--json")
    listed = {entry["name"] for entry in json.loads(result.stdout)["dependencies"]}
    assert "pulumi-policy" in {name.replace("_", "-") for name in listed}
