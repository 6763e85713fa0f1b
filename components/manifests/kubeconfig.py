"""A kubeconfig for an EKS cluster. Pure. It holds no credential: the AWS CLI makes a token when the file is used."""

from __future__ import annotations

import json


def eks_kubeconfig(*, name: str, region: str, endpoint: str, certificate_authority: str) -> str:
    """JSON (which every YAML reader takes), the same bytes each time. Needs the AWS CLI where it is used."""
    token = ["eks", "get-token", "--cluster-name", name, "--region", region, "--output", "json"]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": endpoint, "certificate-authority-data": certificate_authority}}
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "aws",
                        "args": token,
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(config, sort_keys=True)
