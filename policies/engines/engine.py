"""Base of the samplers over an engine: seeds, versions of weights, and a check that engine and trainer agree.

Most faults between an engine and the trainer raise no error. So the trainer also scores the first replies after every
change of weights, and a difference is an error.
"""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from agentgym.rollout.lanes import answers_of
from policies.decode.batch import PaddedBatch
from policies.decode.cache import PlayedModel
from policies.decode.continuous import Request
from policies.decode.queue import CompletionQueue, Together
from policies.decode.sampler import Completion, Decoding, Restriction
from policies.prompts import Prompt
from policies.scoring import score_replies
from policies.scoring.head import Rows, pad

#: Number of replies that are compared after a change of weights.
_PROBED = 4
#: Largest mean difference of log-probabilities, in nats: kernels round differently.
_TOLERANCE, _TOLERANCE_IN_16_BITS = 1e-3, 0.05
#: In 16 bits, limit relative to the difference between the trainer's own loop and its scores.
_TIMES_THE_LOOP = 3.0


class EngineError(RuntimeError):
    """The engine does not sample from the trainer's policy, or does not return what is needed to verify it."""


class CompletionStream(Protocol):
    """Single completions of an engine, as they are finished."""

    def put(self, name: int, prompt: Prompt, seed: int | None) -> None:
        """Request a completion; a seed of None is greedy."""

    def get(self) -> list[tuple[int, Completion | Exception]]: ...

    def close(self) -> None: ...


class EngineSampler:
    """A `policies.decode.sampler.Sampler` over an engine; subclasses send weights (`send`) and prompts (`generate`).

    Args:
        holds: version of the weights that the engine has initially, -1: none.

    Attributes:
        tolerant: whether differing log-probabilities set `failed` instead of raising.
    """

    def __init__(self, holds: int = 0) -> None:
        self.version = holds
        self._model: Any = None
        self._proved = False
        self.tolerant = self.failed = False

    def send(self, model: Any, version: int) -> None:
        raise NotImplementedError

    def rest(self) -> None:
        """Free what can be freed until replies are asked for again."""

    def generate(self, prompts: Sequence[Prompt], seeds: Sequence[int | None], decoding: Decoding) -> list[Completion]:
        """Write one completion per prompt; a seed of None is greedy."""
        raise NotImplementedError

    def stream(self, decoding: Decoding) -> CompletionStream | None:
        """Return a writer of single completions; None: the engine writes whole batches."""
        return None

    def completion_queue(self, decoding: Decoding) -> CompletionQueue:
        """Return a queue that does the same completion by completion, see `policies.decode.queue`."""
        stream = self.stream(decoding)
        return Together(self, decoding) if stream is None else _EngineQueue(self, stream, decoding)

    def follow(self, model: nn.Module, version: int) -> None:
        first, self._model = self._model is None, model
        if version != self.version or (first and hasattr(model, "peft_config")):
            self.send(model, version)
            self.version, self._proved = version, False

    def write(
        self,
        prompts: Sequence[Prompt],
        draws: NDArray[np.float64] | None,
        decoding: Decoding,
        restrictions: Sequence[Restriction | None] | None = None,
    ) -> list[Completion]:
        """Write one completion per prompt; the first ones after a change of weights are compared with the trainer.

        Raises:
            EngineError: the engine's log-probabilities are not the trainer's, or an answer cannot be trained on.
            ValueError: a restriction was given; no engine here supports it.
        """
        for each in restrictions or ():
            self.refuse(each)
        seeds = [None] * len(prompts) if draws is None else [seed_of(row) for row in draws]
        found = self.generate(prompts, seeds, decoding)
        if len(found) != len(prompts):
            raise EngineError(f"the engine gave {len(found)} completions for {len(prompts)} prompts")
        for place, one in enumerate(found):
            check_completion(one, place, decoding, self.vocabulary)
        self.prove(prompts, found, decoding)
        return found

    def refuse(self, restriction: Restriction | None) -> None:
        """Raise a ValueError if there is a restriction."""
        if restriction is not None:
            raise ValueError(
                f"{type(self).__name__} cannot restrict replies to admissible commands: leave sampler=None, or "
                "admissible=False"
            )

    @property
    def vocabulary(self) -> int | None:
        """Vocabulary size of the trainer's model; None if unknown."""
        known = getattr(self._model, "get_input_embeddings", lambda: None)()
        return getattr(known, "num_embeddings", None)

    def prove(self, prompts: Sequence[Prompt], found: Sequence[Completion], decoding: Decoding) -> None:
        """Compare some completions with the trainer, once per change of the weights; see `prove`."""
        if not self._proved and self._model is not None and found:
            try:
                prove(self._model, prompts[:_PROBED], found[:_PROBED], decoding, self.version)
            except EngineError:
                if not self.tolerant:
                    raise
                self.failed = True
            self._proved = True

    def __deepcopy__(self, memo: object) -> EngineSampler:
        return self


class _EngineQueue:
    def __init__(self, sampler: EngineSampler, stream: CompletionStream, decoding: Decoding) -> None:
        self._sampler, self._stream, self._decoding = sampler, stream, decoding
        self._prompts: dict[int, Prompt] = {}

    def put(self, request: Request) -> None:
        self._sampler.refuse(request.restriction)
        self._prompts[request.name] = request.prompt
        self._stream.put(request.name, request.prompt, None if request.draws is None else seed_of(request.draws))

    def get(self) -> list[tuple[int, Completion | Exception]]:
        found: list[tuple[int, Completion | Exception]] = []
        sound: list[tuple[Prompt, Completion]] = []
        for name, one in answers_of(self._stream, self._stream.get(), self._prompts):
            prompt = self._prompts.pop(name)
            try:
                if isinstance(one, Completion):
                    check_completion(one, name, self._decoding, self._sampler.vocabulary)
                    sound.append((prompt, one))
            except EngineError as error:
                found.append((name, error))
            else:
                found.append((name, one))
        self._sampler.prove([prompt for prompt, _ in sound], [one for _, one in sound], self._decoding)
        return found

    def close(self) -> None:
        self._stream.close()


def seed_of(draws: NDArray[np.float64]) -> int:
    """Return the seed of a completion, 53 bits of its first uniform number."""
    return int(draws[0] * 2**53)


def check_completion(one: Completion, place: int, decoding: Decoding, vocabulary: int | None = None) -> None:
    """Cut a completion where the loop would have ended it, and check that it can be trained on.

    Args:
        vocabulary: vocabulary size of the model; None: token ids are not checked.

    Raises:
        EngineError: it has no tokens, one that the model does not know, or no finite log-probability for each; the
            message names its place.
    """
    unknown = [token for token in one.token_ids if token < 0 or (vocabulary is not None and token >= vocabulary)]
    if unknown:
        raise EngineError(
            f"completion {place} has the token id {unknown[0]!s:.40}, and the trainer's model knows "
            f"{'ids from 0' if vocabulary is None else f'0 to {vocabulary - 1}'}: the engine has another model"
        )
    _cut(one, decoding)
    if not one.token_ids or len(one.token_ids) != len(one.logprobs) or not all(map(math.isfinite, one.logprobs)):
        raise EngineError(
            f"completion {place} has {len(one.token_ids)} tokens, log-probabilities {one.logprobs!r:.60}: "
            "expected at least one token, and a number for each"
        )


def _cut(one: Completion, decoding: Decoding) -> None:
    for length in range(1, min(len(one.token_ids), decoding.max_new_tokens) + 1):
        if decoding.is_end(one.token_ids[:length]):
            del one.token_ids[length:], one.logprobs[length:]
            one.finish = "stop"
            return
    del one.token_ids[decoding.max_new_tokens :], one.logprobs[decoding.max_new_tokens :]


@torch.no_grad()
def prove(
    model: Any, prompts: Sequence[Prompt], written: Sequence[Completion], decoding: Decoding, version: int
) -> float:
    """Compare the log-probabilities of an engine with those of the trainer's model, at the sampling temperature.

    Args:
        written: what the engine wrote after them, with its log-probabilities.

    Returns:
        The mean difference in nats, over all tokens.

    Raises:
        EngineError: it is above 0.001; if the trainer computes in 16 bits, above 0.05 and above three times the
            difference between the trainer's own loop and its scores on these replies. The message names the largest.
    """
    replies = [one.token_ids for one in written]
    temperature = decoding.temperature or 1.0
    scores = score_replies(
        model, prompts, replies, temperature=temperature, fill=decoding.fill, precision=decoding.precision
    )
    given = torch.zeros_like(scores.logprobs)
    for row, one in enumerate(written):
        given[row, : len(one.logprobs)] = torch.tensor(one.logprobs)
    apart = (given - scores.logprobs).abs() * scores.mask
    count = scores.mask.sum()
    mean = float(apart.sum() / count)
    exact = decoding.precision is None and next(model.parameters()).dtype == torch.float32
    limit = _TOLERANCE if exact else _TOLERANCE_IN_16_BITS
    if not exact and mean > limit:
        looped = _loop_logprobs(model, prompts, replies, decoding)
        limit = max(limit, _TIMES_THE_LOOP * float(((looped - scores.logprobs).abs() * scores.mask).sum() / count))
    if not mean <= limit:
        row, place = divmod(int(apart.argmax()), apart.shape[1])
        raise EngineError(
            f"the engine does not sample from the trainer's policy (weights {version}, temperature {temperature}): "
            f"log-probabilities differ by {mean:.2g} nats in the mean, at most {limit:.2g} is rounding; the largest "
            f"difference is {float(apart[row, place]):.3g}, token {place} of reply {row}: engine "
            f"{float(given[row, place]):.4f}, trainer {float(scores.logprobs[row, place]):.4f}. Usual causes: weights "
            "or an adapter that the engine did not reload, a prefix cache of older weights, log-probabilities that "
            "leave out the temperature (logprobs_mode must be 'processed_logprobs'), another model"
        )
    return mean


def _loop_logprobs(model: Any, prompts: Sequence[Prompt], replies: Rows, decoding: Decoding) -> torch.Tensor:
    """Return the log-probabilities that the loop computes for given replies, token by token: float32 (n, L)."""
    device = next(model.parameters()).device
    ids, _ = pad(replies, fill=decoding.fill, left=False, device=device)
    batch = PaddedBatch(PlayedModel(model).of(decoding.precision, None), prompts, decoding.fill)
    logits = [batch.logits]
    for tokens in ids[:, :-1].unbind(1):
        batch.append(tokens)
        logits.append(batch.logits)
    logprobs = torch.log_softmax(torch.stack(logits, 1) / (decoding.temperature or 1.0), dim=-1)
    return logprobs.gather(2, ids[:, :, None])[:, :, 0]


class WeightFolder:
    """Weights for an engine, each version in a new folder; other files there are not changed.

    Args:
        work: a folder that the engine can read; it is made if necessary.

    Raises:
        ValueError: it is a file.
    """

    def __init__(self, work: str | Path) -> None:
        self._work = Path(work)
        if self._work.exists() and not self._work.is_dir():
            raise ValueError(f"work must be a folder, for weights on their way to the engine: {self._work} is a file")
        self._written: list[Path] = []

    def write(self, model: Any, version: int) -> tuple[Path, Literal["adapter", "whole"]]:
        """Write the weights of a version, see `save_weights`; return the folder and the kind."""
        folder = self._work / str(version)
        again = itertools.count(2)
        while folder.exists():
            folder = self._work / f"{version}-{next(again)}"
        self._written.append(folder)
        return folder, save_weights(model, folder)

    def remove_older(self) -> None:
        """Remove all folders written here except the newest."""
        while len(self._written) > 1:
            shutil.rmtree(self._written.pop(0), ignore_errors=True)


def save_weights(model: Any, folder: Path) -> Literal["adapter", "whole"]:
    """Write the weights for an engine: the adapter if there is one, else the whole model."""
    folder.mkdir(parents=True)
    if hasattr(model, "peft_config"):
        model.save_pretrained(folder, save_embedding_layers=False)
        return "adapter"
    model.save_pretrained(folder)
    return "whole"
