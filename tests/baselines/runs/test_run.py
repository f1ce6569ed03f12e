import sys
from pathlib import Path

import numpy as np
import pytest

import baselines
from baselines import train
from tests.refusals import refuses

SMALL = {"iterations": 1, "groups": 2, "group_size": 2, "quick": True, "progress": False}
OWN = '''
import gymnasium as gym
import numpy as np

class Stairs(gym.Env):
    """Words that begin with n to z lead up from one of three steps; the fourth wins, the ground loses."""

    observation_space = action_space = gym.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = int(self.np_random.integers(1, 4))
        return str(self.height), {}

    def step(self, action):
        self.height += 1 if action[:1] >= "n" else -1
        return str(self.height), float(self.height == 4), self.height in (0, 4), False, {"success": self.height == 4}

gym.register("Mine/Stairs-v0", Stairs, max_episode_steps=8)

def credit(table):
    return np.where(table.won, 1.0, -0.1)
'''


def test_five_lines_give_a_policy_a_log_and_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = train("corridor", method="graphgpo", loss={"kl": 0.0}, **SMALL)
    assert run.folder == Path("runs/train/corridor-graphgpo-seed0")
    assert [row["iteration"] for row in run.log] == [0, 1]
    assert {"clone", "final", "log.jsonl", "samples.jsonl"} <= {path.name for path in run.folder.iterdir()}
    assert (run.trainer.config.groups, run.trainer.config.loss.kl) == (2, 0.0)
    assert run.policy is run.trainer.policy
    assert 0 <= run.test().success_rate <= 1
    assert repr(run).startswith("Run(graphgpo on AgentRL/Corridor-v0, 1 iterations: ")
    # The folder of a run is gone on with, and nothing is trained anew; a call without one begins another.
    again = train("corridor", method="graphgpo", loss={"kl": 0.0}, out=run.folder, **SMALL)
    assert again.log == run.log
    assert train("corridor", method="graphgpo", clone=0, **SMALL).folder.name == "corridor-graphgpo-seed0-2"


def test_modules_of_ones_own_are_named_or_handed_over(tmp_path, monkeypatch):
    (tmp_path / "my_stairs.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    numbers = {**SMALL, "iterations": 3, "groups": 4, "group_size": 8, "learning_rate": 1e-2}
    named = train("my_stairs:Mine/Stairs-v0", method="my_stairs:credit", out=tmp_path / "named", **numbers)
    handed = train("my_stairs:Mine/Stairs-v0", method=sys.modules["my_stairs"].credit, out=tmp_path / "f", **numbers)
    assert np.allclose([row["success"] for row in named.log[1:]], [row["success"] for row in handed.log[1:]])
    assert named.log[-1]["success"] > named.log[1]["success"]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"env": "sokban"}, ValueError, "unknown environment 'sokban'"),
        ({"env": "no_module:Env-v0"}, ValueError, "no module 'no_module' can be imported"),
        ({"env": "math:Env-v0"}, ValueError, "math registers no such environment"),
        ({"env": "corridor", "method": "grp"}, ValueError, "unknown method 'grp'"),
        ({"env": "corridor", "model": "tinny"}, ValueError, "did you mean 'tiny'"),
        ({"env": "corridor", "clone": -1}, ValueError, "clone"),
        ({"env": "corridor", "iteration": 3}, TypeError, "did you mean 'iterations'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, given, error, words):
    refuses(error, words, lambda: train(**given, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_train_is_a_function_and_the_package_has_nothing_else_of_the_kind():
    assert callable(baselines.train)
    assert "method: name of a recipe" in train.__doc__
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        baselines.trian  # noqa: B018
