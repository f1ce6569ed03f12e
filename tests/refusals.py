"""What is refused: one line a case."""

from collections.abc import Callable
from typing import Any

import pytest


def refuses(
    error: type[BaseException], message: str, call: Callable[..., object], /, *args: Any, **kwargs: Any
) -> None:
    """Check that a call raises this error, with words that the pattern `message` is found in."""
    with pytest.raises(error, match=message):
        call(*args, **kwargs)
