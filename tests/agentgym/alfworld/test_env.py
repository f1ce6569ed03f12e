"""The environment around the household: tasks, rewards, info, experts, snapshots."""

import math
import pickle
from typing import Any

import gymnasium as gym
import pytest

from agentgym.alfworld.env import ALFWorldEnv, ALFWorldVectorEnv
from agentgym.alfworld.game import CLEAN, LOOK, PICK, TASK_TYPES, TWO, Game
from tests.agentgym.alfworld.support import env_of, small_game
from tests.playing import play
from tests.refusals import refuses

ROOMS = [("cabinet", 0, True), ("shelf", 1, False), ("sinkbasin", 2, False)]


def mugs(task_type: str = TWO, **changes: Any) -> Game:
    """Two mugs, a teddy bear that fits nowhere, a cabinet, a shelf, a sink."""
    things = [("desklamp", [1]), ("mug", [1]), ("mug", [2]), ("teddybear", [1])]
    return small_game(task_type, ("mug", "desklamp" if task_type == LOOK else "cabinet"), ROOMS, things, **changes)


def test_an_episode() -> None:
    env = env_of(mugs(PICK))
    observation, info = env.reset()
    assert observation.endswith("\n\nYour task is to: pick_and_place_simple mug cabinet.")
    assert info == {
        "admissible_actions": ("go to cabinet 1", "go to shelf 1", "go to sinkbasin 1", "help", "inventory", "look"),
        "is_action_valid": True,
        "state_key": "at the middle of the room",
        "task_id": "small/trial",
        "won": False,
        "score": 0.0,
        "task_type": PICK,
        "location": "the middle of the room",
        "inventory": "nothing",
    }
    observation, reward, terminated, truncated, info = env.step("go to the moon")
    assert (observation, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, False)
    assert not info["is_action_valid"]
    play(env, " go to sinkbasin 1\n", "take mug 1 from sinkbasin 1", "clean mug 1 with sinkbasin 1")
    *_, info = env.step("go to cabinet 1")
    assert (info["location"], info["inventory"], info["is_action_valid"]) == ("cabinet 1", "mug 1 (cleaned)", True)
    observation, reward, terminated, _, info = play(env, "open cabinet 1", "move mug 1 to cabinet 1")
    assert (observation, reward, terminated) == ("You move the mug 1 to the cabinet 1.", 1.0, True)
    assert (info["won"], info["score"], info["inventory"]) == (True, 1.0, "nothing")
    env = env_of(mugs(LOOK), reward=10)  # as in the papers
    env.reset()
    assert play(env, "go to shelf 1", "use desklamp 1", "take mug 2 from shelf 1")[1:3] == (10.0, True)
    for wrong in (math.nan, True, "10"):
        refuses(ValueError, "reward must be a finite number", ALFWorldEnv, reward=wrong)


def test_repairs_dialects_and_dead_ends_are_shown() -> None:
    env = env_of(mugs(), repairs=["status"])
    first, _ = env.reset()
    assert first.endswith("mug cabinet.\nYou are at the middle of the room, carrying nothing.")
    script = "go to sinkbasin 1", "take mug 1 from sinkbasin 1", "clean mug 1 with sinkbasin 1", "inventory"
    assert play(env, *script)[0] == "You are carrying: a mug 1.\nYou are at sinkbasin 1, carrying mug 1 (cleaned)."
    old = ALFWorldEnv(data="generated", dialect="put")
    assert "put <thing> in/on <receptacle>" in old.instructions
    old.reset(seed=0)
    assert old.step(old.world.admissible()[0])[0].startswith("You arrive at loc ")
    env = env_of(mugs(), expert=True)
    env.reset()
    *_, info = play(env, "go to shelf 1", "take teddybear 1 from shelf 1")
    assert (env.distance(), env.optimal_actions(), info["expert_action"]) == (math.inf, (), "")


def test_the_expert_follows_the_walkthrough_then_plans() -> None:
    # by way of the shelf, with a look around, which no shortest plan would do
    walkthrough = (
        "go to shelf 1", "look", "go to sinkbasin 1", "take mug 1 from sinkbasin 1", "go to cabinet 1",
        "open cabinet 1", "move mug 1 to cabinet 1",
    )  # fmt: skip
    env = env_of(mugs(PICK), expert=True)
    assert env.reset()[1]["expert_action"] == "go to shelf 1"  # there is no walkthrough
    env = env_of(mugs(PICK, walkthrough=walkthrough), expert=True)
    for detour in ((), ("look", "fly", "inventory"), ("go to cabinet 1",)):
        _, info = env.reset()
        actions = [info["expert_action"]]
        for command in detour:
            *_, info = env.step(command)
        while not info["won"]:
            actions.append(info["expert_action"])
            *_, info = env.step(info["expert_action"])
        assert info["expert_action"] == ""
        if detour == ("go to cabinet 1",):
            assert actions[1:] == ["go to shelf 1", "take mug 2 from shelf 1", "go to cabinet 1", "open cabinet 1",
                                "move mug 2 to cabinet 1"]  # fmt: skip
        else:
            assert tuple(actions[1:]) == walkthrough


def test_snapshots_work_across_games_and_keep_the_walkthrough() -> None:
    env, other = ALFWorldEnv(data="generated", expert=True), ALFWorldEnv(data="generated", expert=True)
    other.reset(options={"index": 3})
    _, info = env.reset(options={"index": 2})
    while not info["won"]:
        saved = pickle.loads(pickle.dumps(env.snapshot()))
        assert len(pickle.dumps(saved)) < 4000
        observation, restored = other.restore(saved)
        assert (observation, restored) == (env.observe(), info)
        assert other.world.game is env.world.game
        *_, info = env.step(info["expert_action"])
    assert other.restore(env.snapshot())[1]["won"]
    with pytest.raises(gym.error.ResetNeeded):
        other.step("look")


def test_groups_share_their_game_and_arguments_choose_among_generated_ones() -> None:
    envs = ALFWorldVectorEnv(6, data="generated", autoreset_mode="Disabled")
    envs.reset(options=[{"index": i // 3} for i in range(6)])
    assert len({id(env.world.game) for env in envs.envs}) == 2  # type: ignore[attr-defined]
    env = ALFWorldEnv(data="generated", task_types=[CLEAN, 6])
    assert {env.reset(seed=seed)[1]["task_type"] for seed in range(30)} == {CLEAN, TWO}
    assert env.reset(options={"task_type": "look_at_obj_in_light"})[1]["task_type"] == LOOK
    first = ALFWorldEnv(data="generated", num_games=2)
    assert len({first.reset(seed=seed)[1]["task_id"] for seed in range(30)}) == 2
    other = ALFWorldEnv(data="generated", game_seed=1)
    assert other.reset(options={"index": 0})[0] != first.reset(options={"index": 0})[0]
    every = ALFWorldEnv(data="generated")
    assert {every.reset(seed=seed)[1]["task_type"] for seed in range(60)} == set(TASK_TYPES)
