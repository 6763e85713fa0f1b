"""The programs that are built from Go modules: which packages, which linker flags, and what each build needs beside.

How a build runs is in gobuild.py; the modules' versions and hashes are in pins.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from local import pins
from local.gobuild import GoBuild

_KUBERNETES_MINOR = pins.KUBERNETES.split(".")[1]
_K8S_VERSION = " ".join(
    f"-X k8s.io/component-base/version.{key}={value}"
    for key, value in {
        "gitVersion": pins.KUBERNETES,
        "gitMajor": "1",
        "gitMinor": _KUBERNETES_MINOR,
        "gitTreeState": "clean",
    }.items()
)

_PROVIDER_MAIN = """\
// The provider's own main package embeds files that are generated in its repository and not part of its module.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

//go:embed schema.json
var schema []byte

func main() {
	provider.Serve("kubernetes", "VERSION", schema, []byte("{}"))
}
"""

# What our Corefile names. CoreDNS' own main package adds the name services of three clouds and their SDKs, which take
# most of its build.
_COREDNS_PLUGINS = ("bind", "cache", "errors", "health", "kubernetes", "ready", "template")


def _prepare_coredns(work: Path, module: Path) -> None:
    imports = [f'\t_ "github.com/coredns/coredns/plugin/{name}"' for name in _COREDNS_PLUGINS]
    lines = ["package main", "", "import (", '\t"github.com/coredns/coredns/coremain"', *imports, ")", ""]
    (work / "main.go").write_text("\n".join([*lines, "func main() { coremain.Run() }", ""]))


def provider_version() -> str:
    """The version that the provider built here reports: semantic, with the commit it was built from."""
    return "4.25.0-" + re.sub("^v4.0.0-", "", pins.PULUMI_KUBERNETES).replace("-", ".")


def _prepare_provider(work: Path, module: Path) -> None:
    schema = json.loads((module / "cmd" / "pulumi-resource-kubernetes" / "schema.json").read_text())
    schema["version"] = provider_version()
    (work / "schema.json").write_text(json.dumps(schema))
    (work / "main.go").write_text(_PROVIDER_MAIN.replace("VERSION", provider_version()))


_K8S = "k8s.io/kubernetes/cmd"
KUBERNETES = GoBuild(
    name="kubernetes",
    module="kubernetes",
    programs={
        name: f"{_K8S}/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
    },
    ldflags=_K8S_VERSION,
)
KUBECTL = GoBuild(name="kubectl", module="kubernetes", programs={"kubectl": f"{_K8S}/kubectl"}, ldflags=_K8S_VERSION)
COREDNS = GoBuild(name="coredns", module="coredns", programs={"coredns": "."}, prepare=_prepare_coredns)
PULUMI = GoBuild(
    name="pulumi",
    module="pulumi",
    programs={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    ldflags=f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={pins.PULUMI}",
)
KUBERAY = GoBuild(
    name="kuberay-operator",
    module="kuberay",
    programs={"manager": "github.com/ray-project/kuberay/ray-operator"},
)
PULUMI_KUBERNETES = GoBuild(
    name="pulumi-resource-kubernetes",
    module="pulumi-kubernetes",
    programs={"pulumi-resource-kubernetes": "."},
    prepare=_prepare_provider,
)
KWOK = GoBuild(name="kwok", module="kwok", programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"})

NODE = (KUBERNETES, COREDNS, KUBERAY)
"""What a cluster of our own runs."""
# The order of building, two at a time: the node's first, since the cluster starts and loads its images beside the rest; the longest
# of the rest beside them.
BUILDS = (KUBERNETES, PULUMI_KUBERNETES, COREDNS, KUBERAY, PULUMI, KUBECTL, KWOK)
