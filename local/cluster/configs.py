"""The configuration files of the node's services, as text. Which service reads which is in services.py."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from local.cluster.certs import KeyPair
from local.cluster.node import KUBELET_FOLDER
from local.settings import Settings
from local.tools import NodePrograms

PAUSE_IMAGE = "localhost/pause:1"


def containerd(settings: Settings, programs: NodePrograms, *, socket: Path, networks: Path) -> str:
    """containerd's own file. Format 2 is read by containerd 1.6 and later; 2.x migrates it as it starts."""
    return _CONTAINERD.format(
        root=settings.state / "containerd",
        socket=socket,
        pause=PAUSE_IMAGE,
        plugins=programs.cni_plugins,
        networks=networks,
        runc=programs.runc,
    )


def pod_network(settings: Settings) -> str:
    """The CNI plugins that give a Pod its address, and their order."""
    # A point-to-point link for each Pod: every packet is routed, so kube-proxy's rules see all of them; on a bridge
    # that takes br_netfilter, which not every kernel has.
    link = {
        "type": "ptp",
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": str(settings.run / "addresses"),
            "ranges": [[{"subnet": str(settings.pod_network)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [link, ports]}, indent=1)


def kubelet(settings: Settings, *, authority: Path, server: KeyPair, socket: Path) -> str:
    """KubeletConfiguration."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
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
        "containerRuntimeEndpoint": f"unix://{socket}",
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
    return str(yaml.safe_dump(config))


def kube_proxy(settings: Settings, *, kubeconfig: Path) -> str:
    """KubeProxyConfiguration."""
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
    return str(yaml.safe_dump(config))


def corefile(settings: Settings, *, kubeconfig: Path) -> str:
    """CoreDNS' zones: the cluster's own, and nothing else."""
    return _COREFILE.format(address=settings.node_address, kubeconfig=kubeconfig)


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
