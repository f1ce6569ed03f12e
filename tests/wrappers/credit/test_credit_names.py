"""`from wrappers.credit import rewardflow` is the function, whatever was imported before or comes after."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import wrappers.credit

METHODS = [
    "aem", "attribution", "bpo", "dapo", "empg", "fill_silent", "frontier", "gae", "gigpo", "graphgpo", "grpo", "hcapo",
    "hgpo", "hisr", "igpo", "istar", "milegpo", "potential", "prime", "process_reward", "ragen2",
    "reinforce_plus_plus", "rewardflow", "rloo", "salt", "spa", "tigpo", "token_gae", "tree_grpo", "vetta", "vine",
]  # fmt: skip


def test_every_method_is_a_function_named_like_its_file() -> None:
    files = {module.name for module in pkgutil.iter_modules(wrappers.credit.__path__)}
    functions = {name for name in wrappers.credit.__all__ if inspect.isfunction(getattr(wrappers.credit, name))}
    assert sorted(functions & files) == METHODS
    assert functions - files == {
        "action_targets", "bi_level_gae", "graphgpo_filled", "importance", "reinforce_plus_plus_baseline",
    }  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_importing_the_module_leaves_the_name_to_the_function(name: str) -> None:
    module = importlib.import_module(f"wrappers.credit.{name}")
    assert inspect.ismodule(module)
    assert getattr(wrappers.credit, name) is getattr(module, name)


@pytest.mark.parametrize(
    "first",
    [
        "import wrappers.credit.rewardflow",
        "import wrappers.credit.rewardflow as module",
        "from wrappers.credit.rewardflow import PRESETS",
        "import wrappers",
        "import sys, pickle, wrappers.credit.grpo; pickle.loads(pickle.dumps(wrappers.credit.rewardflow))",
        "import importlib; importlib.reload(importlib.import_module('wrappers.credit.rewardflow'))",
    ],
)
def test_whatever_a_process_imports_first(first: str) -> None:
    code = (
        f"{first}\nfrom wrappers.credit import rewardflow\nimport wrappers.credit.rewardflow, wrappers.credit.grpo\n"
        "from wrappers.credit import rewardflow as again, grpo\nfrom wrappers import RewardFlow\n"
        "print(callable(rewardflow), rewardflow is again, callable(grpo), RewardFlow.method.__name__)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "True", "True", "rewardflow"]
