"""The customer as a second side: it has the phone, and the desk has only words to reach it.

A customer is a player (`agentgym.outside.dialogue.Player`) of role 1. It speaks, leaves, or uses a tool of
the phone by an act of the kind "action", whose text is the call; what the phone showed is added to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from agentgym.outside.dialogue import KINDS, LEAVE, NONE, Act, Failure, Player, Turn, View
from agentgym.outside.text import clean
from agentgym.outside.tool_calls import ToolCall, read_calls, write_call
from agentgym.telecom.rules import TOOLS

#: Acts of a customer after one utterance of the desk; the turn then goes back.
MOST_ACTS = 12
#: Utterances in a row from which nothing can be done or answered, after which a customer by rules leaves.
PATIENCE = 5
#: What stands between a call and what the phone showed.
ARROW = " -> "
_KINDS = tuple(kind for kind in KINDS if kind != "non-verbal communication")
_OPENING = """\
{name} is a customer of a phone company and talks with its support desk. The case: {ticket}
{name} has the phone in hand and can use it by an action, one call at a time, such as toggle_data(); what the phone \
shows stands behind "->". The tools of the phone: {tools}.
{name} does what the desk asks, and says what the phone shows, never anything made up.
"""
_PHONE = {name: tool for name, tool in TOOLS.items() if tool.side == "user"}
#: The schema of the agent's words to the customer.
SAY = {
    "type": "function",
    "function": {
        "name": "say",
        "description": "Says something to the customer, who has the phone. The answer is what the customer says.",
        "parameters": {
            "properties": {"text": {"description": "The words.", "title": "Text", "type": "string"}},
            "required": ["text"], "title": "parameters", "type": "object",
        },
    },
}  # fmt: skip


class Talk(NamedTuple):
    """What was said and done so far; a value.

    Attributes:
        turns: role 0 is the desk, role 1 the customer.
        waits: the customer is in turn.
        acts: the customer's acts since the desk's last words.
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
    """Return what the customer may know."""
    tools = ", ".join(f"{tool.name}({', '.join(tool.known)})" for tool in _PHONE.values())
    opening = _OPENING.format(name=name, ticket=ticket, tools=tools)
    kinds = _KINDS if talk.waits else ("none",)
    return View(task_id, 1, ("The desk", name), opening, talk.turns, kinds, most, None, seed)


def phone_call(text: str) -> tuple[ToolCall | None, str]:
    """Return the call of the phone in the text of an action, or what is wrong with it."""
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
        """Return the next act of each dialogue."""
        return [self.play(view) for view in views]

    def play(self, view: View) -> Act:
        """Return the next act of a dialogue."""
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
        if re.search(
            r"(?i)\b(?:phone )?number\b|\bwho\b|\bname\b|\bproblem\b|\bissue\b", view.turns[last].acts[0].text
        ):
            return Act("speak", view.opening.partition("The case: ")[2].partition("\n")[0])
        return Act("speak", "I am not sure what you want me to do with the phone.")


def idle(turns: Sequence[Turn]) -> int:
    """Return how many utterances of the desk in a row the phone was not used after."""
    count = 0
    for turn in reversed(turns):
        if turn.acts[1].kind == "action":
            break
        count += turn.acts[0].kind == "speak"
    return count


#: Words for tools, in the order in which they are looked for: what is found is not looked for again.
_WORDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("toggle_airplane_mode", r"(?:airplane|aeroplane|flight) mode", {}),
    ("toggle_data_saver_mode", r"data saver", {}),
    ("toggle_wifi_calling", r"wi-?fi calling", {}),
    ("toggle_wifi", r"wi-?fi", {}),
    ("toggle_roaming", r"(?:data )?roaming", {}),
    ("reset_apn_settings", r"reset (?:the |your )?apn", {}),
    ("set_apn_settings", r"(?:set|restore) (?:the |your )?apn", {"apn_settings": {}}),
    ("check_apn_settings", r"apn", {}),
    ("check_vpn_status", r"(?:check|look at) (?:the |your )?vpn", {}),
    ("connect_vpn", r"(?<!dis)connect (?:to )?(?:the |your |a )?vpn", {}),
    ("disconnect_vpn", r"vpn", {}),
    ("reseat_sim_card", r"re-?(?:seat|insert)[^.!?;]{0,20}\bsim|take [^.!?;]{0,20}\bsim", {}),
    ("check_sim_status", r"sim(?: card)?", {}),
    ("reboot_device", r"re-?boot|restart", {}),
    ("check_payment_request", r"(?:check|look)[^.!?;]{0,20} payment request", {}),
    ("make_payment", r"\bpay\b|\bpayment\b", {}),
    ("run_speed_test", r"speed test|how fast", {}),
    ("grant_app_permission", r"sms permission", {"app_name": "messaging", "permission": "sms"}),
    ("grant_app_permission", r"storage permission", {"app_name": "messaging", "permission": "storage"}),
    ("check_app_permissions", r"permissions?", {"app_name": "messaging"}),
    ("can_send_mms", r"(?:send|sent)[^.!?;]{0,20} (?:mms|pictures?)", {}),
    ("set_network_mode_preference", r"(?:prefer|set|switch to)[^.!?;]{0,30} (?:4g|5g)", {"mode": "4g_5g_preferred"}),
    ("check_network_mode_preference", r"(?:network mode|preferred network|network preference)", {}),
    ("check_data_restriction_status", r"data (?:restriction|limit)", {}),
    ("toggle_data", r"(?:mobile|cellular) data", {}),
    ("check_status_bar", r"status bar", {}),
    ("check_network_status", r"(?:network|signal|service|connection)", {}),
)
_LOOK = re.compile(r"(?i)\b(?:check|look|see|tell me|show|what|which|is|are|does)\b")
#: What is looked at where a switch is asked about, and not to be flipped.
_STATUS = {
    "toggle_airplane_mode": "check_network_status", "toggle_data": "check_network_status",
    "toggle_roaming": "check_network_status", "toggle_data_saver_mode": "check_data_restriction_status",
    "toggle_wifi": "check_wifi_status", "toggle_wifi_calling": "check_wifi_calling_status",
    "disconnect_vpn": "check_vpn_status", "make_payment": "check_payment_request",
}  # fmt: skip
_WRITTEN = re.compile(rf"\b(?:{'|'.join(sorted(_PHONE, key=len, reverse=True))})\b(?:\([^()]{{0,300}}\))?")
_STATE = re.compile(
    r"(?i)\b(?:turn|switch|put)(?:ed|s)?\b[^.!?;]{0,30}?\b(on|off)\b|\b(enable|disable|activate|deactivate)\b"
)


def asked(words: str) -> Iterator[tuple[ToolCall, str]]:
    """Yield what the desk asks for, in its order: a call, and the state that a switch should be in, "" for any.

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
    found = [
        (match.start(), name, arguments)
        for name, pattern, arguments in _WORDS
        if (match := re.search(pattern, part, re.IGNORECASE))
    ]
    if not found:
        return
    # Of several words in one part, the most special counts: it stands first in the list.
    _, name, arguments = found[0]
    state = _STATE.search(part)
    if name in _STATUS and not state and _LOOK.search(part):
        name, arguments = _STATUS[name], {}
    wanted = ""
    if state and name.startswith("toggle_"):
        wanted = "ON" if (state[1] or state[2]).lower() in ("on", "enable", "activate") else "OFF"
    yield ToolCall(name, arguments), wanted
