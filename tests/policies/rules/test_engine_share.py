"""Each test breaks one thing about shares of a GPU: the form, the bundles, the environment, the memory."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts import Sharing, Stack

from .engine_stacks import (
    MIDDLE,
    SMALL,
    args,
    at,
    disaggregated,
    found,
    kai_part,
    large,
    model,
    on_cpu,
    plain,
    pools,
    sentences,
    shared,
    sliced,
    whole,
    with_engine,
    with_pool,
    with_workers,
)
from .stacks import core, h100, l4, service, stack, workers

FORM = ("gpu-share-form", "error")
BUNDLES = ("gpu-share-bundles", "error")
ENVIRONMENT = ("gpu-share-environment", "error")
MEMORY = ("gpu-memory-share", "error")
PER_WORKER = "VLLM_RAY_PER_WORKER_GPUS"


def bundles(given: Stack, *values: Any, form: str = "bundles") -> Stack:
    """The stack with bundles of these GPU values."""
    return with_engine(given, bundles=tuple({"GPU": v, "CPU": 1} for v in values), bundles_form=form)


@pytest.mark.parametrize("number", [1, 0.4, "0.4", 0.05])
def test_a_gpu_of_the_replica_actor_is_added_to_the_bundle(number: Any) -> None:
    assert FORM in found(with_engine(whole(), ray_actor_options={"num_gpus": number}))


def test_both_forms_together_reserve_twice() -> None:
    given = with_engine(shared(), ray_actor_options={"num_gpus": 0.49})
    assert sentences(given, "gpu-share-form") == [
        "service 'chat': model 'm': ray_actor_options.num_gpus 0.49 is added to the engine's first bundle of GPU 0.49, so a replica "
        "reserves 0.98 of a GPU and its engine works with 0.49; take num_gpus out; the share belongs in the bundle (gpu.share of the "
        "model, or placement.bundle_per_worker: {GPU: 0.49, CPU: 1}) [gpu-share-form]"
    ]


@pytest.mark.parametrize("number", [None, 0, 0.0, "0"])
def test_no_gpu_of_the_replica_actor_is_right(number: Any) -> None:
    assert found(with_engine(whole(), ray_actor_options={"num_gpus": number, "num_cpus": 1})) == []


@pytest.mark.parametrize("number", ["one", -1, [1]])
def test_a_count_that_is_no_number_is_said(number: Any) -> None:
    assert FORM in found(with_engine(whole(), ray_actor_options={"num_gpus": number}))


def test_a_cpu_engine_asks_for_no_gpu() -> None:
    assert FORM in found(with_engine(on_cpu(), ray_actor_options={"num_gpus": 1}))


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        (bundles(whole(), 1.4, form="bundle_per_worker"), "error"),
        (bundles(whole(), 2), "error"),
        (bundles(whole(), "half"), "error"),
        (bundles(whole(), -1), "error"),
        (bundles(whole(), 1, 1), "warning"),
        (bundles(large(), 1, 1, 1), "error"),
        (bundles(large(), 1, 1, 1, 0.5), "error"),
        (bundles(large(), 1, 1, 1, 1, 1), "warning"),
    ],
)
def test_bundles_are_one_for_each_worker_with_at_most_one_gpu(given: Stack, severity: str) -> None:
    assert ("gpu-share-bundles", severity) in found(given)


def test_the_sentence_of_missing_bundles_counts_workers() -> None:
    assert sentences(bundles(large(), 1, 1), "gpu-share-bundles") == [
        "service 'chat': model 'm': 4 engine workers (tensor 4 x pipeline 1) need 4 bundles with a GPU and the placement group has 2; "
        "give 4 bundles, or bundle_per_worker, which makes as many as there are workers [gpu-share-bundles]"
    ]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({PER_WORKER: "0.49"}, []),
        ({}, []),  # Ray 2.60 sets it from the bundle
        ({PER_WORKER: "0.6"}, [ENVIRONMENT]),
        ({PER_WORKER: "0.25"}, [ENVIRONMENT]),
        ({PER_WORKER: "half"}, [ENVIRONMENT]),
        ({PER_WORKER: "2"}, [ENVIRONMENT]),
        ({PER_WORKER: "0"}, [ENVIRONMENT]),
    ],
)
def test_the_variable_equals_the_bundle(env: dict[str, str], expected: list[tuple[str, str]]) -> None:
    assert found(with_engine(shared(), env=env)) == expected


def test_a_fraction_without_the_variable_starts_only_from_ray_2_60_on() -> None:
    older = at(with_engine(shared(), env={}), "2.59.0", "0.27.0")
    assert sentences(older, "gpu-share-environment") == [
        "service 'chat': model 'm': its bundle has GPU 0.49 and VLLM_RAY_PER_WORKER_GPUS is not set: before Ray 2.60 the engine then "
        'asks for a whole GPU inside that bundle and never starts; set VLLM_RAY_PER_WORKER_GPUS: "0.49" in the runtime_env of the '
        "engine (gpu.share writes both) [gpu-share-environment]"
    ]
    in_pods = with_workers(older, env={PER_WORKER: "0.49"})
    assert found(in_pods) == []


def test_a_variable_without_bundles_shares_nothing() -> None:
    assert found(with_engine(large(), env={PER_WORKER: "0.6"}, bundles=(), bundles_form="none")) == [ENVIRONMENT]
    assert found(with_engine(whole(), env={PER_WORKER: "1"})) == []


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.6, True), (0.75, True), (0.8, False), (0.5, False), (0.34, False), (0.95, False)],
)
def test_a_share_over_one_half_strands_the_rest(share: float, expected: bool) -> None:
    given = shared(bundles=({"GPU": share, "CPU": 1},), env={PER_WORKER: f"{share}"}, min_replicas=1, max_replicas=1)
    assert (("gpu-share-stranded", "warning") in found(given)) is expected


def test_a_smaller_model_beside_it_takes_the_rest() -> None:
    def own(name: str, share: float) -> Any:
        return model(
            SMALL, model_id=name, where=f"service 'chat': model '{name}'", bundles=({"GPU": share, "CPU": 1},), min_replicas=1,
            max_replicas=1, env={PER_WORKER: f"{share}"}, engine_args={"max_model_len": 4096, "gpu_memory_utilization": share - 0.08},
        )  # fmt: skip

    assert found(stack(workloads=(service(engines=(own("a", 0.6), own("b", 0.4))),))) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(shared(), gpu_memory_utilization=0.49), ("gpu-memory-sum", "warning")),
        (args(shared(), gpu_memory_utilization=0.5), MEMORY),
        (args(shared(), gpu_memory_utilization=None), MEMORY),
        (args(shared(), gpu_memory_utilization=None, kv_cache_memory_bytes=2**30), MEMORY),
        (args(kai_part(), gpu_memory_utilization=0.9), MEMORY),
        (args(kai_part(), gpu_memory_utilization=None), MEMORY),
        (with_workers(kai_part(), annotations={"gpu-memory": "4000"}), MEMORY),
        (args(sliced(), gpu_memory_utilization=0.3), MEMORY),
        (with_pool(args(sliced(), gpu_memory_utilization=0.3), sharing=Sharing(strategy="mps", replicas=4)), ("gpu-memory-share", "warning")),
    ],
)  # fmt: skip
def test_memory_stays_within_the_share(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


def test_the_sentence_of_too_much_memory_names_share_and_default() -> None:
    assert sentences(args(kai_part(), gpu_memory_utilization=None), "gpu-memory-share") == [
        "service 'chat': model 'm': gpu_memory_utilization is not set and 0.92 by default, a part of the whole GPU, and its KAI share is "
        "0.5: nothing holds it to the share, and the next engine on that GPU finds no memory; set gpu_memory_utilization to at most "
        "0.46 (the share less head-room), or leave it to gpu.share [gpu-memory-share]"
    ]


def test_an_engine_that_is_alone_on_its_gpu_may_take_more_with_a_warning() -> None:
    alone = shared(
        bundles=({"GPU": 0.9, "CPU": 1},), env={PER_WORKER: "0.9"}, min_replicas=1, max_replicas=1,
        engine_args={"max_model_len": 4096, "gpu_memory_utilization": 0.92},
    )  # fmt: skip
    assert found(alone) == [("gpu-memory-share", "warning")]


def test_vgpu_and_mig_show_a_device_of_the_slices_size() -> None:
    mig = Sharing(strategy="mig", mig_strategy="mixed", mig_profile="3g.40gb")
    given = with_workers(whole(), gpu_resource="nvidia.com/mig-3g.40gb", limits={"nvidia.com/mig-3g.40gb": "1"})
    given = pools(with_workers(given, node_selector={"llm-serving/pool": "h100"}), h100(sharing=mig, efa=False))
    assert found(args(given, gpu_memory_utilization=0.92)) == []


def half(name: str, used: float, replicas: int = 1) -> Any:
    return model(
        SMALL, model_id=name, where=f"service 'chat': model '{name}'", bundles=({"GPU": 0.5, "CPU": 1},), min_replicas=replicas,
        max_replicas=replicas, env={PER_WORKER: "0.5"}, engine_args={"max_model_len": 2048, "gpu_memory_utilization": used},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(0.45, 0.44, []), (0.47, 0.46, [("gpu-memory-sum", "warning")]), (0.5, 0.5, [("gpu-memory-sum", "error")])],
)
def test_engines_on_one_gpu_leave_room_for_their_contexts(
    first: float, second: float, expected: list[tuple[str, str]]
) -> None:
    given = stack(workloads=(service(engines=(half("a", first), half("b", second))),))
    assert found(given) == expected


def test_large_cards_need_less_room_in_proportion() -> None:
    def given(used: float) -> Stack:
        group = workers(
            name="h100", node_selector={"llm-serving/pool": "h100"}, gpus=8.0, resources={"CPU": "60", "GPU": "8"}
        )
        own = [half("a", used, 8), half("b", used, 8)]
        own = [type(e)(**{**{f: getattr(e, f) for f in e.__slots__}, "groups": ("h100",)}) for e in own]
        return stack(workloads=(service(engines=tuple(own), groups=(group,)),), pools=(core(), h100(efa=False)))

    assert found(given(0.47)) == []
    assert found(given(0.49)) == [("gpu-memory-sum", "warning")]


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        (1.0, "error"),
        (0.999, "error"),
        (1.5, "error"),
        (0, "error"),
        (-0.1, "error"),
        ("most", "error"),
        (0.97, "warning"),
    ],
)
def test_gpu_memory_utilization_leaves_room_for_the_context(given: Any, severity: str) -> None:
    assert ("gpu-memory-utilization", severity) in found(args(whole(), gpu_memory_utilization=given))


@pytest.mark.parametrize("given", [0.95, 0.9, "0.9", None])
def test_usual_values_of_gpu_memory_utilization_pass(given: Any) -> None:
    assert found(args(whole(), gpu_memory_utilization=given)) == []


def test_less_memory_alone_shares_nothing() -> None:
    def own(name: str, used: float) -> Any:
        return model(MIDDLE if used > 0.5 else SMALL, model_id=name, where=f"service 'chat': model '{name}'", min_replicas=1, max_replicas=1,
                     engine_args={"max_model_len": 2048, "gpu_memory_utilization": used})  # fmt: skip

    two = (own("a", 0.5), own("b", 0.3))
    assert ("gpu-memory-only", "error") in found(stack(workloads=(service(engines=two),), pools=(core(), l4(max=1))))
    assert found(stack(workloads=(service(engines=two),))) == [("gpu-memory-only", "warning")]
    assert found(stack(workloads=(service(engines=(own("a", 0.8), own("b", 0.85))),))) == []


def test_other_kinds_of_engines_have_no_share_to_judge() -> None:
    assert found(plain()) == []
    assert found(disaggregated()) == []
