"""The programs of the node as plain data: command lines, and which files they read (configs.py).

Starting them is init.py's work; whether they answer is asked in __init__.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from local import cache
from local.cluster import configs
from local.cluster.certs import Authority, Leaf
from local.cluster.node import KUBELET_FOLDER
from local.files import write_text
from local.settings import Settings
from local.tools import NodePrograms

_ADMIN = Leaf(name="admin", common_name="llm-serving-stack-admin", organization="system:masters")


@dataclass(frozen=True, kw_only=True)
class Service:
    """One program: its command line, the files it reads, and where it says that it is well."""

    name: str
    argv: tuple[str, ...]
    files: dict[Path, str] = field(default_factory=dict)
    """Configuration files to write, by path."""
    inputs: tuple[Path, ...] = ()
    """Files made elsewhere (certificates); a change of theirs restarts the program."""
    health: str = ""
    """URL that answers 200 when the program is well; "" where there is none."""
    unix_socket: Path | None = None
    """Socket that accepts connections when the program is well."""

    def write(self, settings: Settings, programs: NodePrograms) -> None:
        """Write its files and, when anything changed, its definition for init.py."""
        for path, text in self.files.items():
            write_text(path, text)
        read = [path.read_bytes() for path in self.inputs]
        digest = cache.recipe_hash(json.dumps(self.argv), *self.files.values(), *read)
        definition = {
            "argv": list(self.argv),
            "env": {"PATH": programs.path(), "HOME": "/root", "LANG": "C.UTF-8"},
            "log": str(settings.log / f"{self.name}.log"),
            "digest": digest,
        }
        write_text(settings.run / "services" / f"{self.name}.json", json.dumps(definition, indent=1))


class Plan:
    """The services of one cluster, in the order in which they start."""

    def __init__(self, settings: Settings, programs: NodePrograms) -> None:
        self.settings = settings
        self.programs = programs
        self.authority = Authority(settings.state / "pki")
        self._socket = settings.run / "containerd.sock"
        self.admin = self.authority.issue(_ADMIN)
        self.authority.kubeconfig(settings.kubeconfig, settings.apiserver, _ADMIN, context=settings.name)

    def storage(self) -> list[Service]:
        """What needs nothing else."""
        return [self._etcd(), self._containerd()]

    def control_plane(self) -> list[Service]:
        """The API server alone: the rest needs it."""
        return [self._apiserver()]

    def rest(self) -> list[Service]:
        """What talks to the API server."""
        return [self._controller_manager(), self._scheduler(), self._kubelet(), self._proxy(), self._coredns()]

    def _etcd(self) -> Service:
        # Plain HTTP on the node's own loopback, which nothing outside the node can reach.
        client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        options = {
            "name": self.settings.name,
            "data-dir": self.settings.etcd,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"{self.settings.name}={peer}",
            "logger": "zap",
            "log-outputs": "stderr",
        }
        return Service(name="etcd", argv=_argv(self.programs.etcd, options))

    def _containerd(self) -> Service:
        settings, programs = self.settings, self.programs
        config, network = settings.run / "containerd.toml", settings.run / "cni" / "10-pods.conflist"
        return Service(
            name="containerd",
            argv=_argv(programs.containerd, {"config": config}),
            files={
                config: configs.containerd(settings, programs, socket=self._socket, networks=network.parent),
                network: configs.pod_network(settings),
            },
            unix_socket=self._socket,
        )

    def _apiserver(self) -> Service:
        settings, authority = self.settings, self.authority
        service_address = settings.service_network[1]
        names = [f"kubernetes{tail}" for tail in ("", ".default", ".default.svc", ".default.svc.cluster.local")]
        server = authority.issue(
            Leaf(
                name="apiserver",
                common_name="kube-apiserver",
                dns_names=("localhost", *names),
                addresses=(settings.node_address, service_address),
            )
        )
        client = authority.issue(
            Leaf(name="apiserver-kubelet", common_name="kube-apiserver-kubelet-client", organization="system:masters")
        )
        tokens = authority.signing_key("service-account")
        # Another authority for requests that the API server passes on to extension API servers.
        front = Authority(settings.state / "pki" / "front-proxy")
        front_client = front.issue(Leaf(name="client", common_name="front-proxy-client"))
        options = {
            "etcd-servers": "http://127.0.0.1:2379",
            "bind-address": "0.0.0.0",
            "secure-port": settings.apiserver_port,
            "advertise-address": settings.node_address,
            "service-cluster-ip-range": settings.service_network,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "anonymous-auth": "true",
            "client-ca-file": authority.pair.certificate,
            "tls-cert-file": server.certificate,
            "tls-private-key-file": server.key,
            "kubelet-client-certificate": client.certificate,
            "kubelet-client-key": client.key,
            "kubelet-certificate-authority": authority.pair.certificate,
            "kubelet-preferred-address-types": "InternalIP",
            "requestheader-client-ca-file": front.pair.certificate,
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": front_client.certificate,
            "proxy-client-key-file": front_client.key,
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": tokens.certificate,
            "service-account-signing-key-file": tokens.key,
        }
        return Service(
            name="kube-apiserver",
            argv=_argv(self.programs.kubernetes / "kube-apiserver", options),
            inputs=(authority.pair.certificate, server.certificate, client.certificate, tokens.certificate),
            health=f"{settings.apiserver}/readyz",
        )

    def _serving(self, name: str) -> dict[str, object]:
        """Flags of a serving certificate for a component on the node's address."""
        leaf = Leaf(name=f"{name}-server", common_name=name, addresses=(self.settings.node_address,))
        pair = self.authority.issue(leaf)
        return {
            "bind-address": self.settings.node_address,
            "tls-cert-file": pair.certificate,
            "tls-private-key-file": pair.key,
        }

    def _kubeconfig(self, name: str, user: str, group: str = "") -> Path:
        leaf = Leaf(name=name, common_name=user, organization=group)
        path = self.settings.state / "pki" / f"{name}.kubeconfig"
        return self.authority.kubeconfig(path, self.settings.apiserver, leaf, context=name)

    def _controller_manager(self) -> Service:
        kubeconfig = self._kubeconfig("kube-controller-manager", "system:kube-controller-manager")
        authority = self.authority
        options = self._serving("kube-controller-manager") | {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "root-ca-file": authority.pair.certificate,
            "service-account-private-key-file": authority.signing_key("service-account").key,
            "cluster-signing-cert-file": authority.pair.certificate,
            "cluster-signing-key-file": authority.pair.key,
        }
        return Service(
            name="kube-controller-manager",
            argv=_argv(self.programs.kubernetes / "kube-controller-manager", options),
            inputs=(kubeconfig, authority.pair.certificate),
            health=f"https://{self.settings.node_address}:10257/healthz",
        )

    def _scheduler(self) -> Service:
        kubeconfig = self._kubeconfig("kube-scheduler", "system:kube-scheduler")
        options = self._serving("kube-scheduler") | {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
        }
        return Service(
            name="kube-scheduler",
            argv=_argv(self.programs.kubernetes / "kube-scheduler", options),
            inputs=(kubeconfig,),
            health=f"https://{self.settings.node_address}:10259/healthz",
        )

    def _kubelet(self) -> Service:
        settings = self.settings
        kubeconfig = self._kubeconfig("kubelet", f"system:node:{settings.name}", "system:nodes")
        leaf = Leaf(name="kubelet-server", common_name=settings.name, addresses=(settings.node_address,))
        server = self.authority.issue(leaf)
        text = configs.kubelet(settings, authority=self.authority.pair.certificate, server=server, socket=self._socket)
        config_file = settings.run / "kubelet.yaml"
        options = {
            "config": config_file,
            "kubeconfig": kubeconfig,
            "root-dir": KUBELET_FOLDER,
            "hostname-override": settings.name,
            "node-ip": settings.node_address,
        }
        return Service(
            name="kubelet",
            argv=_argv(self.programs.kubernetes / "kubelet", options),
            files={config_file: text},
            inputs=(kubeconfig, server.certificate),
            health=f"http://{settings.node_address}:10248/healthz",
        )

    def _proxy(self) -> Service:
        settings = self.settings
        kubeconfig = self._kubeconfig("kube-proxy", "system:kube-proxy")
        config_file = settings.run / "kube-proxy.yaml"
        return Service(
            name="kube-proxy",
            argv=_argv(self.programs.kubernetes / "kube-proxy", {"config": config_file}),
            files={config_file: configs.kube_proxy(settings, kubeconfig=kubeconfig)},
            inputs=(kubeconfig,),
            health=f"http://{settings.node_address}:10256/healthz",
        )

    def _coredns(self) -> Service:
        settings = self.settings
        kubeconfig = self._kubeconfig("coredns", "system:coredns")
        corefile = settings.run / "Corefile"
        return Service(
            name="coredns",
            argv=(str(self.programs.coredns), "-conf", str(corefile)),
            files={corefile: configs.corefile(settings, kubeconfig=kubeconfig)},
            inputs=(kubeconfig,),
            health=f"http://{settings.node_address}:8181/ready",
        )


def _argv(program: Path, options: dict[str, object]) -> tuple[str, ...]:
    return (str(program), *(f"--{name}={value}" for name, value in sorted(options.items())))
