"""The acts of a turn as values, JSON commands and lines of the observation, with SOTOPIA's names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from agentgym.outside.text import MOST_CHARACTERS, DataError, clean, one_line, read_json

#: Kinds of acts, in the order in which they are offered.
KINDS = ("none", "speak", "non-verbal communication", "action", "leave")

#: Most characters of an act's text; the rest is cut off on input.
LONGEST = 10_000


class Act(NamedTuple):
    """A kind of `KINDS` and a text; `none` and `leave` have no text."""

    kind: str
    text: str = ""


NONE = Act("none")
LEAVE = Act("leave")
_WORDLESS = {"none": NONE, "leave": LEAVE}


def parse(command: str) -> tuple[Act, bool]:
    """Return the act of a command, and whether the command is valid; an invalid one does nothing.

    A command is a JSON object with `action_type` (one of `KINDS`) and `argument` (optional for `none` and `leave`),
    alone or in a Markdown fence; other keys are ignored.
    """
    text = command.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3]
        text = (text[4:] if text[:4].lower() == "json" else text).strip()
    if not text.startswith("{") or len(text) > MOST_CHARACTERS:
        return NONE, False
    try:
        given = read_json(text)
    except DataError:
        return NONE, False
    kind, argument = given.get("action_type"), given.get("argument")
    if not isinstance(kind, str) or kind not in KINDS:
        return NONE, False
    if kind in _WORDLESS:
        return _WORDLESS[kind], True
    return (Act(kind, clean(argument, LONGEST)), True) if isinstance(argument, str) else (NONE, False)


def write(act: Act) -> str:
    """Return the JSON command of an act, which `parse` reads."""
    return json.dumps({"action_type": act.kind, "argument": act.text}, ensure_ascii=False)


def act_line(name: str, act: Act) -> str:
    """Return the act as one line of the observation, so that no utterance can imitate a turn."""
    kind, text = act
    if kind == "speak":
        return f'{name} said: "{one_line(text)}"'
    if kind == "none":
        return f"{name} did nothing"
    if kind == "leave":
        return f"{name} left the conversation"
    return f"{name} [{kind}] {one_line(text)}"


class Turn(NamedTuple):
    """The acts of both sides in a turn (`none` for a side out of turn); turns count from 0."""

    number: int
    acts: tuple[Act, Act]


def turn_line(names: tuple[str, str], turn: Turn) -> str:
    """Return a turn as lines of the observation; `none` is not mentioned."""
    number, (first, second) = turn
    if second.kind == "none":
        acts = "" if first.kind == "none" else act_line(names[0], first)
    elif first.kind == "none":
        acts = act_line(names[1], second)
    else:
        acts = f"{act_line(names[0], first)};{act_line(names[1], second)}"
    return f"Turn #{number}: {acts}\n"


#: Most characters of turns in an observation, the latest ones: with an opening they fit into a `TextSpace`.
MOST_TOLD = 800_000


def turn_lines(names: tuple[str, str], turns: Iterable[Turn]) -> str:
    """Return turns as lines of the observation, without the oldest ones beyond `MOST_TOLD` characters."""
    lines = [turn_line(names, turn) for turn in turns]
    text = "".join(lines)
    while len(text) > MOST_TOLD:
        lines = lines[(len(lines) + 1) // 2 :]
        text = "".join(lines)
    return text


INSTRUCTIONS = (
    "You are one of the two people of the scenario, the one whose goal you can read. Talk with the other to reach that "
    "goal; the other does not know it, and has another one. Each turn, answer one JSON object with an action_type and "
    'an argument, such as {{"action_type": "speak", "argument": "What would you pay?"}}. Action types: "speak" (the '
    'argument is what you say), "non-verbal communication" (such as a nod), "action" (something you do), "none" (you '
    'wait) and "leave" (you end the conversation, when your goal is reached or there is no hope for it). After {turns} '
    "turns of both together the conversation is cut off."
)

#: Example commands of every kind.
COMMANDS = tuple(
    write(act)
    for act in (
        NONE, Act("speak", "Hello."), Act("speak", "What would you like?"), Act("speak", "I agree."),
        Act("speak", "I cannot agree to that."), Act(KINDS[2], "nods"), Act("action", "sits down"), LEAVE,
    )
)  # fmt: skip
