"""The programs of the node and their configuration, as plain data: command lines and files.

Starting them is init.py's work; whether they answer is asked in __init__.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from local import cache
from local.cluster.certs import Authority, Leaf
from local.cluster.node import KUBELET_FOLDER
from local.files import write_text
from local.settings import Settings
from local.tools import NodePrograms

PAUSE_IMAGE = "localhost/pause:1"
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
            "data-dir": self.settings.state / "etcd",
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
        socket = settings.run / "containerd.sock"
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                # A point-to-point link for each Pod: every packet is routed, so kube-proxy's rules see all of them;
                # on a bridge that takes br_netfilter, which not every kernel has.
                {
                    "type": "ptp",
                    "ipMasq": False,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(settings.run / "addresses"),
                        "ranges": [[{"subnet": str(settings.pod_network)}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }
        network_file = settings.run / "cni" / "10-pods.conflist"
        config = settings.run / "containerd.toml"
        text = _CONTAINERD.format(
            root=settings.state / "containerd",
            socket=socket,
            pause=PAUSE_IMAGE,
            plugins=programs.cni_plugins,
            networks=network_file.parent,
            runc=programs.runc,
        )
        return Service(
            name="containerd",
            argv=_argv(programs.containerd, {"config": config}),
            files={config: text, network_file: json.dumps(network, indent=1)},
            unix_socket=socket,
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
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.authority.pair.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(server.certificate),
            "tlsPrivateKeyFile": str(server.key),
            "address": str(settings.node_address),
            "healthzBindAddress": str(settings.node_address),
            "clusterDNS": [str(settings.node_address)],
            "clusterDomain": "cluster.local",
            # No way out of the node, so no name server beyond the cluster's own.
            "resolvConf": "",
            "containerRuntimeEndpoint": f"unix://{settings.run / 'containerd.sock'}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": settings.cgroup,
            "failCgroupV1": False,
            "failSwapOn": False,
            "volumePluginDir": str(KUBELET_FOLDER / "volume-plugins"),
            # Images are made on this machine and can be fetched from nowhere: never collect them.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        }
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
            files={config_file: yaml.safe_dump(config)},
            inputs=(kubeconfig, server.certificate),
            health=f"http://{settings.node_address}:10248/healthz",
        )

    def _proxy(self) -> Service:
        settings = self.settings
        kubeconfig = self._kubeconfig("kube-proxy", "system:kube-proxy")
        config = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "mode": "iptables",
            "hostnameOverride": settings.name,
            "clusterCIDR": str(settings.pod_network),
            "bindAddress": str(settings.node_address),
            "healthzBindAddress": f"{settings.node_address}:10256",
            "metricsBindAddress": f"{settings.node_address}:10249",
            # The connection table's size belongs to the machine; a network namespace cannot set it.
            "conntrack": {"maxPerCore": 0, "min": 0},
            "iptables": {"localhostNodePorts": False},
        }
        config_file = settings.run / "kube-proxy.yaml"
        return Service(
            name="kube-proxy",
            argv=_argv(self.programs.kubernetes / "kube-proxy", {"config": config_file}),
            files={config_file: yaml.safe_dump(config)},
            inputs=(kubeconfig,),
            health=f"http://{settings.node_address}:10256/healthz",
        )

    def _coredns(self) -> Service:
        settings = self.settings
        kubeconfig = self._kubeconfig("coredns", "system:coredns")
        corefile = settings.run / "Corefile"
        text = _COREFILE.format(address=settings.node_address, kubeconfig=kubeconfig)
        return Service(
            name="coredns",
            argv=(str(self.programs.coredns), "-conf", str(corefile)),
            files={corefile: text},
            inputs=(kubeconfig,),
            health=f"http://{settings.node_address}:8181/ready",
        )


def _argv(program: Path, options: dict[str, object]) -> tuple[str, ...]:
    return (str(program), *(f"--{name}={value}" for name, value in sorted(options.items())))


# Format 2 is read by containerd 1.6 and later; 2.x migrates it as it starts.
_CONTAINERD = """\
version = 2
root = "{root}"
state = "/run/containerd"

[grpc]
  address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  # Without CAP_SYS_RESOURCE a process cannot lower its OOM score: every sandbox would die at its start.
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false
"""

# Names outside the cluster do not exist here: saying so at once beats a time-out in every client that asks.
_COREFILE = """\
cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {{
    bind {address}
    errors
    health {address}:8080
    ready {address}:8181
    cache 5
    kubernetes {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
}}
.:53 {{
    bind {address}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""
