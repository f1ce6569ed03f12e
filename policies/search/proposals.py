"""What can be answered in a state, where that is known: its admissible commands, with probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Reply
from policies.scripted import tagged


class Listed:
    """The commands of `infos["admissible_actions"]`, each as a reply, with its probability.

    Where a state lists no command, the policy is asked as if nothing were listed.

    Args:
        policy: a `policies.huggingface.HuggingFacePolicy`, whose probabilities at its temperature count, divided by
            their sum over the listed commands; None: all commands are equally probable.

    >>> infos = {"admissible_actions": np.array([("up", "down"), ()], dtype=object)}
    >>> replies, priors, tokens = Listed().replies(["board", "board"], infos)
    >>> [reply.text for reply in replies[0]], priors, tokens
    (['<action>up</action>', '<action>down</action>'], [[0.5, 0.5], []], [0, 0])
    """

    def __init__(self, policy: Any = None) -> None:
        self.policy = policy

    def replies(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]]
    ) -> tuple[list[list[Reply]], list[list[float]], list[int]]:
        """Return the replies of each of n sub-environments, their probabilities, and the tokens read for these.

        Args:
            observations: one each.
            infos: their info columns.

        Raises:
            KeyError: the infos list no commands.
            ValueError: the policy cannot write one of them.
        """
        if "admissible_actions" not in infos:
            raise KeyError(
                f"replies are listed from infos['admissible_actions'], but the infos hold {sorted(infos)}: leave the "
                "list out, and the policy is asked for replies"
            )
        commands = [tuple(each) for each in infos["admissible_actions"]]
        if self.policy is None:
            listed = [[Reply(tagged(command)) for command in each] for each in commands]
            return listed, [_shares([0.0] * len(each)) for each in listed], [0] * len(listed)
        settings = self.policy.settings
        before, after = settings.prefix or "<action>", settings.suffix or "</action>"
        listed = [
            [self.policy.demonstrate(observation, f"{before}{command}{after}") for command in each]
            for observation, each in zip(observations, commands, strict=True)
        ]
        # A prompt that does not fit gives no tokens to be scored (the policy's setting truncate="end-episode").
        listed = [each if all(reply.token_ids for reply in each) else [] for each in listed]
        scores = self._scores([reply for each in listed for reply in each])
        ends = np.cumsum([len(each) for each in listed]).tolist()
        priors = [_shares(scores[end - len(each) : end]) for end, each in zip(ends, listed, strict=True)]
        return listed, priors, [sum(len(reply.token_ids) for reply in each) for each in listed]

    def _scores(self, replies: Sequence[Reply]) -> list[float]:
        """Log-probabilities of whole replies."""
        if not replies:
            return []
        import torch

        with torch.no_grad():
            scores = self.policy.score([reply.prompt_ids for reply in replies], [reply.token_ids for reply in replies])
            found: list[float] = scores.logprobs.double().sum(dim=1).tolist()
        return found


def _shares(scores: Sequence[float]) -> list[float]:
    """Probabilities that sum to 1, from logarithms."""
    highest = max(scores, default=0.0)
    weights = [math.exp(score - highest) for score in scores]
    return [weight / sum(weights) for weight in weights]
