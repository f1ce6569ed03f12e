"""The corridor: what right and wrong directions do, luck, limit, distance and tasks."""

import math
from itertools import combinations

import numpy as np
import pytest

from agentgym.corridor.env import DIRECTIONS, MEANING, WORDS, CorridorEnv
from baselines.environments.corridor import Guide
from tests.refusals import refuses


def begun(**options: object) -> tuple[CorridorEnv, list[str]]:
    """An episode, and the right directions of its rooms."""
    env = CorridorEnv(**options)
    env.reset(options={"split": "train", "index": 3})
    return env, [MEANING[word] for word in env.content("train/3")]


def wrong(direction: str) -> str:
    return DIRECTIONS[(DIRECTIONS.index(direction) + 1) % 4]


def test_directions_texts_and_limits_by_hand() -> None:
    env, right = begun(length=4)
    assert [env.step(each)[1:3] for each in right] == [(0.0, False)] * 3 + [(1.0, True)]
    assert env.distance() == 0
    assert env.optimal_actions() == ()
    env, right = begun(length=4, wrong="end")
    observation, reward, terminated, truncated, info = env.step(wrong(right[0]))
    assert (reward, terminated, truncated, info["won"], info["state_key"]) == (0.0, True, False, False, "lost")
    assert "lost" in observation
    assert env.distance() == math.inf
    env, right = begun(length=4, limit=5)
    info = env.step("go north")[4]
    assert (info["is_action_valid"], info["state_key"]) == (False, "0")
    assert env.step(f"  {right[0].upper()} ")[4]["state_key"] == "1"
    assert [env.step("jump")[3] for _ in range(3)] == [False, False, True]
    for length, limit in ((3, 5), (6, 9), (12, 18), (24, 36)):
        env, right = begun(length=length)
        assert env.limit == limit
        for _ in range(limit - length):
            assert not env.step(wrong(right[0]))[3]
        *_, terminated, truncated, info = [env.step(each) for each in right][-1]
        assert (terminated, truncated, info["won"]) == (True, False, True)


@pytest.mark.parametrize(("what", "room"), [("stay", 2), ("back", 1), ("start", 0)])
def test_a_wrong_direction(what: str, room: int) -> None:
    env, right = begun(length=4, wrong=what)
    env.step(right[0])
    env.step(right[1])
    observation, reward, terminated, _, info = env.step(wrong(right[2]))
    assert observation.startswith(f"Room {room + 1} of 4.")
    assert (reward, terminated, info["is_action_valid"], info["state_key"]) == (0.0, False, True, str(room))
    assert info["score"] == room / 4
    assert env.distance() == 4 - room


def test_slips_words_and_splits_are_as_they_say_and_wrong_arguments_are_named() -> None:
    env, right = begun(length=2, slip=0.25, limit=10**6)
    assert env.distance() == pytest.approx(2 / 0.75)
    before, stayed = env.snapshot(), 0
    for seed in range(2000):
        env.restore(before, seed)
        stayed += env.step(right[0])[4]["state_key"] == "0"
    assert stayed / 2000 == pytest.approx(0.25, abs=0.03)  # three standard deviations
    assert [list(MEANING.values()).count(each) for each in DIRECTIONS] == [6] * 4
    env = CorridorEnv(length=3, num_tasks=300)
    found = {split: {tuple(env.content(each)) for each in env.task_ids(split)} for split in env.tasks.splits}
    assert len(found) == 3
    assert not any(found[one] & found[other] for one, other in combinations(found, 2))
    assert set().union(*found["train"]) == set(WORDS)
    for name, value, words in (
        ("length", 0, "at least 1"), ("limit", 0, "at least 1"), ("wrong", "die", "unknown wrong 'die'"),
        ("slip", 1.0, "a probability"),
    ):  # fmt: skip
        refuses(ValueError, words, CorridorEnv, **{name: value})


def test_the_guide_mistakes_half_of_the_words_as_often_as_it_says() -> None:
    rng, right = np.random.default_rng(0), {word: [] for word in WORDS}
    for _ in range(300):
        guide = Guide(0.7)
        for word in rng.permutation(WORDS):
            right[word].append(guide.act(f"Room 1 of 9. The sign says: {word}.", DIRECTIONS) == MEANING[word])
    shares = [float(np.mean(right[word])) for word in WORDS]
    assert [share for i, share in enumerate(shares) if i % 8 >= 4] == [1.0] * 12
    assert all(abs(share - 0.3) < 0.1 for i, share in enumerate(shares) if i % 8 < 4)
