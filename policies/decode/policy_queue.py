"""The requests of a policy over a sampler: observations are encoded as they come, replies are read as they are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym.rollout.queue import answers_of
from agentgym.trajectory import Reply
from policies.decode.queue import Request, completion_queue
from policies.decode.sampler import Completion, Decoding, Restriction, Sampler
from policies.pretrained import Settings
from policies.prompts import Prompt


class _Policy(Protocol):
    """What is needed of `policies.huggingface.HuggingFacePolicy`."""

    model: Any
    settings: Settings
    sampler: Sampler

    @property
    def decoding(self) -> Decoding: ...

    def encode_or_end(self, observation: Any) -> Prompt | None: ...

    def restrictions(self, infos: Mapping[str, NDArray[Any]]) -> Sequence[Restriction | None] | None: ...

    def reply(self, prompt: Prompt | None, one: Completion, version: int) -> Reply: ...


class PolicyQueue:
    """An `agentgym.rollout.queue.ReplyQueue`.

    Args:
        policy: whose replies they are.
        version: of its weights, which the sampler has.
    """

    def __init__(self, policy: _Policy, version: int) -> None:
        self._policy, self._version = policy, version
        self._queue = completion_queue(policy.sampler, policy.model, policy.decoding)
        self._prompts: dict[int, Prompt] = {}
        self._unfit: list[int] = []

    def put(
        self,
        names: Sequence[int],
        observations: Sequence[Any],
        infos: Mapping[str, NDArray[Any]],
        rngs: Sequence[np.random.Generator],
    ) -> None:
        """Ask for some replies; each takes `max_new_tokens` numbers from its generator, none when greedy."""
        settings = self._policy.settings
        restrictions = self._policy.restrictions(infos) or [None] * len(names)
        for name, observation, rng, limit in zip(names, observations, rngs, restrictions, strict=True):
            draws = rng.random(settings.max_new_tokens) if settings.temperature > 0 else None
            prompt = self._policy.encode_or_end(observation)
            if prompt is None:
                self._unfit.append(name)
            else:
                self._prompts[name] = prompt
                self._queue.put(Request(name, prompt, draws, limit))

    def get(self) -> list[tuple[int, Reply | Exception]]:
        """Return what is answered."""
        if self._unfit:
            unfit, self._unfit = self._unfit, []
            return [(name, self._policy.reply(None, Completion(), self._version)) for name in unfit]
        return [
            (name, one if isinstance(one, Exception) else self._policy.reply(prompt, one, self._version))
            for name, one in answers_of(self._queue, self._queue.get(), self._prompts)
            for prompt in [self._prompts.pop(name)]
        ]

    def close(self) -> None:
        """Give up what is on its way."""
        self._queue.close()
