"""Discounted returns and episode scores of a table, with penalties of invalid steps.

Functions that sum rewards raise ValueError on a reward beyond `LARGEST`.
"""

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import LARGEST
from agentgym.trajectory import Floats, Ints, StepTable
from agentgym.trajectory.forks import chain_sums
from wrappers.credit.forks import Forest, along, at_end, first_rows, over_forks
from wrappers.credit.group import episode_advantages, others_factor, standardise, statistics_of
from wrappers.credit.options import EpisodeOptions, OutcomeOptions, PenaltyOptions, StatisticsOptions, WorthOptions
from wrappers.credit.scores import step_scores


def discounted_returns(table: StepTable, gamma: float, reward: Floats | None = None) -> Floats:
    """Return `R_t = sum_k gamma^k r_{t+k}` to the end of the trajectory that played the row: float64 (N,), in O(N).

    `reward`: float64 (N,), in place of the table's rewards. For all episodes through a row see `mean_returns`.
    """
    return along(table, checked_rewards(table.reward if reward is None else reward), gamma)


def _shared_returns(table: StepTable, *, gamma: float, reward: Floats | None = None) -> Floats:
    return Forest(table).to_go(checked_rewards(table.reward if reward is None else reward), gamma)


@over_forks("reward", shared=_shared_returns)
def mean_returns(table: StepTable, *, gamma: float, reward: Floats | None = None) -> Floats:
    """Return `discounted_returns`; in a table with forks the mean over the episodes through each row."""
    return discounted_returns(table, gamma, reward)


def penalties(table: StepTable, options: PenaltyOptions, where: str) -> Floats:
    """Return float64 (N,): penalties of invalid steps if the option `penalty` equals `where`, else zeros."""
    if options["penalty"] != where:
        return np.zeros(len(table))
    return np.where(table.valid, 0.0, options["invalid_penalty"])


def shared_level(table: StepTable, options: StatisticsOptions) -> tuple[Floats, Ints, Floats]:
    """Return `episode_level` of a table with forks, in time linear in its rows.

    Returns float64 (N,), mean over the episodes through each row; int64 (K,), rows in the groups of the members of the
    statistics (option `over`); float64 (K,), their counts.
    """
    forest, lost = Forest(table), penalties(table, options, "row")
    scores = _trajectory_scores(table, options)
    members, values, times = table.last, scores - lost[forest.root], np.ones(len(scores))
    if options["over"] == "steps":
        # A step scores what its episode does, or that less the penalty: two members per episode stand for all of them.
        refused = chain_sums(table, np.where(table.valid, 0.0, 1.0))
        penalty = options["invalid_penalty"] if options["penalty"] == "row" else 0.0
        times = np.concatenate((table.episode_length - refused, refused))
        members, values = np.tile(table.last, 2)[times > 0], np.concatenate((scores, scores - penalty))[times > 0]
        times = times[times > 0]
    level = standardise(
        forest.mean(scores) - lost, table.group, table.n_groups, members=members, member_values=values,
        member_weights=times, **statistics_of(options),
    )  # fmt: skip
    return level, members, times


def _shared_level(table: StepTable, options: StatisticsOptions) -> Floats:
    return shared_level(table, options)[0]


@over_forks(shared=_shared_level)
def episode_level(table: StepTable, options: StatisticsOptions) -> Floats:
    """Compare outcomes of episodes, minus penalties, inside their group: float64 (N,); needs full options."""
    return episode_advantages(table, episode_scores(table, options), options)


def given_or_episode_level(table: StepTable, advantages: ArrayLike | None, options: StatisticsOptions) -> Floats:
    """Return the given advantages, float64 (N,), nan: not scored; None: those of `episode_level`.

    Raises:
        ValueError: as `wrappers.credit.scores.step_scores`.
    """
    return episode_level(table, options) if advantages is None else step_scores("advantages", advantages, len(table))


def _trajectory_scores(table: StepTable, options: OutcomeOptions) -> Floats:
    lost = chain_sums(table, penalties(table, options, "discounted"))
    scores: Floats = outcomes(table, options) - lost
    return scores


def _shared_scores(table: StepTable, options: OutcomeOptions) -> Floats:
    return Forest(table).mean(_trajectory_scores(table, options)) - penalties(table, options, "row")


@over_forks(shared=_shared_scores)
def episode_scores(table: StepTable, options: OutcomeOptions) -> Floats:
    """Return float64 (N,): the episode's outcome on each of its rows, minus penalties "row" and "discounted"."""
    return _trajectory_scores(table, options)[table.trajectory] - penalties(table, options, "row")


def outcomes(table: StepTable, options: WorthOptions) -> Floats:
    """Return float64 (M,): the worth of each episode."""
    if options["outcome"] == "won":
        return table.trajectory_won.astype(np.float64)
    checked_rewards(table.reward)
    return table.episode_return


def step_rewards(table: StepTable, options: OutcomeOptions) -> Floats:
    """Return float64 (N,): each step's part of its episode's outcome, minus the penalty "discounted".

    With the outcome "won": 1 at the end of a won episode, else 0.
    """
    if options["outcome"] == "won":
        reward = at_end(table, table.trajectory_won)
    else:
        reward = checked_rewards(table.reward)
    return reward - penalties(table, options, "discounted")


def checked_rewards(reward: Floats) -> Floats:
    """Return the rewards; ValueError if one is beyond `LARGEST`, since its square would overflow in statistics."""
    if len(reward) and not (reward.max() <= LARGEST and reward.min() >= -LARGEST):
        row = int(np.argmin(np.abs(reward) <= LARGEST))
        raise ValueError(f"rewards must be within +-{LARGEST:g}; the reward of row {row} is {reward[row]}")
    return reward


def _shared_against_others(table: StepTable, options: EpisodeOptions) -> Floats:
    centred, members, times = shared_level(table, _mean_only(options))
    return centred * others_factor(table.group[members], table.n_groups, times)[table.group]


@over_forks(shared=_shared_against_others)
def against_others(table: StepTable, options: EpisodeOptions) -> Floats:
    """Return float64 (N,): an episode's score minus the mean of the other episodes of its group."""
    centred = episode_advantages(table, episode_scores(table, options), _mean_only(options))
    members = table.group[first_rows(table)] if options["over"] == "trajectories" else table.group
    return centred * others_factor(members, table.n_groups)[table.group]


def _mean_only(options: EpisodeOptions) -> StatisticsOptions:
    return {**options, "std": "none", "ddof": 1, "eps": 0.0}
