"""When a change of a RayService has arrived: KubeRay has seen it, its new Ray cluster serves, and Serve has replaced what changed.

Pulumi ends before: a RayService that serves stays Ready while its successor starts. Not for the first request (ask.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from local import kubectl, progress
from local.errors import LocalError

ARRIVED_S = 900.0
"""How long a change may take: an engine starts from nothing, beside the one that serves."""
_SEEN_S = 6.0  # KubeRay asks Serve every 2 s: what it says of the applications just after a change is of before
_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")


def generations() -> dict[str, int]:
    """Generation of each RayService by namespace/name; none where the cluster has no such kind yet."""
    try:
        services = kubectl.read("rayservices", "-A", "-o", "json")["items"]
    except LocalError:
        return {}
    return {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": each["metadata"]["generation"]
        for each in services
    }


def wait(before: Mapping[str, int], timeout_s: float = ARRIVED_S) -> None:
    """Wait for the RayServices whose generation is another than `before`. Raises LocalError when one does not arrive."""
    for name in sorted(name for name, now in generations().items() if name in before and before[name] != now):
        namespace, _, service = name.partition("/")
        deadline = time.monotonic() + timeout_s
        with progress.step(f"{name} takes the change over") as step:
            time.sleep(_SEEN_S)
            while (reason := missing(kubectl.read_one("rayservice", namespace, service))) is not None:
                step.detail = reason
                if reason.startswith(_FAILED) or time.monotonic() > deadline:
                    raise LocalError(
                        f"the change of {name} did not arrive: {reason}",
                        fix="what served before still does; make doctor, and the logs of its pods",
                    )
                time.sleep(1)


def missing(service: Mapping[str, Any]) -> str | None:
    """What a RayService still lacks of its last change; None when it has arrived."""
    status = service.get("status") or {}
    if status.get("observedGeneration") != service["metadata"]["generation"]:
        return "KubeRay has not seen it"
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or []}
    if conditions.get("UpgradeInProgress") == "True":
        return "the new Ray cluster starts"
    for name, application in sorted((status.get("activeServiceStatus") or {}).get("applicationStatuses", {}).items()):
        if application.get("status") != "RUNNING":
            words = str(application.get("message") or "").strip().splitlines()
            return f"{application.get('status')}: application '{name}'{': ' + words[-1] if words else ''}"
    return None
