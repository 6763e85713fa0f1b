"""Settings that nothing reads: which config they come from is held by tests/components/test_service_fields.py."""

from __future__ import annotations

from dataclasses import replace

from policies.facts import Stack, Unread
from policies.rules import check

from .stacks import sentences, stack

WHERE = "service 'chat'"


def severities(given: Stack, level: str = "") -> list[str]:
    overrides = {"config-unread": level} if level else {}
    return [f.severity for f in check(given, overrides) if f.rule == "config-unread"]


def test_a_setting_of_another_kind_or_beside_a_missing_one_is_a_warning() -> None:
    given = replace(
        stack(),
        unread=(
            Unread(where=WHERE, fields=("head.cpu", "upgrade.strategy"), kind="vllm"),
            Unread(where=WHERE, fields=("expose.internal",), needs="expose.type: LoadBalancer"),
        ),
    )
    assert sentences(given, "config-unread") == [
        "service 'chat': expose.internal is read only with expose.type: LoadBalancer; leave it out, or set expose.type: LoadBalancer "
        "[config-unread]",
        "service 'chat': kind vllm does not read head.cpu, upgrade.strategy: nothing comes of them; leave them out, or use kind: "
        "ray_service, which has them [config-unread]",
    ]
    assert severities(given) == ["warning", "warning"]


def test_what_would_be_missing_is_an_error_and_a_waiver_turns_it_off() -> None:
    given = replace(stack(), unread=(Unread(where=WHERE, fields=("models.b",), kind="vllm", certain=True),))
    assert severities(given) == ["error"]
    assert severities(given, level="off") == []
    assert severities(stack()) == []
