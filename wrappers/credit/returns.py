"""Discounted returns and episode scores of a table, with the penalty of invalid steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dtbsv

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.forks import over_forks
from wrappers.credit.group import episode_advantages
from wrappers.credit.options import LARGEST, OutcomeOptions, PenaltyOptions, StatisticsOptions, WorthOptions
from wrappers.credit.scores import step_scores


def discounted_returns(table: StepTable, gamma: float, reward: Floats | None = None) -> Floats:
    """Return `R_t = sum_k gamma^k r_{t+k}` to the end of each trajectory: float64 (N,), in O(N).

    Each row's trajectory is the one that played it; for all episodes through a row see `mean_returns`.

    Args:
        table: N rows.
        gamma: discount per step.
        reward: float64 (N,), instead of the table's rewards.

    Raises:
        ValueError: on a reward beyond `LARGEST`.
    """
    if len(table) == 0:
        return np.zeros(0)
    rewards = checked_rewards(table.reward if reward is None else reward)
    result = np.empty(len(table))
    result[table.order] = discounted_sums(rewards[table.order], table.offsets[:-1], gamma)
    return result


@over_forks("reward")
def mean_returns(table: StepTable, *, gamma: float, reward: Floats | None = None) -> Floats:
    """Return `discounted_returns`, in a table with forks the mean over the episodes that go through each row."""
    return discounted_returns(table, gamma, reward)


def discounted_sums(values: Floats, starts: Ints, gamma: float) -> Floats:
    """Return `S_t = sum_k gamma^k v_{t+k}` to the end of each sequence: float64 (N,), in O(N).

    Args:
        values: float64 (N,), one sequence behind the other.
        starts: int64 (M,), where each sequence begins.
        gamma: discount per place.

    >>> discounted_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 2]), 0.5)
    array([2., 2., 4.])
    """
    if len(values) == 0:
        return np.zeros(0)
    # S_t - gamma S_{t+1} = v_t is a banded triangular system; the band is cut where a sequence ends.
    bands = np.empty((2, len(values)), order="F")
    bands[0] = -gamma
    bands[0, starts] = 0.0
    bands[1] = 1.0
    sums: Floats = dtbsv(1, bands, values)
    return sums


def penalties(table: StepTable, options: PenaltyOptions, where: str) -> Floats:
    """Return float64 (N,): what invalid steps lose where the option `penalty` says so, else zeros."""
    if options["penalty"] != where:
        return np.zeros(len(table))
    return np.where(table.valid, 0.0, options["invalid_penalty"])


@over_forks()
def episode_level(table: StepTable, options: StatisticsOptions) -> Floats:
    """Compare the outcomes of episodes, less penalties, inside their group: float64 (N,); needs full options.

    Raises:
        ValueError: as `episode_scores`.
    """
    return episode_advantages(table, episode_scores(table, options), options)


def given_or_episode_level(table: StepTable, advantages: ArrayLike | None, options: StatisticsOptions) -> Floats:
    """Return what is to be modulated, float64 (N,), nan: not scored: another method's advantages; None: GRPO's.

    Raises:
        ValueError: as `episode_scores`, or as `wrappers.credit.scores.step_scores`.
    """
    return episode_level(table, options) if advantages is None else step_scores("advantages", advantages, len(table))


@over_forks()
def episode_scores(table: StepTable, options: OutcomeOptions) -> Floats:
    """Return float64 (N,): the episode's outcome on each of its rows, less penalties "row" and "discounted".

    Raises:
        ValueError: on a reward beyond `LARGEST`, where the outcome is the return.
    """
    lost = penalties(table, options, "discounted")
    per_trajectory = outcomes(table, options) - np.bincount(
        table.trajectory, weights=lost, minlength=table.n_trajectories
    )
    return per_trajectory[table.trajectory] - penalties(table, options, "row")


def outcomes(table: StepTable, options: WorthOptions) -> Floats:
    """Return float64 (M,): what each episode was worth.

    Raises:
        ValueError: on a reward beyond `LARGEST`, where the outcome is the return.
    """
    if options["outcome"] == "won":
        return table.trajectory_won.astype(np.float64)
    checked_rewards(table.reward)
    return table.episode_return


def checked_rewards(reward: Floats) -> Floats:
    """Return the rewards, none of which may be beyond `LARGEST`: their squares would overflow in statistics."""
    if len(reward) and not (reward.max() <= LARGEST and reward.min() >= -LARGEST):
        row = int(np.argmin(np.abs(reward) <= LARGEST))
        raise ValueError(f"rewards must be within +-{LARGEST:g}; the reward of row {row} is {reward[row]}")
    return reward
