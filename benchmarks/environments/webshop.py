"""WebShop in the learning benchmark."""

from __future__ import annotations

import dataclasses

from baselines.recipes import SOKOBAN_PRETRAINED, SOKOBAN_TINY
from benchmarks.config import Setup, Sizes
from benchmarks.environments.settings import COPYING, EnvSettings
from benchmarks.environments.webshop_words import PIECES, shop_words
from wrappers.advice import Adviser
from wrappers.canonical import Key


def _shopper() -> Adviser:
    from agentgym.webshop.player import Shopper

    return Shopper()


def _quick_shopper() -> Adviser:
    from agentgym.webshop.player import Shopper

    return Shopper(patience=0)


def _page() -> Key:
    from agentgym.webshop.keys import page_key

    return page_key


# The return of an episode is its score. Nobody asks for a test product while training.
WEBSHOP_TINY = dataclasses.replace(
    SOKOBAN_TINY, iterations=250, groups=8, group_size=8, temperature=0.7, validate_every=25
)
WEBSHOP = EnvSettings(
    name="webshop",
    id="AgentRL/WebShop-v0",
    tiny=WEBSHOP_TINY,
    pretrained=SOKOBAN_PRETRAINED,
    full=Sizes.trained(
        WEBSHOP_TINY,
        clone_levels=2000,
        clone_epochs=1,
        training_levels=4000,
        eval_levels=256,
        validation_levels=128,
    ),
    setup=Setup(
        options={"data": "generated", "split_by": "product", "max_episode_steps": 10},
        adviser="quick_shopper",
        # Results are cut off behind the third or fourth product; the chosen options stand where the text hides them.
        prompt={"facts": ["options"], "max_chars": 520},
        policy=COPYING | {"max_new_tokens": 32, "suffix": "", "lower_case": True},
    ),
    pretrained_setup=Setup(
        options={"data": "generated", "split_by": "product"},
        adviser="shopper",
        prompt={"admissible": True, "facts": ["options"]},
    ),
    words=shop_words,
    pieces=PIECES,
    advisers={"shopper": _shopper, "quick_shopper": _quick_shopper},
    key=_page,
    return_name="score",
)
