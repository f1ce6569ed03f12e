"""The settings of the test run."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Where a cache lies changes no result.
KEPT = {"AGENTGYM_CACHE", "XDG_CACHE_HOME"}


def test_data_and_endpoints_of_whoever_runs_the_tests_are_left_out() -> None:
    """Every variable that the sources read; those of data and endpoints by name, so that the list is not empty."""
    named = re.compile(r'(?:environ(?:\.get\(|\[)|VARIABLE = |getenv\()\s*"([A-Z0-9_]+)"')
    folders = ("agentgym", "wrappers", "policies", "baselines", "benchmarks")
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")]
    names = {name for source in sources for name in named.findall(source)} - KEPT | {"COLUMNS", "FORCE_COLOR"}
    assert {"ALFWORLD_DATA", "VIRTUALHOME_DATA", "OPENAI_BASE_URL", "TAU2_PYTHON"} <= names
    code = f"import os, tests.conftest; print([name for name in {sorted(names)} if name in os.environ])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True,
        capture_output=True, text=True, env={**os.environ, **dict.fromkeys(names, "/nonexistent")},
    )  # fmt: skip
    assert result.stdout.strip() == "[]"
