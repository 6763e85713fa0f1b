"""What people write from habit: each is refused with the place, what was given, and what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import ConfigError, load_text, parse

CHAT = "service 'chat': model 'a': "


def chat(**model: Any) -> dict[str, Any]:
    return {"services": {"chat": {"models": {"a": model}}}}


def service(**given: Any) -> dict[str, Any]:
    return {"services": {"chat": given}}


def pool(**given: Any) -> dict[str, Any]:
    return {"node_pools": {"l4": {"instance_types": ["g6.2xlarge"], **given}}}


def nodes(**given: Any) -> dict[str, Any]:
    return {"node_pools": {"old": {"kind": "existing", "cpu": 8, "memory_gib": 32, **given}}}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        # one value where a mapping or a list belongs
        (chat(replicas=2), CHAT + "replicas: 2 was given; a mapping of keys is wanted: {min: 2, max: 2}"),
        (chat(parallel=2), CHAT + "parallel: 2 was given; a mapping of keys is wanted: {tensor: 2}"),
        (chat(gpu="L4"), CHAT + 'gpu: "L4" was given; a mapping of keys is wanted, of share, mig, headroom'),
        (chat(gpu=0.5), CHAT + "gpu: 0.5 was given; a mapping of keys is wanted: {share: 0.5}"),
        (
            service(fault_tolerance="redis"),
            "service 'chat': fault_tolerance: \"redis\" was given; a mapping of keys is wanted: {backend: redis}",
        ),
        (
            service(models={"a": "Qwen/Qwen3-8B"}),
            "service 'chat': model 'a': \"Qwen/Qwen3-8B\" was given; a mapping of keys is wanted: {model: Qwen/Qwen3-8B}",
        ),
        (
            service(models=[{"name": "a"}]),
            'service \'chat\': models: [{"name": "a"}] was given; a mapping by name is wanted, e.g. {a: {...}}',
        ),
        (
            service(env=[{"name": "A", "value": "b"}]),
            'service \'chat\': env: [{"name": "A", "value": "b"}] was given; a mapping by name is wanted, e.g. {A: ...}',
        ),
        (
            pool(instance_types="g6.2xlarge"),
            "node pool 'l4': instance_types: \"g6.2xlarge\" was given; a list is wanted, e.g. [g6.2xlarge]",
        ),
        # amounts with their unit
        (nodes(memory_gib="32Gi"), "node pool 'old': memory_gib: \"32Gi\" was given; a number of GiB is wanted: 32"),
        (nodes(memory_gib="512Mi"), "node pool 'old': memory_gib: \"512Mi\" was given; a number of GiB is wanted: 0.5"),
        (nodes(cpu="7500m"), "node pool 'old': cpu: \"7500m\" was given; a number of cores is wanted: 7.5"),
        (nodes(cpu="many"), "node pool 'old': cpu: \"many\" was given; a number is wanted"),
        (
            service(ready_timeout_seconds="30m"),
            "service 'chat': ready_timeout_seconds: \"30m\" was given; a whole number of seconds is wanted: 1800",
        ),
        (chat(gpu={"share": "50%"}), CHAT + 'gpu.share: "50%" was given; a part of 1 is wanted: 0.5'),
        (chat(gpu={"share": 50}), CHAT + "gpu.share: 50 was given; a part of 1 is wanted: 0.5"),
        ({"budget": {"usd_per_hour": "$50"}}, 'budget.usd_per_hour: "$50" was given; a number is wanted: 50'),
        # another spelling, another tool's word
        (
            pool(capacity="ON_DEMAND"),
            "node pool 'l4': capacity: \"ON_DEMAND\" was given; did you mean 'on_demand'? allowed: on_demand, spot",
        ),
        (
            service(kind="RayService"),
            "service 'chat': kind: \"RayService\" was given; did you mean 'ray_service'? allowed: ray_service, ray_cluster, ray_job, vllm",
        ),
        (
            service(upgrade={"strategy": "NewClusterWithIncrementalUpgrade"}),
            "service 'chat': upgrade.strategy: \"NewClusterWithIncrementalUpgrade\" was given; did you mean 'incremental'? "
            "allowed: new_cluster, incremental, none",
        ),
        (
            {"cluster": {"kind": "eks"}},
            "cluster.kind: \"eks\" was given; did you mean 'aws'? allowed: existing, aws",
        ),
        (
            pool(taints=[{"key": "a", "effect": "no_schedule"}]),
            "node pool 'l4': taints.0.effect: \"no_schedule\" was given; did you mean 'NoSchedule'? "
            "allowed: NoSchedule, PreferNoSchedule, NoExecute",
        ),
        (
            chat(parallel={"tensor_parallel_size": 2}),
            CHAT
            + "parallel: unknown key 'tensor_parallel_size'; did you mean 'tensor'? allowed: data, expert, pipeline, tensor",
        ),
        (
            chat(parallel={"tp": 2}),
            CHAT + "parallel: unknown key 'tp'; did you mean 'tensor'? allowed: data, expert, pipeline, tensor",
        ),
        (
            {"cluster": {"kind": "aws", "region": "us-east-1", "kubernetes_version": 1.35}},
            'cluster.kubernetes_version: 1.35 was given; text is wanted; write it in quotes, as it is meant: "1.35"',
        ),
        (
            service(env={"A": True}),
            "service 'chat': env.A: true was given; text is wanted; write it in quotes, as it is meant: \"true\"",
        ),
    ],
)
def test_a_habit_is_refused_with_what_to_write_instead(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(given)
    assert caught.value.problems == [says]


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        (service(huggingface_token="hf_abcdefghijklmnopqrstuvwxyz123456"), "hf_abc"),
        (service(secret_env={"KEY": "hunter2hunter2"}), "hunter2"),
        (service(env=[{"name": "HF_TOKEN", "value": "hf_abcdefghijklmnopqrstuvwxyz123456"}]), "hf_abc"),
        (service(env=[{"name": "DB_PASSWORD", "value": "hunter2"}]), "hunter2"),
        (service(models="hf_abcdefghijklmnopqrstuvwxyz123456"), "hf_abc"),
        (service(fault_tolerance={"redis_address": ["redis://:hunter2@redis:6379"]}), "hunter2"),
    ],
)
def test_no_sentence_repeats_a_secret(given: dict[str, Any], secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(given)
    assert not any(secret in problem for problem in caught.value.problems)


def test_numbers_and_switches_as_text_are_read() -> None:
    given = parse(service(create_namespace="true", models={"a": {"replicas": {"min": "1", "max": "3"}}}))
    chat = given.services["chat"]
    assert (chat.create_namespace, chat.models["a"].replicas.max) == (True, 3)


def test_a_mig_profile_is_read_in_each_spelling() -> None:
    for text in ("3g.40gb", "3G.40GB", "nvidia.com/mig-3g.40gb"):
        read = parse({**nodes(sharing={"strategy": "mig", "mig_profile": text}), **chat(gpu={"mig": text})})
        assert read.node_pools["old"].sharing.mig_profile == read.services["chat"].models["a"].gpu.mig == "3g.40gb"
    assert parse(chat(gpu={"mig": "all-3g.40gb"})).services["chat"].models["a"].gpu.mig == "3g.40gb"
    own = parse(nodes(sharing={"strategy": "mig", "mig_profile": "Team-A"}))
    assert own.node_pools["old"].sharing.mig_profile == "Team-A"


def test_one_address_is_the_range_that_holds_it() -> None:
    given = parse({"cluster": {"kind": "aws", "region": "us-east-1", "public_endpoint_cidrs": ["203.0.113.7"]}})
    assert given.cluster.public_endpoint_cidrs == ("203.0.113.7/32",)  # type: ignore[union-attr]


def test_a_key_that_is_there_twice_is_refused() -> None:
    text = "services:\n  chat: {}\n  chat: {kind: vllm}\n"
    with pytest.raises(ConfigError) as caught:
        load_text(text, "dev.yaml")
    assert caught.value.problems == [
        "dev.yaml:3:3: key 'chat' is there twice; the first one would be lost: keep one of them"
    ]
    assert (
        load_text("services: {chat: {<<: {kind: vllm}, kind: ray_service}}\n", "dev.yaml").services["chat"].kind
        == "ray_service"
    )
