"""Looks at the AWS account before anything is created: quotas, offers, reservations, images, versions, names, addresses.

`python -m components.preflight Pulumi.dev.yaml`. Not for: what the config alone can tell (that is the plan and its rules).
"""

from __future__ import annotations

from components.preflight.check import Check, Status
from components.preflight.run import Account, checks

__all__ = ["Account", "Check", "Status", "checks"]
