"""Telecom in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

import dataclasses
import zlib
from collections.abc import Collection, Mapping
from typing import Any

from agentgym.outside.tool_calls import ToolCall
from agentgym.telecom.company import get_customer_by_phone
from agentgym.telecom.env import TelecomEnv
from agentgym.telecom.player import TelecomPlayer
from agentgym.telecom.rules import TOOLS, begin, call
from agentgym.telecom.state import World
from agentgym.telecom.tasks import company
from baselines.environments.settings import EnvSettings, read

#: Cases whose texts are read for words.
_SAMPLE = 100


def _words() -> list[str]:
    env, texts = TelecomEnv(), dict[str, None]()
    for index in range(_SAMPLE):
        player, over = TelecomPlayer(), False
        observation, info = env.reset(options={"split": "train", "index": index})
        while not over:
            command = player.act(observation, info["admissible_actions"])
            texts |= dict.fromkeys((observation, command))
            observation, _, over, _, info = env.step(command)
        if index < 20:
            observation, info = env.reset(options={"split": "train", "index": index})
            phone = [f"{tool.name}()" for tool in TOOLS.values() if tool.side == "user" and not tool.required]
            for command in phone * 2:
                texts[env.step(command)[0]] = None
    for line_id, line in company().lines.items():
        owner = get_customer_by_phone(company(), line["phone_number"])["customer_id"]
        ours, bill = {"customer_id": owner, "line_id": line_id}, f"B9{line_id[1:]}"
        limit = company().plans[line["plan_id"]]["data_limit_gb"]
        for faults in (
            [ToolCall("suspend_line_for_overdue_bill", {**ours, "new_bill_id": bill, "contract_ended": False})],
            [ToolCall("set_data_usage", {**ours, "data_used_gb": round(limit + 0.1, 1)})],
        ):
            world = World(company().snapshot())
            begin(world, faults)
            refuel = ToolCall("refuel_data", {**ours, "gb_amount": 2.0})
            looks = [ToolCall("get_customer_by_id", {"customer_id": owner}), ToolCall("get_data_usage", ours)]
            shown = (line_id, *world.customers[owner]["bill_ids"])
            looks += [ToolCall("get_details_by_id", {"id": each}) for each in shown]
            texts |= dict.fromkeys(call(world, *each)[0] for each in (*looks, refuel, *looks[1:]))
        due = company().plans[line["plan_id"]]["price_per_month"]
        texts[f"Payment of {due} USD has been made for bill {bill}."] = None
    framed = [f"\n\nStep {step}, you saw:\nX\nStep {step}, you did: X" for step in range(1, 41)]
    return [*texts, "At the start you saw:\nX", *framed, "\n\nNow you see:\nX"]


#: How often the trainee that is cloned takes a repair for another, and which it takes for it.
NOISE = 0.6
_MISTAKES = {
    "toggle_airplane_mode()": "toggle_wifi()",
    "toggle_data()": "toggle_roaming()",
    "toggle_roaming()": "toggle_data()",
    "toggle_data_saver_mode()": "toggle_airplane_mode()",
    "disconnect_vpn()": "connect_vpn()",
    'set_network_mode_preference(mode="4g_5g_preferred")': 'set_network_mode_preference(mode="3g_only")',
}


class Trainee:
    """A fair player that takes a repair for another, with a probability; what it has seen decides when."""

    def __init__(self, noise: float) -> None:
        self.noise, self._player, self._seen = noise, TelecomPlayer(), 0

    def act(self, observation: str, admissible: Collection[str]) -> str:
        self._seen = zlib.crc32(observation.encode(), self._seen)
        command = self._player.act(observation, admissible)
        return _MISTAKES.get(command, command) if self._seen < self.noise * 2**32 else command


def _of_faults(row: EnvSettings, options: Mapping[str, Any]) -> EnvSettings:
    most = options.get("faults", row.setup.options["faults"])[1]
    return row if options.get("data") else dataclasses.replace(row, name=f"telecom-n{most}")


TELECOM = read(
    __file__,
    words=_words,
    advisers={"desk": TelecomPlayer, "trainee": lambda: Trainee(NOISE)},
    with_options=_of_faults,
)
