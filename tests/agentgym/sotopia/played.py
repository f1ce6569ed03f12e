"""Dialogues about games: written down, or played by two scripted players."""

from __future__ import annotations

from agentgym.sotopia.acts import NONE, Act, Turn
from agentgym.sotopia.dialogue import Dialogue, Failure, Player
from agentgym.sotopia.games.game import Game, Outcome, Standing
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.rules import SocialWorld


def turns(*spoken: str | Act, first: int = 0) -> list[Turn]:
    """Turns of a dialogue in which both speak by turns, beginning with `first`."""
    acts = [each if isinstance(each, Act) else Act("speak", each) for each in spoken]
    return [Turn(i, (act, NONE) if (i + first) % 2 == 0 else (NONE, act)) for i, act in enumerate(acts)]


def standing(game: Game, *spoken: str | Act, first: int = 0) -> Standing:
    """How a game stands after these utterances."""
    found = Standing()
    for turn in turns(*spoken, first=first):
        found = game.read(found, turn)
    return found


def outcome(game: Game, *spoken: str | Act, first: int = 0) -> Outcome:
    """What comes of these utterances."""
    return game.settle(standing(game, *spoken, first=first))


def play(task: Task, first: Player, second: Player, order: str = "round-robin") -> Dialogue:
    """Let two players talk until the end."""
    world = SocialWorld(task, order)
    while not world.ended:
        acts = [NONE, NONE]
        for role in world.speakers:
            act = (first, second)[role].act([world.view(role)])[0]
            assert not isinstance(act, Failure), act
            acts[role] = act
        world.play((acts[0], acts[1]))
    return world.dialogue
