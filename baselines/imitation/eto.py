"""ETO: exploration-based trajectory optimisation, Song et al. 2024 (2403.02502).

    round i:  play the expert's tasks;  where the outcome differs from the expert's, a pair
              L = - log sigma( beta ( sum over better of log pi/pi_i  -  sum over worse of log pi/pi_i ) )

pi_i, the reference, is the policy before the round. The release has 3 rounds, with beta .1 in the first and .5 later,
where the learning rate is halved.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from agentgym.checks import fields_checked
from baselines.config import Positive, Size, Weight
from baselines.imitation.episodes import expert_episodes, own_episodes, relabelled, task_options
from baselines.imitation.method import Imitation, Round
from baselines.imitation.preferences import episode_preferences, prefer
from baselines.metrics import Row


@fields_checked
@dataclass(frozen=True)
class ETO(Imitation):
    """Learns to prefer the expert's episode to its own failure, again and again.

    Attributes:
        samples: own episodes per task; the release has one.
        margin: None: won episodes are better than lost ones; else those whose return is larger by more than that.
        beta: of the first round, see `baselines.losses.preference`.
        later_rate: factor on the learning rate in them.
        likelihood: see `baselines.imitation.preferences.prefer`.
        hindsight: also take the failed episodes, as won ones of what they did, for an expert's: the policy plays those
            tasks too.
    """

    name: str = "eto"
    rounds: int = 3
    temperature: Positive = 1.0
    samples: Size = 1
    margin: Weight | None = None
    beta: Positive = 0.1
    later_beta: Positive = 0.5
    later_rate: Positive = 0.5
    likelihood: Weight = 0.0
    epochs: Size = 3
    batch_size: Size = 16
    hindsight: bool = False

    def learn(self, part: Round) -> Row:
        expert = expert_episodes(part).to_trajectories()
        table = own_episodes(part, samples=self.samples, temperature=self.temperature)
        own = table.to_trajectories()
        if self.hindsight and len(done := relabelled(part, table)):
            again = own_episodes(part, samples=self.samples, temperature=self.temperature, tasks=task_options(done))
            expert += done.to_trajectories()
            own += again.to_trajectories()
        pairs = episode_preferences(
            [*expert, *own],
            margin=self.margin,
            between=lambda better, worse: (better < len(expert)) != (worse < len(expert)),
        )
        later = part.number > 0
        given = part.preferring
        given["learning_rate"] *= self.later_rate if later else 1.0
        learned = prefer(
            part.policy, pairs, beta=self.later_beta if later else self.beta, likelihood=self.likelihood,
            epochs=self.epochs, batch_size=self.batch_size, **given,
        )  # fmt: skip
        return {"success": float(table.trajectory_won.mean()), **asdict(learned)}
