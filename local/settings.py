"""Where the local cluster lives and which addresses it takes: the one place to change them.

Not for versions (pins.py) nor for what the cluster is asked to run (the stack's own config).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from local.errors import LocalError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One local cluster. Two with different names and networks can run side by side."""

    name: str = "local"
    """Name of the cluster and of its node; letters, digits and dashes, at most 11 characters."""
    state_root: Path = Path("/var/lib/llm-serving-stack")
    """Folder that holds a folder for each cluster."""
    node_network: IPv4Network = field(default=IPv4Network("10.231.0.0/30"))
    """Link between this machine (first address) and the node (second address)."""
    pod_network: IPv4Network = field(default=IPv4Network("10.244.0.0/16"))
    """Addresses of Pods; this machine gets a route to them."""
    service_network: IPv4Network = field(default=IPv4Network("10.96.0.0/16"))
    """Addresses of Services; this machine gets a route to them."""
    apiserver_port: int = 6443
    """Port of the API server on the node's own address. No port of this machine is taken: the node has its own."""

    @property
    def state(self) -> Path:
        """Folder of this cluster: certificates, etcd data, images, logs, sockets."""
        return self.state_root / self.name

    @property
    def etcd(self) -> Path:
        """Data of the cluster; there as long as the cluster is."""
        return self.state / "etcd"

    @property
    def run(self) -> Path:
        """Service definitions, their status, sockets; gone after `down`."""
        return self.state / "run"

    @property
    def log(self) -> Path:
        """One log file a service."""
        return self.state / "log"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the cluster's administrator, readable by its owner alone."""
        return self.state / "kubeconfig"

    @property
    def host_link(self) -> str:
        """This machine's network device to the node."""
        return f"llm-{self.name}"

    @property
    def host_address(self) -> IPv4Address:
        """This machine's address on that link."""
        return self.node_network[1]

    @property
    def node_address(self) -> IPv4Address:
        """The node's address: API server, kubelet, cluster DNS, NodePorts."""
        return self.node_network[2]

    @property
    def apiserver(self) -> str:
        """URL of the API server."""
        return f"https://{self.node_address}:{self.apiserver_port}"

    @property
    def cgroup(self) -> str:
        """Control group under which everything of this cluster runs, as a path in each hierarchy."""
        return f"/llm-serving-stack-{self.name}"


_VARIABLES = {
    "LLM_LOCAL_NODE_NETWORK": "node_network",
    "LLM_LOCAL_POD_NETWORK": "pod_network",
    "LLM_LOCAL_SERVICE_NETWORK": "service_network",
    "LLM_LOCAL_STATE": "state_root",
}


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """The defaults, changed by LLM_LOCAL_NODE_NETWORK, _POD_NETWORK, _SERVICE_NETWORK and _STATE.

    Raises LocalError when a value cannot be read.
    """
    changes: dict[str, IPv4Network | Path] = {}
    for variable, name in _VARIABLES.items():
        value = environ.get(variable)
        if not value:
            continue
        if name == "state_root":
            if not os.path.isabs(value):
                raise LocalError(f"{variable} is '{value}', which is not an absolute path", fix="give an absolute path")
            changes[name] = Path(value)
            continue
        try:
            network = IPv4Network(value)
        except ValueError as error:
            raise LocalError(
                f"{variable} is '{value}', which is no IPv4 network: {error}", fix="give one like 10.231.0.0/30"
            ) from None
        widest = 30 if name == "node_network" else 24
        if network.prefixlen > widest:
            raise LocalError(
                f"{variable} is '{value}', which is too small", fix=f"give a network of /{widest} or wider"
            )
        changes[name] = network
    return Settings(**changes)  # type: ignore[arg-type]
