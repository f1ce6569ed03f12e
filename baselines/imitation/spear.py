"""SPEAR: policy gradients on new episodes and self-imitation of good earlier ones, Qin et al. 2025 (2509.22601).

    new episodes   A = R - mean of the group (the group comparison without division by the deviation), clipped
                   surrogate, no KL
    buffer         the steps of episodes with A > 0, with the log-probabilities from when they were written; steps older
                   than `tolerance` rounds are dropped
    replay         once the buffer is full: A' = R - median of the group means of the last rounds. Steps with A' > 0 are
                   trained with the same surrogate, weighted with c (1 - cos(pi min(t, T) / T)) / 2. Then the buffer is
                   emptied

A' differs from A because the policy improves: an episode that was above its group's mean may be below today's median.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.checks import Count, Size, Weight, fields_checked
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.batch import make_batch
from baselines.imitation.episodes import relabelled, sampler
from baselines.imitation.method import Imitation, Round
from baselines.off_policy import rescored
from baselines.play.reply_costs import written
from baselines.play.rollouts import play_groups
from baselines.records.metrics import Row
from baselines.update import make_optimizer, update
from wrappers.credit.group import group_means
from wrappers.credit.options import StatisticsOptions, presets
from wrappers.credit.returns import episode_level


@dataclass(frozen=True)
class Kept:
    """A step of a good episode: its reply, the return of its episode, and the round in which it was written."""

    reply: Reply
    worth: float
    number: int


@fields_checked
@dataclass(frozen=True)
class SPEAR(Imitation):
    """A group comparison on new episodes, plus self-imitation from a buffer of good ones.

    Groups, temperature, learning rate, clip and mini-batches are those of the setting's training.

    Attributes:
        buffer: size of the buffer in steps, and the most steps of a replay, drawn at random (release: 2048).
        tolerance: age in rounds above which a step is dropped (release: 5).
        baseline: how many of the latest group means the median is taken over (release: 10240).
        coefficient: c, the largest weight of the replay.
        ramp: T, in rounds (release: 100 to 300).
        hindsight: whether failed episodes enter the buffer too, relabelled as won episodes of the task that they
            completed, with the current policy's log-probabilities.
    """

    name: str = "spear"
    rounds: int = 30
    buffer: Size = 1024
    tolerance: Count = 5
    baseline: Size = 10240
    coefficient: Weight = 1.0
    ramp: Size = 20
    hindsight: bool = False

    def learn(self, part: Round) -> Row:
        config = part.setting.training.changed(loss={"kl": 0.0})
        rng = np.random.default_rng(part.seed)
        optimizer = make_optimizer(part.policy.model, config)
        if "optimizer" in part.state:
            optimizer.load_state_dict(part.state["optimizer"])
        tasks = part.setting.tasks
        chosen = [tasks[i] for i in rng.permutation(len(tasks))[: config.groups].tolist()]
        player = sampler(part.policy, config.temperature)
        table = written(play_groups(part.setting.envs, player, chosen, config, part.seed))
        advantages = episode_level(table, {**presets(StatisticsOptions)["paper"], "std": "none"})
        figures = update(part.policy, optimizer, make_batch(table, advantages), config, rng)

        kept, means = _remembered(part.state)
        kept += _steps(table, advantages > 0, table.episode_return, part.number)
        if self.hindsight and len(done := relabelled(part, table)):
            done = rescored(part.policy, done, temperature=config.temperature)
            kept += _steps(done, np.ones(len(done), np.bool_), done.episode_return, part.number)
        kept = [step for step in kept if part.number - step.number <= self.tolerance]
        now = group_means(table.episode_return, table.trajectory_group, table.n_groups)
        means = [*means, *now.tolist()][-self.baseline :]
        replayed = 0
        if len(kept) >= self.buffer:
            good = [step for step in kept if step.worth > float(np.median(means))]
            good = [good[i] for i in rng.permutation(len(good))[: self.buffer].tolist()]
            weight = self.coefficient * self.weight(part.number)
            worth = np.array([step.worth for step in good]) - float(np.median(means))
            if good and weight > 0:
                # Several rounds wrote these steps. Equal rows have different old log-probabilities, so no rows are
                # merged; the policies of those rounds are gone, so the stored log-probabilities are used.
                batch = make_batch(_table([step.reply for step in good]), weight * worth, merge=False)
                stored = config.changed(loss={"old_logprobs": "stored", "tis": None}, rollout={"staleness": 0})
                update(part.policy, optimizer, batch, stored, rng)
                replayed = len(good)
            kept = []
        part.state |= {
            "optimizer": optimizer.state_dict(),
            "kept": [[*map(list, _columns(step.reply)), step.worth, step.number] for step in kept],
            "means": means,
        }
        success = float(table.trajectory_won.mean())
        return figures | {"success": success, "buffer": float(len(kept)), "replayed": float(replayed)}

    def weight(self, number: int) -> float:
        """Return the factor on the replay's loss in a round, counted from 0: 0 at first, 1 from `ramp` rounds on.

        >>> [round(SPEAR(ramp=20).weight(number), 2) for number in (0, 10, 20, 30)]
        [0.0, 0.5, 1.0, 1.0]
        """
        return (1.0 - math.cos(math.pi * min(number, self.ramp) / self.ramp)) / 2.0


def _steps(table: StepTable, good: Any, worth: Floats, number: int) -> list[Kept]:
    replies: Any = table.replies
    return [Kept(replies[row], float(worth[table.trajectory[row]]), number) for row in np.flatnonzero(good).tolist()]


def _columns(reply: Reply) -> tuple[Sequence[Any], ...]:
    return reply.prompt_ids, reply.token_ids, reply.logprobs, reply.allowed


def _remembered(state: dict[str, Any]) -> tuple[list[Kept], list[float]]:
    kept = [
        Kept(
            Reply("", tuple(prompt), tuple(tokens), tuple(logprobs), allowed=tuple(map(tuple, allowed))), worth, number
        )
        for prompt, tokens, logprobs, allowed, worth, number in state.get("kept", ())
    ]
    return kept, list(state.get("means", ()))


def _table(replies: Sequence[Reply]) -> StepTable:
    n = len(replies)
    return StepTable.from_arrays(
        group=[0] * n, trajectory=range(n), t=[0] * n, state=[""] * n, action=[""] * n, next_state=[""] * n,
        reward=[0.0] * n, won=[True] * n, replies=replies,
    )  # fmt: skip
