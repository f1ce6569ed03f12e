"""Two look for a time to meet; every time costs either of them something that the other does not know.

A side scores 10 less the cost of the time agreed on, which is 0 for a time that suits it and 10 for one at which it
cannot come at all. Without an agreement both score 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from agentgym.sotopia.games.game import BEST, DealSide, Game, Heard, Outcome, Standing
from agentgym.sotopia.games.phrases import agrees, clauses, denied, says_no

#: A slot is a day and a time, such as ("Monday", "noon"); terms are its number.
Slots = tuple[tuple[str, str], ...]


@lru_cache(maxsize=8192)
def hear(slots: Slots, text: str) -> Heard:
    """Return what an utterance says: the one slot that it mentions and does not turn down is the proposal.

    A slot is mentioned by its day and its time, or by the one of them that no other slot has. Several slots are no
    proposal.

    >>> slots = (("Monday", "noon"), ("Monday", "evening"), ("Friday", "noon"))
    >>> hear(slots, "Monday at noon is bad. How about Friday?").terms, hear(slots, "Monday or Friday, at noon").terms
    (2, None)
    """
    parts = clauses(text)
    found: set[int] = set()
    for part in parts:
        if not denied(part):
            found.update(_mentioned(slots, part.lower()))
    terms = found.pop() if len(found) == 1 else None
    return Heard(terms, agrees(parts), says_no(parts), text.rstrip().endswith("?"))


def _mentioned(slots: Slots, part: str) -> set[int]:
    present = {word for word in _words(slots) if re.search(rf"\b{word}\b", part)}
    found = {i for i, (day, time) in enumerate(slots) if day.lower() in present and time.lower() in present}
    if not found and len(present) == 1:
        matching = [i for i, slot in enumerate(slots) if present & {slot[0].lower(), slot[1].lower()}]
        found = set(matching) if len(matching) == 1 else found
    return found


@lru_cache(maxsize=1024)
def _words(slots: Slots) -> tuple[str, ...]:
    return tuple(dict.fromkeys([word.lower() for slot in slots for word in slot]))


@dataclass(frozen=True)
class ScheduleSide(DealSide):
    """One role: what each slot costs it."""

    family: ClassVar[str] = "schedule"
    novelty: ClassVar[float] = 1.0
    role: int
    slots: Slots
    costs: tuple[int, ...]

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says, see `hear`."""
        return hear(self.slots, text)

    def worth(self, terms: int) -> float:
        """Return 10 less the slot's cost."""
        return float(BEST - self.costs[terms])

    def propose(self, level: float, wishes: list[int], said: list[int]) -> int:
        """Return the best slot not proposed so far; where none is good enough, what was said longest ago."""
        good = [slot for slot in range(len(self.slots)) if self.worth(slot) >= level - 1e-9]
        good = good or [min(range(len(self.slots)), key=lambda slot: self.costs[slot])]
        new = [slot for slot in good if slot not in said]
        if new:
            return min(new, key=lambda slot: (self.costs[slot], slot))
        return min(good, key=lambda slot: len(said) - said[::-1].index(slot))

    def phrase(self, terms: int, form: int) -> str:
        """Return a sentence that proposes a slot."""
        return _FORMS[form % 3].format(_tell(self.slots[terms]))


_FORMS = ("How about {}?", "I could do {}.", "Let us meet on {}.")


@dataclass(frozen=True)
class Schedule(Game):
    """A meeting to be arranged.

    Args:
        slots: days and times.
        costs: what each slot costs roles 0 and 1, 0..10, each known to itself.
    """

    family: ClassVar[str] = "schedule"
    slots: Slots
    costs: tuple[tuple[int, ...], tuple[int, ...]]

    def __post_init__(self) -> None:
        """Check slots and costs."""
        if len(set(self.slots)) != len(self.slots) or not self.slots:
            raise ValueError(f"a schedule needs slots that differ, got {self.slots}")
        for costs in self.costs:
            if len(costs) != len(self.slots) or not all(0 <= cost <= BEST for cost in costs):
                raise ValueError(f"a schedule needs a cost in 0..{BEST} for each slot and role, got {self.costs}")

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says, see `hear`."""
        return hear(self.slots, text)

    def private(self, role: int) -> ScheduleSide:
        """Return what a role knows."""
        return ScheduleSide(role, self.slots, self.costs[role])

    def settle(self, standing: Standing) -> Outcome:
        """Return the outcome."""
        slot = standing.agreed
        if slot is None:
            return Outcome(None, (0, 0))
        return Outcome(slot, (BEST - self.costs[0][slot], BEST - self.costs[1][slot]))

    @property
    def solvable(self) -> bool:
        """Some slot costs both less than 4."""
        return any(max(pair) < 4 for pair in zip(*self.costs, strict=True))

    def tell(self, terms: Any) -> str:
        """Return a slot in words."""
        return _tell(self.slots[terms])


def _tell(slot: tuple[str, str]) -> str:
    """Return a slot in words.

    >>> _tell(("Monday", "noon"))
    'Monday at noon'
    """
    day, time = slot
    return f"{day} at {time}" if time in ("noon", "night") else f"{day} {time}"
