"""Queues of completions: prompts join a sampler at any time, and each completion returns as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from agentgym.rollout.groups import Infos
from agentgym.rollout.lanes import answers_of
from agentgym.trajectory import Reply
from policies.decode.batch import takes_runs
from policies.decode.continuous import Request
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Completion, Decoding, Sampler
from policies.prompts import Prompt

if TYPE_CHECKING:
    from policies.huggingface import HuggingFacePolicy


class CompletionQueue(Protocol):
    """Requests to a sampler, under one decoding and one version of the weights.

    A sampler that writes single completions has a method `completion_queue(decoding)`, which returns a queue.
    """

    def put(self, request: Request) -> None:
        """Request a completion, without waiting for it.

        Raises:
            ValueError: the request has a restriction, which the sampler does not support.
        """

    def get(self) -> list[tuple[int, Completion | Exception]]:
        """Wait until requests are finished, and return their names and completions, or the errors.

        Called only while requests are pending; never an empty list. Each name comes once.
        """

    def close(self) -> None:
        """Cancel pending requests."""


class Together:
    """The queue of a sampler that writes whole batches: each `get` writes all queued requests."""

    def __init__(self, sampler: Sampler, decoding: Decoding) -> None:
        self._sampler, self._decoding = sampler, decoding
        self._waiting: list[Request] = []

    def put(self, request: Request) -> None:
        """Queue requests."""
        self._waiting.append(request)

    def get(self) -> list[tuple[int, Completion | Exception]]:
        """Write all queued requests."""
        asked, self._waiting = self._waiting, []
        draws = None if asked[0].draws is None else np.stack([each.draws for each in asked if each.draws is not None])
        restrictions = [each.restriction for each in asked]
        limits = restrictions if any(each is not None for each in restrictions) else None
        written = self._sampler.write([each.prompt for each in asked], draws, self._decoding, limits)
        if len(written) != len(asked):
            raise ValueError(
                f"{type(self._sampler).__name__}.write returned {len(written)} completions of {len(asked)} prompts: "
                "expected one for each, in their order"
            )
        return [(each.name, one) for each, one in zip(asked, written, strict=True)]

    def close(self) -> None:
        """Drop the queued requests."""
        self._waiting = []


def completion_queue(sampler: Sampler, model: Any, decoding: Decoding) -> CompletionQueue:
    """Return the queue of a sampler: its own, continuous batching for the loop, or one of whole batches."""
    own: Callable[[Decoding], CompletionQueue] | None = getattr(sampler, "completion_queue", None)
    if own is not None:
        return own(decoding)
    # Replies of one token end together, and the loop caches their logits.
    if type(sampler) is LoopSampler and decoding.max_new_tokens > 1 and takes_runs(model):
        return sampler.continuous(decoding)
    return Together(sampler, decoding)


class PolicyQueue:
    """An `agentgym.rollout.lanes.ReplyQueue` of a policy, for the weights that its sampler has."""

    def __init__(self, policy: HuggingFacePolicy, version: int) -> None:
        self._policy, self._version = policy, version
        self._queue = completion_queue(policy.sampler, policy.model, policy.decoding)
        self._prompts: dict[int, Prompt] = {}
        self._unfit: list[int] = []

    def put(
        self, names: Sequence[int], observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]
    ) -> None:
        """Request replies; each draws `max_new_tokens` numbers from its generator, none if greedy."""
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
        """Return finished replies."""
        if self._unfit:
            unfit, self._unfit = self._unfit, []
            return [(name, self._policy.reply(None, Completion(), self._version)) for name in unfit]
        with self._policy.memory_explained():
            found = self._queue.get()
        return [
            (name, one if isinstance(one, Exception) else self._policy.reply(prompt, one, self._version))
            for name, one in answers_of(self._queue, found, self._prompts)
            for prompt in [self._prompts.pop(name)]
        ]

    def close(self) -> None:
        """Cancel pending requests."""
        self._queue.close()
