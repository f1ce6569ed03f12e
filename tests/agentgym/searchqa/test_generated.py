"""The generated encyclopaedia: its facts agree, its splits share nothing, and its questions can be answered."""

import pickle
import re
from collections import Counter
from functools import cache
from itertools import combinations

import gymnasium as gym
import numpy as np
import pytest

from agentgym.searchqa.generated.encyclopaedia import SPLITS, UNKNOWN, Difficulty, make_encyclopaedia, make_harder
from agentgym.searchqa.generated.questions import SOURCES
from agentgym.searchqa.generated.world import CONTESTS, MAKERS, NOW, Census, Names, died, make_world
from agentgym.searchqa.question import Question
from agentgym.searchqa.scoring import normalise
from agentgym.searchqa.tasks import find_data
from tests.refusals import refuses

made = make_encyclopaedia  # made once per process, and not while tests are collected


@cache
def by_id():
    return {passage.id: passage for passage in made().passages}


@pytest.fixture(scope="module")
def worlds():
    names = Names(np.random.default_rng(0))
    census = Census(people=300, towns=60, countries=6, works=150, events=80)
    return [make_world(np.random.default_rng(seed), names, census) for seed in (1, 2)]


def test_passages_and_questions_have_ids_of_their_own() -> None:
    assert len(made().passages) >= 5000
    assert len(by_id()) == len(made().passages)
    assert len({normalise(passage.title) for passage in made().passages}) == len(made().passages)
    lengths = [len(passage.text.split()) for passage in made().passages]
    assert min(lengths) >= 10
    assert max(lengths) <= 100
    counts = Counter((question.split, question.source) for question in made().questions)
    assert set(counts) == {(split, source) for split in SPLITS for source in SOURCES}
    for split, (_, most) in SPLITS.items():
        assert [counts[split, source] for source in SOURCES] == list(most)
    assert len({question.id for question in made().questions}) == len(made().questions)
    assert max(Counter((question.split, question.text) for question in made().questions).values()) == 1


def test_splits_share_no_passage_answer_or_entity() -> None:
    for one, other in combinations(SPLITS, 2):
        used = [{p for q in made().questions if q.split == split for p in q.supports} for split in (one, other)]
        assert not used[0] & used[1]
        titles = [{by_id()[passage].title for passage in passages} for passages in used]
        assert not titles[0] & titles[1]
        golds = [
            {gold for q in made().questions if q.split == split for gold in q.golds if len(gold.split()) > 1}
            for split in (one, other)
        ]
        assert not golds[0] & golds[1]
    used = {(q.split, by_id()[passage].title.strip('"')) for q in made().questions for passage in q.supports}
    split_of = {name: split for split, name in used}
    for question in made().questions:
        words = re.findall(r"\w+", question.text)
        phrases = {" ".join(words[i : i + n]) for n in (2, 3, 4) for i in range(len(words))}
        assert {split_of[phrase] for phrase in phrases & split_of.keys()} <= {question.split}


def test_passages_lead_to_the_next_and_the_last_holds_the_answer() -> None:
    hops = {"one_hop": 1, "two_hop": 2, "three_hop": 3, "bridge": 2, "comparison": 2}
    for question in made().questions:
        supports = [by_id()[passage] for passage in question.supports]
        names = [each.title.strip('"') for each in supports]
        assert len(supports) == hops[question.source]
        if question.source != "comparison":
            assert question.golds[0] in supports[-1].text, question
            assert all(name in before.text for name, before in zip(names[1:], supports, strict=False))
            assert not any(name in question.text for name in names[1:])
        also = re.search(r"(?:name is|called|known as|title was) (The \w+ \w+|\w+ \w+)", supports[0].text)
        full = re.search(r"([A-Z]\w+ [A-Z]\w+ [A-Z]\w+), known as", supports[0].text)
        known = [names[0], *(match[1] for match in (also, full) if match)]
        assert any(name in question.text for name in known) == (question.source != "bridge"), question


def test_comparisons_agree_with_the_passages():
    """Worked out again from the texts: years of two passages, and what they have in common."""
    patterns = {
        "Who": r"[Bb]orn in [\w ]+? in (\d+)", "Which town": r"[Ff]ounded in (\d+)",
        "Which is": r"(?:from|in) (\d+)\.", "Were": r"[Bb]orn in ([A-Z]\w+ \w+)", "Are": r"in the (\w+ of \w+)",
    }  # fmt: skip
    for question in made().questions:
        if question.source != "comparison":
            continue
        passages = [by_id()[passage] for passage in question.supports]
        (start,) = (start for start in patterns if question.text.startswith(start))
        facts = [re.search(patterns[start], each.text)[1] for each in passages]
        if start in ("Were", "Are"):
            assert question.golds == (("yes",) if facts[0] == facts[1] else ("no",))
        else:
            assert int(facts[0]) != int(facts[1])
            assert question.golds[0] == passages[int(facts[1]) < int(facts[0])].title.strip('"')
    closed = Counter(question.golds for question in made().questions if question.kind == "same")
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


def test_worlds_share_nothing_and_a_seed_makes_the_same_in_every_process(worlds) -> None:
    one, other = ({id(entity) for entity in world.entities()} for world in worlds)
    for world, foreign in zip(worlds, (other, one), strict=True):
        assert not {id(linked) for entity in world.entities() for linked in entity.links.values()} & foreign
    names = [name for world in worlds for entity in world.entities() for name in (entity.name, entity.alias) if name]
    assert len({normalise(name) for name in names}) == len(names)
    assert make_encyclopaedia() is made()
    assert make_encyclopaedia(1).passages != made().passages
    for seed in (-1, 1.5, True, "0"):
        refuses(ValueError, "integer of at least 0", make_encyclopaedia, seed)


PLAIN = make_encyclopaedia(0)
HARD = Difficulty(distractors=2, missing=0.25)


def test_no_difficulty_is_the_plain_encyclopaedia_and_its_instructions() -> None:
    made, missing = make_harder(0, Difficulty())
    assert (made.passages, made.questions) == (PLAIN.passages, PLAIN.questions)
    assert missing == {}
    env = gym.make("AgentRL/SearchQA-v0", distractors=1).unwrapped
    assert "unknown" not in env.instructions
    assert env.instructions == gym.make("AgentRL/SearchQA-v0").unwrapped.instructions
    questions, _ = find_data(None, None, "lexical", 0, False, HARD)
    written = pickle.dumps(questions)
    assert len(written) < 1000
    assert pickle.loads(written) is questions
    mine = [Question("1", "Who?", ("Ada",), "mine", "test")]
    refuses(ValueError, "generated encyclopaedia", find_data, [("1", '"Ada"\nShe.')], mine, "lexical", 0, False, HARD)


def test_distractors_bear_the_name_and_hold_no_fact():
    made, _ = make_harder(0, Difficulty(distractors=5))
    added = made.passages[len(PLAIN.passages) :]
    assert made.passages[: len(PLAIN.passages)] == PLAIN.passages
    assert len(added) == 5 * len(PLAIN.passages)
    assert len({each.id for each in made.passages}) == len({each.title for each in made.passages}) == len(made.passages)
    known = {each.id: each for each in PLAIN.passages}
    answers: dict[str, set[str]] = {}
    for question in PLAIN.questions:
        answers.setdefault(question.supports[-1], set()).update(question.golds)
    for each in added:
        of, _, _ = each.id.partition("-")
        name = known[of].title.strip('"')
        assert name in each.title
        assert each.text.count(name) >= 2
        rest = each.contents.replace(name, "")
        assert not [gold for gold in answers.get(of, set()) - {"yes", "no"} if gold in rest], each


def test_what_needs_a_missing_passage_is_not_known_and_the_rest_is_as_before():
    made, missing = make_harder(0, Difficulty(missing=0.25))
    assert len(missing) == round(0.25 * len(PLAIN.passages))
    assert {each.id for each in made.passages} == {each.id for each in PLAIN.passages} - missing.keys()
    unknown = 0
    for before, now in zip(PLAIN.questions, made.questions, strict=True):
        if any(support in missing for support in before.supports):
            unknown += 1
            assert now.golds == (UNKNOWN,)
            assert [support in missing for support in now.supports] == [False] * (len(now.supports) - 1) + [True]
            assert before.supports[: len(now.supports)] == now.supports
            assert (now.id, now.text, now.source, now.kind) == (before.id, before.text, before.source, before.kind)
        else:
            assert now == before
    # One passage is there with probability 3/4, two with 9/16.
    two = [now for now in made.questions if now.source == "two_hop"]
    assert sum(now.golds == (UNKNOWN,) for now in two) / len(two) == pytest.approx(7 / 16, abs=0.03)
    assert unknown < len(PLAIN.questions)
    more, gone = make_harder(0, Difficulty(missing=0.5))
    assert missing.keys() < gone.keys()
    assert len(more.passages) < len(made.passages)


def test_the_expert_is_right_and_looks_for_what_is_missing():
    options = {"distractors": 1, "missing": 0.3, "top_k": 2, "sources": ["two_hop"], "max_turns": 4}
    envs = gym.make_vec("AgentRL/SearchQA-v0", 64, autoreset_mode="Disabled", expert=True, **options)
    _, infos = envs.reset(options=[{"split": "test", "index": i} for i in range(64)])
    assert "unknown" in envs.unwrapped.instructions
    golds = [env.question.golds for env in envs.unwrapped.envs]
    assert 10 < golds.count((UNKNOWN,)) < 54
    searched = set()
    for _ in range(5):
        actions = list(infos["expert_action"])
        searched |= {action.removeprefix("<search> ").removesuffix(" </search>") for action in actions}
        *_, infos = envs.step(actions)
    assert infos["won"].all()
    assert searched & set(envs.unwrapped.envs[0].questions.missing.values())


@pytest.mark.parametrize("wrong", [{"distractors": 6}, {"distractors": -1}, {"missing": 1.0}, {"missing": -0.1}])
def test_numbers_out_of_range_are_refused(wrong):
    refuses(ValueError, next(iter(wrong)), gym.make, "AgentRL/SearchQA-v0", **wrong)
