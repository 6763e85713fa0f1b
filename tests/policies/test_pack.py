"""The pack as policies of the SDK: names, levels, configuration, and each policy judged without an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pulumi_policy import EnforcementLevel, PolicyResource, PolicyResourceOptions, StackValidationArgs
from pulumi_policy.policy import PolicyCustomTimeouts
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from policies import stated
from policies.pack import ENVIRONMENT, NOT_JUDGED, RulePolicy, policies
from policies.rules import RULES

from .facts.manifests import KUBERAY_SAMPLE, load

PACK = {policy.name: policy for policy in policies()}


def violations(
    name: str, manifest: dict[str, Any], config: dict[str, Any] | None = None
) -> list[tuple[str, str | None]]:
    """What one policy reports about a stack of one object, as the SDK would call it."""
    options = PolicyResourceOptions(False, [], None, [], PolicyCustomTimeouts(0, 0, 0), [], None)
    kind = f"kubernetes:{manifest['apiVersion']}:{manifest['kind']}"
    props = unknown_checking_proxy(manifest)
    found = PolicyResource(kind, props, "urn:llm", "llm", options, None, None, [], {})
    said: list[tuple[str, str | None]] = []
    PACK[name].validate(
        StackValidationArgs([found], config or {}, {}), lambda message, urn=None: said.append((message, urn))
    )  # type: ignore[attr-defined]
    return said


def exposed() -> dict[str, Any]:
    manifest = load(KUBERAY_SAMPLE)
    manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["serviceType"] = "LoadBalancer"
    return manifest


def test_every_rule_is_a_mandatory_policy_of_its_name_and_title() -> None:
    rules = [policy for policy in policies() if isinstance(policy, RulePolicy)]
    assert [(policy.name, policy.description) for policy in rules] == [(rule.id, rule.title) for rule in RULES]
    assert {policy.enforcement_level for policy in rules} == {EnforcementLevel.MANDATORY}
    assert PACK[NOT_JUDGED].enforcement_level == EnforcementLevel.ADVISORY


def test_names_of_policies_are_unique_and_as_the_engine_allows() -> None:
    names = [policy.name for policy in policies()]
    assert len(names) == len(set(names))
    assert all(name.replace("-", "").isalnum() and name == name.lower() for name in names)


def test_a_policy_reports_its_rule_s_errors_with_the_resource() -> None:
    assert violations("security-head-exposed", load(KUBERAY_SAMPLE)) == []
    ((message, urn),) = violations("security-head-exposed", exposed())
    assert message.startswith("RayService default/ray-serve-llm: head: its Service is a LoadBalancer: ")
    assert urn == "urn:llm"


def test_a_policy_that_meets_an_unknown_value_judges_the_rest() -> None:
    manifest = exposed()
    manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = (
        UNKNOWN_STRING_VALUE
    )
    assert len(violations("security-head-exposed", manifest)) == 1
    ((message, urn),) = violations(NOT_JUDGED, manifest)
    path = "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].image"
    assert message.startswith(f"RayService default/ray-serve-llm: {path} cannot be known in this preview, so ")
    assert urn == "urn:llm"
    assert violations(NOT_JUDGED, exposed()) == []


def test_each_policy_s_configuration_has_a_schema_that_is_one() -> None:
    for policy in policies():
        if policy.config_schema is not None:
            schema = {"type": "object", "properties": policy.config_schema.properties}
            jsonschema.Draft7Validator.check_schema(schema)  # the draft of the engine's validator
            assert "$ref" not in json.dumps(schema), policy.name


def test_the_environment_s_schema_and_its_reader_agree() -> None:
    good = {
        "versions": {"kubernetes": "1.34"},
        "batch_scheduler": "kai",
        "pools": {
            "l4": {
                "gpu": "L4",
                "gpus_per_node": 1.0,
                "cpu": 7.5,
                "memory_gib": 28.0,
                "max": 4.0,
                "labels": {"pool": "l4"},
                "taints": [{"key": "nvidia.com/gpu"}],
                "sharing": {"strategy": "time_slicing", "replicas": 4.0},
            }
        },
        "queues": {"team": {"scheduler": "kai", "gpu_quota": 4.0}},
        "budget": {"usd_per_hour": 20.0, "gpus": {"L4": 8.0}},
    }
    jsonschema.validate(good, {"type": "object", "properties": stated.schema()})
    assert violations(ENVIRONMENT, exposed(), good) == []
    stack = stated.parse(good)
    (pool,) = stack.pools
    assert (pool.gpu, pool.gpu_mib, pool.cpu_milli, pool.memory_mib, pool.max) == ("L4", 23034, 7500, 28672, 4)
    assert (pool.sharing.strategy, pool.sharing.replicas, pool.taints[0].key) == ("time_slicing", 4, "nvidia.com/gpu")
    assert (stack.queues[0].name, stack.queues[0].gpu_quota, stack.budget.gpus) == ("team", 4, {"L4": 8})
    assert (stack.batch_scheduler, stack.versions.kubernetes, stack.complete) == ("kai", "1.34", False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kubernetes_version": "1.34"},
            "policy 'environment': kubernetes_version: unknown key; allowed: autoscaler, batch_scheduler, budget, "
            "gateway_class, gpu_sharing, models, pools, queues, versions, zones",
        ),
        (
            {"pools": {"l4": {"gpus": 1}}},
            "policy 'environment': pools.l4.gpus: unknown key; did you mean 'gpu'? allowed: cpu, driver_version, efa, gpu, "
            "gpus_per_node, labels, max, memory_gib, min, price_usd_hour, sharing, spot, taints",
        ),
        (
            {"batch_scheduler": "slurm"},
            "policy 'environment': batch_scheduler: 'slurm' was given; input should be 'none', 'kai', 'volcano', "
            "'yunikorn' or 'scheduler-plugins'",
        ),
    ],
)
def test_a_wrong_statement_is_refused_with_what_is_allowed(given: dict[str, Any], message: str) -> None:
    assert violations(ENVIRONMENT, exposed(), given) == [(message, None)]


def test_the_pack_s_file_names_an_entry_that_nothing_imports() -> None:
    folder = Path(stated.__file__).parent
    project = yaml.safe_load((folder / "PulumiPolicy.yaml").read_text())
    assert (project["runtime"]["name"], project["name"]) == ("python", "llm-serving")
    entry = (folder / "__main__.py").read_text()
    assert entry.rstrip().endswith("serve(policies())")
