import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.small_tables import close, episodes, random_table
from wrappers.credit import grpo, igpo

# Two episodes of a task: a looks twice and answers rightly, b looks once and answers wrongly.
TABLE = episodes("q -look-> u -look-> v -say-> right +", "q -look-> w -say-> wrong")
BELIEFS = [0.1, 0.3, 0.9, 0.1, 0.0]
REWARDS = np.array([0.2, 0.6, 1.0, -0.1, 0.0])  # gains, and outcomes at the end


def test_by_hand() -> None:
    # Mean 1.7 / 5 = .34: -.14 .26 .66 | -.44 -.34.
    close(igpo(TABLE, beliefs=BELIEFS, std="none"), [0.78, 0.92, 0.66, -0.78, -0.34])
    # Gains .2 .6 -.1 about 7/30, outcomes 1 and 0 about .5.
    turns = np.array([0.2, 0.6, -0.1]) - 7 / 30
    expected = [turns[0] + turns[1] + 0.5, turns[1] + 0.5, 0.5, turns[2] - 0.5, -0.5]
    close(igpo(TABLE, beliefs=BELIEFS, std="none", compare="separate"), expected)
    plain = igpo(TABLE, beliefs=BELIEFS, std="none")
    close(igpo(TABLE, beliefs=BELIEFS, eps=0.0), plain / REWARDS.std(ddof=1))
    close(igpo(TABLE, beliefs=BELIEFS, eps=0.0, preset="authors"), plain / REWARDS.std())
    raised = igpo(TABLE, beliefs=[0.1, 0.3, 1.0, 0.1, 0.0], std="none") - igpo(TABLE, beliefs=BELIEFS, std="none")
    close(raised, np.array([0.04, 0.06, -0.02, -0.04, -0.02]))  # +.1 at (a, 1), mean + .02
    lost = dataclasses.replace(TABLE, won=np.zeros(5, np.bool_), reward=np.zeros(5))
    assert not grpo(lost).any()
    scores = igpo(lost, beliefs=BELIEFS, compare="separate")
    assert scores[1] > 0 > scores[3]
    assert scores[2] == scores[4] == 0  # the answers themselves are told apart by their outcome alone
    assert not igpo(lost, beliefs=[0.5] * 5).any()
    close(igpo(TABLE, beliefs=[0.5] * 5, compare="separate"), grpo(TABLE))
    invalid = dataclasses.replace(TABLE, valid=np.array([True, False, True, True, True]))
    plain = igpo(TABLE, beliefs=BELIEFS, std="none")
    for penalty in ("row", "discounted"):  # -.5 at (a, 1), felt before; the mean falls by .1
        felt = igpo(invalid, beliefs=BELIEFS, std="none", invalid_penalty=0.5, penalty=penalty) - plain
        close(felt, [-0.2, -0.3, 0.1, 0.2, 0.1])


def naive(table: StepTable, beliefs: np.ndarray, gamma: float, separate: bool) -> np.ndarray:
    """The release's steps in plain words: rewards, statistics per group, then sums from the back."""
    rewards: dict[int, float] = {}
    ends: set[int] = set()
    for trajectory in range(table.n_trajectories):
        rows = [int(row) for row in table.order if table.trajectory[row] == trajectory]
        for row, after in pairwise(rows):
            rewards[row] = beliefs[after] - beliefs[row]
        rewards[rows[-1]] = sum(table.reward[row] for row in rows)
        ends.add(rows[-1])
    scores = np.zeros(len(table))
    for trajectory in range(table.n_trajectories):
        ahead: Any = 0.0
        for row in [int(row) for row in table.order if table.trajectory[row] == trajectory][::-1]:
            with_it = [
                value for other, value in rewards.items()
                if table.group[other] == table.group[row] and not (separate and (other in ends) != (row in ends))
            ]  # fmt: skip
            spread = np.std(with_it)
            ahead = (rewards[row] - np.mean(with_it)) / (spread + 1e-6) * (spread > 1e-9) + gamma * ahead
            scores[row] = ahead
    return scores


@given(
    seed=st.integers(0, 10**6), gamma=st.sampled_from([0.0, 0.9, 1.0]), compare=st.sampled_from(["joint", "separate"])
)
def test_equals_plain_loops(compare: Any, seed: int, gamma: float) -> None:
    table = random_table(seed)
    beliefs = np.random.default_rng(seed).random(len(table))
    found = igpo(table, beliefs=beliefs, preset="authors", gamma=gamma, compare=compare)
    close(found, naive(table, beliefs, gamma, compare == "separate"))
