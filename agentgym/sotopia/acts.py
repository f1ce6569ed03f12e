"""What is done in a turn: as a value, as a JSON command, as a line of the observation.

Kinds of acts, field names and lines are those of SOTOPIA. An utterance is data: it is never read as markup, and shown
in one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from agentgym.outside.text import MOST_CHARACTERS, DataError, clean, one_line, read_json

#: Kinds of acts, in the order in which they are offered.
KINDS = ("none", "speak", "non-verbal communication", "action", "leave")

#: Characters of an act's text that count; the rest is cut off where it comes in.
LONGEST = 10_000


class Act(NamedTuple):
    """One act: its kind, one of `KINDS`, and its text; `none` and `leave` have no text."""

    kind: str
    text: str = ""


NONE = Act("none")
LEAVE = Act("leave")
_WORDLESS = {"none": NONE, "leave": LEAVE}


def parse(command: str) -> tuple[Act, bool]:
    """Return the act that a command stands for, and whether it stands for one.

    A command is a JSON object with `action_type` (one of `KINDS`) and `argument` (a string, which `none` and `leave`
    may lack), alone or in a Markdown fence; other keys are ignored. Anything else does nothing. The text is cleaned and
    cut after `LONGEST` characters.

    >>> parse('{"action_type": "speak", "argument": "Is <b>this</b> yours?"}')
    (Act(kind='speak', text='Is <b>this</b> yours?'), True)
    >>> parse("Hello!")
    (Act(kind='none', text=''), False)
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
    r"""Return the command of an act: the JSON text that `parse` reads.

    >>> write(Act("speak", 'My "best" offer: 5 €'))
    '{"action_type": "speak", "argument": "My \\"best\\" offer: 5 €"}'
    """
    return json.dumps({"action_type": act.kind, "argument": act.text}, ensure_ascii=False)


def told(name: str, act: Act) -> str:
    """Return the act as the observation tells it: in one line, so that no utterance can forge another turn.

    >>> told("Ada", Act("speak", "Hi.")), told("Ada", Act("action", "waves")), told("Ada", Act("leave"))
    ('Ada said: "Hi."', 'Ada [action] waves', 'Ada left the conversation')
    """
    kind, text = act
    if kind == "speak":
        return f'{name} said: "{one_line(text)}"'
    if kind == "none":
        return f"{name} did nothing"
    if kind == "leave":
        return f"{name} left the conversation"
    return f"{name} [{kind}] {one_line(text)}"


class Turn(NamedTuple):
    """What both sides did in a turn; who was not in turn did nothing. Turns are counted from 0."""

    number: int
    acts: tuple[Act, Act]


def tell(names: tuple[str, str], turn: Turn) -> str:
    """Return a turn as the observation tells it, with its line break; doing nothing is not mentioned."""
    number, (first, second) = turn
    if second.kind == "none":
        acts = "" if first.kind == "none" else told(names[0], first)
    elif first.kind == "none":
        acts = told(names[1], second)
    else:
        acts = f"{told(names[0], first)};{told(names[1], second)}"
    return f"Turn #{number}: {acts}\n"


#: So many characters of turns are told at most, the latest: with an opening they stay inside a `TextSpace`.
MOST_TOLD = 800_000


def tell_all(names: tuple[str, str], turns: Iterable[Turn]) -> str:
    """Return turns as the observation tells them; of more than `MOST_TOLD` characters the oldest turns are left out."""
    told = [tell(names, turn) for turn in turns]
    text = "".join(told)
    while len(text) > MOST_TOLD:
        told = told[(len(told) + 1) // 2 :]
        text = "".join(told)
    return text


INSTRUCTIONS = (
    "You are one of the two people of the scenario, the one whose goal you can read. Talk with the other to reach that "
    "goal; the other does not know it, and has another one. Each turn, answer one JSON object with an action_type and "
    'an argument, such as {{"action_type": "speak", "argument": "What would you pay?"}}. Action types: "speak" (the '
    'argument is what you say), "non-verbal communication" (such as a nod), "action" (something you do), "none" (you '
    'wait) and "leave" (you end the conversation, when your goal is reached or there is no hope for it). After {turns} '
    "turns of both together the conversation is cut off."
)

#: Commands of every kind; there is no end of others.
COMMANDS = tuple(
    write(act)
    for act in (
        NONE, Act("speak", "Hello."), Act("speak", "What would you like?"), Act("speak", "I agree."),
        Act("speak", "I cannot agree to that."), Act(KINDS[2], "nods"), Act("action", "sits down"), LEAVE,
    )
)  # fmt: skip
