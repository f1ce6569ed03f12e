"""Language models behind an endpoint as players and judges; `read_verdict` takes three published forms."""

import hashlib
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from agentgym.checks import check_name
from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import ChatAnswer, ChatFailure, ChatRequest, only_object
from agentgym.outside.dialogue import KINDS, NONE, Act, Failure, Turn, View, parse
from agentgym.outside.text import DataError, clean, quote
from agentgym.sotopia.dialogue import DIMENSIONS, TEXTS, Dialogue, Rating, Verdict
from agentgym.sotopia.profiles import opening

_T = TypeVar("_T")
#: Characters of an answer that are read and sent back.
_MOST_READ, _MOST_QUOTED = 200_000, 4_000


class UnreadableFailure(Failure):
    """The endpoint's answers could not be read, twice."""


def ask_readable(
    endpoint: ChatEndpoint, requests: Sequence[ChatRequest], read: Callable[[str, int], _T]
) -> list[_T | Failure]:
    """Return the parsed answers, in the order of the requests.

    `read(text, index of the request)` raises a ValueError for an unreadable answer, which is then sent back once with
    the reason.
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
    """Return the acts of a dialogue except `none`, one JSON object per line."""
    lines = [
        f'{{"turn": {turn.number}, "who": {quote(name)}, "action_type": {quote(act.kind)}, '
        f'"argument": {quote(act.text)}}}'
        for turn in turns
        for name, act in zip(names, turn.acts, strict=True)
        if act.kind != "none"
    ]
    return "\n".join(lines) or "(nothing yet)"


def chat(system: str, user: str) -> list[dict[str, Any]]:
    """Return the first messages of a chat."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def object_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


#: Treatment of unreadable answers.
UNREADABLE = ("none", "failure")


class ModelPlayer:
    """Plays a side by a model, for all dialogues at once; an unanswered request is a `Failure`.

    An unreadable answer is sent back once; a second one is the act `none`, as in SOTOPIA, or with
    `unreadable="failure"` a `Failure`. `unreadable_acts` counts them.
    """

    def __init__(self, endpoint: ChatEndpoint, *, unreadable: str = "none") -> None:
        self.endpoint, self.unreadable = endpoint, check_name(unreadable, UNREADABLE, "unreadable")
        self.unreadable_acts = 0

    @classmethod
    def at(cls, name: str, **options: Any) -> Self:
        """Make the player of a name `MODEL@URL`; `options` are those of `ChatEndpoint`."""
        return cls(ChatEndpoint.at(name, **options))

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        asked = [i for i, view in enumerate(views) if view.kinds != ("none",)]

        def read(text: str, number: int) -> Act:
            return read_act(text, views[asked[number]].kinds)

        results: list[Act | Failure] = [NONE] * len(views)
        answers = ask_readable(self.endpoint, [act_request(views[i]) for i in asked], read)
        for i, answer in zip(asked, answers, strict=True):
            if isinstance(answer, UnreadableFailure):
                self.unreadable_acts += 1
                results[i] = NONE if self.unreadable == "none" else answer
            else:
                results[i] = answer
        return results

    def __repr__(self) -> str:
        return f"ModelPlayer({self.endpoint!r}, unreadable={self.unreadable!r})"


def act_request(view: View) -> ChatRequest:
    """Return the request for a turn: this side's dialogue and the format of an act."""
    system = TEXTS["play"].format(name=view.name, other=view.partner_name)
    user = TEXTS["turn"].format(
        opening=view.opening.strip(), transcript=transcript(view.names, view.turns), turn=view.turn,
        turns=view.max_turns, name=view.name, kinds=", ".join(view.kinds),
    )  # fmt: skip
    kinds = [kind for kind in KINDS if kind in view.kinds]
    schema = object_schema(action_type={"type": "string", "enum": kinds}, argument={"type": "string"})
    return ChatRequest(chat(system, user), _sample(view), schema)


def read_act(text: str, kinds: Sequence[str]) -> Act:
    """Read an answer, after any `</think>`, as an allowed act; else ValueError."""
    written = text.rpartition("</think>")[2]
    act, valid = parse(written)
    if not valid:
        raise ValueError(f"the answer is no JSON object with action_type and argument: {written[:200]!r}")
    if act.kind not in kinds:
        raise ValueError(f"the action_type {act.kind!r} is not allowed now, only {', '.join(kinds)}")
    return act


def _sample(view: View) -> int:
    """Return 31 bits for this turn of this dialogue, the same in every process."""
    text = f"{view.seed} {view.role} {view.turn}" + ("" if view.draw is None else f" {view.draw}")
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1


_AGENTS = ("agent_1", "agent_2")


class ModelJudge:
    """Scores dialogues by a model, for all at once; no answer, or two unreadable ones, are a `Failure`."""

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self.endpoint = endpoint

    @classmethod
    def at(cls, name: str, **options: Any) -> Self:
        """Make the judge of a name `MODEL@URL`; `options` are those of `ChatEndpoint`."""
        return cls(ChatEndpoint.at(name, **({"temperature": 0.0, "max_tokens": 2_048} | options)))

    def score(self, dialogues: Sequence[Dialogue]) -> list[Verdict | Failure]:
        requests = [verdict_request(dialogue) for dialogue in dialogues]
        return ask_readable(self.endpoint, requests, lambda text, _: read_verdict(text))

    def __repr__(self) -> str:
        return f"ModelJudge({self.endpoint!r})"


def verdict_request(dialogue: Dialogue) -> ChatRequest:
    """Return the request for a verdict: the dialogue, the dimensions and the format."""
    first, second = dialogue.task.names
    dimensions = "\n".join(
        f"- {name}, {lowest} to {highest}: {TEXTS['questions'][name]}" for name, (lowest, highest) in DIMENSIONS.items()
    )
    system = TEXTS["judge"].format(first=first, second=second, dimensions=dimensions)
    turns = transcript((first, second), dialogue.turns)
    user = TEXTS["verdict"].format(
        opening=opening(dialogue.task, None).strip(), transcript=turns, first=first, second=second
    )
    return ChatRequest(chat(system, user), schema=verdict_schema())


class VerdictError(ValueError):
    """A model's text is no verdict."""


def verdict_schema() -> dict[str, Any]:
    """Return the JSON schema of the requested form."""
    scored = {
        name: object_schema(
            reasoning={"type": "string"}, score={"type": "integer", "minimum": lowest, "maximum": highest}
        )
        for name, (lowest, highest) in DIMENSIONS.items()
    }
    return object_schema(evaluations=object_schema(**{agent: object_schema(**scored) for agent in _AGENTS}))


def read_verdict(text: str) -> Verdict:
    """Read a verdict: the only JSON object of a text, perhaps in a Markdown fence, after any `</think>`.

    Forms: `{"agent_1_evaluation": {"goal": ["why", 7], ...}, "agent_2_evaluation": {...}}`; `{"evaluations":
    {"agent_1": {"goal": ["why", 7], ...}, "agent_2": {...}}}`; the latter with `{"reasoning": "why", "score": 7}` for
    the pairs. Raises a VerdictError for no or several objects, a missing agent or dimension, or a score that is no
    whole number in its range.
    """
    try:
        given = only_object(text)
    except DataError as error:
        raise VerdictError(str(error)) from None
    agents = given.get("evaluations", given)
    if not isinstance(agents, Mapping):
        raise VerdictError(f"'evaluations' holds no object but {_shown(agents)}")
    suffix = "" if "evaluations" in given else "_evaluation"
    if set(agents) != {agent + suffix for agent in _AGENTS}:
        expected = " and ".join(f"'{agent}{suffix}'" for agent in _AGENTS)
        raise VerdictError(f"expected exactly {expected}, got {list(agents)!r:.200}")
    (first, why_first), (second, why_second) = (_rating(agent, agents[agent + suffix]) for agent in _AGENTS)
    return Verdict((first, second), (why_first, why_second))


def _rating(agent: str, given: object) -> tuple[Rating, dict[str, str]]:
    if not isinstance(given, Mapping):
        raise VerdictError(f"{agent} has no object of dimensions but {_shown(given)}")
    scores, reasons = [], {}
    for name, (lowest, highest) in DIMENSIONS.items():
        if name not in given:
            raise VerdictError(f"{agent} lacks the dimension {name!r}")
        reason, score = _pair(given[name])
        # A bool is an int in Python, but no score.
        if isinstance(score, bool) or not isinstance(score, (int, float)) or score != score // 1:
            raise VerdictError(f"{agent}: {name} has no whole number as its score but {_shown(score)}")
        if not lowest <= score <= highest:
            raise VerdictError(f"{agent}: {name} is {score}, outside {lowest}..{highest}")
        scores.append(int(score))
        reasons[name] = clean(reason) if isinstance(reason, str) else ""
    return Rating(*scores), reasons


def _pair(given: object) -> tuple[object, object]:
    """Return reason and score of a dimension."""
    if isinstance(given, Mapping):
        return given.get("reasoning"), given.get("score")
    if isinstance(given, list) and len(given) == 2:
        return given[0], given[1]
    raise VerdictError(f"expected [reasoning, score] or {{'reasoning', 'score'}}, got {_shown(given)}")


def _shown(value: object) -> str:
    return f"{reprlib.repr(value):.100}"  # limits the depth of nesting
