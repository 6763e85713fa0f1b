"""The page: what is drawn, and how a browser lays it out."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.config import deep_merge, parse
from components.plan import page, plan
from components.plan.drawing import draw
from tests.components.shapes import SHAPES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def mixed() -> dict[str, Any]:
    """Everything that is drawn: shares, slices, whole GPUs of one pod, pods of one replica, CPU, a job, an engine that does not fit."""
    values: dict[str, Any] = {}
    for name in ("shares_of_one_gpu", "mig_mixed", "tensor_parallel", "two_nodes", "cpu_engine", "batch_job"):
        values = deep_merge(values, SHAPES[name])
    return deep_merge(values, {"services": {"big": {"models": {"llama": {"parallel": {"tensor": 1}}}}}})  # type: ignore[no-any-return]


def test_gpus_of_one_pod_lie_on_one_node_and_the_largest_come_first() -> None:
    drawn = {drawing.pool.name: drawing for drawing in draw(plan(parse(mixed())))}
    nodes = [{slice.service for gpu in node.gpus for slice in gpu.slices} for node in drawn["h100"].nodes]
    assert nodes == [{"huge"}, {"huge"}, {"big"}]
    shares = [[slice.engine for slice in node.gpus[0].slices] for node in drawn["l4"].nodes]
    assert shares.count(["b", "b"]) + shares.count(["a", "b"]) >= 1
    assert sum(map(len, shares)) == sum(
        e.replicas_max for s in plan(parse(mixed())).services for e in s.engines if e.pool == "l4"
    )


def test_nodes_beyond_the_first_dozen_are_counted() -> None:
    values = deep_merge(SHAPES["whole_gpu"], {"node_pools": {"l4": {"max": 40}}, "services": {"chat": {"models": {"qwen": {"replicas": {"min": 30, "max": 30}}}}}})  # fmt: skip
    (drawing,) = draw(plan(parse(values)))
    assert (len(drawing.nodes), drawing.more) == (12, 18)
    assert "and 18 more nodes" in page.html(plan(parse(values)))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize("width", [1280, 900])
def test_a_browser_lays_the_page_out_without_running_over_its_side(tmp_path: Path, width: int) -> None:
    text = page.html(plan(parse(mixed()), "mixed"))
    measure = (
        "const d = document.querySelector('iframe').contentDocument; document.title = JSON.stringify("
        "{wide: d.documentElement.scrollWidth, seen: d.documentElement.clientWidth, "
        "empty: [...d.querySelectorAll('.gpu div:not(.free)')].filter(e => e.offsetHeight < 8).length, "
        "high: d.documentElement.scrollHeight})"
    )
    around = tmp_path / "around.html"
    around.write_text(
        f"<!doctype html><title>waiting</title><iframe style='width:{width}px;height:600px;border:0' "
        f'srcdoc="{html.escape(text)}" onload="{html.escape(measure)}"></iframe>',
        encoding="utf-8",
    )
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    dom = subprocess.run([*command, around.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<title>(.*?)</title>", dom)
    assert found is not None
    size = json.loads(html.unescape(found.group(1)))
    assert size["wide"] <= size["seen"]
    assert size["empty"] == 0  # every slice can be read
    assert size["high"] > 1000
