"""Public reports as cases, each broken and mended."""

import pytest

pytest.register_assert_rewrite("tests.cases.resources")
