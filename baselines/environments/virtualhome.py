"""VirtualHome in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

from dataclasses import replace

from agentgym.virtualhome.commands import TEMPLATES
from agentgym.virtualhome.generated.catalogue import KINDS, ROOMS
from agentgym.virtualhome.generated.families import SENTENCES, UNPLUG
from agentgym.virtualhome.player import VirtualHomePlayer
from baselines.environments.settings import (
    COPYING,
    SOKOBAN_PRETRAINED,
    SOKOBAN_TINY,
    EnvSettings,
    Scripted,
    Setup,
    Sizes,
    limit_of_steps,
)

#: Phrases that occur in every prompt are one token each; otherwise a word and the space before it are one.
_PIECES: tuple[str, ...] = (
    r"At the start you saw:\nYour task is to:",
    r"\n\nYou are in",
    r"\.?\nNear you:",
    r"\.?\nYou hold",
    r"\.?\n\nYou did:",
    r"\.?\n\nNow you see:\n(?:You are in)?",
    r"Nothing happens:",
    r";(?= )",
    r" \d+[,.;]?",
    r" ?[a-z]+",
)
#: Texts of VirtualHome and its prompts, without names and numbers.
_SAID = (
    "At the start you saw:\nYour task is to: Put mug 1, mug 2 and mug 3 on mug 4.\n\nYou are in hall 1.\nNear you: "
    "nothing.\nYou hold nothing.\n\nYou did: walk to mug 1; grab mug 1\n\nNow you see:\nYou are in hall 1.",
    "Nothing happens: mug 1 is inside other closed thing; you are not close to mug 1.\nYou are in hall 1, sitting on "
    "bed 1.\nNear you: mug 1 (open, closed, on, off, unplugged, dirty) on bed 1 in fridge 1 with nothing in it. You "
    "wear",
    " free hand grabbable cannot be found have no do does command for a thing of this house still not",
)


def _words() -> list[str]:
    kinds = [f" {name.replace('_', ' ')}" for name in (*KINDS, *ROOMS, "hands", "door")]
    texts = [text.replace("{}", "x") for text in TEMPLATES.values()]
    said = [text.replace("{", "").replace("}", "") for text in (*SENTENCES.values(), UNPLUG)]
    numbers = [f" {number}{mark}" for number in range(10) for mark in ("", ",", ".", ";")]
    return [*_SAID, *kinds, *texts, *(f" {text}" for text in texts), *said, *numbers]


# Five families whose programs have two to ten commands: what a CPU core can train on in minutes. Names are copied from
# the task; a command is up to nine tokens, and one slip spoils it, hence the temperature.
VIRTUALHOME_TINY = SOKOBAN_TINY.changed(
    iterations=120, groups=8, group_size=8, learning_rate=2e-4, temperature=0.7, validation={"every": 15}
)
_SETUP = Setup(
    options={
        "data": "generated",
        "task_types": ["place", "store", "switch_on", "wash", "dress"],
        "max_episode_steps": 15,
    },
    plenty={"num_activities": 100_000},
    validation="valid_seen",
    test="valid_seen",
    beside=["valid_unseen"],
    kinds="task_type",
    adviser="helper",
    prompt={"keep_first": True, "shown": "actions"},
    policy=COPYING | {"max_new_tokens": 12, "suffix": ""},
)
VIRTUALHOME = EnvSettings(
    name="virtualhome",
    id="AgentRL/VirtualHome-v0",
    papers_play="the published activities",
    papers_options={"steps": limit_of_steps},
    tiny=VIRTUALHOME_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        VIRTUALHOME_TINY, clone_tasks=3000, clone_epochs=2, training_tasks=4000, eval_tasks=256, validation_tasks=128
    ),
    setup=_SETUP,
    pretrained_setup=replace(_SETUP, options={"data": "generated"}, prompt={"keep_first": True}, policy={}),
    history=6,
    words=_words,
    pieces=_PIECES,
    data={"data": "VIRTUALHOME_DATA"},
    made=("task_types",),
    advisers={"helper": VirtualHomePlayer},
    kind_names={
        "place": "Place", "store": "Store", "fetch": "Fetch", "switch_on": "On", "switch_off": "Off", "wash": "Wash",
        "wipe": "Wipe", "set_table": "Table", "watch": "Watch", "dress": "Dress", "read": "Read", "drink": "Drink",
        "cook": "Cook", "laundry": "Laundry", "wash_dishes": "Dishes", "work": "Work", "rest": "Rest",
    },
    scripted=Scripted(8, (0.25, 0.42, 0.58)),
)  # fmt: skip
