"""`python -m policies.judge`: files in, findings and an exit code out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from policies import judge

from .facts.manifests import (
    DATA_ON_EKS,
    KUBERAY_SAMPLE,
    LEADER_WORKER_SET,
    LLM_SERVICE,
    LLM_WORKERS,
    PREDICTORS,
    PRODUCTION_STACK,
)

APP = typer.Typer()
APP.command()(judge.main)


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(APP, [*words], input=stdin)


def found(*words: str) -> list[dict[str, Any]]:
    result = run(*words, "--format", "json")
    findings: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    assert result.exit_code == (1 if any(each["severity"] == "error" for each in findings) else 0)
    return findings


def file(folder: Path, text: str, name: str = "llm.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_finding_says_where_in_which_file_what_and_what_to_do(tmp_path: Path) -> None:
    path = file(tmp_path, DATA_ON_EKS)
    (head,) = (each for each in found(path) if each["severity"] == "error")
    assert head["rule"] == "upgrade-head-service"
    assert head["severity"] == "error"
    assert head["place"] == "RayService rayserve-vllm/vllm"
    assert head["file"] == path
    assert head["message"].startswith("headService.metadata.name 'vllm' is set: ")
    assert head["mend"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        # The sample as it is, on the newest Ray: its vLLM has no `device` any more.
        (KUBERAY_SAMPLE.replace("2.46.0", "2.60.0").replace("py311-cu124", "py312-cu130"), "engine-arguments"),
        (DATA_ON_EKS, "upgrade-head-service"),
        (PRODUCTION_STACK.replace("/dev/shm", "/shm"), "network-shared-memory"),
        (LEADER_WORKER_SET, "network-shared-memory"),
        (LEADER_WORKER_SET.replace("size: 2", "size: 1"), "topology-one-pod"),
        (PREDICTORS.replace("v0.29.0", "latest"), "security-image-pinned"),
        (PREDICTORS.replace("16384", "65536"), "fit-context-length"),
        (
            PREDICTORS.replace(
                "valueFrom: {secretKeyRef: {name: hf, key: token}}", "value: hf_abcdefghijklmnopqrstuvwxyzabcdefgh"
            ),
            "secret-environment",
        ),
        (PREDICTORS.replace("--max-model-len,", "--max-modellen,"), "engine-arguments"),
        (LLM_SERVICE.replace("tensor: 2", "tensor: 4"), "topology-one-pod"),
        (LLM_SERVICE.replace("--max-model-len=16384", "--max-model-len=65536"), "fit-context-length"),
        (
            LLM_SERVICE.replace(
                "args: [", "env: [{name: VLLM_ADDITIONAL_ARGS, value: --max-modellen=1}]\n      args: ["
            ),
            "engine-arguments",
        ),
        (LLM_SERVICE.replace("vllm-openai:v0.29.0", "vllm-openai"), "security-image-pinned"),
        (LLM_SERVICE + LLM_WORKERS.replace('cpu: "16"', "cpu: 16x"), "pod-resources"),
    ],
)
def test_manifests_of_other_teams_are_judged_by_the_same_rules(tmp_path: Path, text: str, rule: str) -> None:
    assert rule in {each["rule"] for each in found(file(tmp_path, text)) if each["severity"] == "error"}


def test_what_other_teams_run_with_success_is_not_refused(tmp_path: Path) -> None:
    several = f"{LLM_SERVICE}{LLM_WORKERS}".replace("name: qwen, ", "name: large, ").replace(
        "tensor: 2", "tensor: 2, pipeline: 2"
    )
    both = "\n---\n".join((KUBERAY_SAMPLE, PRODUCTION_STACK, PREDICTORS, LLM_SERVICE, several))
    assert [each for each in found(file(tmp_path, both)) if each["severity"] == "error"] == []
    assert [
        each for each in found(file(tmp_path, _with_memory(LEADER_WORKER_SET))) if each["severity"] == "error"
    ] == []


def _with_memory(group: str) -> str:
    """Leader and workers with a /dev/shm of their own."""
    limits = 'resources: {limits: {nvidia.com/gpu: "8", memory: 1124Gi}}\n'
    mount = "          volumeMounts: [{mountPath: /dev/shm, name: shm}]\n"
    return group.replace(limits, f"{limits}{mount}        volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]\n")


@pytest.mark.parametrize("key", ["patches", "patchesStrategicMerge"])
def test_a_part_of_an_object_that_a_kustomization_patches_with_is_not_judged_alone(tmp_path: Path, key: str) -> None:
    part = "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: vllm, namespace: rayserve-vllm}\nspec: {rayClusterConfig: {rayVersion: 2.60.0}}\n"
    overlay = tmp_path / "overlays" / "prod"
    overlay.mkdir(parents=True)
    patch = file(overlay, part, "patch.yaml")
    assert found(str(tmp_path))
    entry = "patch.yaml" if key == "patchesStrategicMerge" else "{path: patch.yaml}"
    file(overlay, f"resources: [../../base]\n{key}: [{entry}]\n", "kustomization.yaml")
    assert found(str(tmp_path)) == found(patch) == []
    file(overlay, part, "other.yaml")
    assert {each["file"] for each in found(str(tmp_path))} == {str(overlay / "other.yaml")}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (('nvidia.com/gpu: "8"', 'nvidia.com/gpu: "4"'), "topology-one-pod"),
        (("image: vllm/vllm-openai:v0.11.2", "image: vllm/vllm-openai:v0.12.0"), "version-images"),
        (("name: vllm-worker", "name: vllm-worker\n          env: [{name: HF_TOKEN, value: hf_abcdefghijklmnopqrstuvwxyzabcdefgh}]"), "secret-environment"),
        (("mountPath: /dev/shm", "mountPath: /shm"), "network-shared-memory"),
    ],
)  # fmt: skip
def test_workers_of_a_leader_worker_set_are_judged_as_its_leader_is(
    tmp_path: Path, change: tuple[str, str], rule: str
) -> None:
    leader, workers = _with_memory(LEADER_WORKER_SET).split("    workerTemplate:")
    assert change[0] in workers
    wrong = f"{leader}    workerTemplate:{workers.replace(*change)}"
    assert rule in {each["rule"] for each in found(file(tmp_path, wrong))}


@pytest.mark.parametrize(
    "placeholder",
    [
        "$VLLM_IMAGE",
        "${REGISTRY}/vllm:${TAG}",
        "<your-image>",
        "<<IMAGE>>",
        "ecr.<<REGION>>.amazonaws.com/vllm:1",
        "IMAGE_NAME",
        "gcr.io/PROJECT_ID/vllm:1",
    ],
)
def test_placeholders_that_a_guide_s_reader_fills_in_are_told_and_not_judged(tmp_path: Path, placeholder: str) -> None:
    text = PRODUCTION_STACK
    image = next(line.split("image:")[1].strip() for line in text.splitlines() if "image:" in line)
    given = found(file(tmp_path, text.replace(f"image: {image}", f'image: "{placeholder}"')))
    assert [each for each in given if each["severity"] == "error"] == []
    (open_,) = (each for each in given if each["rule"] == "not-judged")
    assert ".image: not filled in, so " in open_["message"]
    assert open_["mend"] == "fill it in first (envsubst, sed), and judge the result"


def test_dollars_of_shells_and_of_kubernetes_are_no_placeholders(tmp_path: Path) -> None:
    shell = PRODUCTION_STACK.replace("kind: Deployment\n", "kind: Deployment\n# ${TAG}\n")
    script = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: start}\ndata: {run.sh: 'vllm serve ${MODEL}'}\n"
    assert "not-judged" not in {each["rule"] for each in found(file(tmp_path, shell + script))}


def test_severities_hold_where_something_is_not_filled_in(tmp_path: Path) -> None:
    path = file(
        tmp_path, f"{KUBERAY_SAMPLE}\n---\n" + PRODUCTION_STACK.replace("vllm/vllm-openai", "${REGISTRY}/vllm-openai")
    )
    assert "security-dashboard-delete" in {each["rule"] for each in found(path)}
    rules = {each["rule"] for each in found(path, "--policy", "security-dashboard-delete=off")}
    assert "security-dashboard-delete" not in rules


def test_folders_are_searched_and_objects_of_several_files_judged_together(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    file(tmp_path / "a", KUBERAY_SAMPLE)
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: ray-serve-llm-head-svc}\n"
    file(tmp_path / "a" / "b", service, "service.yml")
    file(tmp_path / "a" / "b", "not judged", "notes.txt")
    (clash,) = (each for each in found(str(tmp_path)) if each["rule"] == "name-unique")
    assert clash["file"].endswith("service.yml")


def test_standard_input_is_a_file_too() -> None:
    result = run("-", "--format", "json", stdin=f"{KUBERAY_SAMPLE}\n---\n{PRODUCTION_STACK}")
    places = {each["place"].split(":")[0] for each in json.loads(result.stdout)["findings"]}
    assert "RayService default/ray-serve-llm" in places


def test_rules_are_set_as_in_an_environment_s_config(tmp_path: Path) -> None:
    path = file(tmp_path, KUBERAY_SAMPLE)
    assert "security-dashboard-delete" in {each["rule"] for each in found(path)}
    given = found(path, "--policy", "security-dashboard-delete=off", "--policy", "head-fault-tolerance=error")
    levels = {each["rule"]: each["severity"] for each in given}
    assert "security-dashboard-delete" not in levels
    assert levels["head-fault-tolerance"] == "error"
    (miss,) = (each for each in found(path, "--policy", "head-fault-tolerence=off") if each["place"] == "policy")
    assert "did you mean 'head-fault-tolerance'" in miss["mend"]


def test_facts_of_the_environment_are_taken_from_a_file(tmp_path: Path) -> None:
    text = KUBERAY_SAMPLE.replace(
        "        spec:\n          containers:\n          - name: ray-worker",
        "        spec:\n          nodeSelector: {pool: l4}\n          containers:\n          - name: ray-worker",
    )
    path = file(tmp_path, text)
    pool = "pools: {l4: {gpu: L4, gpus_per_node: 1, cpu: 64, memory_gib: 200, labels: {pool: l4}}}"
    assert not [each for each in found(path) if each["rule"] == "placement-node-size"]
    given = found(path, "--environment", file(tmp_path, pool, "environment.yaml"))
    assert [each for each in given if each["rule"] == "placement-node-size"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "a: 1\n  b: 2\n", "a.yaml:2:4: not YAML: "),
        ("chart.yaml", "kind: {{ .Values.kind }}\n", "render the template first (helm template, kustomize build)"),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_line_and_column(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    result = run(file(tmp_path, text, name))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_missing_file_and_a_wrong_option_are_said_plainly(tmp_path: Path) -> None:
    missing = run(str(tmp_path / "none.yaml"))
    assert missing.exit_code == 2
    assert "none.yaml: cannot be read" in missing.stderr
    odd = run(file(tmp_path, KUBERAY_SAMPLE), "--policy", "x")
    assert (odd.exit_code, odd.stderr.strip()) == (
        2,
        "--policy x: no '='; write RULE=error, RULE=warning or RULE=off",
    )
    facts = run(file(tmp_path, KUBERAY_SAMPLE), "--environment", file(tmp_path, "pool: {}", "e.yaml"))
    assert facts.exit_code == 2
    assert "pool: unknown key; did you mean 'pools'?" in facts.stderr


def test_the_table_keeps_brackets_of_messages_and_counts(tmp_path: Path) -> None:
    result = run(file(tmp_path, LEADER_WORKER_SET))
    assert "1 objects judged: 2 errors, 3 warnings" in result.output
    assert "network-shared-memory" in result.output
    claim = PRODUCTION_STACK.replace("mountPath: /dev/shm", "mountPath: /shm").replace("[{mountPath", "[{mountPath")
    assert "volumeMounts: [{name: shm, mountPath: /dev/shm}]" in " ".join(run(file(tmp_path, claim)).output.split())


def test_it_runs_as_a_module_without_pulumi(tmp_path: Path) -> None:
    code = "import sys, runpy; sys.argv=['judge', sys.argv[1]]; sys.modules['pulumi']=None; runpy.run_module('policies.judge', run_name='__main__')"
    result = subprocess.run(
        [sys.executable, "-c", code, file(tmp_path, DATA_ON_EKS)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stderr
    assert "upgrade-head-service" in result.stdout
