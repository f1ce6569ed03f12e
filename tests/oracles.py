"""The data of the originals that tests compare with; tests skip where they are absent."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("AGENTGYM_ORACLES", Path(__file__).resolve().parents[2] / "shared" / "data"))


def oracle(*parts: str) -> Path:
    """Return a file or folder of the data, such as `oracle("alfworld", "traces")`."""
    path = FOLDER.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {parts[0]} data: {path} does not exist (set AGENTGYM_ORACLES to the folder of {parts[0]}/)")
    return path
