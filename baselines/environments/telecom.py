"""Telecom in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

from __future__ import annotations

import dataclasses

from baselines.environments.settings import (
    COPYING,
    SOKOBAN_PRETRAINED,
    SOKOBAN_TINY,
    EnvSettings,
    Scripted,
    Setup,
    Sizes,
)
from wrappers.advice import Adviser

#: A call is a few tokens: the tool's name, and each id. Of a record, what no repair depends on is one token.
_PIECES: tuple[str, ...] = (
    r"At the start you saw:\n",
    r"\n\nStep \d+, you saw:\n",
    r"\nStep \d+, you did: ",
    r"\n\nNow you see:\n",
    r"[a-z_]+\(\)",
    r"[a-z_]+\((?:[a-z_]+=)?(?:\{\}|\")?",
    r"\"?, [a-z_]+=\"?",
    r"\"?\)",
    r"[BCDLP]\d{4,}",
    r"[2-5]g_[a-z0-9_]+",
    r"\d\.\d",
    r"\d{4}-\d\d-\d\d",
    r"\d{3}-\d{3}-\d{4}",
    r"\", \"full_name\": [^\[]*\[[^\]]*\], \"line_ids\": \[\"",
    r"\"\], \"bill_ids\": \[\"",
    r"\"\], \"created_at\": [^}]*\}",
    r"\", \"plan_id\": [^\n]*?\"roaming_enabled\": ",
    r", \"contract_end_date\": [^\n]*?\"suspension_start_date\": \"?",
    r"\", \"period_start\": [^\n]*?\], \"status\": \"",
    r"\", \"data_used_gb\": \"[^\n]*\}",
    r"\{\"message\": \"Successfully added [^\n]*\}",
    r"(?:\"?, |\{)?\"[a-z_]+\": [\"{\[]*",
    r"\", \"",
    r"[A-Z][a-z]+ [A-Z][a-z]+(?= cannot | has )",
    r" (?:cannot|has no) [^\n:]*(?:: [^\n:]*)?\. Phone number: ",
    r"\. The customer (?:agrees|is)",
    r" (?:to pay|and agrees) [^\n]*\.",
    r"\n?Status Bar: ",
    r"[^\n|{}\"()0-9]{1,40} \| ",
    r"🔋 \d+%",
    r"[A-Z][A-Za-z -]+: [A-Za-z0-9_]+\n?",
    r"MMSC URL [^\n]*\n",
    r"\(These are [^\n]*\)",
    r"VPN is ON and [^\n]*",
    r"[A-Z][A-Za-z -]* is (?:now |currently turned |turned )?(?:ON|OFF)[^\n]*\n?",
    r"App '[a-z]+' has permission for:",
    r"Error: [^\n]*",
    r"(?:Payment|You have a payment)[^\n]* bill ",
    r"(?:Success|Preferred|APN settings|Speed Test|Restarting|SIM card|VPN disconnected)[^\n|]*\n?",
    r" ?[A-Za-z_]+",
)
#: Cases whose texts are read for words.
_SAMPLE = 100


def _words() -> list[str]:
    """Return what is said and done in some cases, by a fair player and by each call of the phone, and all records."""
    from agentgym.outside.tool_calls import ToolCall
    from agentgym.telecom.company import get_customer_by_phone
    from agentgym.telecom.env import TelecomEnv
    from agentgym.telecom.generated.company import company
    from agentgym.telecom.rules import TOOLS, begin, call
    from agentgym.telecom.state import World

    env, texts = TelecomEnv(), dict[str, None]()
    for index in range(_SAMPLE):
        player, over = _desk(), False
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


def _desk() -> Adviser:
    from agentgym.telecom.player import TelecomPlayer

    return TelecomPlayer()


# One or two faults whose repairs take nine to twelve calls with the checks before them. A call is up to eight tokens,
# and one slip is an error, hence the temperature. Both splits of more faults are played beside the test split.
TELECOM_TINY = SOKOBAN_TINY.changed(
    iterations=120, groups=8, group_size=8, learning_rate=2e-4, temperature=0.7, validation={"every": 15}
)
_SETUP = Setup(
    options={"faults": [1, 2], "hopeless": False, "max_episode_steps": 20},
    plenty={"num_tasks": 100_000},
    validation="valid",
    beside=["test_hard"],
    kinds="kind",
    adviser="desk",
    prompt={"keep_first": True},
    policy=COPYING | {"max_new_tokens": 10, "suffix": ""},
)
TELECOM = EnvSettings(
    name="telecom",
    id="AgentRL/Telecom-v0",
    tiny=TELECOM_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        TELECOM_TINY, clone_tasks=1500, clone_epochs=2, training_tasks=4000, eval_tasks=256, validation_tasks=128
    ),
    setup=_SETUP,
    pretrained_setup=dataclasses.replace(_SETUP, policy={"max_new_tokens": 64}),
    history=3,
    words=_words,
    pieces=_PIECES,
    data={"data": ""},
    made=("faults", "kinds", "hopeless", "num_tasks"),
    advisers={"desk": _desk},
    kind_names={"service": "Service", "mobile_data": "Data", "mms": "MMS"},
    scripted=Scripted(16, (0.1, 0.19, 0.34)),
)
