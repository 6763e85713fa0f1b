"""Sleep mode: an allocator of its own, beside which PyTorch's expandable segments must be off.

Not for: KV connectors and expandable segments (model_use.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import switch
from policies.finding import Problem, Rule, error, warning

from ._engines import literal_env, on_gpus, vllm_version
from ._values import before

_OLD, _NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
_SWITCHES_SINCE = "0.18"  # merged in April 2026; before 0.18 it is certainly not there


def segments(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        if not switch(seat.args.get("enable_sleep_mode")):
            continue
        old, new = (
            "expandable_segments:true" in (literal_env(seat, name) or "").replace(" ", "").lower()
            for name in (_OLD, _NEW)
        )
        if old and before(vllm_version(stack, seat.workload), _SWITCHES_SINCE):
            yield error(
                seat.engine.where,
                f"enable_sleep_mode and expandable_segments:True in {_OLD}: this vLLM refuses the two together",
                "take expandable_segments out",
            )
        elif new and not old:
            yield warning(
                seat.engine.where,
                f"enable_sleep_mode and expandable_segments:True in {_NEW}: vLLM turns them off for its own memory only where {_OLD} says so, and PyTorch's pools do not work with them",
                f"write it as {_OLD}, or take expandable_segments out",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-sleep-mode",
        title="Sleep mode and expandable segments do not meet",
        why=(
            "Weights and cache that can be put to sleep come from a pool that PyTorch cannot fill with expandable segments. vLLM refused the pair at first; since "
            "PR#40812 it turns them off for the pool, if it finds them in PYTORCH_CUDA_ALLOC_CONF."
        ),
        check=segments,
        sources=("vllm PR#40812", "vllm PR#14189", "huggingface/trl PR#5794", "vllm 0.29.0: device_allocator/cumem.py"),
    ),
)
