"""A meeting: a side scores 10 minus its private cost (0..10) of the agreed slot; 0 without an agreement."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from agentgym.sotopia.games.game import BEST, DealSide, Game, Heard, UtteranceCache, heard
from agentgym.sotopia.games.phrases import read

#: A day and a time, such as ("Monday", "noon"); terms are indices of slots.
Slot = tuple[str, str]


@dataclass(frozen=True)
class Calendar:
    """The free slots."""

    slots: tuple[Slot, ...]

    def __post_init__(self) -> None:
        if len(set(self.slots)) != len(self.slots) or not self.slots:
            raise ValueError(f"a calendar needs slots that differ, got {self.slots}")

    def tell(self, slot: int) -> str:
        """Return a slot in words, such as "Monday at noon"."""
        day, time = self.slots[slot]
        return f"{day} at {time}" if time in ("noon", "night") else f"{day} {time}"

    def hear(self, text: str) -> Heard:
        """Return the content of an utterance: the only slot that it mentions and does not refuse is the proposal.

        A slot is mentioned by day and time, or by the one of them that no other slot has.
        """
        known = self._heard.get(text)
        if known is None:
            said = read(text)
            found = {slot for part in said.open for slot in self._mentioned(part)}
            terms = next(iter(found)) if len(found) == 1 else None
            known = heard(terms, said.agrees, said.no, said.asks)
            self._heard.keep(text, known)
        return known

    def _mentioned(self, part: str) -> list[int]:
        present = self._words.intersection(_WORD.findall(part.lower()))
        if not present:
            return []
        both = [i for i, (day, time) in enumerate(self.slots) if day.lower() in present and time.lower() in present]
        if both or len(present) != 1:
            return both
        one = [i for i, (day, time) in enumerate(self.slots) if day.lower() in present or time.lower() in present]
        return one if len(one) == 1 else []

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset([word.lower() for slot in self.slots for word in slot])

    @cached_property
    def _heard(self) -> UtteranceCache[Heard]:
        return UtteranceCache()


_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class ScheduleSide(DealSide):
    """One role: the cost of each slot."""

    novelty: ClassVar[float] = 1.0
    role: int
    calendar: Calendar
    costs: tuple[int, ...]

    def hear(self, role: int, text: str) -> Heard:
        return self.calendar.hear(text)

    def worth(self, terms: int) -> float:
        return float(BEST - self.costs[terms])

    def propose(self, level: float, wishes: Sequence[int], said: Sequence[int]) -> int:
        """Return the best slot not proposed so far; if none is good enough, the proposal of longest ago."""
        good = [slot for slot in range(len(self.costs)) if self.worth(slot) >= level - 1e-9]
        good = good or [min(range(len(self.costs)), key=lambda slot: self.costs[slot])]
        new = [slot for slot in good if slot not in said]
        if new:
            return min(new, key=lambda slot: (self.costs[slot], slot))
        return min(good, key=lambda slot: len(said) - said[::-1].index(slot))

    def phrase(self, terms: int, form: int) -> str:
        return _FORMS[form % 3].format(self.calendar.tell(terms))


_FORMS = ("How about {}?", "I could do {}.", "Let us meet on {}.")


@dataclass(frozen=True)
class Schedule(Game):
    """A meeting; `costs` of each slot for roles 0 and 1, 0..10, are private."""

    family: ClassVar[str] = "schedule"
    calendar: Calendar
    costs: tuple[tuple[int, ...], tuple[int, ...]]

    def __post_init__(self) -> None:
        for costs in self.costs:
            if len(costs) != len(self.calendar.slots) or not all(0 <= cost <= BEST for cost in costs):
                raise ValueError(f"a schedule needs a cost in 0..{BEST} for each slot and role, got {self.costs}")

    def hear(self, role: int, text: str) -> Heard:
        return self.calendar.hear(text)

    @cached_property
    def sides(self) -> tuple[ScheduleSide, ScheduleSide]:
        return ScheduleSide(0, self.calendar, self.costs[0]), ScheduleSide(1, self.calendar, self.costs[1])

    def goals(self, terms: int) -> tuple[int, int]:
        return BEST - self.costs[0][terms], BEST - self.costs[1][terms]

    @property
    def solvable(self) -> bool:
        return any(max(pair) < 4 for pair in zip(*self.costs, strict=True))

    def tell(self, terms: Any) -> str:
        return self.calendar.tell(terms)
