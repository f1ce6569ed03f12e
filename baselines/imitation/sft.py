"""SFT: supervised fine-tuning on the expert's won episodes.

L = - mean over tokens of  log pi(token | prompt, tokens before)
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.checks import fields_checked
from baselines.config import Positive, Size
from baselines.imitation.cloning import imitate, won_steps
from baselines.imitation.episodes import expert_episodes, own_episodes, relabelled
from baselines.imitation.method import Imitation, Round
from baselines.metrics import Row


@fields_checked
@dataclass(frozen=True)
class SFT(Imitation):
    """More passes over what the clone has learned from: what any other method has to beat.

    Attributes:
        hindsight: also learn what the policy's failed episodes did, one episode of each task.
    """

    name: str = "sft"
    epochs: Size = 3
    hindsight: bool = False
    temperature: Positive = 1.0

    def learn(self, part: Round) -> Row:
        steps = won_steps(expert_episodes(part))
        if self.hindsight:
            own = own_episodes(part, samples=1, temperature=self.temperature)
            steps += won_steps(relabelled(part, own))
        learned = imitate(
            part.policy, steps, epochs=self.epochs, seed=part.seed, progress=part.telling("imitation"),
            **part.setting.supervised,
        )  # fmt: skip
        return {"rows": float(learned.rows), "loss": learned.history[-1]["loss"]}
