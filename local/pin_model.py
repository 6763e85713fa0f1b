"""Pin a Hugging Face model, or a local folder of one, as a row of the catalog: config.json and safetensors headers only.

For: `python -m local.pin_model <id>`, run by a person with access to the hub. Not for: the plan, which reads the row and
never a network; nor for downloading weights.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Any

import typer

from policies.catalog.models import FOLDER, InvalidModel, Model, file_name, to_mapping
from policies.catalog.models.config_json import from_config_json
from policies.catalog.models.parameters import total_parameters

_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
_QUANTIZED = {"I32", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint, from a safetensors header."""

    name: str
    dtype: str
    elements: int

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return self.elements * _BYTES.get(self.dtype, 1)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is read of a model: its configs, tensors, and where they came from."""

    name: str
    revision: str | None
    gated: bool
    config: Mapping[str, Any]
    quantization: Mapping[str, Any] | None
    tensors: tuple[Tensor, ...]
    source: str


def read_hub(name: str, revision: str) -> Checkpoint:
    """The checkpoint `name` at `revision` of the hub that HF_ENDPOINT names (huggingface.co if unset).

    Raises huggingface_hub's errors: RepositoryNotFoundError, GatedRepoError (accept the licence, set HF_TOKEN), ...
    """
    from huggingface_hub import HfApi, hf_hub_download

    api = HfApi()
    info = api.model_info(name, revision=revision)
    files = {sibling.rfilename for sibling in info.siblings or ()}
    read = {
        file: json.loads(Path(hf_hub_download(name, file, revision=info.sha)).read_text(encoding="utf-8"))
        for file in ("config.json", "hf_quant_config.json")
        if file in files
    }
    if "config.json" not in read:
        raise typer.BadParameter(
            f"{name} at {revision} has no config.json; only Transformers checkpoints can be pinned"
        )
    metadata = api.get_safetensors_metadata(name, revision=info.sha)
    tensors = tuple(
        Tensor(tensor, entry.dtype, prod(entry.shape))
        for file in metadata.files_metadata.values()
        for tensor, entry in file.tensors.items()
    )
    source = f"Hugging Face {name} config.json and safetensors headers"
    quantization = read.get("hf_quant_config.json")
    return Checkpoint(name, info.sha, bool(info.gated), read["config.json"], quantization, tensors, source)


def read_folder(folder: Path, name: str) -> Checkpoint:
    """The checkpoint in `folder`, to be called `name`. Reads config.json and the headers of *.safetensors."""
    path = folder / "config.json"
    if not path.is_file():
        raise typer.BadParameter(f"{folder} has no config.json; give the folder that holds the model's files")
    tensors: list[Tensor] = []
    for weights in sorted(folder.glob("*.safetensors")):
        tensors += _header(weights)
    quantization = folder / "hf_quant_config.json"
    return Checkpoint(
        name,
        None,
        False,
        json.loads(path.read_text(encoding="utf-8")),
        json.loads(quantization.read_text(encoding="utf-8")) if quantization.is_file() else None,
        tuple(tensors),
        f"local folder {folder.name}: config.json and safetensors headers",
    )


def _header(path: Path) -> list[Tensor]:
    """Tensors of a safetensors file: 8 bytes of length, little end first, then JSON (the format's description)."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return [
        Tensor(name, entry["dtype"], prod(entry["shape"])) for name, entry in header.items() if name != "__metadata__"
    ]


def row_of(checkpoint: Checkpoint, aliases: tuple[str, ...] = (), today: date | None = None) -> Model:
    """The catalog row of a checkpoint; InvalidModel where its architecture cannot be sized."""
    text = checkpoint.config.get("text_config") or checkpoint.config
    kept = [tensor for tensor in checkpoint.tensors if not _is_extra(tensor.name, text.get("num_hidden_layers", 0))]
    by_dtype: dict[str, int] = {}
    for tensor in checkpoint.tensors:
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0) + tensor.size
    quantized = any(tensor.dtype in _QUANTIZED for tensor in kept)
    return from_config_json(
        checkpoint.config,
        name=checkpoint.name,
        source=checkpoint.source,
        checked_on=(today or date.today()).isoformat(),
        revision=checkpoint.revision,
        gated=checkpoint.gated,
        aliases=aliases,
        bytes_by_dtype=by_dtype,
        # Packed weights have fewer elements than parameters: then the figures of the config count.
        parameters=None if quantized or not kept else sum(tensor.elements for tensor in kept),
        vision_parameters=sum(tensor.elements for tensor in kept if _is_vision(tensor.name)),
        quantization_config=checkpoint.quantization,
    )


def _is_extra(name: str, layers: int) -> bool:
    """Multi-token prediction layers: loaded for speculative decoding only (DeepSeek numbers them after the last)."""
    if _is_vision(name):
        return False
    parts = name.split(".")
    numbered = [int(after) for before, after in pairwise(parts) if before == "layers" and after.isdigit()]
    return "mtp" in parts or any(number >= layers for number in numbered)


def _is_vision(name: str) -> bool:
    return any(part in name for part in ("visual", "vision", "multi_modal_projector", "mm_projector"))


def unaccounted(model: Model) -> float:
    """Part of the published parameters that the row's figures do not explain (0.02 is 2 %; negative: too many)."""
    return 1 - total_parameters(model) / model.parameters


def write(model: Model, folder: Path = FOLDER) -> Path:
    """Write the row of `model` into `folder`; the same row gives the same bytes."""
    path = folder / file_name(model.name)
    text = json.dumps(to_mapping(model), indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


app = typer.Typer(add_completion=False, help="Pin a model into the catalog.")


@app.command()
def pin(
    model: Annotated[str, typer.Argument(help="Hugging Face id, or a folder with config.json and *.safetensors.")],
    revision: Annotated[str, typer.Option(help="Branch, tag or commit of the hub.")] = "main",
    name: Annotated[str | None, typer.Option(help="What to call a local folder's model, e.g. org/name.")] = None,
    alias: Annotated[list[str] | None, typer.Option(help="Another id with the same figures; can be repeated.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the row goes.")] = FOLDER,
) -> None:
    """Read MODEL's config.json and safetensors headers (no weights) and write its catalog row."""
    path = Path(model)
    if path.is_dir():
        checkpoint = read_folder(path, name or f"local/{path.resolve().name}")
    else:
        checkpoint = read_hub(model, revision)
    try:
        row = row_of(checkpoint, tuple(alias or ()))
    except InvalidModel as error:
        raise typer.BadParameter(str(error)) from error
    written = write(row, folder)
    typer.echo(f"{row.name}: {row.parameters / 1e9:.2f} B parameters, {row.layers} layers -> {written}")
    gap = unaccounted(row)
    if abs(gap) > 0.03:
        typer.echo(
            f"warning: the figures of config.json explain {1 - gap:.0%} of the parameters; the model may have parts that "
            "the estimate of its memory does not know",
            err=True,
        )


if __name__ == "__main__":
    app()
