"""What models that play or judge have in common: how a dialogue is quoted to them, and how they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import ChatAnswer, ChatFailure, ChatRequest
from agentgym.outside.text import clean, quote
from agentgym.sotopia.acts import Turn
from agentgym.sotopia.dialogue import Failure

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


def transcript(names: tuple[str, str], turns: Sequence[Turn]) -> str:
    r"""Return the acts of a dialogue, one JSON object a line; doing nothing is left out.

    >>> from agentgym.sotopia.acts import LEAVE, NONE, Act
    >>> print(transcript(("Ada", "Ben"), [Turn(0, (Act("speak", "Hi."), NONE)), Turn(1, (NONE, LEAVE))]))
    {"turn": 0, "who": "Ada", "action_type": "speak", "argument": "Hi."}
    {"turn": 1, "who": "Ben", "action_type": "leave", "argument": ""}
    """
    lines = [
        f'{{"turn": {turn.number}, "who": {quote(name)}, "action_type": {quote(act.kind)}, '
        f'"argument": {quote(act.text)}}}'
        for turn in turns
        for name, act in zip(names, turn.acts, strict=True)
        if act.kind != "none"
    ]
    return "\n".join(lines) or "(nothing yet)"


def chat(system: str, user: str) -> list[dict[str, Any]]:
    """Return the messages of a chat that begins."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with these properties and no others."""
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False
    }  # fmt: skip
