"""ALFWorld in the learning benchmark."""

from __future__ import annotations

import dataclasses

from baselines.recipes import SOKOBAN_PRETRAINED, SOKOBAN_TINY
from benchmarks.config import Setup, Sizes
from benchmarks.environments.alfworld_words import PIECES, household_words
from benchmarks.environments.settings import EnvSettings
from wrappers.advice import Adviser


def _explorer() -> Adviser:
    from agentgym.alfworld.player import Explorer

    return Explorer()


# Few layers, little history and two task types in rooms without a kitchen: what a CPU core can train on in minutes.
# Sampled at a lower temperature than Sokoban's single tokens: a command is up to seven tokens, and one slip spoils it.
ALFWORLD_TINY = dataclasses.replace(
    SOKOBAN_TINY, iterations=120, groups=8, group_size=8, temperature=0.7, validate_every=15
)
ALFWORLD = EnvSettings(
    name="alfworld",
    id="AgentRL/ALFWorld-v0",
    tiny=ALFWORLD_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        ALFWORLD_TINY,
        # Games cost nothing: many of them twice teach more than few of them often.
        clone_levels=6000,
        clone_epochs=2,
        training_levels=4000,
        eval_levels=256,
        validation_levels=128,
    ),
    setup=Setup(
        options={
            "data": "generated",
            "task_types": ["pick_and_place_simple", "look_at_obj_in_light"],
            "max_episode_steps": 20,
        },
        validation="valid_unseen",
        test="valid_unseen",
        beside=["valid_seen"],
        kinds="task_type",
        adviser="explorer",
        prompt={"keep_first": True, "shown": "actions", "facts": ["location", "inventory"]},
        policy={"layers": 3, "mlp": 128, "max_new_tokens": 12, "suffix": ""},
    ),
    pretrained_setup=Setup(
        options={"data": "generated"},
        validation="valid_unseen",
        test="valid_unseen",
        beside=["valid_seen"],
        kinds="task_type",
        adviser="explorer",
        prompt={"keep_first": True, "admissible": True, "facts": ["location", "inventory"]},
    ),
    history=8,
    words=household_words,
    pieces=PIECES,
    advisers={"explorer": _explorer},
    kind_names={
        "pick_and_place_simple": "Pick",
        "look_at_obj_in_light": "Look",
        "pick_clean_then_place_in_recep": "Clean",
        "pick_heat_then_place_in_recep": "Heat",
        "pick_cool_then_place_in_recep": "Cool",
        "pick_two_obj_and_place": "Pick2",
    },
)
