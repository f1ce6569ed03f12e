"""`./do`, the wheel and the hints of errors: what is installed, once, and works with the core alone."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from agentgym.outside import packages
from tests.cases import cases

ROOT = Path(__file__).parents[1]
LISTENER = '#!/bin/sh\necho "$@" >>heard\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("do", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(LISTENER)
    python.chmod(0o755)
    return tmp_path


def do(checkout: Path, *task: str) -> tuple[list[str], str]:
    """Run a task; return what the interpreter was called with, and what was said."""
    heard = checkout / "heard"
    heard.unlink(missing_ok=True)
    result = subprocess.run(["./do", *task], cwd=checkout, capture_output=True, text=True, env=os.environ, check=False)
    assert result.returncode == 0, result.stderr
    return heard.read_text().splitlines(), result.stderr


def installed(calls: list[str]) -> list[str]:
    """The extras of the installations among the calls; "" for torch alone."""
    return [call.partition(".[")[2].rstrip("]") for call in calls if call.startswith("-m pip install")]


def test_the_main_job_installs_its_own_extras_once_for_each_set_of_versions(checkout: Path) -> None:
    calls, said = do(checkout, "bench", "--quick", "--seeds", "0 1")
    assert installed(calls) == ["", "train,bench,smollm2"]
    assert "the main job" in said
    assert not any("-q" in call for call in calls if call.startswith("-m pip install"))  # pip shows what it does
    assert calls[-1] == "-m benchmarks.run --quick --seeds 0 1"
    calls, said = do(checkout, "bench", "report", "x")
    assert (calls, said) == (["-m benchmarks.run report x"], "")
    with (checkout / "constraints.txt").open("a") as stream:
        stream.write("# another\n")
    assert installed(do(checkout, "bench")[0]) == ["", "train,bench,smollm2"]


def test_the_full_set_comes_after_the_small_one_and_serves_both(checkout: Path) -> None:
    do(checkout, "bench")
    first, *more = installed(do(checkout, "check")[0])
    assert first == ""
    assert (more[0][:20], more[0][-4:]) == ("train,bench,smollm2,", ",dev")
    for task in ("bench", "check", "fuzz"):
        assert installed(do(checkout, task)[0]) == []


def test_the_site_needs_no_tools_of_developers(checkout: Path) -> None:
    calls, said = do(checkout, "docs", "--site-dir", "here")
    assert installed(calls) == ["", "train,bench,smollm2,docs"]
    assert calls[-1] == "-m mkdocs build -f website/mkdocs.yml --site-dir here"
    assert "runs/site/index.html" in said
    assert installed(do(checkout, "bench")[0]) == []


@pytest.mark.parametrize(
    ("engine", "pins", "extras"),
    [("trl", "constraints.txt", "trl,bench,smollm2,dev"), ("verl", "constraints-verl.txt", "verl,dev")],
)
def test_an_engine_has_an_environment_and_where_it_must_versions_of_its_own(
    checkout: Path, engine: str, pins: str, extras: str
) -> None:
    tests = checkout / "tests" / "engines"
    tests.mkdir(parents=True)
    (tests / f"test_{engine}.py").touch()
    shutil.copy(ROOT / "constraints-verl.txt", checkout)
    (checkout / ".venv").rename(checkout / f".venv-{engine}")
    calls, _ = do(checkout, "engines", engine, "-x")
    assert installed(calls) == ["", extras]
    assert all(f"-c {pins}" in call for call in calls if call.startswith("-m pip install"))
    assert calls[-1] == f"-m pytest tests/engines/test_{engine}.py -x"
    assert installed(do(checkout, "engines", engine)[0]) == []
    unknown = subprocess.run(["./do", "engines", "other"], cwd=checkout, capture_output=True, text=True, check=False)
    assert unknown.returncode == 1
    assert f"./do engines {engine}" in unknown.stderr


def test_the_lowest_versions_have_an_environment_of_their_own(checkout: Path) -> None:
    shutil.copy(ROOT / "constraints-lowest.txt", checkout)
    (checkout / ".venv").rename(checkout / ".venv-lowest")
    calls, _ = do(checkout, "lowest")
    installs = [call for call in calls if call.startswith("-m pip install")]
    assert all("-c constraints-lowest.txt" in call for call in installs)
    assert installs[-1].endswith("-e .[train] pytest hypothesis")
    assert calls[-1] == "-m pytest -m not slow tests/wrappers tests/policies"
    assert do(checkout, "lowest", "tests/test_docs.py")[0] == ["-m pytest -m not slow tests/test_docs.py"]


FOLDERS = ("agentgym", "wrappers", "policies", "baselines", "benchmarks")
BESIDE = ("docs", "examples", "tests", "website")


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


@pytest.mark.slow
def test_the_source_distribution_and_the_wheel_hold_every_file_of_theirs(source: Path, wheel: Path) -> None:
    (path,) = (source / "dist").glob("stepcredit-*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    wanted = {path.as_posix() for path in files if not path.parts[0].endswith((".egg-info", "dist"))}
    assert "tests/wrappers/test_reply.py" in wanted
    assert wanted - packed == set()
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())
    assert packed == {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_five_packages_work_with_what_the_wheel_asks_for_alone(wheel: Path, tmp_path: Path) -> None:
    """Other packages cannot be imported; `./do release` does the same in an empty environment."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    _run(*pip, "install", "-q", "--no-deps", "--no-index", "--target", tmp_path / "here", wheel, cwd=tmp_path)
    names = _run(sys.executable, "-I", "-c", PROGRAM, tmp_path / "here", cwd=tmp_path)
    assert names.split() == [
        "cloudpickle", "farama-notifications", "gymnasium", "numpy", "scipy", "stepcredit", "tantivy",
        "typing-extensions",
    ]  # fmt: skip


@cases(
    "noted, command",
    (None, "pip install 'stepcredit[sb3,http]'"),
    ({"url": "file:///tmp/stepcredit-1.whl"}, "pip install 'stepcredit[sb3,http] @ file:///tmp/stepcredit-1.whl'"),
    ({"url": "file:///"}, "pip install '/[sb3,http]'"),
)
def test_a_checkout_names_its_folder_and_a_wheel_what_it_came_from(monkeypatch, tmp_path, noted, command):
    assert packages.install("vllm") == f"pip install -c {packages.HOME}/constraints.txt -e '{packages.HOME}[vllm]'"

    class Installed:
        def read_text(self, name):
            return None if noted is None else json.dumps(noted)

    monkeypatch.setattr(packages, "HOME", tmp_path)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    assert packages.install("sb3", "http") == command


def test_an_import_that_needs_torch_and_a_folder_that_hides_a_package_say_so(monkeypatch, tmp_path):
    code = "import sys; sys.modules['torch'] = None; import wrappers, baselines.trainer"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=packages.HOME)
    assert ended.stderr.splitlines()[-1].endswith(f"needs torch: {packages.install('train')}")
    assert packages.hidden() == {}
    for home in ("theirs", "ours"):
        (tmp_path / home / "wrappers").mkdir(parents=True)
        (tmp_path / home / "wrappers" / "__init__.py").write_text("")
    monkeypatch.setattr(packages, "HOME", tmp_path / "ours")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "theirs"), *sys.path])
    monkeypatch.delitem(packages.sys.modules, "wrappers", raising=False)
    assert packages.hidden() == {"wrappers": tmp_path / "theirs" / "wrappers" / "__init__.py"}
    with pytest.warns(UserWarning, match=r"theirs/wrappers/__init__.py hides the package 'wrappers' of stepcredit"):
        packages.warn_of_hidden()
