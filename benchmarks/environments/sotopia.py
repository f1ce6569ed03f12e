"""SOTOPIA in the learning benchmark."""

from __future__ import annotations

import dataclasses

from baselines.recipes import SOKOBAN_PRETRAINED, SOKOBAN_TINY
from benchmarks.config import Setup, Sizes
from benchmarks.environments.settings import COPYING, EnvSettings
from benchmarks.environments.sotopia_words import PIECES, meeting_words
from wrappers.canonical import Key


def _deal() -> Key:
    from agentgym.sotopia.keys import deal_key

    return deal_key


# Meetings to be arranged with partners by rules: prompts of some hundred and fifty tokens, in which own costs are to be
# looked up, and what was proposed. What others say in free text no policy of this size can read.
SOTOPIA_TINY = dataclasses.replace(
    SOKOBAN_TINY, iterations=120, groups=8, group_size=8, temperature=0.7, validate_every=12
)
SOTOPIA = EnvSettings(
    name="sotopia",
    id="AgentRL/SOTOPIA-v0",
    tiny=SOTOPIA_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        SOTOPIA_TINY,
        clone_levels=1500,
        clone_epochs=1,
        training_levels=4000,
        eval_levels=256,
        validation_levels=128,
    ),
    setup=Setup(
        options={"families": ["schedule"], "max_episode_steps": 10},
        kinds="family",
        prompt={"keep_first": True, "shown": "actions"},
        policy=COPYING | {"max_new_tokens": 8, "suffix": ""},
    ),
    pretrained_setup=Setup(
        kinds="family",
        prompt={"keep_first": True},
        policy={"max_new_tokens": 96},
    ),
    history=4,
    words=meeting_words,
    pieces=PIECES,
    kind_names={
        "bargain": "Bargain",
        "divide": "Divide",
        "friend": "Friend",
        "schedule": "Schedule",
    },
    key=_deal,
    return_name="goal/10",
)
