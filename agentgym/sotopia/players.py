"""Players by rules: partners for training, the negotiator, and poor players for comparison."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from agentgym.outside.dialogue import LEAVE, NONE, Act, Failure, Player, Turn, View
from agentgym.sotopia.dialogue import find
from agentgym.sotopia.games.friend import FriendSide
from agentgym.sotopia.games.game import DealSide, Heard, Side, Standing, TurnTree

_T = TypeVar("_T")
_SideT = TypeVar("_SideT", bound=Side)
#: Offers below this do not count as worse, so an insulting opening earns no credit for a concession.
_WORST = -8.0
#: With so few turns left it accepts anything of positive worth.
_LAST, _BETTER_THAN_NOTHING = 2, 2.0
_ACCEPT = ("Deal.", "Agreed.", "That works for me.")


class Temperament(NamedTuple):
    """Preferences of a scripted player; worths are those of `games.game.DealSide`, 10 is best.

    Attributes:
        start: distance of its opening from its best terms.
        floor: least worth that it accepts.
        give: worth conceded per worth that the other conceded.
        pace: worth conceded at each own turn.
        patience: turns without a move of the other before it leaves.
        asks: in a search for a friend, it asks by itself.
        takes_last: in its last turn it accepts anything better than nothing.
        plain: always uses the same wording.
    """

    start: float
    floor: float
    give: float
    pace: float = 0.0
    patience: int = 5
    asks: bool = True
    takes_last: bool = False
    plain: bool = False


class _Course(NamedTuple):
    """State of a deal for a player.

    `wishes`: the other's proposals; `best`: worth of the best of them; `gain`: their improvement since the first;
    `idle`: chances in a row in which the other did not move; `said`: own proposals; `spoken`: number of own utterances.
    """

    wishes: tuple[Any, ...] = ()
    said: tuple[Any, ...] = ()
    best: float = _WORST
    gain: float = 0.0
    idle: int = 0
    spoken: int = 0


def _after(turns: Iterable[Turn], side: _SideT, step: Callable[[_SideT, _T, Turn], _T], start: _T) -> _T:
    """Return the state of a player after some turns; a side keeps the states of its dialogues."""
    tree: TurnTree[_T] | None = side.notes.get(step.__name__)
    if tree is None:
        tree = side.notes[step.__name__] = TurnTree(start, partial(step, side))
    return tree.after(turns)


def play_deal(view: View, side: DealSide, temper: Temperament) -> Act:
    """Return the next act in a deal: concede step by step, accept good terms, leave if the other does not move."""
    wishes, said, _, gain, idle, spoken = _after(view.turns, side, _deal_step, _Course())
    standing = side.follow(view.turns) if view.standing is None else view.standing
    if standing.agreed is not None or idle >= temper.patience:
        return LEAVE
    level = max(temper.floor, side.top - temper.start - temper.give * gain - temper.pace * spoken)
    form = 0 if temper.plain else view.seed + len(view.turns)
    theirs = standing.offers[1 - side.role]
    worth = _WORST if theirs is None else side.worth(theirs)
    last = temper.takes_last and view.max_turns - len(view.turns) <= _LAST
    if theirs is not None and (worth >= level - 1e-9 or (last and worth >= _BETTER_THAN_NOTHING)):
        return Act("speak", _ACCEPT[form % 3])
    terms = side.propose(level, wishes, said)
    if theirs is not None and worth >= side.worth(terms):
        return Act("speak", _ACCEPT[form % 3])
    return Act("speak", side.phrase(terms, form))


def _deal_step(side: DealSide, course: _Course, turn: Turn) -> _Course:
    wishes, said, best, gain, idle, spoken = course
    mine, theirs = turn.acts if side.role == 0 else turn.acts[::-1]
    if mine.kind == "speak":
        spoken += 1
        terms = side.hear(side.role, mine.text).terms
        if terms is not None:
            said = (*said, terms)
    if theirs.kind != "none" or mine.kind == "none":  # else the other was not in turn
        terms = side.hear(1 - side.role, theirs.text).terms if theirs.kind == "speak" else None
        idle += 1
        if terms is not None:
            worth = max(_WORST, side.worth(terms))
            new = terms not in wishes
            if wishes:
                gain += max(0.0, worth - best) + (side.novelty if new else 0.0)
            if new and (worth > best or side.novelty):
                idle = 0
            best = max(best, worth)
            wishes = (*wishes, terms)
    return _Course(wishes, said, best, gain, idle, spoken)


_SILENCE = Heard()
_KNOWN = "Yes, I know"
_WAITING = ("Whom do you know?", "Go on, ask me.", "What are your friends like?")
#: A description that fits a friend of the other, and the own friends that it fits.
_Fit = tuple[frozenset[str], tuple[str, ...]]


class _Search(NamedTuple):
    """State of a search for a friend; `standing` is that of the game.

    `left`: names of own friends that may be the one; `fits`: known descriptions of the other's friends; `asked`: own
    unanswered question; `last`, `heard`: the other's last utterance, and all; `idle`: its turns in a row without news.
    """

    standing: Standing
    left: tuple[str, ...]
    fits: tuple[_Fit, ...] = ()
    asked: Heard = _SILENCE
    last: Heard = _SILENCE
    heard: frozenset[str] = frozenset()
    idle: int = 0


def play_friend(view: View, side: FriendSide, temper: Temperament) -> Act:
    """Return the next act in a search for a friend: answer truly, describe own friends, name one that fits."""
    start = _Search(Standing(), tuple([friend.name for friend in side.friends]))
    search = _after(view.turns, side, _friend_step, start)
    if search.standing.agreed is not None or search.idle >= temper.patience:
        return LEAVE
    answer = _answer(side, search.last)
    if answer.startswith(_KNOWN):
        return Act("speak", answer)
    question = _question(side, search) if temper.asks else ""
    return Act("speak", f"{answer} {question}".strip() or _WAITING[(view.seed + len(view.turns)) % 3])


def _friend_step(side: FriendSide, search: _Search, turn: Turn) -> _Search:
    standing, left, fits, asked, last, heard, idle = search
    standing = side.read(standing, turn)
    mine, theirs = turn.acts if side.role == 0 else turn.acts[::-1]
    if mine.kind == "speak":
        asked = side.hear(side.role, mine.text)
    if theirs.kind != "none" or mine.kind == "none":  # else the other was not in turn
        last = side.hear(1 - side.role, theirs.text) if theirs.kind == "speak" else _SILENCE
        idle = idle + 1 if theirs.kind != "speak" or theirs.text in heard else 0
        heard = heard | {theirs.text}
        named = tuple([name for name in asked.things if name in side.names])
        if last.refuses:
            out = named or side.matching(frozenset(asked.things))
            left = tuple([name for name in left if name not in out]) or left
        elif last.accepts and not named:
            fits = _with(side, fits, asked)
        if last.asks:  # a question about a person implies such a friend
            fits = _with(side, fits, last)
        asked = _SILENCE
    return _Search(standing, left, fits, asked, last, heard, idle)


def _with(side: FriendSide, fits: tuple[_Fit, ...], said: Heard) -> tuple[_Fit, ...]:
    described = frozenset(said.things) - side.names
    fit = described, side.matching(described)
    return (*fits, fit) if fit[1] and fit not in fits else fits


def _answer(side: FriendSide, heard: Heard) -> str:
    named = [name for name in heard.things if name in side.names]
    if named:
        return f"{_KNOWN} {named[0]}."
    if not heard.asks:
        return ""
    return "Yes, somebody like that." if side.matching(frozenset(heard.things)) else "No, none of mine."


def _question(side: FriendSide, search: _Search) -> str:
    """Return the next question, preferably with properties that were already mentioned and cost nothing."""
    friends = {friend.name: friend for friend in side.friends}
    counts = Counter([value for name in search.left for value in friends[name].values])
    fits = {name: [described for described, who in search.fits if name in who] for name in search.left}
    name = max(
        search.left,
        key=lambda name: (
            max([len(each) for each in fits[name]], default=0),
            len(fits[name]),
            max([counts[value] for value in friends[name].values]),
            name,
        ),
    )
    values = friends[name].values
    best = max(fits[name], key=lambda each: (len(each), sorted(each)), default=frozenset())
    known = [value for value in values if value.lower() in best]
    if len(search.left) == 1 or len(known) == len(values):
        return f"Is it {name}?"
    free = search.standing.things[0] + search.standing.things[1]
    new = max(
        [value for value in values if value not in known],
        key=lambda value: (value.lower() in free, counts[value], value),
    )
    facts = [f"{side.attributes[values.index(value)][0]} {value}" for value in (*known, new)]
    return f"Do you know somebody with {' and '.join(facts)}?"


#: Partners: they match concessions of the other side, and make few others.
TEMPERAMENTS: dict[str, Temperament] = {
    "firm": Temperament(start=0.0, floor=5.5, give=0.7, pace=0.2, patience=4, asks=False),
    "fair": Temperament(start=0.5, floor=5.0, give=1.0, pace=0.3, patience=5),
    "yielding": Temperament(start=1.0, floor=3.5, give=1.4, pace=0.4, patience=6),
}
_NAMES = tuple(TEMPERAMENTS)


class ScriptedPlayer(ABC):
    """Plays each dialogue by itself, and does nothing out of turn."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        return [NONE if len(view.kinds) == 1 else self.play(view) for view in views]

    @abstractmethod
    def play(self, view: View) -> Act | Failure:
        """Return the next act of a dialogue in which this side is in turn."""


class RulesPlayer(ScriptedPlayer):
    """Plays every game by rules; the task's seed draws the temperament if none is named."""

    #: Only dialogues with computable goals, see `dialogue.check_playable`.
    needs_game = True

    def __init__(self, temperament: str | None = None) -> None:
        self.temperament = temperament

    def play(self, view: View) -> Act | Failure:
        return _play(view, TEMPERAMENTS[self.temperament or _NAMES[view.seed % len(_NAMES)]])


class Negotiator(ScriptedPlayer):
    """A good player: it concedes step by step, down to terms that still succeed."""

    needs_game = True
    _TEMPER = Temperament(start=0.0, floor=6.5, give=0.0, pace=1.2, patience=20, takes_last=True, plain=True)

    def play(self, view: View) -> Act | Failure:
        return _play(view, self._TEMPER._replace(floor=getattr(view.private, "aim", 0.0)))


def _play(view: View, temper: Temperament) -> Act | Failure:
    side = view.private
    if isinstance(side, DealSide):
        return play_deal(view, side, temper)
    if isinstance(side, FriendSide):
        return play_friend(view, side, temper)
    return Failure(f"task {view.task_id!r} has no game that rules could play: name a model as partner (MODEL@URL)")


class Silent(ScriptedPlayer):
    """Does nothing in every turn."""

    def play(self, view: View) -> Act:
        return NONE


class AcceptsAll(ScriptedPlayer):
    """Agrees with everything."""

    def play(self, view: View) -> Act:
        return Act("speak", "Yes, deal.")


class Repeats(Negotiator):
    """Repeats the negotiator's first words."""

    def play(self, view: View) -> Act | Failure:
        said = (turn.acts[view.role] for turn in view.turns if turn.acts[view.role] != NONE)
        return next(said, None) or super().play(view._replace(turns=()))


#: Players by name: "rules" and the temperaments for training, the others for comparison.
PLAYERS: Mapping[str, Callable[[], Player]] = {
    "rules": RulesPlayer,
    **{name: (lambda name=name: RulesPlayer(name)) for name in TEMPERAMENTS},  # type: ignore[misc]
    "negotiator": Negotiator,
    "silent": Silent,
    "accepts-all": AcceptsAll,
    "repeats": Repeats,
}


def make_player(player: str | Player) -> Player:
    """Return a player: an object with `act` itself, a name in `PLAYERS`, or `MODEL@URL`; ValueError for others."""
    found: Player = find("partner", player, Player, "act(views)", PLAYERS, "ModelPlayer")
    return found
