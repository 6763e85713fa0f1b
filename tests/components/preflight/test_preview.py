from __future__ import annotations

import boto3
import pulumi
import pytest

from components.config import parse
from components.preflight import preview
from components.preflight.check import Check

Session = boto3.Session  # before a test puts another in its place
ENV = parse({"cluster": {"kind": "aws", "region": "us-east-1"}})
FOUND = [
    Check("cluster", "name", "pass", "'dev' is free"),
    Check("node pool l4", "vCPU quota", "error", "quota 0", "ask for 16"),
    Check("cluster", "version", "unchecked", "could not be checked: denied"),
]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    monkeypatch.setattr(pulumi.log, "error", lambda text: lines.append(("error", text)))
    monkeypatch.setattr(pulumi.log, "warn", lambda text: lines.append(("warn", text)))
    monkeypatch.setattr(preview, "checks", lambda *_: iter(FOUND))
    return lines


def _session(monkeypatch: pytest.MonkeyPatch, *, credentials: bool, dry_run: bool) -> None:
    keys = ("x", "x") if credentials else (None, None)
    session = Session(*keys, region_name="us-east-1")
    if not credentials:
        monkeypatch.setattr(session, "get_credentials", lambda: None)
    monkeypatch.setattr(preview.boto3, "Session", lambda **_: session)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: dry_run)


def test_a_preview_with_credentials_says_what_is_wrong_and_what_was_not_checked(monkeypatch, log) -> None:
    _session(monkeypatch, credentials=True, dry_run=True)
    assert preview.in_preview(ENV, "dev", (), {}) == FOUND
    assert log == [
        ("error", "preflight: node pool l4: quota 0; ask for 16"),
        ("warn", "preflight: cluster: could not be checked: denied"),
    ]


def test_without_credentials_outside_a_preview_and_off_aws_nothing_is_looked_at(monkeypatch, log) -> None:
    _session(monkeypatch, credentials=False, dry_run=True)
    assert preview.in_preview(ENV, "dev", (), {}) == []
    _session(monkeypatch, credentials=True, dry_run=False)
    assert preview.in_preview(ENV, "dev", (), {}) == []
    _session(monkeypatch, credentials=True, dry_run=True)
    assert preview.in_preview(parse({}), "local", (), {}) == []
    assert log == []
