"""Public reports about what operators look at, user data of nodes, IAM documents and annotations: each broken, and mended."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from policies.facts.wire import Resource, manifests

from .resources import objects, said, twins
from .test_reports_of_objects import ALB, ENGINE, INGRESS, KEDA
from .test_reports_of_plugins_and_names import PROMETHEUS, release
from .test_reports_of_ray_objects import service

RAY = manifests([copy.deepcopy(service())], "ray.yaml")


def kuberay(**values: Any) -> Resource:
    return release("kuberay-operator", "1.7.0", "kuberay-system", values)


def nginx(**scope: Any) -> Resource:
    return release("ingress-nginx", "4.14.0", "ingress", {"controller": {"scope": scope}})


def prometheus(**namespaces: Any) -> Resource:
    values = {"prometheusOperator": {"namespaces": namespaces}}
    return release("kube-prometheus-stack", "80.0.0", "monitoring", values)


SCOPES = [
    pytest.param(RAY, [kuberay(watchNamespace=["ray-a", "ray-b"])], [kuberay(watchNamespace=["ray-a", "serving"])], id="ray-project/kuberay-helm#27"),
    pytest.param(RAY, [kuberay(singleNamespaceInstall=True)], [kuberay(singleNamespaceInstall=True, watchNamespace=["serving"])], id="ray-project/kuberay#1083"),
    pytest.param(objects(ENGINE + KEDA), [release("keda", "2.18.0", "keda", {"watchNamespace": "keda,models"})], [release("keda", "2.18.0", "keda", {"watchNamespace": "models, serving"})], id="keda"),
    pytest.param(objects(ENGINE + INGRESS), [nginx(enabled=True)], [nginx(enabled=True, namespace="serving")], id="ingress-nginx"),
    pytest.param(objects(PROMETHEUS), [prometheus(releaseNamespace=True)], [prometheus(releaseNamespace=True, additional=["serving"])], id="kube-prometheus-stack"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "broken", "mended"), SCOPES)
def test_an_operator_looks_at_the_namespaces_of_its_objects(
    given: list[Resource], broken: list[Resource], mended: list[Resource]
) -> None:
    twins("operator-namespaces", "error", [*broken, *given], [*mended, *given])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([kuberay(), *RAY], id="all namespaces"),
        pytest.param([nginx(enabled=False, namespace="models"), *objects(ENGINE + INGRESS)], id="a scope that is off"),
        pytest.param([nginx(enabled=True), *objects(ENGINE + ALB)], id="an Ingress of another class"),
        pytest.param([kuberay(watchNamespace=["models"]), release("kuberay-operator", "1.7.0", "serving", {"singleNamespaceInstall": True}), *RAY], id="an operator for each namespace"),
    ],
)  # fmt: skip
def test_operators_that_look_everywhere_or_at_others_are_fine(given: list[Resource]) -> None:
    assert "operator-namespaces" not in {rule for rule, _ in said(*given)}
