"""What failed episodes become, counted: on a level by hand, and on a few episodes of every environment."""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import collect
from agentgym.rollout.hindsight import relabel_goals
from agentgym.trajectory import Reply, StepTable
from baselines.environments.registry import settings_of
from benchmarks.keys.hindsight import HalfExpert, environments, kind_of, wins_again
from benchmarks.run import app

CORRIDOR = "level:########/#P_X__O#/########"


class Right:
    def act(self, observations, infos, rng):
        return [Reply("right")] * len(observations)


def test_episodes_kinds_and_replies_are_counted() -> None:
    envs = gym.make_vec("AgentRL/Sokoban-v0", 1, autoreset_mode="Disabled", max_episode_steps=3)
    done = relabel_goals(collect(envs, Right(), tasks=[{"task_id": CORRIDOR}], seed=0), envs, choose="all")
    assert [len(one.steps) for one in done.to_trajectories()] == [2, 3]
    single = gym.make("AgentRL/Sokoban-v0")
    assert wins_again(single, done) == [True, True]
    first, second = done.to_trajectories()
    # the steps of one task in the other: one too many, and one too few
    for group, steps in ((first.group, second.steps), (second.group, first.steps)):
        one = StepTable.from_arrays(
            group=[group] * len(steps), trajectory=[0] * len(steps), t=range(len(steps)), state=["s"] * len(steps),
            action=[step.action for step in steps], next_state=["s"] * len(steps), reward=[0] * len(steps),
            won=[True] * len(steps),
        )  # fmt: skip
        assert wins_again(single, one) == [False]
    single = gym.make("AgentRL/Sokoban-v0")
    assert kind_of("sokoban", "level:########/#P_XO__#/########", single) == "1 to 3 moves"
    assert kind_of("sokoban", "level:###########/#P_X_____O#/###########", single) == "7 to 9 moves"
    assert kind_of("sokoban", "level:##############/#P_X________O#/##############", single) == "more moves"
    for env, kinds in (("alfworld", "pick_two_obj_and_place"), ("virtualhome", "store")):
        row = settings_of(env)
        single = gym.make(row.id, **{**row.setup.options, "task_types": [kinds]})
        _, info = single.reset(seed=0)
        assert kind_of(env, info["task_id"], single) == kinds
    shop = gym.make(settings_of("webshop").id)
    _, info = shop.reset(seed=0)
    assert kind_of("webshop", info["task_id"], shop) == "a request of the shop"
    commands = np.empty(400, object)
    commands[:] = [("bad", "worse")] * 400
    infos = {"expert_action": np.array(["good", ""] * 200, dtype=object), "admissible_actions": commands}
    replies = [reply.text for reply in HalfExpert().act([""] * 400, infos, np.random.default_rng(0))]
    advised, alone = replies[::2], replies[1::2]
    # 200 draws of one half: three standard deviations are 21
    assert 79 < advised.count("<action>good</action>") < 121
    assert set(alone) == {"<action>bad</action>", "<action>worse</action>"}


@pytest.mark.slow
def test_the_command_counts_what_is_done_in_every_environment(tmp_path: Path):
    given = ["study", "hindsight", "--tasks", "4", "--group-size", "3", "--clone-tasks", "0", "--out", str(tmp_path)]
    shown = CliRunner().invoke(app, given)
    assert shown.exit_code == 0, shown.output
    rows = json.loads((tmp_path / "hindsight.json").read_text())["relabelled"]
    assert [(row["env"], row["player"]) for row in rows] == [
        (env, player) for env in environments() for player in ("random", "half expert")
    ]
    for row in rows:
        assert row["episodes"] == 12 >= row["failed"] >= row["done"] == row["successes"]["hardest"]
        assert row["replayed"] == (1.0 if row["successes"]["all"] else None)
        assert row["successes"]["all"] == sum(row["kinds"]["all"].values()) >= row["done"]
        assert sum(row["kinds"]["hardest"].values()) == row["done"]
        assert row["steps_needed"] <= row["steps"]
        assert row["cloned"][1] - row["cloned"][0] == round(row["steps_needed"] * row["done"])
    assert sum(row["done"] for row in rows) > 5
    assert environments() == ["sokoban", "alfworld", "virtualhome", "webshop"]
    # Of the shop's tasks some are made of what was done: their options are left open.
    assert {"options left open"} & set().union(*(row["kinds"]["all"] for row in rows if row["env"] == "webshop"))


@pytest.mark.parametrize("given", [["--env", "chess"], ["--tasks", "0"]])
def test_wrong_options_are_refused(given: list[str]):
    assert CliRunner().invoke(app, ["study", "hindsight", *given]).exit_code == 2
