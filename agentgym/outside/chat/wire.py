"""The bodies of chat requests and of their answers, in OpenAI's format."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.outside.text import DataError, clean

#: A count of as many tokens is none.
_MOST_TOKENS = 10**12
#: Characters of the word for why an answer ended.
_LONGEST_FINISH = 100
#: How servers say that a prompt does not fit: "maximum context length" (OpenAI, vLLM), "context window" (llama.cpp).
_TOO_LONG = re.compile(r"(?i)status 4(?:00|13)\b.*(?:context.(?:length|window|size)|(?:prompt|input) is too long)")

#: The context, and the longest answer that a request asked for (vLLM, and OpenAI's older form).
_CONTEXT = re.compile(r"(?i)maximum context length is (\d{1,12})\b")
_LONGEST_ANSWER = re.compile(
    r"(?i)max_(?:completion_)?tokens\W{1,3}is too large: (\d{1,12})\b|\b(\d{1,12}) in the completion"
)

Messages = Sequence[Mapping[str, Any]]
Body = dict[str, Any]


@dataclass(frozen=True)
class ChatRequest:
    """What a model is asked.

    Attributes:
        messages: the chat, `{"role": ..., "content": ...}` each.
        seed: requests that differ in it alone are different samples; None for none.
        schema: a JSON schema of the answer, for endpoints with structured output; None for none.
    """

    messages: Messages
    seed: int | None = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ChatAnswer:
    """What the model wrote.

    Attributes:
        text: the answer, see `agentgym.outside.text.clean`; "" where the model wrote nothing.
        finish: why it ended, in the endpoint's word: "stop", "length" when it was cut, ...
        prompt_tokens: tokens read, as the endpoint counts; 0 where it does not.
        completion_tokens: tokens written.
        attempts: tries that it took; 0: it comes from the cache.
    """

    text: str
    finish: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1


@dataclass(frozen=True)
class ChatFailure:
    """Why there is no answer: one sentence that names the endpoint, and how often it was tried."""

    reason: str
    attempts: int

    @property
    def too_long(self) -> bool:
        """Whether the endpoint refused the request because its prompt does not fit the model's context.

        Prompts share the context with the longest answer, `max_tokens`. Where that alone fills it, no prompt fits: then
        the request's settings are wrong, and not its prompt.
        """
        if _TOO_LONG.search(self.reason) is None:
            return False
        context, answer = _CONTEXT.search(self.reason), _LONGEST_ANSWER.search(self.reason)
        return not (context and answer and int(answer[1] or answer[2]) >= int(context[1]))


def key_of(url: str, body: Body) -> str:
    """Return the name of a request: equal for equal requests to equal places, whatever the order of keys."""
    text = json.dumps([url, body], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_answer(given: Any) -> ChatAnswer:
    """Read the JSON value of an answer's body.

    Raises:
        DataError: when it is not one.
    """
    try:
        choice = given["choices"][0]
        text = choice["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise DataError("the answer has no choices[0].message.content") from None
    usage = given.get("usage")
    tokens = usage if isinstance(usage, dict) else {}
    counts = tokens.get("prompt_tokens"), tokens.get("completion_tokens")
    answer = make_answer("" if text is None else text, choice.get("finish_reason"), *counts)
    if answer is None:
        raise DataError("the answer's content is no text")
    return answer


def make_answer(
    text: object, finish: object = "", prompt_tokens: object = 0, completion_tokens: object = 0
) -> ChatAnswer | None:
    """Return the answer of these parts, whatever they are; None where the text is none."""
    if not isinstance(text, str):
        return None
    ended = clean(finish, _LONGEST_FINISH) if isinstance(finish, str) else ""
    return ChatAnswer(clean(text), ended, _count(prompt_tokens), _count(completion_tokens))


def _count(value: object) -> int:
    """Numbers that cannot be counts of tokens are 0."""
    return value if type(value) is int and 0 < value < _MOST_TOKENS else 0
