from __future__ import annotations

import base64
from pathlib import Path

from kubernetes.config.kube_config import KubeConfigLoader, _get_kube_config_loader

from components.manifests.kubeconfig import eks_kubeconfig

CONFIG = eks_kubeconfig(
    name="prod",
    region="us-east-1",
    endpoint="https://cluster.example",
    certificate_authority=base64.b64encode(b"ca").decode(),
)


def test_the_kubernetes_client_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(CONFIG)
    loader: KubeConfigLoader = _get_kube_config_loader(filename=str(path))
    assert loader.current_context["name"] == "prod"
    assert loader.current_context["context"] == {"cluster": "prod", "user": "prod"}


def test_it_holds_no_credential_but_the_command_that_makes_one() -> None:
    assert '"command": "aws"' in CONFIG
    assert '"get-token", "--cluster-name", "prod", "--region", "us-east-1"' in CONFIG
    assert "client-key" not in CONFIG
    assert '"token"' not in CONFIG
