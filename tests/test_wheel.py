"""The source distribution holds the whole project, and its wheel works in a clean environment with the core alone."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("agentgym", "wrappers", "policies", "baselines", "benchmarks")
BESIDE = ("docs", "examples", "tests", "website")

pytestmark = pytest.mark.slow


def _run(*command: object, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Built from a copy, so that no build folders appear in the checkout; the wheel is made of the source distribution.
    source = tmp_path_factory.mktemp("source")
    for folder in (*FOLDERS, *BESIDE):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, source)
    _run(sys.executable, "-m", "build", "--no-isolation", cwd=source)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    (path,) = (source / "dist").glob("stepcredit-*.whl")
    return path


def test_the_source_distribution_holds_tests_pages_and_examples_too(source: Path) -> None:
    (path,) = (source / "dist").glob("stepcredit-*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    wanted = {path.as_posix() for path in files if not path.parts[0].endswith((".egg-info", "dist"))}
    assert "tests/wrappers/test_reply.py" in wanted
    assert wanted - packed == set()


def test_the_wheel_holds_every_file_of_the_five_folders_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())
    assert packed == {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_description_reads_on_a_package_index(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_string(archive.read(name).decode())
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    assert text.startswith("# stepcredit\n")
    assert "(`docs/results/horizon.md`)" in text
    page = pytest.importorskip("readme_renderer.markdown").render(text)
    assert page.count("<table>") == text.count("\n|---")
    targets = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert targets
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


PROGRAM = """
import importlib.metadata, re, sys
from importlib.machinery import PathFinder
sys.path.insert(0, sys.argv[1])
known, core = importlib.metadata.packages_distributions(), {"stepcredit"}
for name in (wanted := ["stepcredit"]):
    for each in importlib.metadata.requires(name) or ():
        if "extra ==" not in each and (other := re.match(r"[\\w.-]+", each)[0].lower().replace("_", "-")) not in core:
            core.add(other)
            wanted.append(other)

class CoreAlone(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        owners = {each.lower().replace("_", "-") for each in known.get(name.partition(".")[0], ())}
        return super().find_spec(name, path, target) if owners & core or not owners else None

sys.meta_path[:] = [CoreAlone if each is PathFinder else each for each in sys.meta_path]
import gymnasium as gym
import agentgym, wrappers, policies, baselines, benchmarks
from wrappers.credit import rewardflow
assert agentgym.__file__.startswith(sys.argv[1]), agentgym.__file__
assert importlib.metadata.version("stepcredit") == agentgym.__version__

envs = wrappers.RewardFlow(gym.make_vec("AgentRL/Sokoban-v0", num_envs=4, autoreset_mode="Disabled"))
_, infos = envs.reset(seed=[0] * 4)
over = False
while not over:
    commands = [admissible[0] for admissible in infos["admissible_actions"]]
    _, _, terminated, truncated, infos = envs.step(commands)
    over = (terminated | truncated).all()
assert len(envs.advantages()) == len(envs.table())
try:
    import torch
except ModuleNotFoundError:
    print(*sorted(core))
"""


def test_the_five_packages_work_with_what_the_wheel_asks_for_alone(wheel: Path, tmp_path: Path) -> None:
    """Other packages cannot be imported; `./do release` does the same in an empty environment."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "install", "-q", "--no-deps", "--no-index", "--target", tmp_path / "here", wheel, cwd=tmp_path)
    names = _run(sys.executable, "-I", "-c", PROGRAM, tmp_path / "here", cwd=tmp_path)
    assert names.split() == [
        "cloudpickle", "farama-notifications", "gymnasium", "numpy", "scipy", "stepcredit", "tantivy",
        "typing-extensions",
    ]  # fmt: skip
