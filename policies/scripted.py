"""Players without a model: uniformly random, the environment's own expert, and an expert that errs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.rollout.groups import Infos
from agentgym.trajectory import Reply


def tagged(command: str) -> str:
    """Return the reply that asks for `command`, in the form the reply parser reads.

    >>> tagged("up")
    '<action>up</action>'
    """
    return f"<action>{command}</action>"


#: The reply of a scripted player that has no action to offer.
SILENT = tagged("")


class RandomPolicy:
    """Plays one of the admissible actions, each with the same probability.

    Without an admissible action the reply is an empty action, and no random number is drawn. Replies are tagged: they
    need `wrappers.VectorReplyParser` around the environment.

    >>> infos = {"admissible_actions": np.array([("up", "down"), ()], dtype=object)}
    >>> replies = RandomPolicy().act(["board", "board"], infos, np.random.default_rng(0))
    >>> replies[0].text in ("<action>up</action>", "<action>down</action>"), replies[1].text
    (True, '<action></action>')
    """

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        """Return one reply per running sub-environment, drawn in their order; observations are not read.

        Raises:
            KeyError: the infos hold no `admissible_actions`.
        """
        return self.act_each(observations, infos, [rng] * len(observations))

    def act_each(self, observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]) -> list[Reply]:
        options = _column(infos, "admissible_actions", "use an environment that follows the info contract")
        return [
            Reply(tagged(given[rng.integers(len(given))]) if given else SILENT)
            for given, rng in zip(options, rngs, strict=True)
        ]


class ExpertPolicy:
    """Plays what the environment's expert recommends: `infos["expert_action"]`.

    The expert sees the latent state, so this is an upper bound and a source of demonstrations, not a competitor.
    A sub-environment where the expert has no answer (for example a dead end) gets an empty, invalid action.

    >>> infos = {"expert_action": np.array(["left"], dtype=object)}
    >>> ExpertPolicy().act(["board"], infos, np.random.default_rng(0))[0].text
    '<action>left</action>'
    """

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        """Return one reply per running sub-environment; `observations` and `rng` are not used.

        Raises:
            KeyError: the environments were not made with `expert=True`.
        """
        advice = _column(infos, "expert_action", "make the environments with expert=True")
        return [Reply(tagged(command)) for command in advice]

    def act_each(self, observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]) -> list[Reply]:
        return self.act(observations, infos, rngs[0])


class NoisyExpert:
    """Plays the expert's action with probability `optimal`, else one of `others` (None: whatever is admissible).

    Without an expert's action, as in a dead end, all is uniform. Environments are made with `expert=True`; the reply is
    the bare command.

    >>> infos = {"expert_action": np.array(["left", ""], dtype=object)}
    >>> replies = NoisyExpert(1.0, ("up", "down")).act(["a", "b"], infos, np.random.default_rng(0))
    >>> [reply.text for reply in replies]
    ['left', 'up']
    """

    def __init__(self, optimal: float, others: Sequence[str] | None = None) -> None:
        if not 0 <= optimal <= 1:
            raise ValueError(f"optimal must be a probability, got {optimal}")
        self.optimal, self.others = optimal, others

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        """One reply per running sub-environment; the same numbers are drawn whatever the expert says."""
        follows = rng.random(len(observations)) < self.optimal
        if self.others is not None:
            chosen = rng.integers(len(self.others), size=len(observations))
            options: Sequence[Sequence[str]] = [self.others] * len(observations)
        else:
            options = infos["admissible_actions"].tolist()
            counts = np.array([len(given) for given in options])
            chosen = (rng.random(len(observations)) * counts).astype(np.int64)
        return [
            Reply(best if best and follow else given[other] if given else "")
            for best, follow, other, given in zip(
                infos["expert_action"].tolist(), follows.tolist(), chosen.tolist(), options, strict=True
            )
        ]


def _column(infos: Infos, key: str, remedy: str) -> NDArray[Any]:
    if key not in infos:
        raise KeyError(f"this policy needs infos[{key!r}], but the infos hold {sorted(infos)}: {remedy}")
    return infos[key]
