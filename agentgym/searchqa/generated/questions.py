"""Questions about a world.

Sources: "one_hop", "two_hop", "three_hop" (chains of one, two and three facts), "comparison" (the
older of two, or yes or no), "bridge" (a fact about a person who is described by a work or event, without its name).
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from agentgym.searchqa.generated.world import COUNTRY, EVENT, MAKERS, PERSON, TABLES, TOWN, WORK, Entity, World, pick
from agentgym.searchqa.question import Question

#: Sources of questions, in the order of their tables.
SOURCES = ("one_hop", "two_hop", "three_hop", "comparison", "bridge")


class Draft(NamedTuple):
    """Text, answers, passages in the order of look-up, and kind of a question."""

    text: str
    golds: tuple[str, ...]
    path: tuple[Entity, ...]
    kind: str


class Fact(NamedTuple):
    """A link or value: its question, and the phrase for it in a longer question."""

    question: str
    phrase: str = ""


#: Kind of entity -> facts by name; `{x}` is the entity, other braces depend on it.
FACTS: dict[str, dict[str, Fact]] = {
    kind: {name: Fact(*row) for name, row in facts.items()} for kind, facts in TABLES["facts"].items()
}
#: Share of questions that use the alias of the first entity, if it has one.
_BY_ALIAS = 0.2
#: Comparisons: kind -> (value, question with both names, kind of question).
_COMPARED = {
    PERSON: ("born", "Who was born earlier, {x} or {y}?"),
    WORK: ("year", "Which is older, {x} or {y}?"),
    TOWN: ("founded", "Which town was founded earlier, {x} or {y}?"),
}
#: Common properties: kind -> (link, question).
_SHARED = {
    PERSON: ("birthplace", "Were {x} and {y} born in the same town?"),
    TOWN: ("country", "Are {x} and {y} in the same country?"),
}


def make_questions(world: World, rng: np.random.Generator, split: str, counts: dict[str, int]) -> list[Question]:
    """Return questions about a world in random order, at most `counts[source]` of each source."""
    questions = []
    for source in SOURCES:
        made = {"comparison": _comparisons, "bridge": _bridges}.get(source)
        drawn = (made or _chains)(world, rng, counts[source], SOURCES.index(source) + 1)
        for number, draft in enumerate(drawn):
            supports = tuple([entity.passage for entity in draft.path])
            named = f"{source}-{split}-{number}"
            questions.append(Question(named, draft.text, draft.golds, source, split, supports, draft.kind))
    return [questions[i] for i in rng.permutation(len(questions)).tolist()]


def _chains(world: World, rng: np.random.Generator, count: int, hops: int) -> list[Draft]:
    """Return `count` questions with `hops` facts, taken from each kind of chain in turn."""
    by_kind: dict[tuple[str, ...], list[tuple[Entity, ...]]] = {}
    for entity in world.entities():
        for path, facts in _paths((entity,), (), hops):
            by_kind.setdefault(facts, []).append(path)
    orders = {facts: rng.permutation(len(by_kind[facts])).tolist() for facts in sorted(by_kind)}
    turns = (
        (facts, order[turn])
        for turn in range(max(map(len, orders.values())))
        for facts, order in orders.items()
        if turn < len(order)
    )
    return [_chain(by_kind[facts][number], facts, rng) for facts, number in islice(turns, count)]


def _paths(
    path: tuple[Entity, ...], facts: tuple[str, ...], hops: int
) -> Iterator[tuple[tuple[Entity, ...], tuple[str, ...]]]:
    """Yield entities and facts of every chain with this beginning, without loops."""
    here = path[-1]
    for fact in FACTS[here.kind]:
        if len(facts) + 1 == hops:
            if fact in here.values or (fact in here.links and here.links[fact] not in path):
                yield path, (*facts, fact)
        elif fact in here.links and here.links[fact] not in path:
            yield from _paths((*path, here.links[fact]), (*facts, fact), hops)


def _chain(path: tuple[Entity, ...], facts: tuple[str, ...], rng: np.random.Generator) -> Draft:
    first = path[0]
    x = first.alias if first.alias and rng.random() < _BY_ALIAS else first.name
    x = f"the {x}" if first.kind == COUNTRY else x
    for entity, fact in zip(path, facts[:-1], strict=False):
        x = FACTS[entity.kind][fact].phrase.format(x=x, **_words(entity))
    text, golds = _final(path[-1], facts[-1], x)
    return Draft(text, golds, path, "-".join(facts))


def _final(entity: Entity, fact: str, x: str) -> tuple[str, tuple[str, ...]]:
    text = FACTS[entity.kind][fact].question.format(x=x, **_words(entity)).replace("the the ", "the ")
    return text, _golds(entity.links[fact] if fact in entity.links else entity.values[fact])


def _golds(value: Entity | str | int) -> tuple[str, ...]:
    if isinstance(value, Entity):
        return (value.name, value.alias) if value.alias else (value.name,)
    return (str(value),)


def _words(entity: Entity) -> dict[str, str]:
    words: dict[str, str] = {}
    if "spouse" in entity.links:
        words["wife"] = "wife" if entity.links["spouse"].values["woman"] else "husband"
    if "parent" in entity.links:
        words["mother"] = "mother" if entity.links["parent"].values["woman"] else "father"
    if "creator" in entity.links:
        _, words["maker"], words["made"] = MAKERS[entity.links["creator"].values["occupation"]]
    return words


def _comparisons(world: World, rng: np.random.Generator, count: int, _: int) -> list[Draft]:
    kinds: dict[str, Sequence[Entity]] = {PERSON: world.people, WORK: world.works, TOWN: world.towns}
    forms = [(kind, True) for kind in _COMPARED] + [(kind, False) for kind in _SHARED]
    found: dict[tuple[str, str, str], Draft] = {}
    groups: dict[tuple[str, str], list[Entity]] = {}
    for kind, (fact, _wording) in _SHARED.items():
        for entity in kinds[kind]:
            groups.setdefault((fact, entity.links[fact].name), []).append(entity)
    for tries in range(20 * count):
        if len(found) == count:
            break
        kind, older = forms[tries % len(forms)]
        one = pick(rng, kinds[kind])
        if older:
            fact, wording = _COMPARED[kind]
            other = pick(rng, kinds[kind])
            if other is one or one.values[fact] == other.values[fact]:
                continue
            golds = _golds(min(one, other, key=lambda entity: int(entity.values[fact])))
        else:
            fact, wording = _SHARED[kind]
            other = pick(rng, groups[fact, one.links[fact].name] if rng.random() < 0.6 else kinds[kind])
            if other is one:
                continue
            golds = ("yes",) if one.links[fact] is other.links[fact] else ("no",)
        key = (fact, *sorted((one.name, other.name)))
        if key not in found:
            text = wording.format(x=one.name, y=other.name)
            found[key[0], key[1], key[2]] = Draft(text, golds, (one, other), "older" if older else "same")
    return list(found.values())


def _bridges(world: World, rng: np.random.Generator, count: int, _: int) -> list[Draft]:
    described: dict[str, list[Entity]] = {}
    for source in (*world.works, *world.events):
        described.setdefault(_description(source), []).append(source)
    found = []
    for description, sources in described.items():
        if len(sources) > 1:
            continue
        source = sources[0]
        person = source.links["creator" if source.kind == WORK else "winner"]
        for fact in FACTS[PERSON]:
            known = person.links.get(fact, person.values.get(fact))
            if known is None or known is source or known is source.links.get("setting", source.links.get("place")):
                continue
            text, golds = _final(person, fact, description)
            found.append(Draft(text, golds, (source, person), fact))
    return [found[i] for i in rng.permutation(len(found))[:count].tolist()]


def _description(source: Entity) -> str:
    year = source.values["year"]
    if source.kind == EVENT:
        return f"the winner of the {source.values['contest']} held in {source.links['place'].name} in {year}"
    maker, town = _words(source)["maker"], source.links["setting"].name
    return f"the {maker} of the {source.values['type']} from {year} set in {town}"
