"""The generated encyclopaedia: one corpus of one world per split, and questions whose splits share no entity."""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.checks import real, whole
from agentgym.searchqa.generated.questions import SOURCES, make_questions
from agentgym.searchqa.generated.world import (
    CONTESTS,
    EVENT,
    MAKERS,
    PERSON,
    TABLES,
    WORK,
    Census,
    Entity,
    Names,
    make_world,
    pick,
)
from agentgym.searchqa.protocol import UNKNOWN
from agentgym.searchqa.question import Question
from agentgym.searchqa.retriever import Passage


def passage_of(entity: Entity, rng: np.random.Generator) -> Passage:
    """Return the passage of an entity in drawn wording."""
    words = _words(entity)
    text = []
    for needed, *wordings in TABLES["sentences"][entity.kind]:
        if not needed or words.get(needed):
            wording = wordings[0] if len(wordings) == 1 else str(pick(rng, wordings))
            text.append(wording.format_map(words))
    return Passage(entity.passage, f'"{entity.name}"\n{" ".join(text)}')


def article(noun: str) -> str:
    """Return "a" or "an" for a noun."""
    return "an" if noun[0].lower() in "aeiou" else "a"


def _words(entity: Entity) -> dict[str, Any]:
    """Return the words of an entity's sentences: names, values, and what follows from them."""
    values, links = entity.values, entity.links
    words = {"name": entity.name, "alias": entity.alias} | values | {name: each.name for name, each in links.items()}
    if entity.kind == PERSON:
        she, her = ("She", "Her") if values["woman"] else ("He", "His")
        words |= {"She": she, "Her": her, "she": she.lower(), "her": her.lower(), "job": values["occupation"]}
        words["called"] = f"{entity.alias}, known as {entity.name}," if entity.alias else entity.name
        words |= {"is_was": "was" if "died" in values else "is", "a_job": article(words["job"])}
        words["mother"] = "mother" if "parent" in links and links["parent"].values["woman"] else "father"
    elif entity.kind == WORK:
        kind, _, words["made"] = MAKERS[links["creator"].values["occupation"]]
        words |= {"type": kind, "a_type": article(kind)}
        words["shows"] = "It shows a scene in" if kind in ("painting", "statue") else "It is set in"
        if "base" in links:
            words["base_type"] = links["base"].values["type"]
            words["a_base"] = article(words["base_type"])
    elif entity.kind == EVENT:
        words["contest_done"] = CONTESTS[values["contest"]]
    return words


#: World of each split, and most questions of each of `questions.SOURCES`.
SPLITS: dict[str, tuple[Census, tuple[int, ...]]] = {
    "train": (Census(people=1700, towns=560, countries=40, works=1000, events=500), (4000, 16000, 4000, 2000, 2000)),
    "validation": (Census(people=320, towns=110, countries=9, works=190, events=90), (150, 900, 150, 100, 100)),
    "test": (Census(people=480, towns=170, countries=12, works=290, events=140), (300, 1500, 300, 200, 200)),
}


@dataclass(frozen=True)
class Encyclopaedia:
    """Passages in the order of their ids, and questions of all splits."""

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]


@lru_cache(maxsize=4)
def make_encyclopaedia(seed: Any = 0) -> Encyclopaedia:
    """Return the encyclopaedia of a seed; it is made once per process."""
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


#: Titles of distractors with what they are, and their texts.
_FORMS, _TEXT = TABLES["distractors"]["forms"], TABLES["distractors"]["texts"]


@dataclasses.dataclass(frozen=True)
class Difficulty:
    """Additions to the plain encyclopaedia.

    `distractors` (0 to 5) passages per thing have its name in the title and none of its facts, as in HotpotQA.
    `missing`, in [0, 1), is the share of passages left out; the answer of questions about them is "unknown" (MuSiQue).
    """

    distractors: int = 0
    missing: float = 0.0

    def __post_init__(self) -> None:
        if whole("distractors", self.distractors, 0) > len(_FORMS):
            raise ValueError(f"distractors must be 0 to {len(_FORMS)}, got {self.distractors}")
        if real("missing", self.missing, 0.0, expected="a share from 0 to below 1") >= 1.0:
            raise ValueError(f"missing must be a share from 0 to below 1, got {self.missing}")


@lru_cache(maxsize=4)
def make_harder(seed: int, difficulty: Difficulty) -> tuple[Encyclopaedia, dict[str, str]]:
    """Return the encyclopaedia of a seed at a difficulty, and the titles of the missing passages by their ids.

    Ids, wording and order stay. Questions that need a missing passage get the answer "unknown" and the supporting
    passages up to the first missing one. A larger share leaves out the same passages and more.
    """
    made = make_encyclopaedia(seed)
    rng = np.random.default_rng(np.random.SeedSequence([seed, len(_FORMS)]))
    order = rng.permutation(len(made.passages))
    gone = {made.passages[i].id for i in order[: round(difficulty.missing * len(order))].tolist()}
    first, wording = rng.integers(len(_FORMS), size=len(order)), rng.integers(len(_TEXT), size=len(order))
    passages = [passage for passage in made.passages if passage.id not in gone]
    for number, passage in enumerate(made.passages):
        for k in range(difficulty.distractors):
            form, about = _FORMS[(int(first[number]) + k) % len(_FORMS)], passage.title.strip('"')
            title = form[0].format(x=about)
            words = _TEXT[(int(wording[number]) + k) % len(_TEXT)]
            text = words.format(title=title, what=form[1].format(x=about), x=about)
            passages.append(Passage(f"{passage.id}-{k}", f'"{title}"\n{text}'))
    questions = tuple(_asked(question, gone) for question in made.questions)
    titles = {passage.id: passage.title.strip('"') for passage in made.passages if passage.id in gone}
    return Encyclopaedia(tuple(passages), questions), titles


def _asked(question: Question, gone: set[str]) -> Question:
    """Return a question as it is to be answered without some passages."""
    for place, support in enumerate(question.supports):
        if support in gone:
            return dataclasses.replace(question, golds=(UNKNOWN,), supports=question.supports[: place + 1])
    return question
