"""The server as the engine talks to it: requests of analyzer.proto in, diagnostics out."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from google.protobuf import struct_pb2
from pulumi.runtime import proto

from policies.pack import policies
from policies.server import Server

from .facts.manifests import KUBERAY_SAMPLE, load

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"
ADVISORY, MANDATORY, DISABLED = proto.ADVISORY, proto.MANDATORY, proto.DISABLED
URN = "urn:pulumi:dev::team::kubernetes:ray.io/v1:RayService::llm"


def secret(value: Any) -> dict[str, Any]:
    return {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": value}


class Engine:
    """Plays the engine's part: configures, registers each resource, and sends all at the end."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        levels: Mapping[str, int] | None = None,
        stack_config: Mapping[str, str] | None = None,
    ) -> None:
        self.server = Server(policies())
        request = proto.AnalyzerStackConfigureRequest(stack="dev", project="team", config=stack_config or {})
        self.server.ConfigureStack(request, None)
        info = self.server.GetAnalyzerInfo(None, None)
        entries = {}
        for policy in info.policies:
            level = (levels or {}).get(policy.name, policy.enforcementLevel)
            entries[policy.name] = proto.PolicyConfig(
                enforcementLevel=level, properties=_struct((config or {}).get(policy.name, {}))
            )
        self.server.Configure(proto.ConfigureAnalyzerRequest(policyConfig=entries), None)
        self.resources: list[Any] = []

    def register(
        self, props: Mapping[str, Any], type_: str = "kubernetes:ray.io/v1:RayService", urn: str = URN
    ) -> list[Any]:
        name = urn.rsplit("::", 1)[-1]
        inputs = _struct(props)
        said = self.server.Analyze(proto.AnalyzeRequest(type=type_, properties=inputs, urn=urn, name=name), None)
        self.resources.append(proto.AnalyzerResource(type=type_, properties=inputs, urn=urn, name=name))
        return list(said.diagnostics)

    def finish(self) -> list[Any]:
        return list(self.server.AnalyzeStack(proto.AnalyzeStackRequest(resources=self.resources), None).diagnostics)


def _struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def sample(*, exposed: bool = False, env: Sequence[Any] = ()) -> dict[str, Any]:
    manifest = copy.deepcopy(load(KUBERAY_SAMPLE))
    cluster = manifest["spec"]["rayClusterConfig"]
    if exposed:
        cluster["headGroupSpec"]["serviceType"] = "LoadBalancer"
    cluster["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["env"].extend(env)
    return manifest


def named(diagnostics: Sequence[Any], name: str) -> list[Any]:
    return [each for each in diagnostics if each.policyName == name]


def test_an_error_of_one_resource_is_said_before_it_is_made_and_once() -> None:
    engine = Engine()
    (said,) = named(engine.register(sample(exposed=True)), "security-head-exposed")
    assert (said.enforcementLevel, said.urn, said.policyPackName) == (MANDATORY, URN, "llm-serving")
    assert said.message.startswith("The head's ports stay inside the cluster\nRayService default/ray-serve-llm: head: ")
    assert named(engine.finish(), "security-head-exposed") == []


def test_warnings_are_advisory_and_said_at_the_end() -> None:
    engine = Engine()
    before = engine.register(sample())
    assert named(before, "head-fault-tolerance") == []
    (said,) = named(engine.finish(), "head-fault-tolerance")
    assert (said.enforcementLevel, said.urn) == (ADVISORY, URN)


def test_what_needs_several_resources_is_said_at_the_end_with_the_resource_it_is_about() -> None:
    kai = {"chart": "kai-scheduler", "version": "v0.17.0", "values": {}, "atomic": True, "timeout": 900.0}
    manifest = sample()
    pod = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]
    pod["metadata"] = {"annotations": {"gpu-fraction": "0.5"}}
    del pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    engine = Engine()
    release = "kubernetes:helm.sh/v3:Release"
    engine.register(kai, release, f"urn:pulumi:dev::team::{release}::kai")
    assert named(engine.register(manifest), "kai-sharing-off") == []
    (said,) = named(engine.finish(), "kai-sharing-off")
    assert (said.enforcementLevel, said.urn) == (MANDATORY, URN)
    assert "global.gpuSharing" in said.message


@pytest.mark.parametrize(
    ("level", "expected"), [(ADVISORY, [ADVISORY]), (DISABLED, []), (proto.REMEDIATE, [MANDATORY])]
)
def test_the_level_of_a_policy_is_the_team_s_to_set(level: int, expected: list[int]) -> None:
    engine = Engine(levels={"security-head-exposed": level})
    said = named([*engine.register(sample(exposed=True)), *engine.finish()], "security-head-exposed")
    assert [each.enforcementLevel for each in said] == expected


@pytest.mark.parametrize(
    ("stated", "expected"), [("mandatory", [MANDATORY]), ("disabled", []), ("advisory", [ADVISORY])]
)
def test_warnings_of_a_rule_have_a_level_of_their_own(stated: str, expected: list[int]) -> None:
    engine = Engine({"head-fault-tolerance": {"warnings": stated}})
    engine.register(sample())
    said = named(engine.finish(), "head-fault-tolerance")
    assert [each.enforcementLevel for each in said] == expected


def test_facts_stated_of_the_environment_are_judged_with_the_resources() -> None:
    pool = {"gpu": "L4", "gpus_per_node": 1.0, "cpu": 64.0, "memory_gib": 200.0, "labels": {"pool": "l4"}}
    manifest = sample()
    spec = manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    spec["nodeSelector"] = {"pool": "l4"}  # one L4 a node, and its pods ask for four GPUs
    plain = Engine()
    plain.register(manifest)
    assert named(plain.finish(), "placement-node-size") == []
    engine = Engine({"environment": {"pools": {"l4": pool}}})
    assert named(engine.register(manifest), "placement-node-size") == []  # alone, it is not held against pools
    (said,) = named(engine.finish(), "placement-node-size")
    assert "node pool 'l4'" in said.message


def test_a_statement_that_cannot_be_read_stops_the_preview_and_rules_still_judge() -> None:
    engine = Engine({"environment": {"pool": {}}})
    assert len(named(engine.register(sample(exposed=True)), "security-head-exposed")) == 1
    (said,) = named(engine.finish(), "environment")
    assert said.enforcementLevel == MANDATORY
    assert "pool: unknown key; did you mean 'pools'?" in said.message


def test_waivers_of_our_own_project_s_config_hold_at_this_door_too() -> None:
    engine = Engine(
        stack_config={"llm-serving:policy": '{"security-head-exposed": "off", "head-fault-tolerance": "error"}'}
    )
    said = [*engine.register(sample(exposed=True)), *engine.finish()]
    assert named(said, "security-head-exposed") == []
    assert [each.enforcementLevel for each in named(said, "head-fault-tolerance")] == [MANDATORY]


def test_an_unknown_value_is_listed_and_silences_nothing_else() -> None:
    manifest = sample(exposed=True)
    manifest["spec"]["serveConfigV2"] = UNKNOWN
    engine = Engine()
    assert len(named(engine.register(manifest), "security-head-exposed")) == 1
    (said,) = named(engine.finish(), "not-judged")
    assert (said.enforcementLevel, said.urn) == (ADVISORY, URN)
    assert "spec.serveConfigV2 cannot be known in this preview" in said.message


def test_what_a_preview_did_not_know_the_update_judges_before_it_makes_the_resource() -> None:
    preview = Engine()
    assert named(preview.register(sample(env=[{"name": "HF_TOKEN", "value": UNKNOWN}])), "secret-environment") == []
    (said,) = named(preview.finish(), "not-judged")
    assert "secret-environment" in said.message
    update = Engine()
    said = named(update.register(sample(env=[{"name": "HF_TOKEN", "value": TOKEN}])), "secret-environment")
    assert [each.enforcementLevel for each in said] == [MANDATORY]


@pytest.mark.parametrize("value", [TOKEN, secret(TOKEN)])
def test_a_token_is_found_whether_or_not_it_is_marked_secret_and_is_never_shown(value: Any) -> None:
    engine = Engine()
    said = [*engine.register(sample(env=[{"name": "HF_TOKEN", "value": value}])), *engine.finish()]
    (found,) = named(said, "secret-environment")
    assert "HF_TOKEN" in found.message
    assert all(TOKEN not in each.message for each in said)


def test_a_secret_stays_hidden_even_where_a_rule_would_show_it() -> None:
    manifest = sample()
    manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = secret(
        "registry.example.com/secret-project/llm:latest"
    )
    engine = Engine()
    said = [*engine.register(manifest), *engine.finish()]
    assert named(said, "security-image-pinned")
    assert all("secret-project" not in each.message for each in said)
    assert any("[secret]" in each.message for each in said)


def test_outputs_of_a_preview_do_not_hide_what_the_program_declared() -> None:
    """At the end the engine sends outputs, in which AWS's own defaults are still unknown."""
    type_, urn = "aws:eks/nodeGroup:NodeGroup", "urn:pulumi:dev::team::aws:eks/nodeGroup:NodeGroup::gpu"
    inputs = {"instanceTypes": ["g6.2xlarge"], "scalingConfig": {"minSize": 0.0, "maxSize": 2.0}}
    engine = Engine()
    (said,) = named(engine.register(inputs, type_, urn), "pool-image")
    assert "AL2023_x86_64_STANDARD no NVIDIA driver" in said.message
    engine.resources = [
        proto.AnalyzerResource(
            type=type_, urn=urn, name="gpu", properties=_struct({**inputs, "amiType": UNKNOWN, "diskSize": UNKNOWN})
        )
    ]
    assert named(engine.finish(), "not-judged") == []


def test_a_remediation_is_answered_with_nothing_to_change() -> None:
    answer = Engine().server.Remediate(proto.AnalyzeRequest(type="a:b:C", urn="u", name="n"), None)
    assert list(answer.remediations) == []


def test_the_end_of_a_large_stack_is_judged_in_time() -> None:
    """A hundred services and three CRDs of a megabyte: the engine waits for this answer in every preview."""
    engine = Engine()
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crd"},
        "spec": {
            "versions": [{"schema": {f"field{n}": {"description": "x" * 60, "type": "string"} for n in range(9000)}}]
        },
    }
    start = time.process_time()
    for number in range(3):
        engine.register(
            crd, "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition", f"urn:pulumi:dev::t::c::{number}"
        )
    for number in range(100):
        manifest = sample()
        manifest["metadata"]["name"] = f"llm-{number}"
        engine.register(manifest, urn=f"{URN}-{number}")
    engine.finish()
    assert time.process_time() - start < 15
