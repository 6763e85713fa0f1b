"""The plan as JSON, and its published schema (components/plan/schema.json)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from components.plan.result import Plan

_ADAPTER: TypeAdapter[Plan] = TypeAdapter(Plan)


def dumps(plan: Plan) -> str:
    """JSON with sorted keys; the same plan gives the same bytes."""
    return json.dumps(_ADAPTER.dump_python(plan, mode="json"), indent=2, sort_keys=True) + "\n"


def loads(text: str) -> Plan:
    """A plan from JSON. Raises pydantic.ValidationError for what is no plan."""
    return _ADAPTER.validate_json(text)


def schema() -> dict[str, Any]:
    """JSON schema of `dumps`."""
    return _ADAPTER.json_schema(mode="serialization")
