"""The course of a dialogue: order of turns, acts and end."""

from typing import Any

import numpy as np

from agentgym.checks import check_name
from agentgym.outside.dialogue import KINDS, NONE, Act, Turn, View, turn_lines
from agentgym.sotopia.dialogue import Dialogue
from agentgym.sotopia.games.game import Standing
from agentgym.sotopia.profiles import Task, opening

#: Orders of turns: alternating, both at once, random.
ORDERS = ("round-robin", "simultaneous", "random")
#: Acts `none` in a row after which the dialogue is stale.
STALE = 3

_BOTH = (0, 1)
_ONE = ((0,), (1,))
_WAIT = ("none",)


def draw_schedule(order: str, max_turns: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return the role of each turn for order "random"; () for others."""
    return tuple(rng.integers(2, size=max_turns).tolist()) if order == "random" else ()


class SocialWorld:
    """One dialogue, played turn by turn, with the ends of `Dialogue.ended`; `speakers` are the roles in turn.

    `schedule` is the role of each turn for order "random" (`draw_schedule`), else ().
    """

    __slots__ = (
        "_openings", "_schedule", "_stale", "dialogue", "draw", "max_turns", "names", "order", "speakers", "task",
    )  # fmt: skip

    def __init__(
        self, task: Task, order: str = "round-robin", max_turns: int = 20, schedule: tuple[int, ...] = ()
    ) -> None:
        self.task, self.order, self.max_turns = task, check_name(order, ORDERS, "order"), max_turns
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
        return len(self.dialogue.turns)

    @property
    def standing(self) -> Standing:
        """State of the game; without a game, the role that acted last and the kind of its act."""
        assert self.dialogue.standing is not None
        return self.dialogue.standing

    @property
    def ended(self) -> str:
        return self.dialogue.ended

    @property
    def terminated(self) -> bool:
        return self.dialogue.ended in ("left", "stale")

    @property
    def truncated(self) -> bool:
        return self.dialogue.ended in ("turns", "failed")

    def _in_turn(self) -> tuple[int, ...]:
        if self.dialogue.ended:
            return ()
        if self.order == "simultaneous":
            return _BOTH
        turn = len(self.dialogue.turns)
        return _ONE[self._schedule[turn] if self._schedule else turn % 2]

    def kinds(self, role: int) -> tuple[str, ...]:
        """Return the kinds of acts that a role may choose now."""
        return KINDS if role in self.speakers else _WAIT

    def opening(self, role: int) -> str:
        text = self._openings[role]
        if text is None:
            text = self._openings[role] = opening(self.task, role)
        return text

    def lines(self, start: int) -> str:
        """Return the turns from `start` on, as both observe them."""
        return turn_lines(self.names, self.dialogue.turns[start:])

    def view(self, role: int) -> View:
        game = self.task.game
        private, standing = (None, None) if game is None else (game.sides[role], self.standing)
        return View(
            self.task.id, role, self.names, self.opening(role), tuple(self.dialogue.turns), self.kinds(role),
            self.max_turns, private, self.task.seed, standing, self.draw,
        )  # fmt: skip

    def play(self, acts: tuple[Act, Act]) -> Turn:
        """Play one turn and return it without acts out of turn; RuntimeError at the end."""
        dialogue, speakers = self.dialogue, self.speakers
        turns, game, standing = dialogue.turns, self.task.game, self.standing
        if dialogue.ended:
            raise RuntimeError(f"SocialWorld.play: the dialogue has ended ({dialogue.ended}); make a new world")
        left = False
        for role in speakers:
            kind = acts[role].kind
            self._stale = self._stale + 1 if kind == "none" else 0
            left = left or kind == "leave"
        if len(speakers) == 1:  # the identity test would fail in an unpickled world
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
        """Cut the dialogue off because a side did not answer."""
        self.dialogue.ended, self.speakers = "failed", ()

    def redraw(self, rng: np.random.Generator) -> None:
        """Redraw the order of later turns (order "random") and the samples of models."""
        decided = self.turn + 1
        self._schedule = self._schedule[:decided] + draw_schedule(self.order, self.max_turns, rng)[decided:]
        self.draw = int(rng.integers(1 << 31))

    def get_state(self) -> tuple[Any, ...]:
        """Return (schedule, turns, how it ended, standing, stale acts, draw)."""
        dialogue = self.dialogue
        return self._schedule, tuple(dialogue.turns), dialogue.ended, dialogue.standing, self._stale, self.draw

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Load a `get_state` of a world with equal task, order and number of turns."""
        self._schedule, turns, ended, standing, self._stale, self.draw = state
        self.dialogue = Dialogue(self.task, list(turns), ended, standing)
        self.speakers = self._in_turn()


def _follow(standing: Standing, turn: Turn) -> Standing:
    """Return the state without a game: the role that acted last, and the kind of its act."""
    for role, act in enumerate(turn.acts):
        if act.kind != "none":
            standing = Standing(role=role, move=act.kind)
    return standing
