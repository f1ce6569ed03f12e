"""The data of the originals that tests compare with; tests skip where they are absent."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.text import read_text

FOLDER = Path(os.environ.get("AGENTGYM_ORACLES", Path(__file__).resolve().parents[2] / "shared" / "data"))


def oracle(*parts: str) -> Path:
    """Return a file or folder of the data, such as `oracle("alfworld", "traces")`."""
    path = FOLDER.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {parts[0]} data: {path} does not exist (set AGENTGYM_ORACLES to the folder of {parts[0]}/)")
    return path


def read(*parts: str) -> Any:
    """Return the content of a JSON file, packed or not."""
    return json.loads(read_text(oracle(*parts)))


def rows(*parts: str) -> Iterator[Any]:
    """Yield the rows of a file of JSON lines, packed or not."""
    return map(json.loads, read_text(oracle(*parts)).split("\n")[:-1])
