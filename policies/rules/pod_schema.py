"""Fields of Deployments, StatefulSets and their pods that Kubernetes does not have, and values of another type than it reads.

Not for: Ray's objects (kuberay_schema.py), labels (names.py), or environment variables (pod_template.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.pod_schema import WORKLOADS
from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._schema import inside


def schema(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        shape = WORKLOADS.get(workload.kind)
        if shape is not None:
            for message, mend, certain in inside(workload.spec, shape, "spec"):
                yield (error if certain else warning)(workload.where, message, mend)


RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-schema",
        title="Fields of a Deployment are ones that Kubernetes has, of the types that it reads",
        why=(
            "The API server refuses a number where text belongs (a word of args, a value of a nodeSelector) and text where a number or a switch does, and drops or refuses a "
            "field that it does not know. A chart that writes values without quotes is how they come about."
        ),
        check=schema,
        sources=("falcosecurity/charts#454", "helm/helm#11562", "kubernetes 1.35: core/v1 PodSpec"),
    ),
)
