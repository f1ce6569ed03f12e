"""The folder that holds `agentgym` and `tests`, for processes that a test starts."""

from pathlib import Path

ROOT = str(Path(__file__).parents[3])
