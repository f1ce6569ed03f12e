"""Playing the official pairings: the numeric ones offline, the others with a judge and a partner that can."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import agentgym
from agentgym.outside.text import DataError
from agentgym.sotopia import parallel_env
from agentgym.sotopia.acts import LEAVE, write
from agentgym.sotopia.env import SotopiaEnv, SotopiaVectorEnv
from agentgym.sotopia.games.game import Standing
from tests.agentgym.sotopia.made_up import say
from tests.agentgym.sotopia.official_data import FOLDER, needs_data
from tests.agentgym.sotopia.others import Fixed, Script

BYE = write(LEAVE)


@needs_data
@pytest.mark.parametrize("role", [0, 1])
def test_all_numeric_pairings_play_offline(role: int) -> None:
    envs = SotopiaVectorEnv(150, data=FOLDER, expert=True, role=role, autoreset_mode="Disabled")
    assert [envs.envs[0].num_tasks(split) for split in ("all", "hard", "numeric")] == [450, 70, 150]
    _, infos = envs.reset(seed=0, options=[{"index": i} for i in range(150)])
    assert len({env.task.scenario.id for env in envs.envs}) == 30
    assert set(infos["source"]) == {"craigslist_bargains", "deal-or-no-deal", "mutual_friends"}
    assert set(infos["family"]) == {"bargain", "divide", "friend"}
    over = False
    while not over:
        _, _, terminated, truncated, infos = envs.step(list(infos["expert_action"]))
        over = bool((terminated | truncated).all())
    assert not infos["unscored"].any()
    assert {scenario: True for scenario, won in zip(infos["family"], infos["won"], strict=True) if won} == {
        "bargain": True, "divide": True, "friend": True,
    }  # fmt: skip
    assert infos["won"].mean() > 0.4


@needs_data
@pytest.mark.parametrize("split", ["all", "hard"])
def test_the_others_say_that_they_need_a_judge(split: str) -> None:
    env = SotopiaEnv(data=FOLDER, split=split)
    pair = parallel_env(data=FOLDER, split=split)
    refused = 0
    for index in range(env.num_tasks(split)):
        if env.tasks.by_index(split, index).game is None:
            with pytest.raises(ValueError, match=r"needs a judge.*RulesPlayer, RulesJudge cannot.*'numeric'"):
                env.reset(options={"index": index})
            with pytest.raises(ValueError, match=r"needs a judge.*RulesJudge cannot"):
                pair.reset(options={"index": index})
            refused += 1
    assert refused == {"all": 300, "hard": 45}[split]


@needs_data
def test_with_both_every_pairing_plays() -> None:
    envs = SotopiaVectorEnv(450, data=FOLDER, partner=Script(say("Well.")), judge=Fixed(), autoreset_mode="Disabled")
    assert envs.envs[0].split == "all"
    _, infos = envs.reset(options=[{"index": i} for i in range(450)])
    assert len(set(infos["task_id"])) == 450
    *_, infos = envs.step([write(say("Hello"))] * 450)
    assert {each for each, family in zip(infos["standing"], infos["family"], strict=True) if not family} == {
        Standing(role=1, move="speak")
    }
    _, rewards, terminated, _, infos = envs.step([BYE] * 450)
    assert terminated.all()
    assert set(rewards) == {0.8}
    again = SotopiaEnv(data=FOLDER, partner=Script(), judge=Fixed())
    assert again.reset(options={"task_id": infos["task_id"][7], "split": "all"})[1]["task_id"] == infos["task_id"][7]


@needs_data
def test_families_of_official_scenarios() -> None:
    env = SotopiaEnv(data=FOLDER, families="divide")
    assert [env.num_tasks(split) for split in ("all", "numeric")] == [50, 50]
    with pytest.raises(ValueError, match="holds no task"):
        SotopiaEnv(data=FOLDER, families="schedule").reset()
    with pytest.raises(ValueError, match=r"unknown split 'train'.*'numeric'"):
        env.reset(options={"split": "train"})
    with pytest.raises(ValueError, match="id of a pairing"):
        env.reset(options={"task_id": "bargain-0-1"})


def test_a_folder_without_the_files_is_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data must be the folder that holds"):
        gym.make("AgentRL/SOTOPIA-v0", data=tmp_path)


SCRIPT = """
import hashlib, sys
import agentgym, gymnasium as gym
from agentgym.sotopia import parallel_env
digest = hashlib.sha256()
for order in ("round-robin", "simultaneous", "random"):
    env = gym.make("AgentRL/SOTOPIA-v0", order=order, role="random", expert=True)
    for seed in range(12):
        observation, info = env.reset(seed=seed)
        while not info["ended"]:
            digest.update(repr((observation, info)).encode())
            observation, *rest, info = env.step(info["expert_action"])
        digest.update(repr((observation, rest, info)).encode())
    pair = parallel_env(order=order)
    digest.update(repr(pair.reset(seed=5)).encode())
    while pair.agents:
        digest.update(repr(pair.step({a: pair.action_space(a).samples[3] for a in pair.agents})).encode())
print(digest.hexdigest())
"""


def test_whole_dialogues_are_the_same_in_any_process() -> None:
    root = str(Path(next(iter(agentgym.__path__))).parent)
    digests = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }  # fmt: skip
    assert len(digests) == 1
