"""quantization_config of a checkpoint to the row's `quantization`. Not for: bytes (see policies/fit)."""

from collections.abc import Iterable, Mapping
from typing import Any

# (method as written, default bits, default group) for methods whose config does not say.
_DEFAULTS: dict[str, tuple[int, int | None]] = {
    "awq": (4, 128),
    "gptq": (4, 128),
    "fp8": (8, None),
    "mxfp4": (4, 32),
    "nvfp4": (4, 16),
    "bitsandbytes": (4, 64),
    "fbgemm_fp8": (8, None),
}


def read_quantization(config: Mapping[str, Any]) -> dict[str, Any]:
    """The `quantization` mapping of a row from a checkpoint's quantization_config.

    Knows awq, gptq, fp8, mxfp4, bitsandbytes, compressed-tensors and ModelOpt's forms; another method is taken with the
    bits it states, or 8.
    """
    if isinstance(config.get("quantization"), Mapping):  # hf_quant_config.json of ModelOpt
        config = {**config["quantization"], "quant_method": "modelopt"}
    method = str(config.get("quant_method") or config.get("quant_type") or "").lower()
    algorithm = str(config.get("quant_algo") or "").lower()
    if method == "compressed-tensors":
        bits, group = _compressed_tensors(config)
    elif algorithm:
        method = "modelopt_fp4" if "fp4" in algorithm else "modelopt"
        bits, group = (4, 16) if "fp4" in algorithm else (8, None)
    else:
        default_bits, default_group = _DEFAULTS.get(method, (8, None))
        bits = int(config.get("bits") or config.get("w_bit") or default_bits)
        group = config.get("group_size") or config.get("q_group_size") or default_group
        block = config.get("weight_block_size")
        if block:
            group = int(block[-1])
    if group is not None and group < 0:  # -1: one scale a channel
        group = None
    ignored = config.get("modules_to_not_convert") or config.get("ignore") or config.get("exclude_modules") or ()
    return {
        "method": method,
        "weight_bits": bits,
        "group_size": group,
        "unquantized": sorted(_components(ignored)),
    }


def _compressed_tensors(config: Mapping[str, Any]) -> tuple[int, int | None]:
    for group in (config.get("config_groups") or {}).values():
        weights = group.get("weights") or {}
        if weights.get("num_bits"):
            return int(weights["num_bits"]), weights.get("group_size")
    return 8, None


# What stands for a whole component in a list of kept modules. Norms, routers and the small projections of an indexer are
# kept by every checkpoint and say nothing.
_WHOLE = ("o_proj", "q_proj", "q_b_proj", "qkv", "gate_up", "gate_proj", "down_proj", "up_proj", "out_proj", "in_proj")


def _components(ignored: Iterable[str]) -> set[str]:
    """Components that the patterns keep whole. A pattern for a few single layers counts as none: most are quantised."""
    patterns = [str(pattern) for pattern in ignored]
    counts: dict[str, int] = {}
    for pattern in patterns:
        counts[_generic(pattern)] = counts.get(_generic(pattern), 0) + 1
    found = {"embedding", "lm_head"}
    for pattern in patterns:
        if any(part.isdigit() for part in pattern.split(".")) and counts[_generic(pattern)] <= 8:
            continue
        bare = pattern.rstrip("$.*")
        last = bare.rpartition(".")[2]
        if "norm" in last or not (any(part in last for part in _WHOLE) or _names_component(last)):
            continue
        if "shared_expert" in bare:
            found.add("shared_experts")
        elif "visual" in bare or "vision" in bare:
            found.add("vision")
        elif "linear_attn" in bare or "mixer" in bare:
            found.add("linear")
        elif "attn" in bare or "attention" in bare:
            found.add("attention")
        elif "mlp" in bare and "expert" not in bare:
            found.add("mlp")
    return found


def _names_component(last: str) -> bool:
    return last.lstrip("*") in (
        "self_attn",
        "attention",
        "mlp",
        "shared_experts",
        "shared_expert",
        "linear_attn",
        "visual",
    )


def _generic(pattern: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in pattern.split("."))
