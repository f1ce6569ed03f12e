"""How scripted players differ."""

from __future__ import annotations

from typing import NamedTuple


class Temperament(NamedTuple):
    """What a scripted player wants and how it gives way. Worths are those of `games.game.DealSide`, 10 is best.

    Attributes:
        start: how far below its best terms it opens.
        floor: the least worth that it takes.
        give: worth it gives up per worth that the other gave up since its first proposal.
        pace: worth it gives up at each own turn, whatever the other does.
        patience: turns without a step of the other after which it leaves.
        asks: in a search for a friend, it asks by itself and does not only answer.
        takes_last: in its last turn it takes what is better than nothing.
        plain: it says the same things always in the same words.
    """

    start: float
    floor: float
    give: float
    pace: float = 0.0
    patience: int = 5
    asks: bool = True
    takes_last: bool = False
    plain: bool = False


#: Partners: they give way to who gives way, and little and not for long to who does not.
TEMPERAMENTS: dict[str, Temperament] = {
    "firm": Temperament(start=0.0, floor=5.5, give=0.7, pace=0.2, patience=4, asks=False),
    "fair": Temperament(start=0.5, floor=5.0, give=1.0, pace=0.3, patience=5),
    "yielding": Temperament(start=1.0, floor=3.5, give=1.4, pace=0.4, patience=6),
}
