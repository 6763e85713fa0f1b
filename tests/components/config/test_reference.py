"""Every field is documented, and the committed reference is what the models say."""

from __future__ import annotations

from pathlib import Path

from components.config import reference


def test_the_reference_is_up_to_date() -> None:
    committed = Path(reference.__file__).with_name("REFERENCE.md").read_text(encoding="utf-8")
    assert committed == reference.page(), "run: python -m components.config.reference > components/config/REFERENCE.md"


def test_every_field_has_a_description() -> None:
    bare = [line for line in reference.page().splitlines() if line.startswith("| `") and line.rstrip().endswith("|  |")]
    assert bare == []
