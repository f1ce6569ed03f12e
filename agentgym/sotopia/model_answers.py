"""Ask a model, and once more where its answer cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from agentgym.chat.endpoint import ChatEndpoint
from agentgym.chat.wire import ChatAnswer, ChatFailure, ChatRequest
from agentgym.foreign_text import clean
from agentgym.sotopia.exchange import Failure

_T = TypeVar("_T")
#: Characters of an answer that are read, and that are sent back.
_MOST_READ, _MOST_QUOTED = 200_000, 4_000


class UnreadableFailure(Failure):
    """The endpoint answered, but what it wrote could not be read, twice."""


def ask_readable(
    endpoint: ChatEndpoint, requests: Sequence[ChatRequest], read: Callable[[str, int], _T]
) -> list[_T | Failure]:
    """Return what the answers say, in the order of the requests.

    An answer that `read` refuses is sent back to the model once, with the reason, as the next turn of its chat; so is
    none that the endpoint failed to give.

    Args:
        endpoint: the model.
        requests: what it is asked.
        read: takes the text of an answer and the index of its request; raises ValueError when it cannot be read.
    """
    results: list[_T | Failure | None] = [None] * len(requests)
    tries = [0] * len(requests)
    again: list[tuple[int, ChatRequest]] = list(enumerate(requests))
    for last in (False, True):
        answers = endpoint.ask([request for _, request in again])
        refused = []
        for (i, request), answer in zip(again, answers, strict=True):
            tries[i] += answer.attempts
            if isinstance(answer, ChatFailure):
                results[i] = Failure(answer.reason, tries[i])
                continue
            try:
                results[i] = read(clean(answer.text, _MOST_READ), i)
            except ValueError as error:
                cut = " (the answer was cut at its longest length)" if answer.finish == "length" else ""
                reason = f"{endpoint.model} at {endpoint.base_url}: {error}{cut}"
                results[i] = UnreadableFailure(reason, tries[i])
                if not last:
                    refused.append((i, _again(request, answer, str(error))))
        again = refused
        if not again:
            break
    return [result for result in results if result is not None]


def _again(request: ChatRequest, answer: ChatAnswer, problem: str) -> ChatRequest:
    messages = [
        *request.messages,
        {"role": "assistant", "content": clean(answer.text, _MOST_QUOTED) or "(nothing)"},
        {
            "role": "user",
            "content": f"This could not be read: {problem}.\nGive the same answer again, as one JSON object in the "
            "format described above, and nothing else.",
        },
    ]
    return replace(request, messages=messages)
