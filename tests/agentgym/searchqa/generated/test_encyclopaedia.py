"""The generated encyclopaedia: its facts agree, its splits share nothing, and its questions can be answered."""

import hashlib
import re
import subprocess
import sys
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from agentgym.searchqa.generated.encyclopaedia import SPLITS, make_encyclopaedia
from agentgym.searchqa.generated.names import CONTESTS, MAKERS
from agentgym.searchqa.generated.questions import SOURCES
from agentgym.searchqa.generated.world import NOW, Census, Names, died, make_world
from agentgym.searchqa.scoring import normalise
from tests.agentgym.searchqa.corpus_files import ROOT

MADE = make_encyclopaedia()
BY_ID = {passage.id: passage for passage in MADE.passages}


@pytest.fixture(scope="module")
def worlds():
    names = Names(np.random.default_rng(0))
    census = Census(people=300, towns=60, countries=6, works=150, events=80)
    return [make_world(np.random.default_rng(seed), names, census) for seed in (1, 2)]


def test_there_are_more_than_5000_passages_with_titles_and_ids_of_their_own():
    assert len(MADE.passages) >= 5000
    assert len(BY_ID) == len(MADE.passages)
    assert len({normalise(passage.title) for passage in MADE.passages}) == len(MADE.passages)
    lengths = [len(passage.text.split()) for passage in MADE.passages]
    assert min(lengths) >= 10
    assert max(lengths) <= 100


def test_every_split_has_questions_of_every_source_with_ids_of_their_own():
    counts = Counter((question.split, question.source) for question in MADE.questions)
    assert set(counts) == {(split, source) for split in SPLITS for source in SOURCES}
    for split, (_, most) in SPLITS.items():
        assert [counts[split, source] for source in SOURCES] == list(most)
    assert len({question.id for question in MADE.questions}) == len(MADE.questions)
    texts = Counter((question.split, question.text) for question in MADE.questions)
    assert max(texts.values()) == 1


def test_splits_share_no_passage_and_no_answer_that_is_a_name():
    for one, other in combinations(SPLITS, 2):
        used = [{p for q in MADE.questions if q.split == split for p in q.supports} for split in (one, other)]
        assert not used[0] & used[1]
        titles = [{BY_ID[passage].title for passage in passages} for passages in used]
        assert not titles[0] & titles[1]
        golds = [
            {gold for q in MADE.questions if q.split == split for gold in q.golds if len(gold.split()) > 1}
            for split in (one, other)
        ]
        assert not golds[0] & golds[1]


def test_no_question_names_an_entity_of_another_split():
    used = {(q.split, BY_ID[passage].title.strip('"')) for q in MADE.questions for passage in q.supports}
    split_of = {name: split for split, name in used}
    for question in MADE.questions:
        words = re.findall(r"\w+", question.text)
        phrases = {" ".join(words[i : i + n]) for n in (2, 3, 4) for i in range(len(words))}
        assert {split_of[phrase] for phrase in phrases & split_of.keys()} <= {question.split}


def test_the_answer_stands_in_the_last_passage_that_is_needed():
    """But for comparisons, whose answers are made of two passages."""
    for question in MADE.questions:
        if question.source == "comparison":
            assert len(question.supports) == 2
            continue
        last = BY_ID[question.supports[-1]]
        assert question.golds[0] in last.text, (question, last)


def test_each_passage_leads_to_the_next():
    """The name of what the second passage is about stands in the first; only so can it be found in steps."""
    hops = {"one_hop": 1, "two_hop": 2, "three_hop": 3, "bridge": 2}
    for question in MADE.questions:
        if question.source in hops:
            assert len(question.supports) == hops[question.source]
            for before, after in zip(question.supports, question.supports[1:], strict=False):
                assert BY_ID[after].title.strip('"') in BY_ID[before].text


def test_the_first_thing_is_named_but_a_bridge_names_nobody():
    for question in MADE.questions:
        names = [BY_ID[passage].title.strip('"') for passage in question.supports]
        also = re.search(
            r"(?:name is|called|known as|title was) (The \w+ \w+|\w+ \w+)", BY_ID[question.supports[0]].text
        )
        full = re.search(r"([A-Z]\w+ [A-Z]\w+ [A-Z]\w+), known as", BY_ID[question.supports[0]].text)
        known = [names[0], *(match[1] for match in (also, full) if match)]
        if question.source == "bridge":
            assert not any(name in question.text for name in names)
        else:
            assert any(name in question.text for name in known), question
        assert question.source in ("bridge", "comparison") or not any(name in question.text for name in names[1:])


def test_comparisons_agree_with_the_passages():
    """Worked out again from the texts: years of two passages, and what they have in common."""
    patterns = {
        "Who": r"[Bb]orn in [\w ]+? in (\d+)",
        "Which town": r"[Ff]ounded in (\d+)",
        "Which is": r"(?:from|in) (\d+)\.",
    }
    for question in MADE.questions:
        if question.source != "comparison":
            continue
        one, other = (BY_ID[passage] for passage in question.supports)
        for start in ("Who", "Which town", "Which is"):
            if question.text.startswith(start):
                years = [int(re.search(patterns[start], each.text)[1]) for each in (one, other)]
                older = (one, other)[years[1] < years[0]]
                assert years[0] != years[1]
                assert question.golds[0] == older.title.strip('"')
        shared = {"Were": r"[Bb]orn in ([A-Z]\w+ \w+)", "Are": r"in the (\w+ of \w+)"}
        for start, pattern in shared.items():
            if question.text.startswith(start):
                found = [re.search(pattern, each.text)[1] for each in (one, other)]
                assert question.golds == (("yes",) if found[0] == found[1] else ("no",))
    closed = Counter(question.golds for question in MADE.questions if question.kind == "same")
    assert 0.4 < closed[("yes",)] / closed.total() < 0.6


def test_facts_of_a_world_agree(worlds):
    for world in worlds:
        for person in world.people:
            values, links = person.values, person.links
            assert died(person) - values["born"] >= 45 or died(person) == NOW
            if "spouse" in links:
                spouse = links["spouse"]
                assert spouse.links["spouse"] is person
                assert spouse.values["married"] == values["married"]
                assert spouse.values["woman"] != values["woman"]
                assert values["born"] + 18 <= values["married"] <= min(died(person), died(spouse))
                assert links.get("parent") is not spouse
            if "parent" in links:
                parent = links["parent"]
                assert 20 <= values["born"] - parent.values["born"] <= 40
                assert died(parent) >= values["born"]
                assert parent.name.split()[-1] == person.name.split()[-1]
            if "teacher" in links:
                teacher = links["teacher"]
                assert teacher.values["occupation"] == values["occupation"]
                assert died(teacher) >= values["born"] + 18
                assert teacher.values["born"] < values["born"]
        for work in world.works:
            creator = work.links["creator"]
            assert creator.values["born"] + 18 <= work.values["year"] <= died(creator)
            assert work.values["type"] == MAKERS[creator.values["occupation"]][0]
            if "base" in work.links:
                assert work.links["base"].values["year"] < work.values["year"]
                assert work.links["base"].links["creator"] is not creator
        for event in world.events:
            for name in ("winner", "second"):
                person = event.links[name]
                assert person.values["born"] + 18 <= event.values["year"] <= died(person)
            assert event.links["winner"] is not event.links["second"]
            assert event.values["contest"] in CONTESTS
        for country in world.countries:
            assert country.links["capital"].links["country"] is country


def test_worlds_share_no_entity_and_no_name(worlds):
    one, other = ({id(entity) for entity in world.entities()} for world in worlds)
    for world, foreign in zip(worlds, (other, one), strict=True):
        assert not {id(linked) for entity in world.entities() for linked in entity.links.values()} & foreign
    names = [name for world in worlds for entity in world.entities() for name in (entity.name, entity.alias) if name]
    assert len({normalise(name) for name in names}) == len(names)


def test_seeds():
    assert make_encyclopaedia() is MADE
    assert make_encyclopaedia(1).passages != MADE.passages
    for seed in (-1, 1.5, True, "0"):
        with pytest.raises(ValueError, match="integer of at least 0"):
            make_encyclopaedia(seed)


def digest() -> str:
    made = make_encyclopaedia()
    return hashlib.sha256(repr((made.passages, made.questions)).encode()).hexdigest()


def test_another_process_makes_the_same():
    script = "from tests.agentgym.searchqa.generated.test_encyclopaedia import digest; print(digest())"
    made = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONHASHSEED": "7", "PYTHONPATH": ROOT},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert made.stdout.strip() == digest()
