"""Tables of cases: one row a line, and the test runs once for each."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def cases(
    names: str, /, *rows: Any, ids: Sequence[str] | Callable[[Any], object] | None = None
) -> pytest.MarkDecorator:
    """Run a test with each row as the arguments of these names, separated by ", ".

    A row is a tuple where there are several names, else the value. A short list of values on one line is
    `pytest.mark.parametrize`.
    """
    return pytest.mark.parametrize(names, rows, ids=ids)
