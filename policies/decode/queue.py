"""Completions as they are finished: prompts join a sampler at any time, and none waits for the longest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.rollout.lanes import answers_of
from agentgym.trajectory import Reply
from policies.decode.cache import DecodeBatch, can_join
from policies.decode.sampler import (
    Completion,
    Decoding,
    LoopSampler,
    Restriction,
    Sampler,
    allowed_next,
    append_tokens,
    pick,
)
from policies.prompts import Prompt

if TYPE_CHECKING:
    from policies.huggingface import HuggingFacePolicy

#: New prompts are read once they are this share of the rows that are being written, so that a pass reads several.
_SHARE = 1 / 8


@dataclass
class Request:
    """A completion that is wanted, with what is written so far.

    `draws`, float64 (max_new_tokens,), and `restriction` are as `policies.decode.sampler.Sampler.write` takes them.
    """

    name: int
    prompt: Prompt
    draws: NDArray[np.float64] | None
    restriction: Restriction | None = None
    completion: Completion = field(default_factory=Completion)


class CompletionQueue(Protocol):
    """Prompts on their way to a sampler, under one decoding and one version of the weights.

    A sampler that writes single completions has a method `completion_queue(decoding)`, which returns one of these.
    """

    def put(self, request: Request) -> None:
        """Ask for a completion, and do not wait.

        Raises:
            ValueError: it is restricted, and the sampler cannot restrict.
        """
        ...

    def get(self) -> list[tuple[int, Completion | Exception]]:
        """Wait until something is finished, and return what is: names, and completions or why there is none.

        Called only while something is on its way; never an empty list. Each name comes once.
        """
        ...

    def close(self) -> None:
        """Give up what is on its way."""
        ...


class Together:
    """The queue of a sampler that writes whole batches: each `get` writes all that waits."""

    def __init__(self, sampler: Sampler, decoding: Decoding) -> None:
        self._sampler, self._decoding = sampler, decoding
        self._waiting: list[Request] = []

    def put(self, request: Request) -> None:
        """Note what is asked."""
        self._waiting.append(request)

    def get(self) -> list[tuple[int, Completion | Exception]]:
        """Write all that waits."""
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
        """Forget what is asked."""
        self._waiting = []


class Continuous:
    """Continuous batching over a model (Yu et al., Orca, OSDI 2022): rows leave and join between two tokens.

    A completion is the one of `policies.decode.sampler.complete`, up to the rounding of differently shaped matrix
    products. `decoding.batch_size` is the most rows at a time; `passes` counts forward passes.
    """

    def __init__(self, model: Any, decoding: Decoding) -> None:
        self._model, self._decoding = model, decoding
        self._waiting: list[Request] = []
        self._live: list[Request] = []
        self._batch: DecodeBatch | None = None
        self._tokens: torch.Tensor | None = None  # drawn for the live rows, and not read yet
        self._draws: torch.Tensor | None = None  # float64 (live, max_new_tokens)
        self._steps: torch.Tensor | None = None  # int64 (live, 1), how many of them are used
        self.passes = 0

    def put(self, request: Request) -> None:
        """Let a prompt wait for its place."""
        self._waiting.append(request)

    @torch.no_grad()
    def get(self) -> list[tuple[int, Completion | Exception]]:
        """Write until at least one completion is finished."""
        done: list[Request] = []
        while not done:
            if self._batch is not None and self._tokens is not None:
                self._batch.append(self._tokens)
                self.passes += 1
            self._admit()
            done = self._draw()
        return [(each.name, each.completion) for each in done]

    def _admit(self) -> None:
        room = self._decoding.batch_size - len(self._live)
        if not self._waiting or not room or len(self._waiting) < _SHARE * len(self._live):
            return
        # Neighbours in length share a pass.
        new = sorted(self._waiting[:room], key=lambda each: (len(each.prompt), each.prompt))
        self._waiting = self._waiting[room:]
        read = DecodeBatch(self._model, [each.prompt for each in new], self._decoding.fill)
        self.passes += 1
        self._live += new
        draws = [each.draws for each in new if each.draws is not None]
        if draws:
            table = torch.from_numpy(np.stack(draws)).to(read.logits.device)
            steps = table.new_zeros((len(new), 1), dtype=torch.int64)
            joins = self._draws is not None and self._steps is not None
            self._draws = torch.cat([self._draws, table]) if joins else table  # type: ignore[list-item]
            self._steps = torch.cat([self._steps, steps]) if joins else steps  # type: ignore[list-item]
        if self._batch is None:
            self._batch = read
        else:
            self._batch.join(read)

    def _draw(self) -> list[Request]:
        """Draw one token for every row, and take out those that are finished."""
        assert self._batch is not None
        rows, decoding = self._live, self._decoding
        completions, places = [each.completion for each in rows], list(range(len(rows)))
        limits = [each.restriction for each in rows]
        allowed = allowed_next(completions, places, limits if any(each is not None for each in limits) else None)
        drawn = None
        if self._draws is not None and self._steps is not None:
            drawn, self._steps = self._draws.gather(1, self._steps)[:, 0], self._steps + 1
        tokens, logprobs = pick(self._batch.logits, drawn, decoding.temperature, allowed)
        going = append_tokens(completions, places, tokens, logprobs, allowed, decoding)
        self._live, self._tokens = [rows[place] for place in going], tokens
        if not going:
            self._batch = self._tokens = self._draws = self._steps = None
        elif len(going) < len(rows):
            chosen = self._batch.keep(going)
            self._tokens = tokens[chosen]
            if self._draws is not None and self._steps is not None:
                self._draws, self._steps = self._draws[chosen], self._steps[chosen]
        return [each for place, each in enumerate(rows) if place not in set(going)]

    def close(self) -> None:
        """Forget all prompts and the cache."""
        self._waiting, self._live = [], []
        self._batch = self._tokens = self._draws = self._steps = None


def completion_queue(sampler: Sampler, model: Any, decoding: Decoding) -> CompletionQueue:
    """Return the queue of a sampler: its own, continuous batching for the loop, or one of whole batches.

    The loop's batches are whole ones where a reply is one token, and where the model's cache cannot be joined.
    """
    own: Callable[[Decoding], CompletionQueue] | None = getattr(sampler, "completion_queue", None)
    if own is not None:
        return own(decoding)
    # Replies of one token end together, and the loop remembers their logits.
    if type(sampler) is LoopSampler and decoding.max_new_tokens > 1 and can_join(model):
        return Continuous(sampler.playing(decoding.precision), decoding)
    return Together(sampler, decoding)


class PolicyQueue:
    """An `agentgym.rollout.lanes.ReplyQueue` of a policy, whose weights have a version that the sampler has."""

    def __init__(self, policy: HuggingFacePolicy, version: int) -> None:
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
        with self._policy.memory_explained():
            found = self._queue.get()
        return [
            (name, one if isinstance(one, Exception) else self._policy.reply(prompt, one, self._version))
            for name, one in answers_of(self._queue, found, self._prompts)
            for prompt in [self._prompts.pop(name)]
        ]

    def close(self) -> None:
        """Give up what is on its way."""
        self._queue.close()
