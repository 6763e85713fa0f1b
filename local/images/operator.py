"""The image of the KubeRay operator: its program, built here, and nothing else. Its published manifests call /manager as user 65532."""

from __future__ import annotations

from local import builds, gobuild, pins
from local.images.made import Made, make
from local.images.oci import Layer, Tree

NAME = f"localhost/kuberay-operator:{pins.KUBERAY}"


def made() -> Made:
    """The image; builds the operator when the cache lacks it. Raises LocalError."""
    program = Layer(trees=(Tree(source=gobuild.ensure(builds.KUBERAY) / "manager", target="manager"),))
    return make(
        NAME, [(program, program.blob())], {"Entrypoint": ["/manager"], "User": "65532:65532", "WorkingDir": "/"}
    )
