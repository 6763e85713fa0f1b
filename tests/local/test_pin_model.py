"""Pinning a model: from a folder, and from a hub that speaks the real client's protocol on this machine's loopback."""

import json
import struct
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from local import pin_model
from policies.catalog.models import from_mapping

_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
_SHA = "0123456789abcdef0123456789abcdef01234567"


def _shapes() -> dict[str, list[int]]:
    shapes = {"model.embed_tokens.weight": [256, 64], "model.norm.weight": [64]}
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        shapes |= {
            f"{prefix}.self_attn.q_proj.weight": [64, 64],
            f"{prefix}.self_attn.k_proj.weight": [32, 64],
            f"{prefix}.self_attn.v_proj.weight": [32, 64],
            f"{prefix}.self_attn.o_proj.weight": [64, 64],
            f"{prefix}.mlp.gate_proj.weight": [128, 64],
            f"{prefix}.mlp.up_proj.weight": [128, 64],
            f"{prefix}.mlp.down_proj.weight": [64, 128],
            f"{prefix}.input_layernorm.weight": [64],
            f"{prefix}.post_attention_layernorm.weight": [64],
        }
    return shapes


def _safetensors(shapes: dict[str, list[int]], dtype: str = "BF16") -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        size = 2
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "tiny"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(_CONFIG))
    (source / "model.safetensors").write_bytes(_safetensors(_shapes()))
    return source


def test_a_folder_gives_the_exact_parameters_and_bytes(folder: Path) -> None:
    row = pin_model.row_of(pin_model.read_folder(folder, "local/tiny"), today=date(2026, 11, 30))
    elements = 256 * 64 + 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64)
    assert row.parameters == elements
    assert row.checkpoint_bytes == 2 * elements
    assert row.bytes_by_dtype == (("BF16", 2 * elements),)
    assert (row.layers, row.kv_heads, row.revision) == (2, 2, None)
    assert pin_model.unaccounted(row) == 0


def test_layers_for_multi_token_prediction_are_not_counted(folder: Path) -> None:
    plain = pin_model.row_of(pin_model.read_folder(folder, "local/tiny"))
    more = _shapes() | {"model.layers.2.mlp.up_proj.weight": [128, 64], "mtp.fc.weight": [64, 128]}
    (folder / "model.safetensors").write_bytes(_safetensors(more))
    row = pin_model.row_of(pin_model.read_folder(folder, "local/tiny"))
    assert row.parameters == plain.parameters
    assert (row.checkpoint_bytes or 0) - (plain.checkpoint_bytes or 0) == 2 * (128 * 64 + 64 * 128)


def test_the_command_writes_a_row_that_the_catalog_reads(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    out.mkdir()
    arguments = [str(folder), "--name", "acme/tiny", "--alias", "tiny", "--folder", str(out)]
    result = CliRunner().invoke(pin_model.app, arguments)
    assert result.exit_code == 0, result.output
    path = out / "acme--tiny.json"
    assert result.output == f"acme/tiny: 0.00 B parameters, 2 layers -> {path}\n"
    first = path.read_bytes()
    row = from_mapping(json.loads(first))
    assert (row.name, row.aliases) == ("acme/tiny", ("tiny",))
    assert CliRunner().invoke(pin_model.app, arguments).exit_code == 0
    assert path.read_bytes() == first


def test_parts_that_the_figures_do_not_explain_are_said(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(_safetensors(_shapes() | {"adapter.weight": [512, 512]}))
    result = CliRunner().invoke(pin_model.app, [str(folder), "--folder", str(tmp_path)])
    assert result.exit_code == 0
    assert "warning: the figures of config.json explain 26% of the parameters" in result.output


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(pin_model.app, [str(tmp_path)])
    assert result.exit_code == 2
    assert "has no config.json" in " ".join(
        result.output.replace("│", " ").split()
    )  # the box breaks lines by the path's length


def test_an_architecture_that_cannot_be_sized_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**_CONFIG, "model_type": "deepseek_v4"}))
    result = CliRunner().invoke(pin_model.app, [str(folder), "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "not modelled" in result.output.replace("\n", " ")


class _Hub(BaseHTTPRequestHandler):
    """Just enough of a hub for model_info, config.json and a safetensors header."""

    files = {"config.json": json.dumps(_CONFIG).encode(), "model.safetensors": _safetensors(_shapes())}

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        if self.path.startswith("/api/models/acme/tiny"):
            siblings = [{"rfilename": name} for name in self.files]
            content = json.dumps({"id": "acme/tiny", "sha": _SHA, "gated": "auto", "siblings": siblings}).encode()
            self._send(200, content, body)
            return
        name = self.path.rpartition("/")[2]
        content = self.files.get(name, b"")
        if not content:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        status = 200
        asked = self.headers.get("Range")
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            content, status = content[int(first) : int(last) + 1], 206
        self._send(status, content, body)

    def _send(self, status: int, content: bytes, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"tag"')
        self.send_header("X-Repo-Commit", _SHA)
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_model_of_the_hub_is_pinned_at_its_commit(hub: str, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    # The client reads HF_ENDPOINT when it is imported, so it needs a process of its own.
    environment = os.environ | {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-m", "local.pin_model", "acme/tiny", "--folder", str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    row = from_mapping(json.loads((tmp_path / "acme--tiny.json").read_text()))
    assert (row.revision, row.gated) == (_SHA, True)
    assert row.parameters == pin_model.row_of(_of_hub()).parameters


def _of_hub() -> pin_model.Checkpoint:
    tensors = tuple(
        pin_model.Tensor(name, "BF16", shape[0] * (shape[1] if len(shape) > 1 else 1))
        for name, shape in _shapes().items()
    )
    return pin_model.Checkpoint("acme/tiny", _SHA, True, _CONFIG, None, tensors, "a test")
