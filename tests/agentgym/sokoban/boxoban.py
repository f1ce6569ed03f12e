"""Where the Boxoban sample files are; tests skip where they are absent."""

import os
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FILES = ("unfiltered_train_000.txt.xz", "hard_000.txt.xz")


def boxoban(name: str) -> Path:
    """Path of one file of 1,000 levels."""
    path = Path(os.environ.get("AGENTGYM_ORACLES", _DEFAULT)) / "boxoban" / name
    if not path.exists():
        pytest.skip(f"no Boxoban levels: {path} does not exist (set AGENTGYM_ORACLES to the folder above boxoban/)")
    return path
