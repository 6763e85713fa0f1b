"""The policy pack as a server: the engine sends each resource before it is made, and all of them at the end.

The SDK's own server runs every policy by itself: it unpacks all resources for each, drops the secret marks, and gives all
violations of a policy one level. With a hundred rules over one set of facts this unpacks once, keeps what is secret out of
messages, and says errors and warnings of a rule under one name. Names, levels and configuration stay the SDK's.

When what is judged. A resource alone, as its program states it, before the engine touches it: errors, so that an update whose
preview was skipped, or whose values were not known then, stops before that resource is made. All resources together at the
end, which is in a preview before anything is made: everything else. Not for: what the rules find.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf import json_format
from pulumi.runtime import proto
from pulumi.runtime.proto import analyzer_pb2_grpc
from pulumi_policy import EnforcementLevel, Policy
from pulumi_policy.policy import _PolicyAnalyzerServicer

from policies import pack, stated
from policies.facts import Budget, Stack
from policies.facts.stack import EMPTY
from policies.facts.wire import Resource, resource, shown
from policies.finding import Finding
from policies.judgement import Judged, judge

VERSION = "0.0.1"  # the one of PulumiPolicy.yaml is shown
PROJECT = "llm-serving"
"""Project whose own config states waivers (`policy`), models and budget: they hold at this door as in its plan."""
_MESSAGE_BYTES = 400 * 1024 * 1024  # of the engine's own connections
_A_DAY = 24 * 60 * 60
_LEVELS = {"error": EnforcementLevel.MANDATORY, "warning": EnforcementLevel.ADVISORY}


class Server(_PolicyAnalyzerServicer):
    """Answers the engine. One process serves one preview or one update."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        super().__init__(pack.NAME, VERSION, list(policies), EnforcementLevel.MANDATORY, description=pack.DESCRIPTION)
        self._policies = {policy.name: policy for policy in policies}
        self._declared: dict[str, Resource] = {}
        self._said: set[Finding] = set()
        self._own: Mapping[str, Any] = {}
        self._known: Stack | None = None

    def ConfigureStack(self, request: Any, context: Any) -> Any:
        prefix = f"{PROJECT}:"
        self._own = {k.removeprefix(prefix): _json(v) for k, v in request.config.items() if k.startswith(prefix)}
        return super().ConfigureStack(request, context)

    def Remediate(self, request: Any, context: Any) -> Any:
        return proto.RemediateResponse()  # these policies change nothing

    def Analyze(self, request: Any, context: Any) -> Any:
        declared = _resource(request)
        self._declared[declared.urn] = declared
        # Alone, a resource must not be held against the part of the others that is stated.
        known = replace(self._facts(), pools=(), queues=(), budget=Budget())
        judged = judge([declared], known)
        return self._response(judged, declared.urn, lambda finding: finding.severity == "error")

    def AnalyzeStack(self, request: Any, context: Any) -> Any:
        resources = [self._joined(each) for each in request.resources]
        judged = judge(resources, self._facts())
        response = self._response(judged, "", lambda finding: True)
        for problem in self._config_problems():
            self._report(response, pack.ENVIRONMENT, problem, "", EnforcementLevel.MANDATORY)
        return response

    def _joined(self, request: Any) -> Resource:
        """The resource as declared, where it was seen: outputs of a preview hold everything that AWS would have filled in."""
        declared = self._declared.get(request.urn)
        if declared is None:
            declared = _resource(request)
        sources = {key: tuple(found.urns) for key, found in request.propertyDependencies.items()}
        return replace(declared, sources=sources)

    def _response(self, judged: Judged, urn: str, wanted: Callable[[Finding], bool]) -> Any:
        response = proto.AnalyzeResponse()
        for placed in (*judged.findings, *(() if urn else judged.open)):
            finding = placed.finding
            level = self._level(finding)
            if level is None or finding in self._said or not wanted(finding):
                continue
            self._said.add(finding)
            message = f"{finding.place}: {finding.message}; {finding.mend}"
            self._report(response, finding.rule, message, urn or placed.urn, level)
        return response

    def _level(self, finding: Finding) -> EnforcementLevel | None:
        """Level of one finding: the policy's for an error, advisory for a warning unless configured; None for not at all."""
        policy = self._policies.get(finding.rule)
        if policy is None:
            return None
        level = self._get_enforcement_level(policy)
        waiver = self._waivers().get(finding.rule)
        if level == EnforcementLevel.DISABLED or waiver == "off":
            return None
        if waiver in _LEVELS:
            return _LEVELS[waiver]
        if finding.severity == "warning":
            stated_level = (self._get_policy_config(policy.name) or {}).get(pack.WARNINGS, "advisory")
            return None if stated_level == "disabled" else EnforcementLevel(stated_level)
        return EnforcementLevel.MANDATORY if level == EnforcementLevel.REMEDIATE else level

    def _report(self, response: Any, name: str, message: str, urn: str, level: EnforcementLevel) -> None:
        policy = self._policies[name]
        secrets = frozenset().union(*(each.secrets for each in self._declared.values()))
        response.diagnostics.append(
            proto.AnalyzeDiagnostic(
                policyName=name,
                policyPackName=pack.NAME,
                policyPackVersion=VERSION,
                description=policy.description,
                message=f"{policy.description}\n{shown(message, secrets)}",
                urn=urn,
                enforcementLevel=self._map_enforcement_level(level),
            )
        )

    def _waivers(self) -> Mapping[str, str]:
        given = self._own.get("policy")
        return given if isinstance(given, dict) else {}

    def _facts(self) -> Stack:
        """What is stated beyond the resources: by the policy `environment`, and by our own project's config."""
        if self._known is None:
            own = {key: self._own[key] for key in ("models", "budget") if isinstance(self._own.get(key), dict)}
            try:
                self._known = stated.parse({**own, **self._stated()})
            except stated.StatedError:
                self._known = EMPTY  # told at the end, as a violation
        return self._known

    def _stated(self) -> Mapping[str, Any]:
        return self._get_policy_config(pack.ENVIRONMENT) or {}

    def _config_problems(self) -> Iterable[str]:
        try:
            stated.parse(self._stated())
        except stated.StatedError as error:
            return [f"policy '{pack.ENVIRONMENT}': {problem}" for problem in error.problems]
        return []


def _resource(request: Any) -> Resource:
    """The record of an AnalyzeRequest or AnalyzerResource."""
    version = request.provider.properties.fields["version"] if request.HasField("provider") else None
    return resource(
        request.type,
        request.name,
        json_format.MessageToDict(request.properties),
        urn=request.urn,
        ignore_changes=request.options.ignoreChanges,
        parent=request.options.parent,
        provider_version=(version.string_value or None) if version is not None else None,
    )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def serve(policies: Sequence[Policy]) -> None:
    """Serve until the engine ends the process. The first line of standard output is the port."""
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=1),  # one resource at a time: what has been said must not be said twice
        options=[("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)],
    )
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Server(policies), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.buffer.write(f"{port}\n".encode())
    sys.stdout.flush()
    try:
        while True:
            time.sleep(_A_DAY)
    except KeyboardInterrupt:
        server.stop(0)
