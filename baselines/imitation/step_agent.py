"""StepAgent: learning from the expert's action in every visited state, Deng et al. 2024 (2411.03817).

    collect    the policy plays; the expert gives its action in every state that the policy visits
    implicit   each state in which the two actions differ gives a pair of replies to the same prompt:
               L = - log sigma( beta (log pi/pi_ref of the expert's reply - log pi/pi_ref of the policy's reply) )
    agree      the reward is 1 where the two actions are equal and 0 elsewhere, minus the round's mean reward;
               one clipped policy-gradient update

The paper describes an implicit reward and inverse reinforcement learning; it has no public code. "implicit" is the
implicit reward. "agree" replaces inverse reinforcement learning by the simplest reward without a discriminator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from agentgym.checks import Size, fields_checked
from agentgym.rollout import Policy, collect
from agentgym.rollout.groups import Infos
from agentgym.trajectory import Reply
from baselines.batch import make_batch
from baselines.imitation.cloning import Demonstrator
from baselines.imitation.episodes import sampler
from baselines.imitation.method import Round
from baselines.imitation.preferences import Preference
from baselines.imitation.preferring import Preferring
from baselines.records.metrics import Row
from baselines.update import make_optimizer, update


class Advised:
    """A player that records the expert's reply for each of its own.

    Attributes:
        advice: the expert's replies, by the `id` of the player's reply, which stays valid as `replies` holds them all.
        replies: the player's replies, in the order in which they were made.
    """

    def __init__(self, player: Policy, expert: Demonstrator) -> None:
        self._player, self._expert = player, expert
        self.advice: dict[int, Reply] = {}
        self.replies: list[Reply] = []

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        replies = self._player.act(observations, infos, rng)
        self.replies += replies
        self.advice |= dict(zip(map(id, replies), self._expert.act(observations, infos, rng), strict=True))
        return replies

    def agrees(self, reply: Reply) -> bool:
        """Return whether the expert's reply has the same text."""
        return reply.text == self.advice[id(reply)].text


@fields_checked
@dataclass(frozen=True)
class StepAgent(Preferring):
    """Learns from the expert's actions in the states that the policy visits.

    Attributes:
        form: "implicit" or "agree", see the module.
        temperature: of sampling, for "implicit"; "agree" samples at the temperature of the setting's training.
        samples: episodes per task.
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
        # The expert has no reply in dead ends: those steps are not compared.
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
            part.policy, optimizer, make_batch(table, advantages), training, rng,
            part.start if training.loss.kl else None,
        )  # fmt: skip
