"""Engine arguments about ranks and nodes that need another one, or another value of it: data parallel, several nodes, overlap.

Not for: parallel sizes against model and GPUs (parallelism.py). engine_needs.py reads them.
"""

from __future__ import annotations

from policies.facts.quantities import mapping, switch

from ._engines import Seat
from ._needs import Need, given, number, on

_BLOCKING = ("pynccl", "torch_nccl")
_UBATCHING = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


def _moves_experts(seat: Seat) -> bool:
    config = mapping(seat.args.get("eplb_config"))
    return switch(config.get("use_async")) is False or config.get("communicator") not in _BLOCKING


RANKS: tuple[Need, ...] = (
    Need(
        "data_parallel_external_lb",
        "data_parallel_rank",
        "leave it out: Ray, or the Service, spreads requests over the ranks",
        lambda seat: given(seat, "data_parallel_rank") or number(seat, "nnodes") > 1,
    ),
    Need(
        "data_parallel_external_lb",
        "no data_parallel_hybrid_lb beside it",
        "leave one of the two out",
        lambda seat: not given(seat, "data_parallel_hybrid_lb"),
    ),
    Need(
        "data_parallel_hybrid_lb",
        "data_parallel_size_local",
        "leave it out, or say how many ranks this node has",
        on("data_parallel_size_local"),
    ),
    Need(
        "data_parallel_multi_port_external_lb",
        "data_parallel_size over 1",
        "leave it out",
        lambda seat: seat.ray or number(seat, "data_parallel_size") > 1,
    ),
    Need(
        "data_parallel_rank",
        "data_parallel_size over 1",
        "leave it out",
        lambda seat: number(seat, "data_parallel_size") > 1,
    ),
    Need(
        "data_parallel_rank",
        "a rank below data_parallel_size",
        "count ranks from 0",
        lambda seat: number(seat, "data_parallel_rank", 0) < max(2, number(seat, "data_parallel_size")),
    ),
    Need(
        "data_parallel_rank",
        "data_parallel_size_local 1, or none",
        "leave data_parallel_size_local out",
        lambda seat: number(seat, "data_parallel_size_local") == 1,
    ),
    Need(
        "data_parallel_rank",
        "a model with experts",
        "leave data parallel out, and give the Deployment as many replicas",
        lambda seat: seat.row is None or seat.row.moe is not None or number(seat, "data_parallel_size") <= 1,
    ),
    Need(
        "data_parallel_size_local",
        "a data_parallel_size that is not less",
        "leave it out, or lower it",
        lambda seat: number(seat, "data_parallel_size_local") <= number(seat, "data_parallel_size"),
    ),
    Need(
        "enable_dbo",
        f"all2all_backend {', '.join(_UBATCHING[:-1])} or {_UBATCHING[-1]}",
        "set all2all_backend, or leave it out",
        lambda seat: seat.args.get("all2all_backend") in _UBATCHING,
    ),
    Need("enable_elastic_ep", "enable_eplb", "set enable_eplb: true", on("enable_eplb")),
    Need("enable_eplb", "enable_expert_parallel", "set parallel.expert: true", on("enable_expert_parallel")),
    Need(
        "enable_fault_tolerance",
        "data_parallel_rank or data_parallel_external_lb",
        "leave it out",
        on("data_parallel_external_lb", "data_parallel_rank"),
    ),
    Need(
        "eplb_config",
        f"another communicator than {' and '.join(_BLOCKING)} while use_async is on, as it is by default",
        "leave communicator out, or set use_async: false",
        _moves_experts,
    ),
    Need(
        "fault_tolerance_config",
        "data_parallel_rank or data_parallel_external_lb",
        "leave it out",
        on("data_parallel_external_lb", "data_parallel_rank"),
    ),
    Need(
        "nnodes",
        "parallel sizes that it divides",
        "leave it out; an engine over several pods is a ray_service",
        lambda seat: seat.ray or number(seat, "nnodes") <= 1 or seat.ranks % number(seat, "nnodes") == 0,
    ),
    Need(
        "nnodes",
        "data_parallel_backend mp",
        "leave data_parallel_backend out",
        lambda seat: seat.ray or number(seat, "nnodes") <= 1 or seat.args.get("data_parallel_backend", "mp") == "mp",
    ),
    Need(
        "node_rank",
        "an nnodes that is more",
        "count nodes from 0",
        lambda seat: seat.ray or number(seat, "node_rank", 0) < max(1, number(seat, "nnodes")),
    ),
    Need("numa_bind_cpus", "numa_bind", "set numa_bind: true", on("numa_bind")),
    Need("numa_bind_nodes", "numa_bind", "set numa_bind: true", on("numa_bind")),
    Need("ray_workers_use_nsight", "Ray", "leave it out", lambda seat: seat.ray),
    Need(
        "ubatch_size",
        f"all2all_backend {', '.join(_UBATCHING[:-1])} or {_UBATCHING[-1]}",
        "set all2all_backend, or leave it out",
        lambda seat: number(seat, "ubatch_size") <= 1 or seat.args.get("all2all_backend") in _UBATCHING,
    ),
)
