"""Imports point one way, and planning needs neither pulumi nor ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent


def test_import_boundaries_hold() -> None:
    result = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports"))], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_planning_imports_neither_pulumi_nor_ray_nor_boto() -> None:
    code = (
        "import sys, components.plan, components.plan.page, components.plan.serial, serve_apps.openai_chat.args; "
        "found = {'pulumi', 'pulumi_kubernetes', 'pulumi_aws', 'ray', 'vllm', 'boto3'} & set(sys.modules); "
        "sys.exit(', '.join(sorted(found)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_rules_import_no_pydantic() -> None:
    code = "import sys, policies.rules; sys.exit('pydantic' if 'pydantic' in sys.modules else 0)"
    result = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
