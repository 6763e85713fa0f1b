"""Programs run against a mock engine, their resources kept as the engine would send them to a policy pack."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from google.protobuf import json_format
from pulumi.runtime.mocks import MockMonitor, MockResourceArgs, Mocks

from components import aws, cluster, cluster_software, node_pools
from components.config import Environment, parse
from components.llm_service import LlmService
from components.plan.assemble import Planned
from policies.facts.wire import Resource, resource
from tests.components.aws_stacks import CORE, STACKS
from tests.components.program import PlainMocks


class Preview(PlainMocks):
    """A first preview: nothing has an id, and no output is known beyond the inputs."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        return None, dict(args.inputs)


class _Monitor(MockMonitor):
    def __init__(self, mocks: Mocks, seen: list[Resource]) -> None:
        super().__init__(mocks)
        self._seen = seen

    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)
        self._seen.append(
            resource(
                request.type,
                request.name,
                json_format.MessageToDict(request.object),
                urn=response.urn,
                sources={key: found.urns for key, found in request.propertyDependencies.items()},
                ignore_changes=request.ignoreChanges,
                parent=request.parent,
            )
        )
        return response


def declared(function: Callable[[], Any], *, preview: bool = False) -> list[Resource]:
    """Everything that `function` registers; in a preview, what is not known yet is unknown on the wire too."""
    seen: list[Resource] = []
    mocks = Preview() if preview else PlainMocks()
    pulumi.runtime.set_mocks(mocks, project="llm-serving", stack="test", preview=preview, monitor=_Monitor(mocks, seen))
    pulumi.runtime.test(function)()
    return seen


def program(env: Environment, planned: Planned, *, preview: bool = False) -> list[Resource]:
    """Everything that the program makes of an environment, also where the plan has errors."""

    def body() -> None:
        kubernetes = cluster.build(env, planned.pools)
        cluster_software.build(env, planned.pools, kubernetes)
        for spec in planned.specs:
            LlmService(
                spec.name,
                spec=spec,
                manifests=planned.manifests[spec.name],
                findings=(),
                opts=pulumi.ResourceOptions(provider=kubernetes.provider),
            )

    with tempfile.NamedTemporaryFile() as kubeconfig, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", kubeconfig.name)
        return declared(body, preview=preview)


def every_pool() -> Environment:
    """One environment on AWS with the pools of tests/components/aws_stacks.py, each under its stack's name."""
    pools = {
        f"{name.replace('_', '-')}-{pool}": values
        for name, stack in sorted(STACKS.items())
        for pool, values in stack["node_pools"].items()
        if pool != "core" and stack["cluster"].get("network", {}).get("vpc_id") is None
    }
    return parse({**STACKS["on_demand"], "node_pools": {"core": CORE, **pools}})


def aws_resources(env: Environment, *, preview: bool = False) -> list[Resource]:
    """Everything that the program makes on AWS for an environment, Karpenter's objects included."""
    pools = node_pools.resolve(env)

    def body() -> None:
        cluster = aws.build(env, pools)
        aws.karpenter_pools(env, pools, cluster, after=())

    return declared(body, preview=preview)
