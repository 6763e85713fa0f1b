"""A service whose state is in Redis: whose Secret its token is in decides whether the job that clears Redis can run."""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules
from policies.facts import Stack

from .stacks import head, kuberay, sentences, service, stack

REDIS = {"redisAddress": "redis:6379"}
TOKEN = {"mode": "token"}


def given(*, kind: str = "RayService", values: dict[str, Any] | None = None, **over: Any) -> Stack:
    workload = {"kind": kind, "fault_tolerance": REDIS, "auth_mode": "token", "auth_options": TOKEN, **over}
    return stack(workloads=(service(**workload),), releases=(kuberay(**(values or {})),))


def count(judged: Stack) -> int:
    return len([f for f in rules.check(judged, rules=rules.kuberay_cleanup.RULES) if f.severity == "warning"])


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        (given(), 1),
        (given(kind="RayCluster"), 1),
        (given(fault_tolerance=None, annotations={"ray.io/ft-enabled": "true"}), 1),
        (given(auth_options={"mode": "token", "secretName": "ray-token"}), 0),
        (given(auth_options={"mode": "token", "enableK8sTokenAuth": True}), 0),
        (given(head=head(env={"RAY_AUTH_TOKEN": "a"})), 0),
        (given(auth_mode="disabled", auth_options={}), 0),
        (given(fault_tolerance=None), 0),
        (given(fault_tolerance={"backend": "rocksdb", "storage": {"size": "10Gi"}}), 0),
        (given(annotations={"pulumi.com/deletionPropagationPolicy": "background"}), 0),
        (given(values={"env": [{"name": "ENABLE_GCS_FT_REDIS_CLEANUP", "value": "false"}]}), 0),
        (given(values={"env": [{"name": "ENABLE_GCS_FT_REDIS_CLEANUP", "value": "true"}]}), 1),
    ],
)
def test_a_token_that_goes_with_the_cluster_keeps_redis_from_being_cleared(judged: Stack, expected: int) -> None:
    assert count(judged) == expected


def test_the_text_says_what_stays_and_how_to_mend_it() -> None:
    assert sentences(given(), "kuberay-redis-token") == [
        "service 'chat': its state is in Redis and its token in a Secret that KubeRay makes: whoever deletes it in the foreground (Pulumi and Argo CD do) has "
        "Kubernetes delete the Secret first, and the job that clears Redis waits five minutes for it in vain; the state stays in Redis; set auth.secret to a "
        "Secret with key auth_token [kuberay-redis-token]"
    ]
