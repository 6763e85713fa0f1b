"""One judge for all tests here: Ray's builders and vLLM's argument checks in the engine environment, vLLM as if it were on GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.engine.client import JudgeClient
from tests.engine import models


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeClient]:
    """Imports of Ray and vLLM are paid once; requests take milliseconds."""
    rows = tmp_path_factory.mktemp("rows")
    models.write(rows)
    with JudgeClient(folders={models.FOLDER: rows}, gpu=True) as client:
        yield client
