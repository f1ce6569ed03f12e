"""Supervised fine-tuning on won episodes: L = - mean over tokens of log pi(token | prompt, tokens before).

SFT   the expert's won episodes
RFT   the expert's and the policy's won episodes: N samples of each task, without repetitions of the same actions
      (rejection sampling, Yuan et al. 2023, 2308.01825, as papers on agents use it)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.checks import Positive, Size, fields_checked
from agentgym.trajectory import Reply
from baselines.imitation.cloning import imitate, won_steps
from baselines.imitation.episodes import distinct_wins, expert_episodes, own_episodes, relabelled
from baselines.imitation.method import Imitation, Round
from baselines.records.metrics import Row


@dataclass(frozen=True)
class Supervised(Imitation):
    """Learns the steps of episodes by maximum likelihood.

    Attributes:
        hindsight: whether the policy's failed episodes are learned too, as won episodes of the task they completed.
    """

    epochs: Size = 3
    temperature: Positive = 1.0
    hindsight: bool = False

    def imitated(self, part: Round, steps: Sequence[Reply]) -> Row:
        """Learn steps; return their number and the last epoch's loss, which is left out where there are none."""
        rows = {"rows": float(len(steps))}
        if not steps:
            return rows
        learned = imitate(
            part.policy, steps, epochs=self.epochs, seed=part.seed, progress=part.telling("imitation"),
            **part.setting.supervised,
        )  # fmt: skip
        return rows | {"loss": learned.history[-1]["loss"]}


@fields_checked
@dataclass(frozen=True)
class SFT(Supervised):
    """Further passes over the data of the clone: the baseline of the other methods."""

    name: str = "sft"

    def learn(self, part: Round) -> Row:
        steps = won_steps(expert_episodes(part))
        if self.hindsight:
            steps += won_steps(relabelled(part, own_episodes(part, samples=1, temperature=self.temperature)))
        return self.imitated(part, steps)


@fields_checked
@dataclass(frozen=True)
class RFT(Supervised):
    """Learns the policy's own won episodes.

    Attributes:
        samples: the policy's episodes per task.
        expert: whether the expert's episodes are learned too.
    """

    name: str = "rft"
    samples: Size = 10
    temperature: Positive = 0.7
    expert: bool = True

    def learn(self, part: Round) -> Row:
        own = own_episodes(part, samples=self.samples, temperature=self.temperature)
        wins = distinct_wins(own)
        done = distinct_wins(relabelled(part, own)) if self.hindsight else None
        steps = won_steps(expert_episodes(part)) if self.expert else []
        steps += won_steps(wins)
        if done is not None:
            steps += won_steps(done)
        figures = {
            "success": float(own.trajectory_won.mean()),
            "distinct_wins": float(wins.n_trajectories),
            "relabelled": float(done.n_trajectories) if done is not None else 0.0,
        }
        return figures | self.imitated(part, steps)
