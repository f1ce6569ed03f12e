"""RFT: rejection-sampling fine-tuning, Yuan et al. 2023 (2308.01825), as agents' papers use it.

D = expert's won episodes  +  the policy's own won episodes, N samples of each task at temperature .7,
    of those with the same actions one
L = - mean over the tokens of D of  log pi(token | prompt, tokens before)
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.checks import fields_checked
from baselines.config import Positive, Size
from baselines.imitation.cloning import imitate, won_steps
from baselines.imitation.episodes import distinct_wins, expert_episodes, own_episodes, relabelled
from baselines.imitation.method import Imitation, Round
from baselines.metrics import Row


@fields_checked
@dataclass(frozen=True)
class RFT(Imitation):
    """Learns what won.

    Attributes:
        expert: whether the expert's episodes are learned besides.
        hindsight: whether failed samples are learned as won episodes of what they did.
    """

    name: str = "rft"
    samples: Size = 10
    temperature: Positive = 0.7
    epochs: Size = 3
    expert: bool = True
    hindsight: bool = False

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
            "rows": float(len(steps)),
        }
        if not steps:  # nothing was won: nothing to learn
            return figures
        learned = imitate(
            part.policy, steps, epochs=self.epochs, seed=part.seed, progress=part.telling("imitation"),
            **part.setting.supervised,
        )  # fmt: skip
        return figures | {"loss": learned.history[-1]["loss"]}
