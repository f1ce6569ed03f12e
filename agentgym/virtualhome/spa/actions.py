"""Action strings of the papers' agents, `walk to dining room`, as lines of a script whose ids are still open.

What is read and how are facts of SPA-RL-Agent ed20087, `eval_agent/envs/virtualhome_env.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

#: Action -> how it is said. What is said as "release" takes no thing here and one in the rules: it never works alone.
TEMPLATES: Final[dict[str, str]] = {
    "CLOSE": "close {}", "DRINK": "drink {}", "FIND": "find {}", "WALK": "walk to {}", "GRAB": "grab {}",
    "LOOKAT": "look at {}", "OPEN": "open {}", "POINTAT": "point at {}", "PUTBACK": "put {} on {}",
    "PUTIN": "put {} in {}", "PUTOBJBACK": "put back {}", "RUN": "run to {}", "SIT": "sit on {}",
    "STANDUP": "stand up", "SWITCHOFF": "switch off {}", "SWITCHON": "switch on {}", "TOUCH": "touch {}",
    "TURNTO": "turn to {}", "WATCH": "watch {}", "WIPE": "wipe {}", "PUTON": "put on {}", "PUTOFF": "take off {}",
    "GREET": "greet {}", "DROP": "drop {}", "READ": "read {}", "LIE": "lie on {}", "POUR": "pour {} into {}",
    "TYPE": "type on {}", "PUSH": "push {}", "PULL": "pull {}", "MOVE": "move {}", "WASH": "wash {}",
    "RINSE": "rinse {}", "SCRUB": "scrub {}", "SQUEEZE": "squeeze {}", "PLUGIN": "plug in {}",
    "PLUGOUT": "plug out {}", "CUT": "cut {}", "EAT": "eat {}", "SLEEP": "sleep", "WAKEUP": "wake up",
    "RELEASE": "release",
}  # fmt: skip
#: What an action string says that has no word.
EMPTY: Final = "[EMPTY]"
#: A longer action string names nothing that a house has: it is not read, and nothing happens.
MOST_CHARACTERS: Final = 1000

_ACTION = re.compile(r"Action:\s?(.*)", re.DOTALL)
_PATTERNS: Final = {
    action: re.compile(re.escape(template).replace(r"\{\}", "(.+?)"), re.IGNORECASE | re.DOTALL)
    for action, template in TEMPLATES.items()
}


def action_of(reply: str) -> str | None:
    r"""Return what follows the first `Action:` of a reply, None where there is none.

    >>> action_of("Thought: it is cold.\nAction: Grab jacket ")
    'Grab jacket'
    """
    found = _ACTION.search(reply.strip())
    return None if found is None else found[1]


def open_line(action: str) -> str | None:
    """Return an action string as a line with ids 1, None where there is nothing to read.

    One that says exactly one action with its number of things is read as that. Of any other the first word is taken
    for the action, and the rest, if it is two words, for two things, otherwise for one.

    >>> open_line("Put cup on coffee table"), open_line("step 3: SIT ON sofa"), open_line("grab the red cup")
    ('[PUTBACK] <cup> (1) <coffee_table> (1)', '[SIT] <sofa> (1)', '[GRAB] <the_red_cup> (1)')
    >>> open_line("put back cup on table"), open_line("release"), open_line("walk")
    ('[PUT] <back_cup_on_table> (1)', '[RELEASE]', '[WALK]')
    """
    return EMPTY if len(action) > MOST_CHARACTERS else _read(action)


@lru_cache(maxsize=8192)
def _read(action: str) -> str | None:
    said = action.lower().strip()
    if not said:
        return None
    if ":" in said:
        said = said[said.index(":") + 1 :].strip()
    found = [(name, match.groups()) for name, pattern in _PATTERNS.items() if (match := pattern.fullmatch(said))]
    found = [(name, things) for name, things in found if name != "RELEASE"]
    if len(found) == 1:
        (name, things) = found[0]
        return " ".join([f"[{name}]", *(f"<{thing.replace(' ', '_')}> (1)" for thing in things)])
    words = (action[action.index(":") + 1 :].strip() if ":" in action else action).split(" ")
    if words == [""]:
        return EMPTY
    things = tuple(words[1:]) if len(words) <= 3 else ("_".join(words[1:]),)
    return " ".join([f"[{words[0].upper()}]", *(f"<{thing}> (1)" for thing in things)])
