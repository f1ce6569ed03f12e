"""Generated tasks with games, any number per family, each made from a seed and its number."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache

from agentgym.checks import suggest
from agentgym.sotopia.games.bargain import BUYER, SELLER, Bargain, dollars
from agentgym.sotopia.games.divide import Divide, Pool, Share
from agentgym.sotopia.games.friend import Friend, MutualFriend
from agentgym.sotopia.games.game import Game
from agentgym.sotopia.games.schedule import Calendar, Schedule
from agentgym.sotopia.profiles import Person, Relationship, Scenario, Task
from agentgym.tasks import Draws

#: First names with gender and pronouns; `FRIENDS` has the names of mentioned friends.
FIRST_NAMES: tuple[tuple[str, str, str], ...] = tuple(
    (name, gender, pronoun)
    for gender, pronoun, names in (
        ("Woman", "She/her", "Adele Berta Carla Dora Edith Frida Greta Hilda Irma Judith Klara Lotte Marta Nelly Olga"),
        ("Man", "He/him", "Anton Bruno Casper Dario Emil Felix Gustav Hugo Ivo Jonas Kurt Ludwig Marco Niels Otto"),
        ("Nonbinary", "They/them", "Ari Bo Charlie Devin Ellis Finley Gale Harper"),
    )
    for name in names.split()
)
LAST_NAMES = (
    "Abbot", "Barlow", "Castle", "Dunmore", "Eastman", "Farrow", "Gardner", "Holloway", "Ingram", "Jessop", "Kingsley",
    "Lockhart", "Merrow", "Northcott", "Oakes", "Pemberton", "Quayle", "Redfern", "Stockton", "Tillman", "Underhill",
    "Vickers", "Westcott", "Yarrow",
)  # fmt: skip
#: An occupation, and what makes a person known.
OCCUPATIONS: tuple[tuple[str, str], ...] = (
    ("Baker", "opens the shop before six and knows every customer's order"),
    ("Nurse", "works nights and bakes for the ward on Sundays"),
    ("Carpenter", "builds kitchens and repairs old boats"),
    ("Teacher", "runs the school's chess club"),
    ("Bus Driver", "collects maps of cities"),
    ("Gardener", "looks after the park by the river"),
    ("Librarian", "reads to children on Saturdays"),
    ("Electrician", "plays the trombone in a brass band"),
    ("Photographer", "takes portraits at weddings"),
    ("Pharmacist", "trains for a marathon"),
    ("Translator", "speaks five languages and is learning a sixth"),
    ("Cook", "writes down recipes of old neighbours"),
    ("Surveyor", "walks in the hills whatever the weather"),
    ("Tailor", "sews costumes for the village theatre"),
    ("Postal Worker", "knows the name of every dog in town"),
    ("Beekeeper", "sells honey at the market"),
)
PERSONALITIES = (
    "is calm and likes to hear both sides before deciding.",
    "speaks openly and expects the same of others.",
    "is cautious with promises and keeps every one of them.",
    "likes a joke and is quick to forgive.",
    "plans everything and does not like surprises.",
    "trusts first impressions more than numbers.",
    "is generous with time and careful with money.",
    "is curious and asks more than is usual.",
)
DECISIONS = ("Analytical", "Intuitive", "Conceptual", "Directive")
SECRETS = (
    "has failed the driving test seven times and tells nobody",
    "writes love stories under another name",
    "once found a wallet and kept what was in it",
    "is looking for work in another country",
    "wears a wig since an unlucky experiment with bleach",
    "has never read the book that everybody was told about",
    "lost the family's ring and had a copy made",
    "is afraid of pigeons and takes detours to avoid squares",
    "feeds the neighbour's cat behind the neighbour's back",
    "spent the holiday savings on lottery tickets",
    "learned to swim at forty and pretends otherwise",
    "copied the prize-winning cake from a magazine",
    "pays a stranger's rent every month",
    "has a twin whom no one here has met",
)

#: Things for sale: name, lowest and highest list price, a remark.
GOODS: tuple[tuple[str, int, int, str], ...] = (
    ("a city bicycle", 80, 320, "The chain is new, the saddle is not."),
    ("an oak table", 90, 380, "It seats six, and one leg has a dent."),
    ("a record player", 60, 240, "It runs well and comes with two records."),
    ("a folding kayak", 120, 480, "It was on the water twice."),
    ("a sewing machine", 50, 220, "It has been cleaned and oiled."),
    ("a telescope", 70, 300, "One lens cap is missing."),
    ("a leather armchair", 80, 360, "The cat has left a few marks on it."),
    ("a set of garden tools", 30, 110, "Eight pieces in a wooden box."),
    ("an electric guitar", 100, 420, "The strings have just been changed."),
    ("a coffee machine", 40, 180, "It grinds beans, too."),
    ("a pair of skis", 50, 210, "They were waxed in spring."),
    ("a camera", 90, 400, "A bag and a spare battery are included."),
)
SALE = (
    "One person offers {thing} for {price}, and another has come to look at it. {remark}",
    "{thing} is for sale on a notice board for {price}. {remark} Somebody who wants it meets the owner.",
    "At a flea market a stall shows {thing}. {remark} The label says {price}. A visitor stops.",
)

#: Things to divide: the occasion, and kinds in singular and plural.
OCCASIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Two people give up their shared flat",
     (("lamp", "lamps"), ("chair", "chairs"), ("plant", "plants"), ("rug", "rugs"))),
    ("Two people have won the raffle together",
     (("mug", "mugs"), ("puzzle", "puzzles"), ("kite", "kites"), ("scarf", "scarves"))),
    ("Two people are back from the orchard",
     (("apple", "apples"), ("pear", "pears"), ("plum", "plums"), ("melon", "melons"))),
    ("Two people clear out a workshop",
     (("hammer", "hammers"), ("saw", "saws"), ("drill", "drills"), ("vice", "vices"))),
    ("Two people share what is left after the fair",
     (("book", "books"), ("candle", "candles"), ("basket", "baskets"), ("jar", "jars"))),
)  # fmt: skip

#: Purposes of meetings.
MEETINGS = (
    "to rehearse a duet",
    "to paint the fence they share",
    "to go through the accounts of their club",
    "to practise for a quiz",
    "to repair a boat",
    "to plan a street party",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
TIMES = ("morning", "noon", "evening")

#: Names of friends, disjoint from `FIRST_NAMES`.
FRIENDS = (
    "Agnes", "Alba", "Basil", "Beatrix", "Cedric", "Clement", "Daphne", "Desmond", "Elias", "Elsa", "Fabian", "Flora",
    "Gideon", "Gloria", "Hector", "Helen", "Igor", "Isolde", "Jasper", "Joan", "Kasimir", "Kitty", "Lambert", "Leonie",
    "Magnus", "Mildred", "Nadine", "Norbert", "Odette", "Oswald", "Paula", "Percy", "Quentin", "Ramona", "Rufus",
    "Selma", "Silas", "Tessa", "Tobias", "Ulla", "Ursula", "Valentin", "Vera", "Walter", "Wilma", "Xaver", "Yvonne",
    "Zacharias", "Zelda",
)  # fmt: skip
#: Attributes of friends: values, statement and question.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    name: tuple(values.split())
    for name, values in (
        ("town", "Ashford Brambury Corvale Dunwick Elmstead Fernhill Glenmoor Harrowby Inverlea Juniper"),
        ("job", "plumber dentist painter farmer lawyer barber miner sailor judge florist"),
        ("hobby", "chess fishing pottery fencing karate archery judo sailing origami surfing"),
        ("pet", "cat dog parrot rabbit tortoise goldfish hamster lizard pony canary"),
    )
}


@lru_cache(maxsize=512)
def generate(family: str, seed: int, index: int) -> Task:
    """Return a task of a family; equal arguments give equal tasks in any process."""
    if family not in _MAKERS:
        raise ValueError(f"unknown family {family!r}; {suggest(family, FAMILIES)}")
    if seed < 0 or index < 0:
        raise ValueError(f"seed and index of a generated task must be at least 0, got {seed} and {index}")
    draws = Draws.seeded(seed, FAMILIES.index(family), index)
    people = _people(draws)
    relationships, make = _MAKERS[family]
    relationship = draws.pick(relationships)
    text, goals, game = make(draws)
    named = f"{family}-{seed}-{index}"
    scenario = Scenario(named, family, "generated", text, goals, relationship)
    return Task(named, scenario, people, game, draws.below(2**31))


def _people(draws: Draws) -> tuple[Person, Person]:
    """Return two people with different names, occupations and secrets."""
    parts = [
        draws.sample(values, 2)
        for values in (
            FIRST_NAMES, LAST_NAMES, OCCUPATIONS, PERSONALITIES, SECRETS,
        )
    ]  # fmt: skip
    first, second = (
        Person(
            id=f"{first}-{last}".lower(),
            first_name=first,
            last_name=last,
            age=20 + draws.below(50),
            occupation=occupation,
            gender=gender,
            gender_pronoun=pronoun,
            public_info=f"{first} {known}.",
            personality_and_values=f"{first} {personality}",
            secret=f"{first} {secret}.",
            decision_making_style=draws.pick(DECISIONS),
        )
        for (first, gender, pronoun), last, (occupation, known), personality, secret in zip(*parts, strict=True)
    )
    return first, second


_Made = tuple[str, tuple[str, str], Game]


def _bargain(draws: Draws) -> _Made:
    thing, low, high, remark = draws.pick(GOODS)
    step = 5 if low >= 50 else 2
    price = float(step * round(draws.uniform(low, high) / step))
    buyer = float(round(price * draws.uniform(0.65, 0.8)))
    seller = float(round(buyer + price * draws.uniform(-0.04, 0.12)))
    words = draws.pick(SALE).format(thing=thing, price=dollars(price), remark=remark)
    goals = {
        BUYER: f"Buy {thing} (<extra_info>Your target price is {dollars(buyer)}: paying more counts against you, "
        "paying less is a bonus, and going without is worst.</extra_info>)",
        SELLER: f"Sell {thing} (<extra_info>Your target price is {dollars(seller)}: taking less counts against you, "
        "taking more is a bonus, and not selling is worst.</extra_info>)",
    }
    trades = (BUYER, SELLER) if draws.below(2) else (SELLER, BUYER)
    targets = (buyer, seller) if trades[0] == BUYER else (seller, buyer)
    return words[0].upper() + words[1:], (goals[trades[0]], goals[trades[1]]), Bargain(price, targets, trades)


#: Counts of three kinds; five to seven things.
_COUNTS: tuple[Share, ...] = tuple(
    counts for counts in itertools.product((1, 2, 3, 4), repeat=3) if 5 <= sum(counts) <= 7
)


@lru_cache(maxsize=len(_COUNTS))
def _values(counts: Share) -> list[Share]:
    """Return values of three kinds with a total of 9 to 12 points."""
    return [
        values
        for values in itertools.product(range(1, 7), repeat=3)
        if 9 <= sum(value * count for value, count in zip(values, counts, strict=True)) <= 12
    ]


def _divide(draws: Draws) -> _Made:
    occasion, kinds = draws.pick(OCCASIONS)
    chosen = tuple(draws.sample(kinds, 3))
    solvable = False
    while not solvable:
        pool = Pool(chosen, draws.pick(_COUNTS))
        values = draws.pick(_values(pool.counts)), draws.pick(_values(pool.counts))
        game = Divide(pool, values)
        solvable = values[0] != values[1] and game.solvable
    text = (
        f"{occasion} and divide what there is: {pool.tell(pool.counts)}. Each of them values these things differently."
    )
    first, second = (
        "Get as many points as you can (<extra_info>For you, "
        + ", ".join(
            f"each {kind[0]} is worth {value} point{'s' * (value != 1)}"
            for kind, value in zip(chosen, own, strict=True)
        )
        + ". Nobody gets any points unless you agree.</extra_info>)"
        for own in values
    )
    return text, (first, second), game


def _friend(draws: Draws) -> _Made:
    attributes = tuple(draws.sample(list(ATTRIBUTES), 2 + draws.below(2)))
    count = 7 + draws.below(2)
    names = draws.sample(FRIENDS, 2 * count - 1)
    pools = [draws.sample(ATTRIBUTES[attribute], 8) for attribute in attributes]
    everyone = [Friend(name, tuple(draws.pick(pool) for pool in pools)) for name in names]
    own = draws.sample(everyone[:count], count), draws.sample(everyone[count - 1 :], count)
    game = MutualFriend(
        tuple((attribute, ATTRIBUTES[attribute]) for attribute in attributes), (tuple(own[0]), tuple(own[1]))
    )
    goals = tuple(
        "Find out whom you both know; do not simply list names (<extra_info>Naming someone whom you do not both know "
        "costs you three points, bringing up a property of people half a point, and you need the other to confirm. You "
        "know:\n"
        + "\n".join(
            f"{friend.name}: " + ", ".join(f"{a} {v}" for a, v in zip(attributes, friend.values, strict=True))
            for friend in friends
        )
        + "</extra_info>)"
        for friends in own
    )
    text = (
        "Two people get talking at a party. They have been told that they have one friend in common, but not who it is."
    )
    return text, (goals[0], goals[1]), game


def _schedule(draws: Draws) -> _Made:
    every = [(day, time) for day in DAYS for time in TIMES]
    chosen = draws.sample(every, 8)
    # Three slots that suit one side only, for each side; one or two that suit both well enough.
    kinds = draws.sample(("first",) * 3 + ("second",) * 3 + ("both", draws.pick(("both", "none"))), 8)
    low, high, fair = (0, 0, 1, 2), (6, 7, 8, 9), (2, 3)
    ranges = {"first": (low, high), "second": (high, low), "both": (fair, fair), "none": ((5, 6), (5, 6))}
    costs = {
        slot: tuple(draws.pick(range_) for range_ in ranges[kind]) for slot, kind in zip(chosen, kinds, strict=True)
    }
    slots = tuple(slot for slot in every if slot in costs)
    own = tuple(costs[slot][0] for slot in slots), tuple(costs[slot][1] for slot in slots)
    game = Schedule(Calendar(slots), own)
    names = [game.tell(number) for number in range(len(slots))]
    text = f"Two people want to meet {draws.pick(MEETINGS)}. Free are " + ", ".join(names) + "."
    first, second = (
        "Agree on a time that suits you (<extra_info>What each costs you, from 0 (suits you) to 10 (impossible): "
        + ", ".join(f"{name} {cost}" for name, cost in zip(names, role, strict=True))
        + ". Not meeting at all is worst.</extra_info>)"
        for role in own
    )
    return text, (first, second), game


_STRANGERS = (Relationship.stranger, Relationship.know_by_name)
_CLOSE = (
    Relationship.acquaintance, Relationship.friend, Relationship.romantic_relationship, Relationship.family_member,
)  # fmt: skip
_MAKERS: dict[str, tuple[tuple[Relationship, ...], Callable[[Draws], _Made]]] = {
    "bargain": ((*_STRANGERS, Relationship.acquaintance), _bargain),
    "divide": (_CLOSE, _divide),
    "friend": (_STRANGERS, _friend),
    "schedule": ((Relationship.know_by_name, *_CLOSE), _schedule),
}
#: Families of generated games.
FAMILIES = tuple(_MAKERS)
