"""The generated encyclopaedia: one corpus of one world per split, and questions whose splits share no entity."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.checks import real, whole
from agentgym.searchqa.generated.questions import SOURCES, make_questions
from agentgym.searchqa.generated.world import (
    CONTESTS,
    COUNTRY,
    EVENT,
    MAKERS,
    PERSON,
    TOWN,
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
    writers = {PERSON: _person, TOWN: _town, COUNTRY: _country, EVENT: _event}

    def either(*wordings: str) -> str:
        return str(pick(rng, wordings))

    sentences = writers.get(entity.kind, _work)(entity, either)
    return Passage(entity.passage, f'"{entity.name}"\n{" ".join(sentences)}')


def article(noun: str) -> str:
    """Return "a" or "an" for a noun."""
    return "an" if noun[0].lower() in "aeiou" else "a"


def _person(person: Entity, either: Callable[..., str]) -> list[str]:
    values, links = person.values, person.links
    she, her = ("She", "Her") if values["woman"] else ("He", "His")
    job, born, town = values["occupation"], values["born"], links["birthplace"].name
    name = f"{person.alias}, known as {person.name}," if person.alias else person.name
    is_was = "was" if "died" in values else "is"
    text = [
        either(
            f"{name} {is_was} {article(job)} {job}, born in {town} in {born}.",
            f"{name} was born in {town} in {born} and became {article(job)} {job}.",
            f"Born in {town} in {born}, {name} {is_was} {article(job)} {job}.",
        )
    ]
    if "parent" in links:
        parent = links["parent"]
        mother = "mother" if parent.values["woman"] else "father"
        text.append(either(f"{her} {mother} was {parent.name}.", f"{parent.name} was {her.lower()} {mother}."))
    if "teacher" in links:
        teacher = links["teacher"].name
        text.append(either(f"{she} was a pupil of {teacher}.", f"{she} was taught by {teacher}."))
    if "masterpiece" in links:
        work = links["masterpiece"].name
        text.append(either(f"{her} best-known work is {work}.", f"{she} is best known for {work}."))
    if "spouse" in links:
        spouse, year = links["spouse"].name, values["married"]
        text.append(either(f"In {year} {she.lower()} married {spouse}.", f"{she} married {spouse} in {year}."))
    if "died" in values:
        text.append(f"{she} died in {values['died']}.")
    return text


def _town(town: Entity, either: Callable[..., str]) -> list[str]:
    values, country = town.values, town.links["country"].name
    text = [
        either(
            f"{town.name} is a town in the {country}, founded in {values['founded']}.",
            f"{town.name} is a town on the river {values['river']} in the {country}. It was founded in "
            f"{values['founded']}.",
            f"Founded in {values['founded']}, {town.name} is a town in the {country}.",
        )
    ]
    if town.alias:
        text.append(either(f"Its former name is {town.alias}.", f"It was once called {town.alias}."))
    text.append(f"It has about {values['inhabitants']:,} inhabitants.")
    text.append(either(f"It is known for its {values['goods']}.", f"Its trade is in {values['goods']}."))
    return text


def _country(country: Entity, either: Callable[..., str]) -> list[str]:
    values, capital = country.values, country.links["capital"].name
    return [
        either(
            f"The {country.name} is a country whose capital is {capital}.",
            f"{capital} is the capital of the {country.name}.",
        ),
        f"The language spoken there is {values['language']}, and its currency is the {values['currency']}.",
        f"It has been independent since {values['independent']}.",
    ]


def _work(work: Entity, either: Callable[..., str]) -> list[str]:
    values, links = work.values, work.links
    creator = links["creator"]
    kind, _, made = MAKERS[creator.values["occupation"]]
    text = [
        either(
            f"{work.name} is {article(kind)} {kind} by {creator.name} from {values['year']}.",
            f"{work.name} is {article(kind)} {kind} that {creator.name} {made} in {values['year']}.",
        )
    ]
    if work.alias:
        text.append(either(f"It is also known as {work.alias}.", f"Its first title was {work.alias}."))
    shows = "It shows a scene in" if kind in ("painting", "statue") else "It is set in"
    text.append(f"{shows} {links['setting'].name}.")
    if "base" in links:
        base = links["base"]
        text.append(f"It is based on {base.name}, {article(base.values['type'])} {base.values['type']}.")
    return text


def _event(event: Entity, either: Callable[..., str]) -> list[str]:
    values, links = event.values, event.links
    town, winner, second = (links[name].name for name in ("place", "winner", "second"))
    held = either("was held", "took place")
    contest: Any = values["contest"]
    return [
        f"The {event.name} {held} in {town} in {values['year']}, where {CONTESTS[contest]}.",
        either(f"It was won by {winner}; {second} came second.", f"{winner} won it, and {second} came second."),
    ]


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


#: Titles of distractors, and what they are.
_FORMS = (
    ("A Guide to {x}", "a small guide to {x}, printed without a date"),
    ("Songs about {x}", "a collection of songs about {x} by several hands"),
    ("Letters on {x}", "a bundle of letters on {x}, all of them unsigned"),
    ("{x} in Pictures", "an album with pictures of {x}"),
    ("Talks on {x}", "a series of talks on {x} that were never published"),
)
_TEXT = (
    "{title} is {what}. Whoever asks about {x} finds many words about {x} in it and no facts.",
    "{title} is {what}. It is said to be dull. Nothing is known about {x} from it.",
    "{title} is {what}. It mentions {x} on every page, and says little.",
)


@dataclasses.dataclass(frozen=True)
class Difficulty:
    """Additions to the plain encyclopaedia.

    `distractors` (0 to 5) passages per thing have its name in the title and none of its facts, as in HotpotQA.
    `missing` is the share of passages left out, in [0, 1); questions that need one have the answer "unknown", as in
    MuSiQue.
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
