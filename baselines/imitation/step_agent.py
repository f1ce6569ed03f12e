"""StepAgent: the expert's action in every visited state, Deng et al. 2024 (2411.03817).

    visit      the policy plays; in every state it comes to, the expert is asked what it would do
    implicit   where they differ, a pair of replies to the same prompt:
               L = - log sigma( beta (log pi/pi_ref of the expert's reply - log pi/pi_ref of the policy's) )
    agree      reward 1 where the policy acts as the expert would, else 0, less the mean over the round;
               one clipped policy-gradient update

The paper names an implicit reward and inverse reinforcement learning; no code of it is public. "implicit" is the
first, "agree" the plainest reward that stands for the second, without a discriminator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym.checks import fields_checked
from agentgym.rollout import Policy, collect
from agentgym.trajectory import Reply
from baselines.batch import make_batch
from baselines.config import Size
from baselines.imitation.cloning import Demonstrator
from baselines.imitation.episodes import sampler
from baselines.imitation.method import Round
from baselines.imitation.preferences import Preference
from baselines.imitation.preferring import Preferring
from baselines.records.metrics import Row
from baselines.update import make_optimizer, update


class Advised:
    """A player who notes, for every reply, what the expert would have replied.

    Attributes:
        advice: the expert's reply by the identity of the player's, which `replies` keeps alive.
        replies: the player's, in the order in which it gave them.
    """

    def __init__(self, player: Policy, expert: Demonstrator) -> None:
        self._player, self._expert = player, expert
        self.advice: dict[int, Reply] = {}
        self.replies: list[Reply] = []

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        replies = self._player.act(observations, infos, rng)
        self.replies += replies
        self.advice |= dict(zip(map(id, replies), self._expert.act(observations, infos, rng), strict=True))
        return replies

    def agrees(self, reply: Reply) -> bool:
        """Say whether the expert would have written the same."""
        return reply.text == self.advice[id(reply)].text


@fields_checked
@dataclass(frozen=True)
class StepAgent(Preferring):
    """Learns from an expert who looks on.

    Attributes:
        form: "implicit" or "agree", see the module.
        temperature: of sampling; for "agree" that of the setting's training is taken.
    """

    needs_start: ClassVar[bool] = True
    name: str = "stepagent"
    rounds: int = 3
    form: Literal["implicit", "agree"] = "implicit"
    samples: Size = 1
    batch_size: Size = 64

    def learn(self, part: Round) -> Row:
        training = part.setting.training
        temperature = self.temperature if self.form == "implicit" else training.temperature
        player = Advised(sampler(part.policy, temperature), Demonstrator(part.policy))
        tasks = part.setting.tasks
        table = collect(part.setting.envs, player, tasks=tasks, group_size=self.samples, seed=part.seed)
        # Where the expert is silent (a dead end) nobody knows better.
        judged = [reply for reply in player.replies if reply.token_ids and player.advice[id(reply)].token_ids]
        agreement = float(np.mean([player.agrees(reply) for reply in judged])) if judged else 0.0
        figures = {"success": float(table.trajectory_won.mean()), "agreement": agreement}
        if self.form == "implicit":
            pairs = [Preference((player.advice[id(r)],), (r,)) for r in judged if not player.agrees(r)]
            return figures | self.preferred(part, pairs)
        known = {id(reply) for reply in judged}
        replies: Any = table.replies
        advantages = np.array(
            [float(player.agrees(r)) - agreement if id(r) in known else np.nan for r in replies], np.float64
        )
        optimizer = make_optimizer(part.policy.model, training)
        rng = np.random.default_rng(part.seed)
        return figures | update(
            part.policy,
            optimizer,
            make_batch(table, advantages),
            training,
            rng,
            part.start if training.loss.kl else None,
        )
