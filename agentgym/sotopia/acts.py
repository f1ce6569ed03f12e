"""What one side does in a turn, as a value, as JSON text and as a line of the observation.

Kinds of acts, field names and lines are those of SOTOPIA. An utterance is data: it is never read as markup, and no
character of it is added or lost.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from agentgym.foreign_text import MOST_CHARACTERS, ForeignError, clean, one_line, read_json

#: Kinds of acts, in the order in which they are offered.
KINDS = ("none", "speak", "non-verbal communication", "action", "leave")

_SILENT = frozenset({"none", "leave"})
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
    r"""Return the act that a command stands for, and whether it stands for one.

    A command is a JSON object with `action_type` (one of `KINDS`) and `argument` (a string, which `none` and `leave`
    may lack), alone or in a Markdown fence; other keys are ignored. Anything else is read as doing nothing. The text is
    cleaned, and cut after `LONGEST` characters.

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
    except ForeignError:
        return NONE, False
    kind, argument = given.get("action_type"), given.get("argument")
    if not isinstance(kind, str) or kind not in KINDS:
        return NONE, False
    if kind in _SILENT:
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
