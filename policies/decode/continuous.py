"""Continuous batching: replies leave a batch and prompts join it between two tokens."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from policies.decode.batch import KeyedBatch
from policies.decode.graph import StepGraphs
from policies.decode.kept import KeptKeys, TokenCounts
from policies.decode.sampler import Completion, Decoding, Restriction, allowed_next, append_tokens, pick
from policies.prompts import Prompt

#: New prompts are read once they are this share of the current rows, so that a pass reads several.
_SHARE = 1 / 8
#: Most columns that are made at once for tokens to come.
_ROOM = 256


@dataclass
class Request:
    """A requested completion, with its tokens so far.

    `draws`, float64 (max_new_tokens,), and `restriction` are as `policies.decode.sampler.Sampler.write` takes them.
    """

    name: int
    prompt: Prompt
    draws: NDArray[np.float64] | None
    restriction: Restriction | None = None
    completion: Completion = field(default_factory=Completion)


class Continuous:
    """Continuous batching over a model (Yu et al., Orca, OSDI 2022): rows leave and join between two tokens.

    A completion is the one of `policies.decode.sampler.complete`, up to the rounding of differently shaped matrix
    products. `decoding.batch_size` is the most rows at a time; `passes` counts forward passes.
    """

    def __init__(
        self,
        model: Any,
        decoding: Decoding,
        kept: KeptKeys | None = None,
        counts: TokenCounts | None = None,
        graphs: StepGraphs | None = None,
    ) -> None:
        self._model, self._decoding, self._kept, self._counts, self._graphs = model, decoding, kept, counts, graphs
        self._waiting: list[Request] = []
        self._live: list[Request] = []
        self._batch: KeyedBatch | None = None
        self._tokens: torch.Tensor | None = None  # drawn for the live rows, and not read yet
        self._draws: torch.Tensor | None = None  # float64 (live, max_new_tokens)
        self._steps: torch.Tensor | None = None  # int64 (live, 1), how many of them are used
        self.passes = 0

    def put(self, request: Request) -> None:
        self._waiting.append(request)

    @torch.no_grad()
    def get(self) -> list[tuple[int, Completion | Exception]]:
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
        new, self._waiting = self._waiting[:room], self._waiting[room:]
        room = min(self._decoding.max_new_tokens, _ROOM)
        read = KeyedBatch(self._model, [each.prompt for each in new], self._kept, self._counts, self._graphs, room)
        self.passes += 1
        self._live += new
        draws = [each.draws for each in new if each.draws is not None]
        if draws:
            table = torch.from_numpy(np.stack(draws)).to(read.logits.device, non_blocking=True)
            steps = table.new_zeros((len(new), 1), dtype=torch.int64)
            joins = self._draws is not None and self._steps is not None
            self._draws = torch.cat([self._draws, table]) if joins else table  # type: ignore[list-item]
            self._steps = torch.cat([self._steps, steps]) if joins else steps  # type: ignore[list-item]
        if self._batch is None:
            self._batch = read
        else:
            self._batch.join(read)

    def _draw(self) -> list[Request]:
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
        left = set(going)
        done = [place for place in places if place not in left]
        for place in done:  # the last token was not read
            self._batch.store(place, (*rows[place].prompt, *completions[place].token_ids[:-1]))
        self._tokens = tokens
        if not going:
            self._batch = self._tokens = self._draws = self._steps = None
        elif done:
            going, chosen = self._batch.keep(going)
            self._tokens = tokens[chosen]
            if self._draws is not None and self._steps is not None:
                self._draws, self._steps = self._draws[chosen], self._steps[chosen]
        self._live = [rows[place] for place in going]
        return [rows[place] for place in done]

    def close(self) -> None:
        self._waiting, self._live = [], []
        self._batch = self._tokens = self._draws = self._steps = None
