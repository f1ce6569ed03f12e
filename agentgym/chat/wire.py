"""The bodies of chat requests and of their answers, in OpenAI's format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
        text: the answer; "" where the model wrote nothing.
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


def key_of(url: str, body: Body) -> str:
    """Return the name of a request: equal for equal requests to equal places, whatever the order of keys."""
    text = json.dumps([url, body], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_answer(content: bytes) -> ChatAnswer:
    """Read the body of an answer.

    Raises:
        ValueError: when it is not one.
    """
    start = content[:200].decode(errors="replace")
    try:
        given = json.loads(content)
        choice = given["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the answer is not JSON ({error}): {start}") from None
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"the answer has no choices[0].message.content: {start}") from None
    if not (text is None or isinstance(text, str)):
        raise ValueError(f"the answer's content is no text: {start}")
    usage = given.get("usage")
    tokens = usage if isinstance(usage, dict) else {}
    return ChatAnswer(
        text or "",
        str(choice.get("finish_reason") or ""),
        _count(tokens.get("prompt_tokens")),
        _count(tokens.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
