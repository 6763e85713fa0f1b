"""Does this model fit on that GPU, and if not, what is the smallest change that makes it fit?

For: the plan and the rules; pure arithmetic on catalog rows, microseconds an answer. Not for: performance, price (see
catalog/instances.py) or anything that needs a network.
"""

from policies.fit.estimate import MemoryEstimate, Verdict, estimate, largest_utilization, rank_estimates
from policies.fit.shape import EngineShape, batch_defaults, pipeline_layers

__all__ = [
    "EngineShape",
    "MemoryEstimate",
    "Verdict",
    "batch_defaults",
    "estimate",
    "largest_utilization",
    "pipeline_layers",
    "rank_estimates",
]
