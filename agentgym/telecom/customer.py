"""The customer as a second side: it has the phone, and the desk has only words to reach it.

A customer is a player (`agentgym.outside.dialogue.Player`) of role 1. It says something, leaves, or uses a tool of the
phone by an act of the kind "action", whose text is the call, followed in the talk by the phone's answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentgym.outside.dialogue import KINDS, LEAVE, NONE, Act, Failure, Player, Turn, View
from agentgym.outside.text import clean
from agentgym.outside.tool_calls import ToolCall, read_calls, write_call
from agentgym.telecom.rules import CASES, TEXTS, TOOLS

#: Maximum number of a customer's acts after one utterance of the desk.
MOST_ACTS = 12
#: Utterances in a row without anything to do or answer after which a customer by rules leaves.
PATIENCE = 5
#: Text between a call and the phone's answer.
ARROW = " -> "
_KINDS = tuple(kind for kind in KINDS if kind != "non-verbal communication")
_PHONE = {name: tool for name, tool in TOOLS.items() if tool.side == "user"}


class Talk(NamedTuple):
    """The talk so far; in `turns` role 0 is the desk, role 1 the customer.

    `waits`: the customer is in turn; `acts`: its acts since the desk's last words.
    """

    turns: tuple[Turn, ...] = ()
    waits: bool = False
    acts: int = 0

    def said(self, words: str) -> Talk:
        """Return the talk after words of the desk."""
        turn = Turn(len(self.turns), (Act("speak", clean(words)), NONE))
        return Talk((*self.turns, turn), True)

    def done(self, act: Act) -> Talk:
        """Return the talk after an act of the customer, whose turn goes on after an action."""
        acts, turn = self.acts + 1, Turn(len(self.turns), (NONE, act))
        return Talk((*self.turns, turn), act.kind == "action" and acts < MOST_ACTS, acts)


def view_of(task_id: str, name: str, ticket: str, talk: Talk, seed: int, most: int) -> View:
    """Return the knowledge of the customer."""
    tools = ", ".join(f"{tool.name}({', '.join(tool.known)})" for tool in _PHONE.values())
    opening = TEXTS["opening"].format(name=name, ticket=ticket, tools=tools)
    kinds = _KINDS if talk.waits else ("none",)
    return View(task_id, 1, ("The desk", name), opening, talk.turns, kinds, most, None, seed)


def phone_call(text: str) -> tuple[ToolCall | None, str]:
    """Return the call of the phone in the text of an action, or its error."""
    calls, wrong = read_calls(text)
    if not calls:
        return None, f"Error: {wrong}"
    if calls[0].name not in _PHONE:
        return None, f"Error: Tool '{calls[0].name}' not found."
    return calls[0], ""


def make_customer(customer: str | Player) -> Player:
    """Return a customer: "rules", or an object with `act`, itself; a ValueError says that it is neither."""
    if customer == "rules":
        return RulesCustomer()
    if isinstance(customer, str) or not isinstance(customer, Player):
        raise ValueError(
            "customer must be 'rules' or an object with act(views), an agentgym.outside.dialogue.Player, got "
            f"{customer!r:.200}"
        )
    return customer


class RulesCustomer:
    """Follows instructions in words that it knows, and says what the phone showed.

    It knows calls as they are written, `toggle_data()`, names of tools, and common words for them: "Please turn off
    airplane mode and restart the phone." "Turn on" and "turn off" are switches that it looks at after flipping them. It
    leaves after `PATIENCE` utterances in a row that it can do nothing with.
    """

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        return [self.play(view) for view in views]

    def play(self, view: View) -> Act:
        if view.kinds == ("none",):
            return NONE
        last = max((i for i, turn in enumerate(view.turns) if turn.acts[0].kind == "speak"), default=-1)
        done = [turn.acts[1].text for turn in view.turns[last + 1 :] if turn.acts[1].kind == "action"]
        shown = [text.partition(ARROW)[2] for text in done]
        wishes = list(asked(view.turns[last].acts[0].text)) if last >= 0 else []
        place = 0
        for call, state in wishes:
            if place >= len(done):
                return Act("action", write_call(*call))
            # A switch that was where it should be is flipped back.
            wrong = state and f"is now {'OFF' if state == 'ON' else 'ON'}" in shown[place]
            place += 1
            if wrong and place >= len(done):
                return Act("action", write_call(*call))
            place += bool(wrong)
        if shown:
            return Act("speak", "\n".join(shown))
        if idle(view.turns) > PATIENCE:
            return LEAVE
        if _ABOUT_THE_CASE.search(view.turns[last].acts[0].text):
            return Act("speak", view.opening.partition("The case: ")[2].partition("\n")[0])
        return Act("speak", "I am not sure what you want me to do with the phone.")


def idle(turns: Sequence[Turn]) -> int:
    """Return the number of the desk's last utterances in a row that were not followed by a use of the phone."""
    count = 0
    for turn in reversed(turns):
        if turn.acts[1].kind == "action":
            break
        count += turn.acts[0].kind == "speak"
    return count


_KNOWN = CASES["customer"]
_ABOUT_THE_CASE = re.compile(r"(?i)\b(?:phone )?number\b|\bwho\b|\bname\b|\bproblem\b|\bissue\b")
_LOOK = re.compile(r"(?i)\b(?:check|look|see|tell me|show|what|which|is|are|does)\b")
_WRITTEN = re.compile(rf"\b(?:{'|'.join(sorted(_PHONE, key=len, reverse=True))})\b(?:\([^()]{{0,300}}\))?")
_STATE = re.compile(
    r"(?i)\b(?:turn|switch|put)(?:ed|s)?\b[^.!?;]{0,30}?\b(on|off)\b|\b(enable|disable|activate|deactivate)\b"
)


def asked(words: str) -> Iterator[tuple[ToolCall, str]]:
    """Yield what the desk asks for, in order: a call, and the wanted state of a switch, "" for any.

    >>> [(call.name, state) for call, state in asked("Please turn off airplane mode, then restart. Is roaming on?")]
    [('toggle_airplane_mode', 'OFF'), ('reboot_device', ''), ('check_network_status', '')]
    >>> [call for call, _ in asked('Use grant_app_permission(app_name="messaging", permission="sms").')][0].arguments
    {'app_name': 'messaging', 'permission': 'sms'}
    """
    for part in re.split(r"[.!?;](?=\s|$)|, (?:then|and)\b|\band (?:then )?|\bthen\b", words):
        written = list(_WRITTEN.finditer(part))
        for match in written:
            calls, _ = read_calls(match[0] if match[0].endswith(")") else f"{match[0]}()")
            if calls:
                yield calls[0], ""
        if not written:
            yield from _in_words(part)


def _in_words(part: str) -> Iterator[tuple[ToolCall, str]]:
    # Of several words in one part, the most special counts: it stands first in the list.
    found = (row for row in _KNOWN["words"] if re.search(row[1], part, re.IGNORECASE))
    name, _, arguments = next(found, ("", "", {}))
    if not name:
        return
    state = _STATE.search(part)
    if name in _KNOWN["looks"] and not state and _LOOK.search(part):
        name, arguments = _KNOWN["looks"][name], {}
    wanted = ""
    if state and name.startswith("toggle_"):
        wanted = "ON" if (state[1] or state[2]).lower() in ("on", "enable", "activate") else "OFF"
    yield ToolCall(name, arguments), wanted
