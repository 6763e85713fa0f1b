"""What is kept as it was declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]
EMPTY: Values = {}
