"""The page about the rules is made from the rules, and committed as it comes out."""

from __future__ import annotations

import pytest

from policies import docs
from policies.rules import RULES


def test_the_committed_page_is_up_to_date() -> None:
    assert docs.PAGE.read_text(encoding="utf-8") == docs.page(), "run python -m policies.docs"


def test_every_rule_is_on_the_page_with_a_severity() -> None:
    text = docs.page()
    for rule in RULES:
        assert f"| `{rule.id}` |" in text
        assert docs.severities(rule), rule.id


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("kuberay#2098", "[kuberay#2098](https://github.com/ray-project/kuberay/issues/2098)"),
        ("NVIDIA/aicr#2743", "[NVIDIA/aicr#2743](https://github.com/NVIDIA/aicr/issues/2743)"),
        ("https://example.com/a/", "[example.com/a](https://example.com/a/)"),
        ("CVE-2023-48022", "[CVE-2023-48022](https://nvd.nist.gov/vuln/detail/CVE-2023-48022)"),
        ("kuberay: util.go", "kuberay: util.go"),
    ],
)
def test_sources_become_links(source: str, shown: str) -> None:
    assert docs.link(source) == shown


def test_severities_are_read_through_helpers_of_other_modules() -> None:
    by_id = {rule.id: rule for rule in RULES}
    assert docs.severities(by_id["security-image-pinned"]) == ("error", "warning")
    assert docs.severities(by_id["security-head-exposed"]) == ("error",)
    assert docs.severities(by_id["head-spot"]) == ("error", "warning")
    assert docs.severities(by_id["helm-hooks"]) == ("warning",)
