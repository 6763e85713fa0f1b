"""Small GPU pods that spread over the nodes which a large one needs, and what packs them."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts import Stack, Workload

from .stacks import GPU, engine, h100, kai_stack, release, sentences, service, stack, volcano_stack, workers

PACKS_GPUS = "tiers: [{plugins: [{name: binpack, arguments: {binpack.weight: 10, binpack.resources: nvidia.com/gpu}}]}]"


def on_h100(name: str, gpus: int, pods: int, most: int | None = None, **over: Any) -> Workload:
    """A service with pods of so many H100."""
    group = workers(
        name="h100",
        where=f"service '{name}': worker group 'h100'",
        cpu_milli=8000 * gpus,
        memory_mib=65536 * gpus,
        limits={GPU: str(gpus)},
        gpus=float(gpus),
        min=pods,
        replicas=pods,
        max=most or pods,
        resources={},
        node_selector={"llm-serving/pool": "h100"},
        **over,
    )
    own = engine(where=f"service '{name}': model '{name}'", tensor=gpus, groups=("h100",))
    return service(
        name=name,
        where=f"service '{name}'",
        groups=(group,),
        engines=(own,),
        autoscaling=most is not None,
        upgrade_type="None",
    )


def cluster(*workloads: Workload, nodes: int = 4, base: Stack | None = None, **over: Any) -> Stack:
    pool = h100(max=nodes, efa=False)
    given = base or stack()
    return stack(
        **{
            "workloads": workloads,
            "pools": (given.pools[0], pool),
            "releases": given.releases,
            "batch_scheduler": given.batch_scheduler,
            "queues": given.queues,
            **over,
        }
    )


def said(given: Stack) -> list[str]:
    return sentences(given, "capacity-fragmentation")


def test_single_gpu_pods_leave_no_node_whole_though_the_gpus_would_do() -> None:
    given = cluster(on_h100("small", 1, 8), on_h100("large", 8, 2))
    assert said(given) == [
        "service 'large': its pods take 8 GPUs of one node of node pool 'h100', which has 8; 8 pods of service 'small' take 1 and spread over the pool's 4 nodes at "
        "rest, so that none is free enough though the GPUs would do; give them pools of their own, raise the pool's max, or pack them: software.batch_scheduler "
        "kai, or volcano with binpack.resources [capacity-fragmentation]"
    ]


def test_it_is_said_at_full_load_where_it_happens_only_there() -> None:
    given = cluster(on_h100("small", 1, 1, most=8), on_h100("large", 8, 1, most=2))
    (sentence,) = said(given)
    assert "spread over the pool's 4 nodes at full load" in sentence


@pytest.mark.parametrize(
    "given",
    [
        cluster(on_h100("a", 8, 2), on_h100("b", 8, 2)),  # all alike
        cluster(on_h100("small", 1, 2), on_h100("large", 8, 2)),  # two nodes stay whole
        cluster(on_h100("small", 1, 8), on_h100("large", 8, 2), nodes=10),  # enough nodes for any order
        cluster(on_h100("small", 2, 4), on_h100("large", 4, 4)),  # halves are left on every node
        cluster(on_h100("small", 1, 9), on_h100("large", 8, 4)),  # the sums do not fit: capacity-pool says so
        cluster(on_h100("small", 1, 8, scheduler_name="packing"), on_h100("large", 8, 2, scheduler_name="packing")),
        cluster(on_h100("small", 1, 8), on_h100("large", 8, 2), base=kai_stack()),
        cluster(
            on_h100("small", 1, 8),
            on_h100("large", 8, 2),
            base=volcano_stack(
                releases=(release("volcano", "1.15.1", {"custom": {"scheduler_config_override": PACKS_GPUS}}),)
            ),
        ),
    ],
)
def test_what_packs_or_has_room_is_left_alone(given: Stack) -> None:
    assert said(given) == []


def test_volcano_counts_cpu_and_memory_only_unless_told() -> None:
    given = cluster(on_h100("small", 1, 8), on_h100("large", 8, 2), base=volcano_stack())
    assert len(said(given)) == 1


def test_kai_that_is_told_to_spread_spreads() -> None:
    spread = release("kai-scheduler", "v0.17.0", {"scheduler": {"placementStrategy": "spread"}})
    given = cluster(on_h100("small", 1, 8), on_h100("large", 8, 2), base=kai_stack(releases=(spread,)))
    assert len(said(given)) == 1
