"""Does this model fit on that GPU, and if not, what is the smallest change that makes it fit?

For: the plan and the rules; pure arithmetic on catalog rows, microseconds an answer. Not for: performance, price (see
catalog/instances.py) or anything that needs a network.
"""

from policies.fit.advice import Change, largest_max_model_len, minimum_gpus, what_would_fit
from policies.fit.divisible import Problem, divisibility, valid_tensor_parallel_sizes
from policies.fit.estimate import MemoryEstimate, Verdict, estimate, largest_utilization, rank_estimates
from policies.fit.shape import EngineShape, batch_defaults, pipeline_layers

__all__ = [
    "Change",
    "EngineShape",
    "MemoryEstimate",
    "Problem",
    "Verdict",
    "batch_defaults",
    "divisibility",
    "estimate",
    "largest_max_model_len",
    "largest_utilization",
    "minimum_gpus",
    "pipeline_layers",
    "rank_estimates",
    "valid_tensor_parallel_sizes",
    "what_would_fit",
]
