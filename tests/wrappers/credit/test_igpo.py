import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.naive import groups
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
    scores = np.zeros(len(table))
    for group in groups(table):
        rewards = {}
        for trajectory, rows in group:
            rewards |= {row: beliefs[after] - beliefs[row] for row, after in pairwise(rows)}
            rewards[rows[-1]] = sum(step.reward for step in trajectory.steps)
        ends = {rows[-1] for _, rows in group}
        for _, rows in group:
            ahead = 0.0
            for row in reversed(rows):
                alike = [r for other, r in rewards.items() if not separate or (other in ends) == (row in ends)]
                spread = np.std(alike)
                ahead = (rewards[row] - np.mean(alike)) / (spread + 1e-6) * (spread > 1e-9) + gamma * ahead
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
