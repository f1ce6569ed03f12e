"""Chat requests and answers in OpenAI's format, JSON objects in answers, and costs."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.outside.text import NUMBERS, DataError, clean, unique_names

#: Larger token counts are invalid.
_MOST_TOKENS = 10**12
#: Characters of the word for why an answer ended.
_LONGEST_FINISH = 100
#: Servers on a prompt that does not fit: "maximum context length" (OpenAI, vLLM), "context window" (llama.cpp).
_TOO_LONG = re.compile(r"(?i)status 4(?:00|13)\b.*(?:context.(?:length|window|size)|(?:prompt|input) is too long)")

#: The context, and the requested longest answer (vLLM, and OpenAI's older form).
_CONTEXT = re.compile(r"(?i)maximum context length is (\d{1,12})\b")
_LONGEST_ANSWER = re.compile(
    r"(?i)max_(?:completion_)?tokens\W{1,3}is too large: (\d{1,12})\b|\b(\d{1,12}) in the completion"
)
_FENCE = re.compile("`{3,}")
_FENCED = re.compile(r"(?:json)?[ \t]*\n", re.IGNORECASE)

Messages = Sequence[Mapping[str, Any]]
Body = dict[str, Any]


@dataclass(frozen=True)
class ChatRequest:
    """A request to a model.

    Attributes:
        messages: the chat, `{"role": ..., "content": ...}` each.
        seed: distinguishes samples of equal requests, or None.
        schema: JSON schema of the answer, for structured output; None for none.
    """

    messages: Messages
    seed: int | None = None
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ChatAnswer:
    """An answer of the model.

    Attributes:
        text: cleaned text, may be "".
        finish: why it ended, in the endpoint's word: "stop", "length", ...
        prompt_tokens: tokens read, 0 if the endpoint does not count.
        completion_tokens: tokens written.
        attempts: number of tries; 0: from the cache.
    """

    text: str
    finish: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    attempts: int = 1


@dataclass(frozen=True)
class ChatFailure:
    """The reason why there is no answer, in one sentence that names the endpoint, and the number of tries."""

    reason: str
    attempts: int

    @property
    def too_long(self) -> bool:
        """Whether prompt and longest answer together exceed the model's context.

        False if `max_tokens` alone fills the context: then the settings are wrong, not the prompt.
        """
        if _TOO_LONG.search(self.reason) is None:
            return False
        context, answer = _CONTEXT.search(self.reason), _LONGEST_ANSWER.search(self.reason)
        return not (context and answer and int(answer[1] or answer[2]) >= int(context[1]))


def key_of(url: str, body: Body) -> str:
    """Return the cache key of a request to a URL; the order of the body's keys does not matter."""
    text = json.dumps([url, body], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_answer(given: Any) -> ChatAnswer:
    """Read the JSON value of an answer's body; DataError for another form."""
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
        raise DataError("the answer's content is not text")
    return answer


def make_answer(
    text: object, finish: object = "", prompt_tokens: object = 0, completion_tokens: object = 0
) -> ChatAnswer | None:
    """Return the answer of these unchecked parts; None if `text` is no string."""
    if not isinstance(text, str):
        return None
    ended = clean(finish, _LONGEST_FINISH) if isinstance(finish, str) else ""
    return ChatAnswer(clean(text), ended, _count(prompt_tokens), _count(completion_tokens))


def _count(value: object) -> int:
    return value if type(value) is int and 0 < value < _MOST_TOKENS else 0


def only_object(text: str, numbers: Mapping[str, Any] = NUMBERS) -> dict[str, Any]:
    """Return the only JSON object of a text, bare, in a Markdown fence or within prose, after any `</think>`.

    `numbers` are `parse_int`, `parse_float` and `parse_constant` of `json.JSONDecoder`. Raises a DataError if there is
    none or more than one, or it is broken, nested too deeply, repeats a name or holds a refused number.
    """
    text = text.rpartition("</think>")[2]
    fenced = _fenced(text)
    if len(fenced) == 1:
        text = fenced[0]
    found = []
    decoder = json.JSONDecoder(object_pairs_hook=unique_names, **numbers)
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise DataError(f"no JSON: {error}") from None
        found.append(value)
        at = text.find("{", end)
    if len(found) != 1:
        raise DataError(f"expected one JSON object, got {len(found)} in {text[:200]!r}")
    return dict(found[0])


def _fenced(text: str) -> list[str]:
    found = []
    parts = iter(_FENCE.split(text)[1:-1])  # a fence starts after the first mark and ends at the next
    for part in parts:
        head = _FENCED.match(part)
        if head:
            found.append(part[head.end() :])
            next(parts, None)
    return found


@dataclass
class Usage:
    """Counts since an endpoint was made; answers from the cache and repeated requests cost nothing.

    Attributes:
        answered: requests that the endpoint answered.
        failed: requests without an answer after all tries.
        remembered: requests answered by the cache.
        retries: further tries of both.
        prompt_tokens: tokens read.
        completion_tokens: tokens written.
        cost: in the unit of `prices`.
    """

    answered: int = 0
    failed: int = 0
    remembered: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def add(self, answer: ChatAnswer | ChatFailure, prices: tuple[float, float]) -> None:
        self.retries += max(0, answer.attempts - 1)
        if isinstance(answer, ChatFailure):
            self.failed += 1
            return
        self.answered += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.cost += (answer.prompt_tokens * prices[0] + answer.completion_tokens * prices[1]) / 1e6

    def __str__(self) -> str:
        return (
            f"{self.answered:,} answers ({self.remembered:,} more from the cache, {self.failed:,} failures, "
            f"{self.retries:,} retries), {self.prompt_tokens:,} + {self.completion_tokens:,} tokens, "
            f"cost {self.cost:.4f}"
        )


class BudgetSpentError(RuntimeError):
    """The next request would exceed the budget; earlier answers are kept."""


@dataclass(frozen=True)
class Budget:
    """Limits for an endpoint; None: no limit. `requests` is never exceeded.

    `tokens` (read and written) and `cost` are known on arrival, so requests under way may exceed them.
    """

    requests: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value >= 0:
                raise ValueError(f"a budget's {name} must be at least 0 or None (no limit), got {value!r}")

    def room(self, spent: Usage, wanted: int, under_way: int = 0) -> int:
        """Return how many of the wanted requests may be sent while `under_way` have no answer yet."""
        if self.tokens is not None and spent.prompt_tokens + spent.completion_tokens >= self.tokens:
            return 0
        if self.cost is not None and spent.cost >= self.cost:
            return 0
        return wanted if self.requests is None else max(0, min(wanted, self.requests - spent.answered - under_way))

    def spent_error(self, spent: Usage, under_way: int = 0) -> BudgetSpentError:
        limits = ", ".join(f"{value:,} {name}" for name, value in vars(self).items() if value is not None)
        beside = f", {under_way:,} under way" if under_way else ""
        return BudgetSpentError(f"the budget of {limits} is spent: {spent}{beside}")
