"""What an image with the serve apps changes in vLLM, as a plugin that vLLM loads into each process of an engine.

Found by serve_apps.dist-info, which lies beside the package in an image. Not for engines on GPUs: they are left as they are.
"""

from __future__ import annotations

import inspect
import logging
from functools import partialmethod

CPU_SPIN_SECONDS = 0.002
"""How long a process of a CPU engine looks for the next message before it sleeps until it is told.

vLLM's own is 1 s with sched_yield (distributed/device_communicators/shm_broadcast.py, 0.29.0): longer than any step, so engine
core and workers never sleep under load and take the cores that compute. Two that yield on one core also keep the pods of other
control groups off it (zero_vruntime of the Linux scheduler, 6.18): the client then waited 6.4 of 6 s on two threads.
Upstream's own proposals come to 2 ms as well (vllm#52916).
"""


def cpu_waits() -> None:
    """Shorten the spin of engines on CPU; where vLLM has none to shorten, say so and leave it."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.distributed.device_communicators import shm_broadcast

    condition = getattr(shm_broadcast, "SpinCondition", None)
    if condition is None or "busy_loop_s" not in inspect.signature(condition.__init__).parameters:
        logging.getLogger(__name__).warning(
            "this vLLM has no busy_loop_s in SpinCondition: its waits are left as they are"
        )
        return
    condition.__init__ = partialmethod(condition.__init__, busy_loop_s=CPU_SPIN_SECONDS)
