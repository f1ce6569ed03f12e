"""ALFWorld in the learning benchmark: how it is played, and the vocabulary of its tiny policy."""

from dataclasses import replace

from agentgym.alfworld.player import ALFWorldPlayer
from agentgym.alfworld.things import OBJECT_TYPES, RECEPTACLE_TYPES
from baselines.environments.settings import (
    SOKOBAN_PRETRAINED,
    SOKOBAN_TINY,
    EnvSettings,
    Scripted,
    Setup,
    Sizes,
    limit_of_steps,
)

#: Phrases that occur in every prompt are one token each. In a list, a number and the comma behind it are one token.
_PIECES: tuple[str, ...] = (
    r"-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room\. Looking quickly around you, "
    r"you see a(?= )",
    r"(?:,(?: and)?| you see) a(?= [a-z]+ \d)",
    r"\.?\n\nYour task is to:",
    r"At the start you saw:\n",
    r"\.?\n\nYou did: ",
    r"\.?\n\nNow you see:\n",
    r"\.?\n\nlocation:",
    r"\ninventory:",
    r"You (?:arrive at|(?:pick up|put|move|open|close|clean|heat|cool|turn on) the)",
    r" (?:from|to|using) the(?= )",
    r"(?:\. |\A|(?<=\n))(?:On|The) the",
    r"\. The(?= )",
    r" is open\. In it, you see",
    r" is closed\.",
    r"(?:; )?go to",
    r", you see nothing\.",
    r", you see a(?= )",
    r"Nothing happens\.",
    r" \d+,(?: and)? a(?= [a-z]+ \d)",
    r"; [a-z]+",
    r" ?[a-z]+",
    r" ?\d+",
)


#: Texts of ALFWorld and its prompts, without names and numbers.
_SAID = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
    "bed 1, a bed 2, and a bed 3.\n\nYour task is to: put some bed on bed.",
    *(f"{end}\n\n{next}" for end in ("", ".") for next in ("You did: ", "Now you see:\n", "location: x\ninventory: y")),
    "At the start you saw:\n",
    "On the bed 1, you see nothing.",
    "On the bed 1, you see a bed 1, and a bed 1.",
    "The bed 1 is closed.",
    "You arrive at bed 1. On the bed 1, you see a bed 1.",
    "You open the bed 1. The bed 1 is open. In it, you see a bed 1.",
    "You arrive at bed 1. The bed 1 is closed.",
    *(
        f"You {verb} the bed 1"
        for verb in ("pick up", "put", "move", "open", "close", "clean", "heat", "cool", "turn on")
    ),
    " from the bed 1 to the bed 1 using the bed 1. Nothing happens.",
    *(
        f"{before}{verb}"
        for before in ("", " ", "; ")
        for verb in (
            "go to", "take", "move", "put", "open", "close", "clean", "heat", "cool", "use", "slice", "examine",
            "look", "inventory", "help",
        )
    ),
    " from to with on in and a some two them it hot clean cool look at under the examine find heat with put",
    " the middle of the room nothing, and (cleaned) (heated) (cooled)",
    " facing. Next You are carrying: not anything in front of special about There's",
)  # fmt: skip


def _words() -> list[str]:
    kinds = sorted({kind.lower() for kind in (*RECEPTACLE_TYPES, *OBJECT_TYPES)})
    numbers = [f" {number}{mark} bed 1" for number in range(1, 31) for mark in ("", ", a", ", and a")]
    return [*_SAID, *(f" {kind}" for kind in kinds), *numbers]


# Few layers, little history and two task types in rooms without a kitchen: what a CPU core can train on in minutes.
# Sampled at a lower temperature than Sokoban's single tokens: a command is up to seven tokens, and one slip spoils it.
ALFWORLD_TINY = SOKOBAN_TINY.changed(iterations=120, groups=8, group_size=8, temperature=0.7, validation={"every": 15})
_SETUP = Setup(
    options={
        "data": "generated",
        "task_types": ["pick_and_place_simple", "look_at_obj_in_light"],
        "max_episode_steps": 20,
    },
    plenty={"num_games": 100_000},
    validation="valid_unseen",
    test="valid_unseen",
    beside=["valid_seen"],
    kinds="task_type",
    adviser="explorer",
    prompt={"keep_first": True, "shown": "actions", "facts": ["location", "inventory"]},
    policy={"layers": 3, "mlp": 128, "max_new_tokens": 12, "suffix": ""},
)
ALFWORLD = EnvSettings(
    name="alfworld",
    id="AgentRL/ALFWorld-v0",
    papers_play="the official games",
    papers_options={"steps": limit_of_steps, "success_reward": lambda reward: {"reward": reward}},
    tiny=ALFWORLD_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        ALFWORLD_TINY,
        # Games cost nothing: many of them twice teach more than few of them often.
        clone_tasks=6000,
        clone_epochs=2,
        training_tasks=4000,
        eval_tasks=256,
        validation_tasks=128,
    ),
    setup=_SETUP,
    pretrained_setup=replace(
        _SETUP,
        options={"data": "generated"},
        prompt={"keep_first": True, "admissible": True, "facts": ["location", "inventory"]},
        policy={},
    ),
    history=8,
    words=_words,
    pieces=_PIECES,
    data={"data": "ALFWORLD_DATA"},
    advisers={"explorer": ALFWorldPlayer},
    kind_names={
        "pick_and_place_simple": "Pick", "look_at_obj_in_light": "Look", "pick_clean_then_place_in_recep": "Clean",
        "pick_heat_then_place_in_recep": "Heat", "pick_cool_then_place_in_recep": "Cool",
        "pick_two_obj_and_place": "Pick2",
    },
    scripted=Scripted(48, (0.23, 0.31, 0.41)),
)  # fmt: skip
