"""A provider for `aws` that the real engine starts where AWS's own is not there: it answers as AWS's does in a preview.

What a resource takes and gives is read from the classes of pulumi_aws. Inputs are given back, what AWS would find out is unknown,
and an input that the class has no property for is refused. Nothing is created: Create outside a preview is an error.
Not for: AWS's own judgement of values (tests/components/cloud.py creates the same resources in moto).
"""

from __future__ import annotations

import importlib
import sys
import typing
from concurrent import futures
from functools import cache
from importlib.metadata import version
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi._types import resource_types
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc
from pulumi.runtime.rpc import UNKNOWN, deserialize_properties

from tests.components.program import PlainMocks


class _Call(typing.NamedTuple):
    token: str
    args: dict[str, Any]


@cache
def properties(token: str) -> dict[str, bool]:
    """Properties of a type, "aws:eks/cluster:Cluster": whether each always has a value once the resource is there."""
    _, module, name = token.split(":")
    found = getattr(importlib.import_module(f"pulumi_aws.{module.split('/')[0]}"), name)
    return {key: type(None) not in typing.get_args(kind) for key, kind in resource_types(found).items()}


class Aws(provider_pb2_grpc.ResourceProviderServicer):
    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=version("pulumi-aws"))

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, acceptResources=True)

    def Invoke(self, request: Any, context: Any) -> Any:
        result = struct_pb2.Struct()
        result.update(PlainMocks().call(_Call(request.tok, deserialize_properties(request.args))))  # type: ignore[arg-type]
        return provider_pb2.InvokeResponse(**{"return": result})

    def Check(self, request: Any, context: Any) -> Any:
        known = properties(request.urn.split("::")[2].split("$")[-1])
        failures = [
            provider_pb2.CheckFailure(property=key, reason=f"no input '{key}' is known")
            for key in request.news.fields
            if key not in known and not key.startswith("__")
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        same = request.old_inputs == request.news
        kinds = provider_pb2.DiffResponse
        return kinds(changes=kinds.DIFF_NONE if same else kinds.DIFF_SOME)

    def Create(self, request: Any, context: Any) -> Any:
        if not request.preview:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "this provider creates nothing; it is for previews")
        state = struct_pb2.Struct()
        state.CopyFrom(request.properties)
        for key, always in properties(request.urn.split("::")[2].split("$")[-1]).items():
            if always and key not in state.fields:
                state.fields[key].string_value = UNKNOWN
        return provider_pb2.CreateResponse(id="", properties=state)


def main() -> None:
    """Serve on a free port of this machine, which the engine reads from the first line."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Aws(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
