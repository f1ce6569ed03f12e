"""The passages of the generated encyclopaedia: what is known of an entity, in a few sentences.

A fact stands in one passage only: that of the thing it is a fact of. The country of a person's birthplace, for
instance, has to be looked up in the passage of the town.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agentgym.searchqa.generated.names import CONTESTS, MAKERS
from agentgym.searchqa.generated.world import COUNTRY, EVENT, PERSON, TOWN, Entity, pick
from agentgym.searchqa.retriever import Passage


def passage_of(entity: Entity, rng: np.random.Generator) -> Passage:
    """Return the passage of an entity; the wording is drawn."""
    writers = {PERSON: _person, TOWN: _town, COUNTRY: _country, EVENT: _event}

    def either(*wordings: str) -> str:
        return str(pick(rng, wordings))

    sentences = writers.get(entity.kind, _work)(entity, either)
    return Passage(entity.passage, f'"{entity.name}"\n{" ".join(sentences)}')


def article(noun: str) -> str:
    """Return "a" or "an", whichever stands before the noun."""
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
