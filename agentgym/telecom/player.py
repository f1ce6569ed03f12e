"""A fair player: it reads ticket and answers, looks before it mends, and follows the rules of the desk in order."""

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Literal

from agentgym.outside.tool_calls import write_call
from agentgym.telecom.rules import TOOLS
from agentgym.telecom.state import TODAY

_NUMBER = re.compile(r"\d{3}-\d{3}-\d{4}")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) GB")
#: Maximum of the published rules, used if the ticket names no amount.
_MOST_GB = 2.0
Ask = Callable[..., str]


class _NextError(Exception):
    """The script reached a call that was not made yet."""


class TelecomPlayer:
    """Closes cases of `TelecomEnv` with what an agent can see; satisfies `wrappers.advice.Adviser`.

    One player closes one case. It reads only the ticket and the answers, and follows the script anew at every step with
    the answers so far, so that a copy continues from where it was copied.

    Args:
        side: "agent" if a customer has the phone and is asked to make its calls.

    >>> from agentgym.telecom.env import TelecomEnv
    >>> env = TelecomEnv()
    >>> observation, info = env.reset(options={"split": "test", "index": 0})
    >>> player, over = TelecomPlayer(), False
    >>> while not over:
    ...     observation, _, over, _, info = env.step(player.act(observation, info["admissible_actions"]))
    >>> info["won"]
    True
    """

    def __init__(self, side: Literal["solo", "agent"] = "solo") -> None:
        self.side = side
        self._ticket: str | None = None
        self._answers: list[str] = []

    def act(self, observation: str, admissible: Collection[str]) -> str:
        """Return the next call."""
        if self._ticket is None:
            self._ticket = observation
        else:
            self._answers.append(observation)
        answers = iter(self._answers)

        def ask(name: str, **arguments: Any) -> str:
            for answer in answers:
                return answer
            call = write_call(name, arguments)
            if self.side == "agent" and TOOLS[name].side == "user":
                call = write_call("say", {"text": f"Please use {call}."})
            raise _NextError(call)

        try:
            end = _script(self._ticket, ask)
        except _NextError as call:
            return str(call)
        return end


def _script(ticket: str, ask: Ask) -> str:
    """Work through a case, and return the call that ends it."""
    words = ticket.lower()
    pictures = "mms" in words or "pictures" in words
    data = pictures or "data" in words.split("phone number")[0]
    status = ask("check_network_status")
    if "Airplane Mode: ON" in status:
        ask("toggle_airplane_mode")
    if "SIM Card Status: missing" in status:
        ask("reseat_sim_card")
        status = status if "locked" not in ask("check_sim_status") else "locked"
    if "locked" in status:
        return _transfer()
    apn = ask("check_apn_settings")
    if "APN Name: broken" in apn or (pictures and "messages): Not Set" in apn):
        ask("set_apn_settings", apn_settings={})
    customer, line = _account(ticket, ask)
    if line.get("status") == "Suspended" and not _resumed(customer, line, ask):
        return _transfer()
    if data:
        _mend_data(words, status, customer, line, ask, pictures)
    if pictures:
        _mend_pictures(ask)
    return write_call("done", {})


def _transfer() -> str:
    return write_call("transfer_to_human_agents", {"summary": "I cannot fix the issue."})


def _account(ticket: str, ask: Ask) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return customer and line of the number in the ticket."""
    number = _NUMBER.search(ticket)
    customer = _record(ask("get_customer_by_phone", phone_number=number[0] if number else ""))
    for line_id in customer.get("line_ids", []):
        line = _record(ask("get_details_by_id", id=line_id))
        if number is not None and line.get("phone_number") == number[0]:
            return customer, line
    return customer, {}


def _record(answer: str) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _resumed(customer: dict[str, Any], line: dict[str, Any], ask: Ask) -> bool:
    """Have the overdue bill paid and the line resumed; False if the desk may not do that."""
    if str(line.get("contract_end_date")) < TODAY:
        return False
    owner = customer["customer_id"]
    for bill_id in customer.get("bill_ids", [])[::-1]:
        if _record(ask("get_details_by_id", id=bill_id)).get("status") == "Overdue":
            ask("send_payment_request", customer_id=owner, bill_id=bill_id)
            ask("make_payment")
    ask("resume_line", customer_id=owner, line_id=line["line_id"])
    ask("reboot_device")
    return True


def _mend_data(
    ticket: str, status: str, customer: dict[str, Any], line: dict[str, Any], ask: Ask, pictures: bool
) -> None:
    ours = {"customer_id": customer.get("customer_id", ""), "line_id": line.get("line_id", "")}
    if "Mobile Data Enabled: No" in status:
        ask("toggle_data")
    if "abroad" in ticket:
        if "Data Roaming Enabled: No" in status:
            ask("toggle_roaming")
        if not line.get("roaming_enabled"):
            ask("enable_roaming", **ours)
    usage = _record(ask("get_data_usage", **ours))
    amount = _AMOUNT.search(ticket.upper())
    if usage and float(usage["data_used_gb"]) >= float(usage["data_limit_gb"]) + float(usage["data_refueling_gb"]):
        ask("refuel_data", **ours, gb_amount=float(amount[1]) if amount else _MOST_GB)
    if "4g_5g_preferred" not in ask("check_network_mode_preference"):
        ask("set_network_mode_preference", mode="4g_5g_preferred")
    if not pictures:
        if "mode is ON" in ask("check_data_restriction_status"):
            ask("toggle_data_saver_mode")
        if "connected. Details" in ask("check_vpn_status"):
            ask("disconnect_vpn")


def _mend_pictures(ask: Ask) -> None:
    if "turned ON" in ask("check_wifi_calling_status"):
        ask("toggle_wifi_calling")
    granted = ask("check_app_permissions", app_name="messaging")
    for permission in ("sms", "storage"):
        if permission not in granted:
            ask("grant_app_permission", app_name="messaging", permission=permission)
