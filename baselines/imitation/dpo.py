"""DPO on the policy's own won and lost episodes of a task, Rafailov et al. 2023 (2305.18290), over whole episodes.

    L = - log sigma( beta ( sum over won of log pi/pi_ref  -  sum over lost of log pi/pi_ref ) )

The sums are over the reply tokens of an episode; pi_ref is the policy before the first round.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

from agentgym.checks import fields_checked
from baselines.config import Count, Positive, Range, Size, Weight
from baselines.imitation.episodes import own_episodes, relabelled, task_options
from baselines.imitation.method import Imitation, Round
from baselines.imitation.preferences import episode_preferences, prefer
from baselines.metrics import Row


@fields_checked
@dataclass(frozen=True)
class DPO(Imitation):
    """Learns which of two own episodes of a task is better.

    Attributes:
        per_task: most pairs of a task, drawn at random; 0: all.
        margin: None: won episodes are better than lost ones; else those whose return is larger by more than that.
        beta: see `baselines.losses.preference`.
        likelihood: see `baselines.imitation.preferences.prefer`.
        hindsight: also pair what failed episodes did, as won episodes of that task, with the policy's lost episodes of
            it: it plays those tasks too, `samples` times.
    """

    needs_start: ClassVar[bool] = True
    name: str = "dpo"
    samples: Annotated[int, Range(low=2)] = 8
    temperature: Positive = 1.0
    per_task: Count = 4
    margin: Weight | None = None
    beta: Positive = 0.1
    likelihood: Weight = 0.0
    epochs: Size = 1
    batch_size: Size = 16
    hindsight: bool = False

    def learn(self, part: Round) -> Row:
        own = own_episodes(part, samples=self.samples, temperature=self.temperature)
        episodes = own.to_trajectories()
        if self.hindsight and len(done := relabelled(part, own)):
            again = own_episodes(part, samples=self.samples, temperature=self.temperature, tasks=task_options(done))
            episodes += [*done.to_trajectories(), *again.to_trajectories()]
        pairs = episode_preferences(episodes, margin=self.margin, per_task=self.per_task, seed=part.seed)
        learned = prefer(
            part.policy, pairs, reference=part.start, beta=self.beta, likelihood=self.likelihood, epochs=self.epochs,
            batch_size=self.batch_size, **part.preferring,
        )  # fmt: skip
        return {"success": float(own.trajectory_won.mean()), **asdict(learned)}
