"""The settings of the test run, and which tests are played a second time without the data of the originals."""

import os
import re
import subprocess
import sys

from tests.data_tests import ROOT, data_tests, readers

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


FOLDER = 'import os\nFOLDER = os.environ.get("AGENTGYM_ORACLES")\n'
SOURCES = {
    "tests.a.files": FOLDER + "def find(name):\n    return FOLDER\ndef write(path):\n    return path\n",
    "tests.a.more": "from tests.a import files\nload = partial(files.find, 'x')\nother = files.write\n",
    "tests.conftest": "@fixture\ndef games():\n    from tests.a.files import find\n    return find('x')\n",
    "tests.a.test_used": """
from tests.a.files import find, write
from tests.a import files
from tests.a.more import load, other
@fixture
def rows(): return find('rows')
class TestAll:
    def test_it(self, rows): ...
@parametrize('row', load())
def test_decorated(row): ...
if True:
    def test_attribute(): files.find('x')
def test_fixture(rows): ...
def test_shared(games): ...
def test_inside():
    from tests.a.files import FOLDER as here
    assert here
def test_free(tmp_path): write(tmp_path), files.write(tmp_path), other(tmp_path)
""",
    "tests.a.test_marked": "from tests.a.more import load\npytestmark = skipif(not load())\ndef test_all(): ...\n",
    "tests.a.test_auto": "from tests.a.more import load\n@fix(autouse=True)\ndef f(): load()\ndef test_all(): 0\n",
    "tests.a.test_free": "from tests.a.files import find\ndef test_none(find_all): ...\n",
}


def test_a_test_reads_the_data_where_anything_does_that_it_uses_and_those_are_found() -> None:
    found = readers(SOURCES)
    assert {(module, name) for module, name in found if name.lower().startswith("test")} == {
        ("tests.a.test_used", "TestAll"), ("tests.a.test_used", "test_decorated"),
        ("tests.a.test_used", "test_attribute"), ("tests.a.test_used", "test_fixture"),
        ("tests.a.test_used", "test_shared"), ("tests.a.test_used", "test_inside"),
        ("tests.a.test_marked", "test_all"), ("tests.a.test_auto", "test_all"),
    }  # fmt: skip
    assert not {("tests.a.files", "write"), ("tests.a.more", "other")} & found
    tests = ROOT / "tests"
    found = data_tests()
    assert "test_programs_win_as_often_as_they_did" in found[tests / "agentgym/virtualhome/test_spa.py"]
    assert "test_every_offered_action_succeeds" not in found[tests / "agentgym/virtualhome/test_spa.py"]
    assert "test_episodes_of_the_original_engine_agree" in found[tests / "benchmarks/play/test_results.py"]
    assert tests / "agentgym/searchqa/retrieval/test_remote.py" not in found
