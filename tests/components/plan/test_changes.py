"""What an update does to what runs: each test edits one thing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from components.config import ConfigError, deep_merge, parse
from components.plan import assemble, changes, page, serial, view
from components.plan.changes import Other
from components.plan.result import ServiceChange
from tests.components.environments import WHOLE_GPU, environment

PRICED = deep_merge(WHOLE_GPU, {"node_pools": {"l4": {"price_usd_hour": 0.8}, "cpu": {"price_usd_hour": 0.2}}})
MODEL = PRICED["services"]["chat"]["models"]["qwen"]
SCALED = deep_merge(PRICED, {"services": {"chat": {"models": {"qwen": {"replicas": {"min": 1, "max": 3}}}}}})
VLLM = deep_merge(PRICED, {"services": {"chat": {"kind": "vllm"}}})


POD_ENV = "rayClusterConfig.headGroupSpec.template.spec.containers[0].env"


def service(**changed: Any) -> dict[str, Any]:
    return {"services": {"chat": changed}}


def edited(edit: dict[str, Any], before: dict[str, Any] = PRICED) -> list[ServiceChange]:
    """Changes of the services when `edit` is merged over what is deployed."""
    old = assemble(parse(before), "dev")
    new = assemble(parse(deep_merge(copy.deepcopy(before), edit)), "dev")
    found = changes.compared(new, Other("before", old.plan, old.manifests)).changes
    assert found is not None
    assert found.services is not None
    return list(found.services)


@pytest.mark.parametrize(
    ("edit", "effect", "cause"),
    [
        (service(image={"tag": "2"}), "new_cluster", "rayClusterConfig.headGroupSpec.template.spec.containers[0].image"),
        (service(image={"tag": "2"}, upgrade={"strategy": "none"}), "kept", "rayClusterConfig.headGroupSpec.template.spec.containers[0].image"),
        (
            service(models={"qwen": {"engine_args": {"max_model_len": 4096}}}),
            "serve_update",
            "application 'chat': args.llm_configs[qwen].engine_kwargs.max_model_len",
        ),
        (service(models={"second": {**MODEL}}), "new_cluster", POD_ENV),
        (service(worker={"tolerations": [{"key": "a", "operator": "Exists"}]}), "in_place", "rayClusterConfig.workerGroupSpecs[0].template.spec.tolerations[0].key"),
        (service(labels={"team": "a"}), "in_place", "metadata.labels"),
        (service(network={"enabled": False}), "in_place", "NetworkPolicy chat"),
        (service(namespace="other"), "replaced", "metadata.namespace"),
        (service(kind="ray_cluster", models={"qwen": {"engine_args": None}}), "replaced", "kind"),
    ],
)  # fmt: skip
def test_what_an_edit_does(edit: dict[str, Any], effect: str, cause: str) -> None:
    (change,) = edited(edit)
    assert change.effect == effect
    assert cause in change.causes


@pytest.mark.parametrize(
    ("replicas", "waits"), [({}, True), ({"min": 2, "max": 2}, False), ({"surge_percent": 100}, False), ({"min": 1, "max": 2}, True)]
)  # fmt: skip
def test_requests_wait_where_the_only_replica_is_replaced(replicas: dict[str, Any], waits: bool) -> None:
    before = deep_merge(PRICED, service(models={"qwen": {"replicas": replicas}}))
    (change,) = edited(service(models={"qwen": {"engine_args": {"max_model_len": 4096}}}), before)
    assert change.effect == "serve_update"
    assert ("requests to qwen wait while the only replica is replaced" in change.text) is waits


def test_a_second_model_joins_in_place_where_the_first_is_not_streamed_directly() -> None:
    proxied = deep_merge(PRICED, service(expose={"direct_streaming": False}))
    (change,) = edited(service(models={"second": {**MODEL}}), proxied)
    assert (change.effect, change.causes[0]) == ("serve_update", "application 'chat': args.llm_configs[second]")


def test_more_replicas_are_pods_and_an_update_of_serve() -> None:
    (pods,) = edited(service(worker={"max": 4}), SCALED)
    assert (pods.effect, pods.causes) == ("in_place", ("rayClusterConfig.workerGroupSpecs[0].maxReplicas",))
    (replicas,) = edited(service(models={"qwen": {"replicas": {"max": 4}}}), SCALED)
    assert replicas.effect == "serve_update"
    # from a fixed number to a range Ray's autoscaler comes into the head, which takes another cluster
    (autoscaled,) = edited(service(models={"qwen": {"replicas": {"max": 4}}}))
    assert (autoscaled.effect, autoscaled.causes[-1]) == ("new_cluster", "rayClusterConfig.enableInTreeAutoscaling")


def test_incremental_upgrades_and_a_deployment_go_step_by_step() -> None:
    incremental = deep_merge(PRICED, service(upgrade={"strategy": "incremental", "gateway_class": "envoy"}))
    assert [c.effect for c in edited(service(image={"tag": "2"}), incremental)] == ["incremental"]
    assert [c.effect for c in edited(service(image={"tag": "2"}), VLLM)] == ["rolling"]
    two = deep_merge(VLLM, service(models={"qwen": {"replicas": {"min": 2, "max": 2}}}))
    assert [c.effect for c in edited(service(models={"qwen": {"replicas": {"min": 3, "max": 3}}}), two)] == ["in_place"]


def test_a_job_and_a_shared_cluster() -> None:
    job = deep_merge(PRICED, service(kind="ray_job", models={"qwen": None}, job={"entrypoint": "python a.py"}))
    (change,) = edited(service(job={"entrypoint": "python b.py"}), job)
    assert (change.effect, change.causes) == ("replaced", ("entrypoint",))
    shared = deep_merge(PRICED, service(kind="ray_cluster", models={"qwen": None}, worker={"min": 1, "max": 2}))
    assert [c.effect for c in edited(service(worker={"max": 3}), shared)] == ["in_place"]
    assert [c.effect for c in edited(service(image={"tag": "2"}), shared)] == ["kept"]


def test_the_same_config_changes_nothing_and_services_come_and_go() -> None:
    assert edited({}) == []
    two = deep_merge(PRICED, {"services": {"two": {"pool": "l4", "models": {"qwen": MODEL}}}})
    assert [(c.service, c.effect) for c in edited({"services": {"two": None}}, two)] == [("two", "removed")]
    assert [(c.service, c.effect) for c in edited({"services": two["services"]})] == [("two", "new")]


def test_the_peak_is_the_old_cluster_at_full_load_and_the_new_one_at_its_start() -> None:
    smaller = service(image={"tag": "2"}, models={"qwen": {"replicas": {"min": 2, "max": 2}}})
    (change,) = edited(smaller, SCALED)
    assert change.gpus_peak == 5  # three as they were, two of the new
    assert change.usd_per_hour_peak is not None
    assert change.usd_per_hour_peak > 5 * 0.8
    (in_place,) = edited(service(models={"qwen": {"engine_args": {"max_model_len": 4096}}}))
    assert (in_place.gpus_peak, in_place.usd_per_hour_peak) == (None, None)


def exported(env: dict[str, Any]) -> dict[str, Any]:
    """What `pulumi stack export` says of a stack: objects under their component, with Pulumi's own annotations, floats for numbers."""
    resources: list[dict[str, Any]] = []
    for name, manifests in assemble(parse(env), "dev").manifests.items():
        parent = f"urn:pulumi:dev::llm-serving::llm-serving:index:LlmService::{name}"
        resources.append({"urn": parent, "type": "llm-serving:index:LlmService"})
        for manifest in [*manifests[1:], manifests[0]]:
            inputs = copy.deepcopy(manifest)
            inputs["metadata"].setdefault("annotations", {})["pulumi.com/timeoutSeconds"] = "900"
            resources.append({"urn": f"{parent}-x", "type": "kubernetes:x", "parent": parent, "inputs": inputs})
    return json.loads(json.dumps({"version": 3, "deployment": {"resources": resources}}), parse_int=float)  # type: ignore[no-any-return]


def test_the_deployed_stack_is_read_from_its_export(tmp_path: Path) -> None:
    path = tmp_path / "deployed.json"
    path.write_text(json.dumps(exported(PRICED)))
    same = changes.compared(assemble(parse(PRICED), "dev"), changes.read(path)).changes
    assert same is not None
    assert (same.services, same.figures) == ((), ())
    new = assemble(parse(deep_merge(PRICED, service(image={"tag": "2"}))), "dev")
    found = changes.compared(new, changes.read(path)).changes
    assert found is not None
    assert [(c.effect, c.gpus_peak) for c in found.services or ()] == [("new_cluster", 2)]


def test_an_environment_file_and_a_saved_plan_are_read_too(tmp_path: Path) -> None:
    new = assemble(parse(deep_merge(PRICED, service(image={"tag": "2"}))), "dev")
    old = tmp_path / "Pulumi.dev.yaml"
    old.write_text(yaml.safe_dump(PRICED))
    by_file = changes.compared(new, changes.read(old)).changes
    saved = tmp_path / "plan.json"
    saved.write_text(serial.dumps(assemble(parse(PRICED), "dev").plan))
    by_plan = changes.compared(new, changes.read(saved)).changes
    assert by_file is not None
    assert by_plan is not None
    assert [c.effect for c in by_file.services or ()] == ["new_cluster"]
    assert by_plan.services is None
    assert by_plan.figures == by_file.figures
    assert [f.place for f in by_plan.figures] == ["service 'chat': image"]


@pytest.mark.parametrize("text", ["{", "{}", "- a"])
def test_what_is_no_other_side_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"x\.json"):
        changes.read(path)


def test_changes_are_shown_in_table_page_and_json() -> None:
    old = assemble(environment(), "dev")
    new = assemble(environment(**service(models={"<2>": {**MODEL}})), "dev")
    plan = changes.compared(new, Other("Pulumi.dev.yaml", old.plan, old.manifests))
    assert "chat: new cluster, a second Ray cluster starts beside the running one" in view.text(plan)
    text = page.html(plan)
    assert "Changes against Pulumi.dev.yaml" in text
    assert "&lt;2&gt;" in text
    document = json.loads(serial.dumps(plan))
    jsonschema.validate(document, serial.schema())
    assert document["changes"]["services"][0]["effect"] == "new_cluster"
    assert serial.loads(serial.dumps(plan)) == plan
