"""What is refused: one line a case."""

from collections.abc import Callable
from typing import Any

import pytest


def refuses(error: type[BaseException], message: str, call: Callable[..., object], /, *args: Any, **kwargs: Any) -> str:
    """Check that a call raises this error, with words that the pattern `message` is found in; return the words."""
    with pytest.raises(error, match=message) as caught:
        call(*args, **kwargs)
    return str(caught.value)
