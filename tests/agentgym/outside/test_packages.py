import json
import subprocess
import sys

import pytest

from agentgym.outside import packages
from tests.cases import cases


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


def test_a_folder_that_hides_a_package_is_named(monkeypatch, tmp_path):
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


def test_an_import_that_needs_torch_says_what_installs_it():
    code = "import sys; sys.modules['torch'] = None; import wrappers, baselines.trainer"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=packages.HOME)
    assert ended.stderr.splitlines()[-1].endswith(f"needs torch: {packages.install('train')}")
