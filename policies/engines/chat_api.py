"""A language model behind an OpenAI-compatible endpoint as a policy, for all environments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any, TypeGuard

import numpy as np

from agentgym.outside.chat.endpoint import BegunRequest, ChatEndpoint
from agentgym.outside.chat.wire import BudgetSpentError, ChatAnswer, ChatFailure, ChatRequest
from agentgym.rollout.groups import Infos
from agentgym.trajectory import Reply
from policies.vision import data_url


class EndpointError(RuntimeError):
    """The endpoint did not answer for some sub-environments; `failures` has the reason for each of them."""

    def __init__(self, failures: Sequence[ChatFailure], asked: int) -> None:
        self.failures = tuple(failures)
        first = self.failures[0]
        super().__init__(
            f"no answer for {len(failures)} of {asked} sub-environments; {first.reason} (tries: {first.attempts})"
        )


class ChatPolicy:
    """Requests the replies of all sub-environments from a model at the same time.

    An endpoint that does not answer after all its tries is an `EndpointError`. With a cache (`ChatEndpoint(...,
    cache=...)`) the same run continues where it stopped. A prompt that does not fit the endpoint's context gets an
    empty reply with the finish "prompt-too-long", which ends the episode, and one warning; before any request was
    answered it is an `EndpointError`.

    Replies have no tokens, so they can be compared and cloned, but not trained by policy gradients.

    Args:
        patient: do not raise failures, but return empty replies and list the failures in `answers`. Such a policy has
            no queue.

    Attributes:
        answers: the endpoint's answers to the latest observations, one each, tokens and failures included.
    """

    def __init__(self, endpoint: ChatEndpoint, *, patient: bool = False) -> None:
        self.endpoint, self.patient = endpoint, patient
        self.answers: list[ChatAnswer | ChatFailure] = []
        self._warned = False

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        """Return one reply per running sub-environment.

        Args:
            observations: one each: a str (taken as one user message) or a sequence of chat messages, whose
                pictures (uint8, height x width x 3) are sent as PNG.
            rng: gives a seed to each request, in their order.

        Raises:
            EndpointError: the endpoint did not answer for one.
            TypeError: an observation is neither a str nor a sequence of messages.
        """
        return self.act_each(observations, infos, [rng] * len(observations))

    def act_each(self, observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]) -> list[Reply]:
        seeds = [int(rng.integers(2**31)) for rng in rngs]
        requests = [ChatRequest(sent_messages(each), seed) for each, seed in zip(observations, seeds, strict=True)]
        self.answers = self.endpoint.ask(requests)
        failures = [answer for answer in self.answers if _is_outage(answer, self.endpoint)]
        usage = self.endpoint.usage
        if failures and not (self.patient and usage.answered + usage.remembered):
            raise EndpointError(failures, len(self.answers))
        return [self._reply(answer) for answer in self.answers]

    def _reply(self, answer: ChatAnswer | ChatFailure) -> Reply:
        if isinstance(answer, ChatAnswer):
            return Reply(answer.text)
        if not answer.too_long:
            return Reply("")
        if not self._warned:
            self._warned = True
            warnings.warn(f"prompts do not fit, and their episodes end there; {answer.reason}", stacklevel=4)
        return Reply("", finish="prompt-too-long")

    def reply_queue(self) -> ChatQueue | None:
        """Return a queue of single requests, see `agentgym.rollout.lanes`; None for a patient policy."""
        return None if self.patient else ChatQueue(self.endpoint, self._reply)


def _is_outage(answer: ChatAnswer | ChatFailure, endpoint: ChatEndpoint) -> TypeGuard[ChatFailure]:
    return isinstance(answer, ChatFailure) and not (answer.too_long and endpoint.spent().answered)


class ChatQueue:
    """Requests on their way to an endpoint; see `agentgym.rollout.lanes.ReplyQueue`.

    Args:
        reply: makes a reply of an answer that is not a failure.
    """

    def __init__(self, endpoint: ChatEndpoint, reply: Callable[[ChatAnswer | ChatFailure], Reply]) -> None:
        self._endpoint, self._reply = endpoint, reply
        self._asked: dict[int, BegunRequest] = {}

    def put(
        self, names: Sequence[int], observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]
    ) -> None:
        """Send some requests, each with a seed from its own generator.

        Raises:
            agentgym.outside.chat.wire.BudgetSpentError: the budget does not allow all; the answers to earlier requests
                are kept.
        """
        for name, observation, rng in zip(names, observations, rngs, strict=True):
            request = ChatRequest(sent_messages(observation), int(rng.integers(2**31)))
            try:
                self._asked[name] = self._endpoint.begin(request)
            except BudgetSpentError:
                while self._asked:  # a cancelled request would be paid for twice
                    self._asked.popitem()[1].answer()
                raise

    def get(self) -> list[tuple[int, Reply | Exception]]:
        done = wait([begun.came for begun in self._asked.values()], return_when=FIRST_COMPLETED).done
        return [self._answered(name) for name in [name for name, each in self._asked.items() if each.came in done]]

    def _answered(self, name: int) -> tuple[int, Reply | Exception]:
        answer = self._asked.pop(name).answer()
        if _is_outage(answer, self._endpoint):
            return name, EndpointError([answer], 1)
        return name, self._reply(answer)

    def close(self) -> None:
        for begun in self._asked.values():
            if not begun.came.cancel():
                begun.answer()
        self._asked.clear()


def sent_messages(observation: Any) -> list[dict[str, Any]]:
    """Return an observation as the messages that are sent, JSON values: pictures become PNGs in data URLs.

    Answers of tools have the role "user": endpoints take "tool" only after calls that they wrote in their own form.

    Raises:
        TypeError: it is neither a str nor a sequence of messages.
    """
    if isinstance(observation, str):
        return [{"role": "user", "content": observation}]
    try:
        return [
            {"role": "user" if message["role"] == "tool" else message["role"], "content": _content(message["content"])}
            for message in observation
        ]
    except (TypeError, KeyError, IndexError):
        raise TypeError(
            "an observation must be a str or a sequence of {'role': ..., 'content': ...} messages, got "
            f"{observation!r:.200}: wrap the environments in wrappers.VectorPromptWindow"
        ) from None


def _content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"type": "image_url", "image_url": {"url": data_url(part["image"])}} if part["type"] == "image" else part
        for part in content
    ]
