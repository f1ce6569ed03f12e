"""Scripted players, by name: partners to train with, the negotiator, and poor players for comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from agentgym.sotopia.acts import NONE, Act
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


class ScriptedPlayer(ABC):
    """Plays each dialogue by itself, and does nothing while the other is in turn."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        """Return the next act of each dialogue."""
        return [NONE if len(view.kinds) == 1 else self.play(view) for view in views]

    @abstractmethod
    def play(self, view: View) -> Act | Failure:
        """Return the next act of a dialogue in which this side is in turn."""


class RulesPlayer(ScriptedPlayer):
    """Plays every game by rules; what it does follows from the view alone.

    Where there is no game it cannot know what to say: that is a failure, and asks for a model as partner.

    Args:
        temperament: a name in `TEMPERAMENTS`; None: the task's seed chooses.
    """

    #: Only dialogues whose goals can be computed, see `dialogue.check_playable`.
    needs_game = True

    def __init__(self, temperament: str | None = None) -> None:
        self.temperament = temperament

    def play(self, view: View) -> Act | Failure:
        """Play as the temperament does."""
        return _play(view, TEMPERAMENTS[self.temperament or _NAMES[view.seed % len(_NAMES)]])


class Negotiator(ScriptedPlayer):
    """A good player: it gives way step by step, so that the other does, and stops where it would no longer succeed."""

    needs_game = True
    _TEMPER = Temperament(start=0.0, floor=6.5, give=0.0, pace=1.2, patience=20, takes_last=True, plain=True)

    def play(self, view: View) -> Act | Failure:
        """Play down to terms that are good in this game."""
        return _play(view, self._TEMPER._replace(floor=getattr(view.private, "aim", 0.0)))


def _play(view: View, temper: Temperament) -> Act | Failure:
    side = view.private
    if isinstance(side, DealSide):
        return play_deal(view, side, temper)
    if isinstance(side, FriendSide):
        return play_friend(view, side, temper)
    return Failure(f"task {view.task_id!r} has no game that rules could play: name a model as partner (MODEL@URL)")


class Silent(ScriptedPlayer):
    """Never says anything."""

    def play(self, view: View) -> Act:
        """Do nothing."""
        return NONE


class AcceptsAll(ScriptedPlayer):
    """Agrees with everything, from the first word on."""

    def play(self, view: View) -> Act:
        """Agree."""
        return Act("speak", "Yes, deal.")


class Repeats(Negotiator):
    """Says what a good player would say first, again and again."""

    def play(self, view: View) -> Act | Failure:
        """Say the first words again."""
        said = (turn.acts[view.role] for turn in view.turns if turn.acts[view.role] != NONE)
        return next(said, None) or super().play(view._replace(turns=()))


#: Names and what makes a player; "rules" and the temperaments are for training, the last ones for comparison.
PLAYERS: Mapping[str, Callable[[], Player]] = {
    "rules": RulesPlayer,
    **{name: (lambda name=name: RulesPlayer(name)) for name in TEMPERAMENTS},  # type: ignore[misc]
    "negotiator": Negotiator,
    "silent": Silent,
    "accepts-all": AcceptsAll,
    "repeats": Repeats,
}
