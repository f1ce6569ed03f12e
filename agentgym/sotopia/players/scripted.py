"""Scripted players, by name: partners to train with, the negotiator, and poor players for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentgym.sotopia.acts import LEAVE, NONE, Act
from agentgym.sotopia.dialogue import Failure, Player, View
from agentgym.sotopia.games.friend import FriendSide
from agentgym.sotopia.games.game import DealSide
from agentgym.sotopia.players.deal import Temperament, play_deal
from agentgym.sotopia.players.friend import play_friend

#: Partners: they give way to who gives way, and little and not for long to who does not.
TEMPERAMENTS: dict[str, Temperament] = {
    "firm": Temperament(start=0.0, floor=5.5, give=0.7, pace=0.2, patience=4, asks=False),
    "fair": Temperament(start=0.5, floor=5.0, give=1.0, pace=0.3, patience=5),
    "yielding": Temperament(start=1.0, floor=3.5, give=1.4, pace=0.4, patience=6),
}
_NAMES = tuple(TEMPERAMENTS)


class RulesPlayer:
    """Plays every game by rules; what it does follows from the view alone.

    Where there is no game it cannot know what to say: that is a failure, and asks for a model as partner.

    Args:
        temperament: a name in `TEMPERAMENTS`; None: the task's seed chooses.
    """

    #: Only dialogues whose goals can be computed, see `dialogue.check_playable`.
    needs_game = True

    def __init__(self, temperament: str | None = None) -> None:
        self.temperament = temperament

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return the next act of each dialogue."""
        return [self._act(view) for view in views]

    def _act(self, view: View) -> Act | Failure:
        if len(view.kinds) == 1:
            return NONE
        named = self.temperament or _NAMES[view.seed % len(_NAMES)]
        return _play(view, TEMPERAMENTS[named])


class Negotiator:
    """A good player: it gives way step by step, so that the other does, and stops where it would no longer succeed."""

    needs_game = True
    _TEMPER = Temperament(start=0.0, floor=6.5, give=0.0, pace=1.2, patience=20, takes_last=True, plain=True)

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return the next act of each dialogue."""
        return [self._act(view) for view in views]

    def _act(self, view: View) -> Act | Failure:
        if len(view.kinds) == 1:
            return NONE
        return _play(view, self._TEMPER._replace(floor=getattr(view.private, "aim", 0.0)))


def _play(view: View, temper: Temperament) -> Act | Failure:
    side = view.private
    if isinstance(side, DealSide):
        return play_deal(view, side, temper)
    if isinstance(side, FriendSide):
        return play_friend(view, side, temper)
    return Failure(f"task {view.task_id!r} has no game that rules could play: name a model as partner (MODEL@URL)")


class Silent:
    """Never says anything."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return one act per view."""
        return [NONE for _ in views]


class AcceptsAll:
    """Agrees with everything, from the first word on."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return one act per view."""
        return [NONE if len(view.kinds) == 1 else Act("speak", "Yes, deal.") for view in views]


class Repeats:
    """Says what a good player would say first, again and again."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return one act per view."""
        said = [
            next((turn.acts[view.role] for turn in view.turns if turn.acts[view.role] != NONE), None) for view in views
        ]
        first = Negotiator().act([view._replace(turns=()) for view in views])
        return [NONE if len(view.kinds) == 1 else act or new for view, act, new in zip(views, said, first, strict=True)]


class Leaves:
    """Leaves at once."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return one act per view."""
        return [NONE if len(view.kinds) == 1 else LEAVE for view in views]


#: Names and what makes a player; "rules" and the temperaments are for training, the last ones for comparison.
PLAYERS: Mapping[str, Callable[[], Player]] = {
    "rules": RulesPlayer,
    **{name: (lambda name=name: RulesPlayer(name)) for name in TEMPERAMENTS},  # type: ignore[misc]
    "negotiator": Negotiator,
    "silent": Silent,
    "accepts-all": AcceptsAll,
    "repeats": Repeats,
}
