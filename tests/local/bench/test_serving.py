"""The load counts what a server of known timing does, and two endpoints are compared by medians of their rounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from components.config import PROJECT, load_file
from components.plan import assemble
from local import stack
from local.bench import compare, kinds, load, servers, serving
from local.bench.load import Reply, Round
from local.errors import LocalError

FIRST_S, GAP_S = 0.08, 0.02


class Recorder:
    """What a test server saw."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.prompts: list[str] = []


@asynccontextmanager
async def server(status: int = 200) -> AsyncIterator[tuple[str, Recorder]]:
    """An OpenAI-style server: first token after FIRST_S, the others GAP_S apart, then the usage."""
    seen = Recorder()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        body = json.loads(await reader.readexactly(length))
        seen.prompts.append(body["messages"][0]["content"])
        seen.now += 1
        seen.most = max(seen.most, seen.now)
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".encode())
        for number in range(body["max_tokens"] + 1):
            await asyncio.sleep(0 if number == 0 else FIRST_S if number == 1 else GAP_S)
            content = "" if number == 0 else "word"
            piece = {"choices": [{"delta": {"role": "assistant", "content": content}}]}
            writer.write(f"data: {json.dumps(piece, separators=(',', ':'))}\n\n".encode())
            await writer.drain()
        usage = {"choices": [], "usage": {"completion_tokens": body["max_tokens"]}}
        writer.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        seen.now -= 1
        writer.close()

    running = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}", seen
    finally:
        running.close()


def test_the_load_sends_every_prompt_once_at_the_asked_concurrency_and_times_each_token() -> None:
    async def measure() -> tuple[Round, Recorder]:
        async with server() as (url, seen):
            return await load.run(url, "m", concurrency=4, requests=12, tokens=5), seen

    found, seen = asyncio.run(measure())
    assert seen.most == 4
    assert sorted(seen.prompts) == sorted(load.PROMPTS[:12])
    assert len(found.replies) == 12
    for reply in found.replies:
        assert reply.tokens == 5
        assert len(reply.gaps) == 4
        assert reply.first >= FIRST_S
        assert min(reply.gaps) >= 0
        assert sum(reply.gaps) >= 4 * GAP_S * 0.9
        assert reply.total >= reply.first + sum(reply.gaps)
    assert found.requests_per_second == pytest.approx(12 / found.seconds)
    assert found.tokens_per_second == pytest.approx(60 / found.seconds)


def test_a_refusal_ends_the_load_and_is_not_counted_as_an_answer() -> None:
    async def measure() -> None:
        async with server(status=500) as (url, _):
            await load.run(url, "m", concurrency=1, requests=1, tokens=2)

    with pytest.raises(httpx.HTTPStatusError, match="500"):
        asyncio.run(measure())


def test_percentiles_lie_between_neighbours_in_proportion() -> None:
    assert load.percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert load.percentile([1.0], 0.95) == 1.0
    assert load.percentile([0.0, 10.0], 0.95) == pytest.approx(9.5)
    with pytest.raises(ValueError, match="no values"):
        load.percentile([], 0.5)


def _round(first: float, seconds: float) -> Round:
    reply = Reply(first=first, gaps=(0.01, 0.03), total=first + 0.04, tokens=3)
    return Round(replies=(reply, reply), seconds=seconds)


def test_figures_are_medians_of_rounds_so_one_disturbed_round_does_not_count() -> None:
    figures = compare.figures([_round(0.1, 1.0), _round(0.1, 1.0), _round(5.0, 50.0)])
    assert figures.requests_per_second == 2.0
    assert figures.first_p50 == pytest.approx(100)
    assert figures.gap_p50 == pytest.approx(20)
    assert figures.rounds == 3


def test_the_table_gives_the_ratio_to_the_first_endpoint_and_the_plot_is_a_picture(tmp_path: Path) -> None:
    from rich.console import Console

    slow, fast = compare.figures([_round(0.2, 2.0)]), compare.figures([_round(0.1, 1.0)])
    result = {8: {"bare": fast, "stack": slow}}
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(compare.table(result, ["bare", "stack"]))
    text = console.export_text()
    assert "0.50" in text
    assert "+100 / +100" in text
    compare.plot(result, ["bare", "stack"], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    compare.save(result, tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["8"]["stack"]["requests_per_second"] == 1.0


def test_engine_arguments_become_words_of_vllms_command_line() -> None:
    words = servers.arguments({"max_model_len": 512, "enforce_eager": True, "enable_prefix_caching": False})
    assert words == ["--no-enable-prefix-caching", "--enforce-eager", "--max-model-len=512"]


def _ray_service(device: str) -> dict[str, object]:
    model = {
        "model_loading_config": {"model_id": "m", "model_source": "/opt/models/m"},
        "engine_kwargs": {"max_model_len": 512},
        "accelerator_config": {"kind": device},
        "runtime_env": {"env_vars": {"VLLM_CPU_KVCACHE_SPACE": "1"}},
    }
    env = [{"name": "VLLM_X", "value": "pod"}, {"name": "RAY_Y", "value": "1"}, {"name": "HF_TOKEN", "valueFrom": {}}]
    worker = {"template": {"spec": {"containers": [{"env": env}]}}}
    config = {"applications": [{"args": {"llm_configs": [model]}}]}
    return {"spec": {"serveConfigV2": json.dumps(config), "rayClusterConfig": {"workerGroupSpecs": [worker]}}}


def test_bare_vllm_gets_the_arguments_and_the_environment_of_the_stacks_engine() -> None:
    engine = serving.engine_of(_ray_service("cpu"))
    assert (engine.name, engine.folder, engine.kwargs) == ("m", "/opt/models/m", {"max_model_len": 512})
    assert engine.env == {"VLLM_X": "pod", "VLLM_CPU_KVCACHE_SPACE": "1"}


def test_a_stack_without_an_engine_on_cpu_is_not_compared_with_one() -> None:
    with pytest.raises(LocalError, match="no engine on CPU to compare with"):
        serving.engine_of(_ray_service("gpu"))


def test_the_verdict_holds_both_goals() -> None:
    bare = compare.figures([_round(0.1, 1.0)])
    assert serving.verdict(bare, compare.figures([_round(0.11, 1.05)])).endswith("kept")
    assert serving.verdict(bare, compare.figures([_round(0.13, 1.0)])).endswith("missed")
    assert serving.verdict(bare, compare.figures([_round(0.1, 1.2)])).endswith("missed")


def test_figures_of_a_client_without_a_cpu_are_no_result() -> None:
    quiet = _round(0.1, 1.0)
    starved = Round(replies=quiet.replies, seconds=1.0, waited=0.8)
    assert compare.disturbed({8: {"bare": compare.figures([quiet])}}) == ""
    text = compare.disturbed({8: {"bare": compare.figures([quiet]), "stack": compare.figures([starved])}})
    assert text.startswith("not a result: the client got no CPU for part of the time: stack at concurrency 8 (80%)")


def test_the_plain_deployment_of_the_comparison_is_the_same_engine_and_one_that_the_plan_accepts(
    tmp_path: Path,
) -> None:
    config = yaml.safe_load((stack.REPO / "Pulumi.local.yaml").read_text())
    services = config["config"][f"{PROJECT}:services"]
    services[kinds.PLAIN] = kinds.without_ray(services["chat"])
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(config))
    planned = assemble(load_file(file), stack.STACK)
    assert [str(finding) for finding in planned.plan.findings if finding.severity == "error"] == []
    ray, plain = ({e.name: e for e in spec.engines} for spec in planned.specs)
    assert ray.keys() == plain.keys()
    for name, engine in ray.items():
        assert plain[name].engine_args == engine.engine_args
        assert plain[name].source == engine.source
