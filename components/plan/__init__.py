"""The plan: one value between config and resources. `plan(env)` for what people see, `assemble(env)` with what it came from."""

from __future__ import annotations

from components.config import Environment

from .assemble import Planned, assemble
from .result import Plan

__all__ = ["Plan", "Planned", "assemble", "plan"]


def plan(env: Environment, environment: str = "") -> Plan:
    """Plan an environment (see `assemble`)."""
    return assemble(env, environment).plan
