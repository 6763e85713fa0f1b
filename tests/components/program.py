"""Runs a piece of the program against a mock engine and keeps what it registered, dependencies and providers included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks
from pulumi.runtime.rpc import deserialize_properties

PROJECT, STACK = "llm-serving", "test"


@dataclass(frozen=True)
class Registered:
    """One registration as the engine saw it."""

    type: str
    name: str
    urn: str
    inputs: dict[str, Any]
    parent: str
    provider: str
    depends_on: frozenset[str]
    ignore_changes: tuple[str, ...]
    secrets: frozenset[str] = frozenset()


@dataclass
class Program:
    """What a run left behind."""

    resources: list[Registered] = field(default_factory=list)
    result: Any = None

    def of(self, type_: str) -> list[Registered]:
        """Resources of a type, by name."""
        return sorted((each for each in self.resources if each.type == type_), key=lambda each: each.name)

    def one(self, type_: str, name: str | None = None) -> Registered:
        found = [each for each in self.of(type_) if name is None or each.name == name]
        assert len(found) == 1, f"{type_} {name or ''}: {[each.name for each in self.of(type_)]}"
        return found[0]

    def needs(self, resource: Registered) -> set[str]:
        """Names of all that must be there before `resource`: its dependencies, theirs, and so on."""
        by_urn = {each.urn: each for each in self.resources}
        seen: set[str] = set()
        stack = list(resource.depends_on)
        while stack:
            urn = stack.pop()
            if urn in by_urn and urn not in seen:
                seen.add(urn)
                stack += by_urn[urn].depends_on
        return {f"{by_urn[urn].type} {by_urn[urn].name}" for urn in seen}


class _Monitor(MockMonitor):
    def __init__(self, mocks: Mocks, program: Program) -> None:
        super().__init__(mocks)
        self._program = program

    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self._program.resources.append(
                Registered(
                    type=request.type,
                    name=request.name,
                    urn=response.urn,
                    inputs=deserialize_properties(request.object),
                    parent=request.parent,
                    provider=request.provider.rsplit("::", 1)[0],
                    depends_on=frozenset(request.dependencies),
                    ignore_changes=tuple(request.ignoreChanges),
                )
            )
        return response


class PlainMocks(Mocks):
    """Hands inputs back as outputs, with the ids and outputs that the program reads."""

    OUTPUTS: dict[str, Callable[[MockResourceArgs], dict[str, Any]]] = {
        "aws:eks/cluster:Cluster": lambda args: {
            "endpoint": "https://cluster.example",
            "certificateAuthority": {"data": "Y2E="},
            "vpcConfig": {**args.inputs["vpcConfig"], "clusterSecurityGroupId": "sg-cluster"},
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"},
        },
        "aws:eks/nodeGroup:NodeGroup": lambda args: {
            "nodeGroupName": args.inputs["nodeGroupNamePrefix"] + "1",
            "resources": [{"autoscalingGroups": [{"name": f"eks-{args.name}"}]}],
        },
        "aws:ec2/launchTemplate:LaunchTemplate": lambda args: {"latestVersion": 1},
        "aws:s3/bucket:Bucket": lambda args: {"bucket": args.inputs["bucketPrefix"] + "1"},
        "aws:sqs/queue:Queue": lambda args: {"url": f"https://sqs.example/{args.inputs['name']}"},
    }

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        state = dict(args.inputs)
        state.setdefault("name", args.name)
        state.setdefault("arn", f"arn:aws:mock:us-east-1:123456789012:{args.name}")
        more = self.OUTPUTS.get(args.typ)
        return f"{args.name}-id", state | (more(args) if more else {})

    def call(self, args: MockCallArgs) -> dict[str, Any]:
        if args.token == "aws:eks/getAddonVersion:getAddonVersion":
            return {**args.args, "version": f"v1-of-{args.args['addonName']}"}
        if args.token == "aws:eks/getCluster:getCluster":
            return {
                "name": args.args["name"],
                "arn": "arn:aws:eks:us-east-1:123456789012:cluster/there",
                "endpoint": "https://there.example",
                "certificateAuthorities": [{"data": "Y2E="}],
                "vpcConfig": {"clusterSecurityGroupId": "sg-there"},
                "kubernetesNetworkConfigs": [{"serviceIpv4Cidr": "172.20.0.0/16"}],
                "version": "1.35",
            }
        raise AssertionError(f"no mock for the call {args.token}")


def run(function: Callable[[], Any], mocks: Mocks | None = None) -> Program:
    """Run `function` as a Pulumi program, wait for every registration, and return what was registered."""
    program = Program()
    plain = mocks or PlainMocks()
    pulumi.runtime.set_mocks(plain, project=PROJECT, stack=STACK, preview=False, monitor=_Monitor(plain, program))

    def body() -> Any:
        program.result = function()

    pulumi.runtime.test(body)()
    return program


def value(output: pulumi.Output[Any]) -> Any:
    """The value of an output of a program that has run."""
    found: list[Any] = []
    pulumi.runtime.test(lambda: output.apply(found.append))()
    return found[0]
