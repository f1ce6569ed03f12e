"""What VirtualHome reads from outside: observations its player is shown, commands, script lines, messages, task ids."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache, partial

from agentgym.virtualhome.commands import LineError, Words, parse_line
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.hindsight import split_id, with_chore
from agentgym.virtualhome.player import VirtualHomePlayer, read_task
from agentgym.virtualhome.scene import Scene
from agentgym.virtualhome.text import failure
from tests.agentgym.virtualhome.small_houses import EDGES, NODES, activity

CHORE = "Your task is to: Put mug 1 on desk 1.\n\nYou are in hall 1.\nNear you: mug 1 in box 1.\nYou hold nothing."
_SHOWN = ("{}", CHORE + "{}", "Your task is to: {}", "Your task is to: Put {} on {}.", "Near you: {}.", "You hold {}.")
_NAMED = ("{}", "wash:{}", "wash:mug_2,{}", "store:{}:fridge_1", "place:mug_1:{}")
_SAID = ("{}", "grab {}", "put {} on mug 1", "put mug 1 on {}", "pour {} into {}")


def chores(form: str, text: str) -> None:
    text = form.replace("{}", text)
    player = VirtualHomePlayer()
    for observation in (CHORE, text, text, CHORE, text):
        assert player.act(observation, ("wash mug 1", "stand up")) in ("wash mug 1", "stand up")
    assert len(read_task(text)) == 2


@cache
def house() -> Words:
    return Words(Scene(NODES, EDGES))


def order(form: str, text: str) -> None:
    house().line(form.replace("{}", text))


def script(text: str) -> None:
    with contextlib.suppress(LineError):
        parse_line(text)


def why_not(text: str) -> None:
    failure([text, f"<{text}> (20)"], house().names, house().scene)


def named(form: str, text: str) -> None:
    name = form.replace("{}", text)
    assert "#".join(filter(None, split_id(f"train/wash/0#{name}"))) == f"train/wash/0#{name}"
    with contextlib.suppress(ValueError):
        with_chore(activity(Goal()), name)


HOUSE: dict[str, Callable[[str], object]] = {
    **{f"chores {number}": partial(chores, form) for number, form in enumerate(_SHOWN)},
    **{f"order {number}": partial(order, form) for number, form in enumerate(_SAID)},
    **{f"chore {number}": partial(named, form) for number, form in enumerate(_NAMED)},
    "script line": script,
    "why not": why_not,
}
