"""The folder of the official files; tests that need it skip where it is absent."""

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FOLDER = Path(os.environ.get("AGENTGYM_ORACLES", _DEFAULT)) / "sotopia"

needs_data = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason=f"no official profiles: {FOLDER} is absent (set AGENTGYM_ORACLES to the folder around it)",
)
