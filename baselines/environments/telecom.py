"""Telecom in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

import dataclasses
import zlib
from collections.abc import Collection, Mapping
from typing import Any

from agentgym.outside.tool_calls import ToolCall
from agentgym.telecom.company import get_customer_by_phone
from agentgym.telecom.env import TelecomEnv
from agentgym.telecom.generated.company import company
from agentgym.telecom.player import TelecomPlayer
from agentgym.telecom.rules import TOOLS, begin, call
from agentgym.telecom.state import World
from baselines.environments.settings import (
    COPYING,
    QUICK,
    SMOLLM2,
    SOKOBAN_PRETRAINED,
    SOKOBAN_TINY,
    EnvSettings,
    ModelSettings,
    Scripted,
    Setup,
    Sizes,
)

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


# A call is up to eight tokens, and one slip is an error, hence the temperature.
TELECOM_TINY = SOKOBAN_TINY.changed(
    iterations=40, groups=2, group_size=8, learning_rate=8e-4, temperature=0.7, validation={"every": 5}
)
_SETUP = Setup(
    options={"faults": [1, 2], "kinds": ["mobile_data"], "hopeless": False, "max_episode_steps": 20},
    plenty={"num_tasks": 100_000}, validation="valid", beside=["test_hard"], kinds="kind", adviser="trainee",
    prompt={"keep_first": True}, policy=COPYING | {"max_new_tokens": 10, "suffix": ""},
)  # fmt: skip
# A pretrained model reads about 200 tokens a second on a core. It clones the expert, whose episodes take a third of the
# steps. The expert knows what is broken and its clone has to guess, so that reinforcement learning can improve on it.
_SMOLLM2 = SOKOBAN_PRETRAINED.changed(
    iterations=6, groups=2, group_size=8, learning_rate=2e-5, temperature=0.9, loss={"kl": 0.0, "keep_zero": False},
    memory={"microbatch_rows": None, "microbatch_tokens": 768, "share_prefixes": True}, validation={"every": 3},
)  # fmt: skip
#: Reply tokens of a run in the head to head: about 24 iterations.
_TOKENS = 12_000


def _of_faults(row: EnvSettings, options: Mapping[str, Any]) -> EnvSettings:
    most = options.get("faults", _SETUP.options["faults"])[1]
    return row if options.get("data") else dataclasses.replace(row, name=f"telecom-n{most}")


TELECOM = EnvSettings(
    name="telecom",
    id="AgentRL/Telecom-v0",
    tiny=TELECOM_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        TELECOM_TINY, clone_tasks=300, clone_epochs=2, training_tasks=4000, eval_tasks=64, validation_tasks=24
    ),
    setup=_SETUP,
    pretrained_setup=dataclasses.replace(
        _SETUP,
        options={"faults": [1, 2], "hopeless": False, "max_episode_steps": 20},
        adviser="desk",
        policy={"max_new_tokens": 64},
    ),
    history=2,
    words=_words,
    pieces=_PIECES,
    data={"data": ""},
    made=("faults", "kinds", "hopeless", "num_tasks"),
    advisers={"desk": TelecomPlayer, "trainee": lambda: Trainee(NOISE)},
    kind_names={"service": "Service", "mobile_data": "Data", "mms": "MMS"},
    scripted=Scripted(16, (0.1, 0.19, 0.34)),
    models={
        SMOLLM2: ModelSettings(
            training=_SMOLLM2,
            token_budget=4000,
            full=Sizes.trained(
                _SMOLLM2, clone_tasks=48, clone_epochs=2, training_tasks=1000, eval_tasks=32, validation_tasks=4
            ),
            quick=dataclasses.replace(QUICK, groups=2, clone_tasks=4, clone_epochs=1, eval_tasks=2, validation_tasks=2),
            setup=Setup(
                options={"faults": [1, 3], "kinds": ["mobile_data"], "hopeless": False, "max_episode_steps": 10},
                plenty={"num_tasks": 100_000}, validation="valid", cloned={"faults": [1, 2]},
                prompt={"keep_first": True}, policy={"max_new_tokens": 40},
                clone={"batch_size": 4, "warmup": 4, "weight_decay": 0.0},
            ),
            history=2,
            instructions=False,
        )
    },
    token_budget=_TOKENS,
    search="rates",
    with_options=_of_faults,
)  # fmt: skip
