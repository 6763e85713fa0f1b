"""Models that people serve, each from its published config.json: one small file a model beside this module.

For: look-up by Hugging Face id, and rows from other sources. Not for: arithmetic on a row (see parameters.py, policies/fit).
A model that is not here is pinned with the command `python -m local.pin_model` into this folder, or given inline as a
mapping in the environment file (`from_mapping`).
"""

from functools import cache
from pathlib import Path

from policies.catalog.lookup import UnknownRow, closest_names
from policies.catalog.models.mapping import InvalidModel, from_mapping, to_mapping
from policies.catalog.models.row import Model

__all__ = ["FOLDER", "InvalidModel", "Model", "UnknownRow", "file_name", "from_mapping", "get", "names", "to_mapping"]

FOLDER = Path(__file__).parent
_NOTE = "pin it with `python -m local.pin_model <id>`, or describe it inline under `models`"


def get(name: str) -> Model:
    """The model whose id or alias is `name` (case does not matter); UnknownRow with close names otherwise."""
    rows, spelled = _rows()
    found = rows.get(name.casefold())
    if found is not None:
        return found
    # Compare with every spelling, and answer with the id that each stands for.
    near = dict.fromkeys(rows[close.casefold()].name for close in closest_names(name, spelled, 3))
    raise UnknownRow("model", name, tuple(near), _NOTE)


def names() -> tuple[str, ...]:
    """Ids of all models in the catalog, sorted."""
    return tuple(sorted({model.name for model in _rows()[0].values()}))


def file_name(name: str) -> str:
    """The file that holds the model with Hugging Face id `name`: "org/model" is org--model.json."""
    return f"{name.replace('/', '--')}.json"


@cache
def _rows() -> tuple[dict[str, Model], tuple[str, ...]]:
    import json  # the first look-up pays for it, not the import

    rows: dict[str, Model] = {}
    spelled: list[str] = []
    for path in sorted(FOLDER.glob("*.json")):
        model = from_mapping(json.loads(path.read_text(encoding="utf-8")), path.name)
        for name in (model.name, *model.aliases):
            rows[name.casefold()] = model
            spelled.append(name)
        # The bare model name works as well, unless it would hide a row that is called so.
        for name in (model.name, *model.aliases):
            short = name.rpartition("/")[2]
            rows.setdefault(short.casefold(), model)
            spelled.append(short)
    return rows, tuple(spelled)
