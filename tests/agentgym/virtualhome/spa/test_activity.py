"""The environment in the papers' protocol."""

import os

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym  # noqa: F401  # registers the environments
from agentgym.virtualhome.env import VirtualHomeEnv
from agentgym.virtualhome.scene import Edge
from agentgym.virtualhome.spa.episode import prepared, taken_out
from tests.agentgym.virtualhome import official_houses
from tests.agentgym.virtualhome.micro_house import EDGES, FRIDGE, KITCHEN, MILK, TABLE, house


def test_an_episode_begins_with_the_task_and_shows_what_is_close() -> None:
    env = VirtualHomeEnv(data="generated", protocol="spa", expert=True)
    observation, info = env.reset(seed=0)
    activity = env.unwrapped.episode.activity
    assert observation == f"The task is {activity.title}({activity.description})."
    observation, reward, terminated, _, info = env.step("I think so.")
    assert observation == "Observation: Nothing happens."
    assert (reward, terminated, info["is_action_valid"]) == (0.0, False, False)
    observation, _, _, _, info = env.step("Thought: go.\nAction: walk to character")
    assert (observation[:13], info["is_action_valid"]) == ("Observation: ", True)


def test_every_offered_action_succeeds() -> None:
    env = VirtualHomeEnv(data="generated", protocol="spa", repairs="all")
    rng = np.random.default_rng(0)
    steps = 0
    said: set[str] = set()
    for index in range(12):
        _, info = env.reset(seed=index, options={"index": index})
        for _ in range(25):
            before = env.snapshot()
            offered = info["admissible_actions"]
            near = [action for action in offered if not action.startswith(("walk", "run", "find"))] or offered
            for action in rng.choice(near, min(3, len(near)), replace=False):
                assert env.step(str(action))[-1]["is_action_valid"], action
                env.restore(before)
                said.add(str(action).split()[0])
                steps += 1
            assert env.restore(before)[1] == info
            action = str(rng.choice(near if rng.random() < 0.6 else offered))
            _, _, terminated, _, info = env.step(action)
            assert info["is_action_valid"], action
            if terminated:
                break
    assert steps > 300
    assert len(said) > 15


def test_hands_can_be_found_once_one_has_walked() -> None:
    """The original has FIND of a part of the body stay where it is, and only a walk brings one close to it."""
    env = VirtualHomeEnv(data="generated", protocol="spa")
    _, info = env.reset(seed=0)
    finds = [action for action in info["admissible_actions"] if action.startswith("find ")]
    before = env.snapshot()
    for action in finds:
        assert env.step(action)[-1]["is_action_valid"], action
        env.restore(before)
    assert len(finds) > 20
    assert {"walk to hands", "run to hands"} <= set(info["admissible_actions"])
    assert "find hands" not in info["admissible_actions"]
    assert not env.step("find hands")[-1]["is_action_valid"]
    _, _, _, _, info = env.step("walk to hands")
    assert "find hands" in info["admissible_actions"]
    assert env.step("find hands")[-1]["is_action_valid"]


def test_programs_win_as_often_as_they_did() -> None:
    """Generated programs are for dialect "v1"; most of them do in the papers' protocol too."""
    env = VirtualHomeEnv(data="generated", protocol="spa", expert=True, repairs=("containment", "posture"))
    won = 0
    for index in range(40):
        _, info = env.reset(seed=index, options={"index": index})
        for _ in range(40):
            if not info["expert_action"] or info["won"]:
                break
            info = env.step(info["expert_action"])[-1]
        won += info["won"]
    assert won >= 20


def test_published_programs_in_the_papers_protocol() -> None:
    data = official_houses.find("scene1_518_diffs.json.xz").parent
    env = VirtualHomeEnv(data=os.fspath(data), protocol="spa", goal="loose", expert=True)
    won = 0
    for index in range(20):
        _, info = env.reset(seed=0, options={"split": "train", "index": index})
        while info["expert_action"] and not info["won"]:
            info = env.step(info["expert_action"])[-1]
        won += info["won"]
    assert won >= 12


def test_the_same_seed_plays_the_same_episode() -> None:
    def texts() -> list[str]:
        env = gym.make("AgentRL/VirtualHome-v0", data="generated", protocol="spa", repairs=("no_leak",))
        actions = ("find floor", "walk to chair", "grab cup", "find plate", "look at wall", "sit on chair")
        return [env.reset(seed=5)[0], *(env.step(action)[0] for action in actions)]

    assert texts() == texts()


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match="did you mean 'spa'"):
        VirtualHomeEnv(data="generated", protocol="spar")
    with pytest.raises(ValueError, match="unknown repair 'no_leak'"):
        VirtualHomeEnv(data="generated", repairs=("no_leak",))


SOME_EDGE = st.tuples(st.integers(0, 4), st.sampled_from(["CLOSE", "INSIDE", "ON"]), st.integers(0, 4))


def taken_out_one_by_one(edges: list[Edge]) -> set[Edge]:
    """A list that gets shorter while one goes through it."""
    left = list(edges)
    for edge in left:
        inside = (edge[2], "INSIDE", edge[0])
        if inside in left:
            for each in {edge, inside}:
                left.remove(each)
    return set(edges) - set(left)


@given(st.lists(SOME_EDGE, unique=True, max_size=25))
def test_the_same_edges_are_taken_out(given: list[Edge]) -> None:
    assert set(taken_out(given)) == taken_out_one_by_one(given)


def test_a_house_without_what_lies_in_containers() -> None:
    scene = house((FRIDGE, "CLOSE", MILK), (TABLE, "INSIDE", FRIDGE), (FRIDGE, "INSIDE", TABLE))
    whole = set(scene.edges())
    assert whole - set(prepared(scene, removed=[(MILK, "INSIDE", KITCHEN)]).edges()) == {(MILK, "INSIDE", KITCHEN)}
    mutual = {(TABLE, "INSIDE", FRIDGE), (FRIDGE, "INSIDE", TABLE)}
    assert whole - set(prepared(scene, containment=True).edges()) == mutual
    gone = whole - set(prepared(scene).edges())
    assert {(FRIDGE, "CLOSE", MILK), (MILK, "INSIDE", FRIDGE)} <= gone
    assert set(prepared(house()).edges()) == set(EDGES)
