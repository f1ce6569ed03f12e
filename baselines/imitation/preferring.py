"""Preferences between whole episodes of a task: between the policy's own (DPO), or with the expert's (ETO).

    L = - log sigma( beta ( sum over better of log pi/pi_ref  -  sum over worse of log pi/pi_ref ) )

The sums run over the reply tokens of an episode.

DPO   Rafailov et al. 2023 (2305.18290): pairs of a won and a lost episode of the policy; pi_ref is the policy before
      the first round
ETO   Song et al. 2024 (2403.02502): pairs of an expert's and a policy's episode with different outcomes; pi_ref is the
      policy before the current round. The release runs 3 rounds: beta is .1 in the first and .5 in later ones, which
      also halve the learning rate
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from agentgym.checks import Count, Positive, Range, Size, Weight, fields_checked
from agentgym.trajectory import StepTable, Trajectory
from baselines.imitation.episodes import expert_episodes, own_episodes, relabelled, task_options
from baselines.imitation.method import Imitation, Round
from baselines.imitation.preferences import Preference, episode_preferences, prefer
from baselines.records.metrics import Row


@dataclass(frozen=True)
class Preferring(Imitation):
    """Learns which of two replies, or sequences of replies, is better.

    Attributes:
        temperature: of the policy's own episodes.
        beta, likelihood, epochs, batch_size: see `baselines.imitation.preferences.prefer`.
    """

    temperature: Positive = 1.0
    beta: Positive = 0.1
    likelihood: Weight = 0.0
    epochs: Size = 1
    batch_size: Size = 16

    def preferred(self, part: Round, pairs: Sequence[Preference], **changed: Any) -> Row:
        """Learn pairs, with the start as reference if the method needs one; return the figures of `Preferred`."""
        training = part.setting.training
        options: dict[str, Any] = {
            "beta": self.beta, "learning_rate": training.learning_rate,
            "max_grad_norm": training.optimiser.max_grad_norm, "weight_decay": training.optimiser.weight_decay,
            "microbatch_rows": training.memory.microbatch_rows,
        }  # fmt: skip
        learned = prefer(
            part.policy, pairs, reference=part.start if self.needs_start else None, likelihood=self.likelihood,
            epochs=self.epochs, batch_size=self.batch_size, seed=part.seed, progress=part.telling("preferences"),
            **options | changed,
        )  # fmt: skip
        return asdict(learned)


@dataclass(frozen=True)
class _OwnEpisodes(Preferring):
    """Compares episodes that the policy plays.

    Attributes:
        samples: the policy's episodes per task.
        margin: None: won episodes are better than lost ones; a number: an episode is better if its return is larger by
            more than that.
        hindsight: whether failed episodes also count as won episodes of the task that they completed; the policy then
            plays those tasks too.
    """

    samples: Size = 1
    margin: Weight | None = None
    hindsight: bool = False

    def played(self, part: Round) -> tuple[StepTable, list[Trajectory], list[Trajectory]]:
        """Return own episodes of the setting's tasks; episodes won in hindsight; own episodes of their tasks."""
        own = own_episodes(part, samples=self.samples, temperature=self.temperature)
        if not self.hindsight or not len(done := relabelled(part, own)):
            return own, [], []
        again = own_episodes(part, samples=self.samples, temperature=self.temperature, tasks=task_options(done))
        return own, done.to_trajectories(), again.to_trajectories()


@fields_checked
@dataclass(frozen=True)
class DPO(_OwnEpisodes):
    """Training on preferences between two of the policy's own episodes of a task.

    Attributes:
        per_task: most pairs of a task, drawn at random; 0: all.
    """

    needs_start: ClassVar[bool] = True
    name: str = "dpo"
    samples: Annotated[int, Range(low=2)] = 8
    per_task: Count = 4

    def learn(self, part: Round) -> Row:
        own, done, again = self.played(part)
        episodes = [*own.to_trajectories(), *done, *again]
        pairs = episode_preferences(episodes, margin=self.margin, per_task=self.per_task, seed=part.seed)
        return {"success": float(own.trajectory_won.mean()), **self.preferred(part, pairs)}


@fields_checked
@dataclass(frozen=True)
class ETO(_OwnEpisodes):
    """Learns to prefer the expert's episode to its own failed one; later rounds play with the improved policy.

    Attributes:
        later_beta: beta in rounds after the first.
        later_rate: factor on the learning rate in rounds after the first.
    """

    name: str = "eto"
    rounds: int = 3
    later_beta: Positive = 0.5
    later_rate: Positive = 0.5
    epochs: Size = 3

    def learn(self, part: Round) -> Row:
        expert = expert_episodes(part).to_trajectories()
        table, done, again = self.played(part)
        expert += done
        pairs = episode_preferences(
            [*expert, *table.to_trajectories(), *again],
            margin=self.margin,
            between=lambda better, worse: (better < len(expert)) != (worse < len(expert)),
        )
        rate = part.setting.training.learning_rate
        later = {"beta": self.later_beta, "learning_rate": rate * self.later_rate} if part.number else {}
        return {"success": float(table.trajectory_won.mean()), **self.preferred(part, pairs, **later)}
