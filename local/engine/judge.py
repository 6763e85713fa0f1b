"""Ray's and vLLM's own judgement of plain data: one JSON request a line on standard input, one JSON answer a line on standard output.

Runs inside the engine environment (client.py starts it) and imports nothing of ours but serve_apps; no Ray cluster is started and
no weights are read. A request is {"kind": ..., ...}, an answer {"ok": true, "result": ...} or {"ok": false, "error": "..."}.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import traceback
from functools import cache
from types import SimpleNamespace
from typing import Any


def llm_config(config: dict[str, Any]) -> dict[str, Any]:
    """What Ray Serve LLM makes of an LLMConfig: bundles, environment, autoscaling. Raises what Ray raises."""
    from ray.llm._internal.serve.core.server.builder import build_llm_deployment
    from ray.serve.llm import LLMConfig

    _without_cluster()
    parsed = LLMConfig(**copy.deepcopy(config))
    engine = parsed.get_engine_config()
    deployment = build_llm_deployment(parsed)._bound_deployment
    return {
        "engine": {
            "bundles": engine.placement_bundles,
            "strategy": engine.placement_strategy,
            "kwargs": engine.get_initialization_kwargs(),
            "env_vars": engine.get_runtime_env_with_local_env_vars().get("env_vars", {}),
        },
        "deployment": _deployment(deployment),
    }


def build_app(import_path: str, args: dict[str, Any]) -> dict[str, Any]:
    """The deployments of an application, as Serve builds it from a config file: the ingress's name and the options of each."""
    from ray._common.utils import import_attr
    from ray.serve._private.api import call_user_app_builder_with_args_if_necessary
    from ray.serve._private.build_app import build_app as build

    _without_cluster()
    app = call_user_app_builder_with_args_if_necessary(import_attr(import_path), copy.deepcopy(args))
    # Handles are how deployments call each other in a cluster; there is none.
    built = build(app, name="app", make_deployment_handle=lambda deployment, name: (deployment.name, name))
    return {
        "ingress": built.ingress_deployment_name,
        "deployments": [_deployment(deployment) for deployment in built.deployments],
    }


def _without_cluster() -> None:
    """Builders ask the cluster for one thing, the driver's runtime environment. It is empty, as in a job of a config file."""
    import ray
    from ray.cloudpickle import cloudpickle

    ray.get_runtime_context = lambda: SimpleNamespace(runtime_env={})
    # Nobody unpickles what is built here, and the search of all modules for what an unpickler must import is most of the time.
    cloudpickle._find_imported_submodules = lambda code, top_level_dependencies: []


def _deployment(deployment: Any) -> dict[str, Any]:
    config, replica = deployment._deployment_config, deployment._replica_config
    return {
        "name": deployment.name,
        "num_replicas": config.num_replicas,
        "max_ongoing_requests": config.max_ongoing_requests,
        "autoscaling": config.autoscaling_config.model_dump(mode="json", exclude_unset=True)
        if config.autoscaling_config
        else None,
        "bundles": replica.placement_group_bundles,
        "strategy": replica.placement_group_strategy,
        "ray_actor_options": replica.ray_actor_options,
        "gang_size": config.gang_scheduling_config.gang_size if config.gang_scheduling_config else None,
        "router": getattr(config.request_router_config, "request_router_class", None),
    }


def serve_schema(config: dict[str, Any]) -> dict[str, Any]:
    """A Serve config file (serveConfigV2) through Serve's own schema, with all defaults."""
    from ray.serve.schema import ServeDeploySchema

    parsed: dict[str, Any] = ServeDeploySchema.model_validate(config).model_dump(mode="json")
    return parsed


def engine_args(kwargs: dict[str, Any], gpu: dict[str, Any] | None = None) -> dict[str, Any]:
    """vLLM engine arguments through vLLM's own checks, with a model folder that has at least a config.json: what they resolve to.

    `gpu` is the device to check them for, {name, capability: [major, minor], memory: bytes}, in a judge started for GPUs; else the CPU.
    """
    _be(gpu)
    return _resolved(_vllm_config(kwargs))


def command_line(words: list[str]) -> dict[str, Any]:
    """The command line of vLLM's OpenAI server (`--model=...`) through its own parser: the values that differ from the defaults."""
    parsed, defaults = _parsed(words), _parsed([])
    return {key: value for key, value in sorted(vars(parsed).items()) if value != getattr(defaults, key, None)}


def server(words: list[str], gpu: dict[str, Any] | None = None) -> dict[str, Any]:
    """A command line as command_line, and then the engine that it asks for as engine_args."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    _be(gpu)
    arguments = AsyncEngineArgs.from_cli_args(_parsed(words))
    arguments.skip_tokenizer_init = True
    return _resolved(arguments.create_engine_config())


def _be(gpu: dict[str, Any] | None) -> None:
    if gpu is not None:
        import pretended_gpu  # type: ignore[import-not-found]  # beside this file

        pretended_gpu.be(gpu["name"], tuple(gpu["capability"]), gpu["memory"])


def _resolved(config: Any) -> dict[str, Any]:
    return {
        "architecture": config.model_config.architecture,
        "dtype": str(config.model_config.dtype),
        "max_model_len": config.model_config.max_model_len,
        "quantization": config.model_config.quantization,
        "kv_cache_dtype": str(config.cache_config.cache_dtype),
        "block_size": config.cache_config.block_size,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "max_num_batched_tokens": config.scheduler_config.max_num_batched_tokens,
        "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
        "pipeline_parallel_size": config.parallel_config.pipeline_parallel_size,
    }


@cache
def _parser() -> Any:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser())


def _parsed(words: list[str]) -> Any:
    from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args

    parser = _parser()
    heard: list[str] = []
    parser.error = heard.append
    parsed = parser.parse_args(words)
    if heard:
        raise ValueError("; ".join(heard))
    if (parsed.model_tag or "").startswith("--"):  # argparse takes an unknown flag with a blank in it for a positional
        raise ValueError(f"unrecognized arguments: {parsed.model_tag}")
    validate_parsed_serve_args(parsed)
    return parsed


def kv_bytes(kwargs: dict[str, Any]) -> dict[str, Any]:
    """KV cache of one GPU of a model folder, from the layers that vLLM itself makes (on the meta device: no weights).

    The answer: `layers`, one an attention layer that keeps a cache: kind, bytes a token and sliding window, if it has one.
    """
    from vllm_layers import layers  # type: ignore[import-not-found]  # beside this file

    return {"layers": layers(_vllm_config(kwargs))}


def _vllm_config(kwargs: dict[str, Any]) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs

    return AsyncEngineArgs(**{"skip_tokenizer_init": True, **kwargs}).create_engine_config()


KINDS = {
    function.__name__: function
    for function in (llm_config, build_app, serve_schema, engine_args, command_line, server, kv_bytes)
}


def _answer(line: str) -> dict[str, Any]:
    try:
        request = json.loads(line)
        function = KINDS[request.pop("kind")]
        return {"ok": True, "result": function(**request)}
    except (Exception, SystemExit) as error:
        return {
            "ok": False,
            "error": str(error) or repr(error),
            "type": type(error).__name__,
            "traceback": traceback.format_exc(),
        }


def main() -> None:
    """Answer until standard input ends."""
    # Ray and vLLM print to standard output: that goes to standard error, and the answers to the real one.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if os.environ.get("JUDGE_GPU"):
        import pretended_gpu

        pretended_gpu.install()
    for line in sys.stdin:
        with contextlib.redirect_stdout(sys.stderr):
            answer = _answer(line)
        answers.write(json.dumps(answer, default=str) + "\n")


if __name__ == "__main__":
    main()
