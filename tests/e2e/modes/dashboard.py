"""What Ray's dashboard says, by its REST API and with the token that KubeRay made: applications, deployments, replicas."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from local import endpoint
from tests.e2e.kuberay import kubectl
from tests.e2e.modes.stacks import NAMESPACE


def cluster_of(service: str) -> str:
    """The Ray cluster that answers for a RayService now."""
    found = json.loads(kubectl("get", "rayservice", service, "-n", NAMESPACE, "-o", "json").stdout)
    return str(found["status"]["activeServiceStatus"]["rayClusterName"])


def token(cluster: str) -> str:
    """Its token, from the Secret that it names; KubeRay makes one of the cluster's name where it names none."""
    spec = json.loads(kubectl("get", "raycluster", cluster, "-n", NAMESPACE, "-o", "json").stdout)["spec"]
    secret = spec["authOptions"].get("secretName") or cluster
    found = json.loads(kubectl("get", "secret", secret, "-n", NAMESPACE, "-o", "json").stdout)
    return base64.b64decode(found["data"]["auth_token"]).decode()


@retry(retry=retry_if_exception_type(httpx.HTTPError), stop=stop_after_attempt(4), wait=wait_fixed(3), reraise=True)
def get(cluster: str, path: str) -> Any:
    """A GET of the dashboard, which answers late on a busy machine."""
    with endpoint.reach(NAMESPACE, f"{cluster}-head-svc", 8265) as url:
        answer = httpx.get(f"{url}{path}", headers={"Authorization": f"Bearer {token(cluster)}"}, timeout=30)
    answer.raise_for_status()
    return answer.json()


def replicas(service: str) -> dict[str, int]:
    """Running replicas by deployment."""
    applications = get(cluster_of(service), "/api/serve/applications/")["applications"]
    return {
        name: sum(replica["state"] == "RUNNING" for replica in deployment["replicas"])
        for application in applications.values()
        for name, deployment in application["deployments"].items()
    }


def engines(service: str, model: str) -> int:
    """Running replicas of a model."""
    return sum(count for name, count in replicas(service).items() if model.replace(".", "_") in name)
