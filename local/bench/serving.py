"""What the stack costs: the same prompts against bare vLLM and against the stack's endpoint, in turn.

Run: python -m local.bench.serving (the stack must be up). Bare vLLM gets the engine arguments and environment of the stack's own
engine, read from the live RayService, but for thread binding, and no CPU limit. Goal: at least 0.9 of bare vLLM's requests a second at concurrency 8, and at
most 20 ms more to the median first token. With --plain the same model is also served by a plain vLLM Deployment, in turn with the others:
what Ray costs, for who asks which kind to take; and what the pods of each hold at rest.
"""

from __future__ import annotations

import json
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from local import endpoint, kubectl, stack
from local.bench import compare, kinds, servers
from local.errors import LocalError
from local.progress import console

RATIO_GOAL = 0.9
FIRST_TOKEN_GOAL_MS = 20.0


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine of the stack, as its RayService says."""

    name: str
    folder: str
    kwargs: dict[str, Any]
    env: dict[str, str]


def engine_of(ray_service: dict[str, Any]) -> Engine:
    """The first engine of a RayService manifest. Raises LocalError when it serves none on CPU."""
    config = json.loads(ray_service["spec"]["serveConfigV2"])
    models = config["applications"][0].get("args", {}).get("llm_configs", [])
    if not models or models[0].get("accelerator_config") != {"kind": "cpu"}:
        raise LocalError(
            "the stack serves no engine on CPU to compare with", fix="make up, with the config of the local stack"
        )
    model = models[0]
    container = ray_service["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    env = {entry["name"]: entry["value"] for entry in container.get("env", []) if "value" in entry}
    env |= model.get("runtime_env", {}).get("env_vars", {})
    return Engine(
        name=model["model_loading_config"]["model_id"],
        folder=model["model_loading_config"]["model_source"],
        kwargs=model["engine_kwargs"],
        # how threads are bound is left to vLLM's own default: that it is set otherwise is what the stack does for an engine
        env={
            key: value
            for key, value in env.items()
            if key.startswith(("VLLM_", "LD_PRELOAD", "HF_")) and key != "VLLM_CPU_OMP_THREADS_BIND"
        },
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(
    service: Annotated[str, typer.Option(help="Service of the stack.")] = "chat",
    concurrency: Annotated[str, typer.Option(help="Concurrent requests, a list.")] = "1,8,32",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each endpoint at each concurrency.")] = 3,
    requests: Annotated[int, typer.Option(min=4, help="Requests a round at concurrency 8.")] = 32,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of each answer.")] = 32,
    plain: Annotated[bool, typer.Option(help="Plain vLLM in a Deployment as well.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for serving.json and serving.png.")] = Path("build/bench"),
) -> None:
    """Measure, print the table, write the figures and the plot."""
    endpoints = stack.outputs().get("contract", {}).get("endpoints", {})
    if service not in endpoints:
        raise LocalError(f"the stack exports no endpoint '{service}'", fix="make up")
    served = endpoints[service]
    engine = engine_of(kubectl.read_one("rayservice", served["namespace"], service))
    with ExitStack() as running:
        url = running.enter_context(endpoint.reach(served["namespace"], served["service"], served["port"]))
        others = [compare.Endpoint(name="stack", url=url, model=engine.name)]
        if plain:
            plain_url = running.enter_context(kinds.plain(service))
            others.append(compare.Endpoint(name=kinds.PLAIN, url=plain_url, model=engine.name))
            console.print(kinds.at_rest(served["namespace"], [service, kinds.PLAIN]))
        bare_url = running.enter_context(
            servers.bare(engine.folder, engine.name, engine.kwargs, engine.env, _free_port())
        )
        measured = [compare.Endpoint(name="bare vLLM", url=bare_url, model=engine.name), *others]
        result = compare.measure(
            measured,
            concurrencies=[int(word) for word in concurrency.split(",")],
            rounds=rounds,
            requests=requests,
            tokens=tokens,
        )
    names = [one.name for one in measured]
    console.print(compare.table(result, names))
    compare.save(result, output / "serving.json")
    compare.plot(result, names, output / "serving.png")
    console.print(f"{output / 'serving.json'}, {output / 'serving.png'}")
    if problem := compare.disturbed(result):
        raise LocalError(problem, fix="a machine with nothing else to do")
    if 8 in result:
        console.print(verdict(result[8][names[0]], result[8][names[1]]))


def verdict(bare: compare.Figures, ours: compare.Figures) -> str:
    """Whether the goals hold, in a line."""
    ratio, more = ours.requests_per_second / bare.requests_per_second, ours.first_p50 - bare.first_p50
    kept = "kept" if ratio >= RATIO_GOAL and more <= FIRST_TOKEN_GOAL_MS else "missed"
    return (
        f"at concurrency 8: {ratio:.2f} of bare vLLM's throughput (goal {RATIO_GOAL}), {more:+.0f} ms to the median first token "
        f"(goal +{FIRST_TOKEN_GOAL_MS:.0f}): {kept}"
    )


def run() -> None:
    """`python -m local.bench.serving`."""
    try:
        typer.run(main)
    except LocalError as error:
        console.print(f"[red]error[/red]: {error.problem}\n  to fix: {error.fix}", soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    run()
