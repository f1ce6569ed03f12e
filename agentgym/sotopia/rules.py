"""The course of a dialogue between two people: whose turn it is, what counts, and when it ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from agentgym.checks import check_name, whole
from agentgym.sotopia.acts import KINDS, NONE, Act, Turn, tell_all
from agentgym.sotopia.dialogue import Dialogue, View
from agentgym.sotopia.games.game import Standing
from agentgym.sotopia.profiles import Task, opening

#: Who is in turn: one after the other, both at once, or either by chance.
ORDERS = ("round-robin", "simultaneous", "random")
#: So many times in a row whoever is in turn does nothing: the dialogue is stale.
STALE = 3

_BOTH = (0, 1)
_ONE = ((0,), (1,))
_WAIT = ("none",)


def check_order(order: object) -> str:
    """Return the name of an order, or raise a ValueError that lists those there are."""
    return check_name(order, ORDERS, "order")


def check_turns(turns: Any) -> int:
    """Return a number of turns, or raise a ValueError when it is none."""
    return whole("max_turns", turns, 1)


def draw_schedule(order: str, max_turns: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return who is in turn in each turn, drawn for order "random"; nothing for others, where it is clear."""
    return tuple(rng.integers(2, size=max_turns).tolist()) if order == "random" else ()


class SocialWorld:
    """One dialogue, played turn by turn.

    It ends when someone leaves ("left") and when three acts in a row, of those who were in turn, are `none` ("stale");
    it is cut after `max_turns` turns ("turns"), and by `fail` ("failed"). What one does out of turn is nothing.

    Args:
        task: scenario, people and game.
        order: one of `ORDERS`.
        max_turns: turns, of one side or of both at once, after which the dialogue is cut.
        schedule: with order "random", who is in turn in each turn, see `draw_schedule`; else ().

    Attributes:
        speakers: roles in turn now; none at the end.
    """

    __slots__ = (
        "_openings", "_schedule", "_stale", "dialogue", "draw", "max_turns", "names", "order", "speakers", "task",
    )  # fmt: skip

    def __init__(
        self, task: Task, order: str = "round-robin", max_turns: int = 20, schedule: tuple[int, ...] = ()
    ) -> None:
        self.task, self.order, self.max_turns = task, check_order(order), max_turns
        self.names = task.names
        self.dialogue = Dialogue(task, standing=Standing())
        if len(schedule) != (max_turns if order == "random" else 0):
            raise ValueError(
                f"order {order!r} with {max_turns} turns, but a schedule of {len(schedule)}: use draw_schedule"
            )
        self._schedule = schedule
        self.draw: int | None = None
        self._stale = 0
        self._openings: list[str | None] = [None, None]
        self.speakers = self._in_turn()

    @property
    def turn(self) -> int:
        """Number of turns played."""
        return len(self.dialogue.turns)

    @property
    def standing(self) -> Standing:
        """How the game stands; without a game, who acted last and how."""
        assert self.dialogue.standing is not None
        return self.dialogue.standing

    @property
    def ended(self) -> str:
        """How it ended, see `Dialogue.ended`; "" while it goes on."""
        return self.dialogue.ended

    @property
    def terminated(self) -> bool:
        """It has come to an end by itself."""
        return self.dialogue.ended in ("left", "stale")

    @property
    def truncated(self) -> bool:
        """It was cut off."""
        return self.dialogue.ended in ("turns", "failed")

    def _in_turn(self) -> tuple[int, ...]:
        if self.dialogue.ended:
            return ()
        if self.order == "simultaneous":
            return _BOTH
        turn = len(self.dialogue.turns)
        return _ONE[self._schedule[turn] if self._schedule else turn % 2]

    def kinds(self, role: int) -> tuple[str, ...]:
        """Return the kinds of acts a role may choose from now, in the order of `acts.KINDS`."""
        return KINDS if role in self.speakers else _WAIT

    def opening(self, role: int) -> str:
        """Return the first observation of a role."""
        text = self._openings[role]
        if text is None:
            text = self._openings[role] = opening(self.task, role)
        return text

    def lines(self, start: int) -> str:
        """Return what has happened from a turn on, as both observe it."""
        return tell_all(self.names, self.dialogue.turns[start:])

    def view(self, role: int) -> View:
        """Return what a role may know now."""
        game = self.task.game
        private, standing = (None, None) if game is None else (game.sides[role], self.standing)
        return View(
            self.task.id, role, self.names, self.opening(role), tuple(self.dialogue.turns), self.kinds(role),
            self.max_turns, private, self.task.seed, standing, self.draw,
        )  # fmt: skip

    def play(self, acts: tuple[Act, Act]) -> Turn:
        """Play one turn; return it as it counts, without the acts of who was not in turn (RuntimeError at the end)."""
        dialogue, speakers = self.dialogue, self.speakers
        turns, game, standing = dialogue.turns, self.task.game, self.standing
        if dialogue.ended:
            raise RuntimeError(f"SocialWorld.play: the dialogue has ended ({dialogue.ended}); make a new world")
        left = False
        for role in speakers:
            kind = acts[role].kind
            self._stale = self._stale + 1 if kind == "none" else 0
            left = left or kind == "leave"
        if speakers is not _BOTH:
            acts = (acts[0], NONE) if speakers[0] == 0 else (NONE, acts[1])
        turn = Turn(len(turns), acts)
        turns.append(turn)
        dialogue.standing = _follow(standing, turn) if game is None else game.read(standing, turn)
        if left:
            dialogue.ended = "left"
        elif self._stale >= STALE:
            dialogue.ended = "stale"
        elif len(turns) >= self.max_turns:
            dialogue.ended = "turns"
        self.speakers = self._in_turn()
        return turn

    def fail(self) -> None:
        """Cut the dialogue off: a side did not answer."""
        self.dialogue.ended, self.speakers = "failed", ()

    def redraw(self, rng: np.random.Generator) -> None:
        """Draw anew who is in turn after this turn, with order "random", and what models answer."""
        decided = self.turn + 1
        self._schedule = self._schedule[:decided] + draw_schedule(self.order, self.max_turns, rng)[decided:]
        self.draw = int(rng.integers(1 << 31))

    def get_state(self) -> tuple[Any, ...]:
        """Return (schedule, turns, how it ended, standing, stale acts, draw), which later turns do not change."""
        dialogue = self.dialogue
        return self._schedule, tuple(dialogue.turns), dialogue.ended, dialogue.standing, self._stale, self.draw

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Load what `get_state` returned, of a world of the same task, order and number of turns."""
        self._schedule, turns, ended, standing, self._stale, self.draw = state
        self.dialogue = Dialogue(self.task, list(turns), ended, standing)
        self.speakers = self._in_turn()


def _follow(standing: Standing, turn: Turn) -> Standing:
    """Return who acted last and how: what is known of a dialogue without a game."""
    for role, act in enumerate(turn.acts):
        if act.kind != "none":
            standing = Standing(role=role, move=act.kind)
    return standing
