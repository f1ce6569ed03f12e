"""The generated encyclopaedia: passages of made-up worlds, and questions whose splits share no entity.

There is one world per split, and its people, places, works and events occur in no other world's passages. All
passages are in one corpus, so that a search has to tell the worlds apart. The same seed is the same encyclopaedia in
any process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.checks import whole
from agentgym.searchqa.generated.prose import passage_of
from agentgym.searchqa.generated.questions import SOURCES, make_questions
from agentgym.searchqa.generated.world import Census, Names, make_world
from agentgym.searchqa.question import Question
from agentgym.searchqa.retriever import Passage

#: What each split has: a world of this size, and at most so many questions of each of `questions.SOURCES`.
SPLITS: dict[str, tuple[Census, tuple[int, ...]]] = {
    "train": (Census(people=1700, towns=560, countries=40, works=1000, events=500), (4000, 16000, 4000, 2000, 2000)),
    "validation": (Census(people=320, towns=110, countries=9, works=190, events=90), (150, 900, 150, 100, 100)),
    "test": (Census(people=480, towns=170, countries=12, works=290, events=140), (300, 1500, 300, 200, 200)),
}


@dataclass(frozen=True)
class Encyclopaedia:
    """Passages, in the order of their ids, and questions of all splits."""

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]


@lru_cache(maxsize=4)
def make_encyclopaedia(seed: Any = 0) -> Encyclopaedia:
    """Return the encyclopaedia of a seed; it is made once per process.

    >>> made = make_encyclopaedia()
    >>> len(made.passages), made.questions[0].split
    (5611, 'train')
    >>> make_encyclopaedia(seed=1).passages[0] == made.passages[0]
    False
    """
    seed = whole("the seed of an encyclopaedia", seed, 0)
    names = Names(_generator(seed, 0))
    passages: list[Passage] = []
    questions: list[Question] = []
    for number, (split, (census, most)) in enumerate(SPLITS.items(), 1):
        rng = _generator(seed, number)
        world = make_world(rng, names, census)
        for entity in world.entities():
            entity.passage = str(len(passages))
            passages.append(passage_of(entity, rng))
        counts: dict[str, Any] = dict(zip(SOURCES, most, strict=True))
        questions += make_questions(world, rng, split, counts)
    return Encyclopaedia(tuple(passages), tuple(questions))


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, number]))
