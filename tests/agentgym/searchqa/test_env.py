"""Episodes of Search-QA worked out by hand, those of players, and the generated encyclopaedia."""

import json
import pickle
import re
from collections import Counter
from functools import cache
from itertools import combinations

import gymnasium as gym
import numpy as np
import pytest

from agentgym.searchqa.env import SearchQAEnv, SearchQAVectorEnv
from agentgym.searchqa.expert import next_command
from agentgym.searchqa.generated.encyclopaedia import SPLITS, UNKNOWN, Difficulty, make_encyclopaedia, make_harder
from agentgym.searchqa.generated.questions import SOURCES
from agentgym.searchqa.generated.world import CONTESTS, MAKERS, NOW, Census, Names, died, make_world
from agentgym.searchqa.keys import documents_key
from agentgym.searchqa.player import SearchQAPlayer, names_in
from agentgym.searchqa.protocol import FAILED, INVALID
from agentgym.searchqa.question import Question
from agentgym.searchqa.retriever import Hit, Passage, SearchFailure, search_all
from agentgym.searchqa.scoring import FormatReward, normalise
from agentgym.searchqa.tasks import find_data
from tests.agentgym.searchqa.support import ADA, QUESTIONS, ULM, Gives, Titles
from tests.cases import cases
from tests.playing import DISABLED, begun
from tests.refusals import refuses
from wrappers.canonical import observation_key


def env_of(**kwargs):
    return SearchQAEnv(**{"questions": QUESTIONS, "retriever": Titles(), **kwargs})


def begin(task_id="country", **kwargs):
    env = env_of(**kwargs)
    observation, info = env.reset(options={"task_id": task_id})
    return env, observation, info


def test_an_episode_from_question_to_answer() -> None:
    env, observation, info = begin()
    assert observation == info["question"] == "In which country was Ada Bell born?"
    assert (info["turns_left"], info["support_recall"], info["retrieved_ids"]) == (5, 0.0, ())
    observation, reward, terminated, truncated, info = env.step("<search>ada</search>")
    assert observation == ('\n\n<information>Doc 1(Title: "Ada Bell") Ada Bell was born in Port Ulm.</information>\n\n')
    assert (reward, terminated, truncated, info["is_action_valid"]) == (0.0, False, False, True)
    assert (info["search_count"], info["support_recall"], info["retrieved_ids"]) == (1, 0.5, ("ada",))
    info = env.step("<search>of ulm</search>")[-1]
    assert (info["search_count"], info["support_recall"]) == (2, 1.0)
    assert info["retrieved_ids"] == ("ada", "ulm", "zell")
    observation, reward, terminated, _, info = env.step("<answer>the kingdom of Zell!</answer>")
    assert (reward, terminated, info["won"], info["em"], info["f1"], info["sub_em"]) == (1.0, True, True, 1.0, 1.0, 1.0)
    assert (info["admissible_actions"], info["turns_left"], info["search_failed"]) == ((), 2, False)
    env, *_ = begin(format_score=0.1)
    _, reward, terminated, _, info = env.step("<answer>Zell</answer>")
    assert (reward, terminated, info["won"], info["em"], info["sub_em"]) == (0.1, True, False, 0.0, 0.0)
    assert info["f1"] == info["score"] == pytest.approx(2 * 1 / (1 + 3))
    env, *_ = begin("where")
    assert env.step("<answer>old ulm</answer>")[-1]["won"]
    _, _, info = begin("loose")
    assert info["support_recall"] == -1.0
    assert begin("where")[1] == "Where was Ada Bell born?"
    assert begin("where", protocol="verl_agent")[1] == "Where was Ada Bell born"


@pytest.mark.parametrize(("reward", "expected"), [("em", 0.0), ("f1", 0.5), ("sub_em", 0.0)])
def test_rewards(reward, expected):
    env, *_ = begin(reward=reward)
    assert env.step("<answer>Zell</answer>")[1] == pytest.approx(expected)
    env.reset(options={"task_id": "country"})
    most = {"sub_em": 1, "f1": 6 / 7}.get(reward, 0)
    assert env.step("<answer>in the Kingdom of Zell</answer>")[1] == pytest.approx(most)


def test_the_format_reward_looks_at_whole_replies():
    env, *_ = begin(reward="format")
    env.step("<think>who?</think><search>ada</search>")
    before = env.describe(True)["state_key"]
    _, reward, *_ = env.step("<think>so</think><answer>Kingdom of Zell</answer>")
    assert reward == 1.0
    env.reset(options={"task_id": "country"})
    env.step("<search>ada</search>")
    assert env.describe(True)["state_key"] != before  # the reward to come is another one
    assert env.step("<answer>Kingdom of Zell</answer>")[1] == 0.8
    env, *_ = begin(reward=FormatReward(final=0.3))
    assert env.step("<answer>Ulm</answer>")[1] == 0.3
    for _ in range(4):
        env.reset(options={"task_id": "country"})
    assert [env.step("hm")[1] for _ in range(5)] == [0.0] * 5


def play(env, commands):
    steps = [env.step(command) for command in commands]
    return steps, steps[-1][-1]


def test_last_turns_of_both_protocols() -> None:
    env, *_ = begin()
    steps, info = play(env, ["<search>ada</search>"] * 4)
    assert not any(step[2] for step in steps)
    assert (info["turns_left"], info["search_count"]) == (1, 4)
    assert info["admissible_actions"] == ("<answer>yes</answer>", "<answer>no</answer>")
    calls = len(env.retriever.calls)
    observation, reward, terminated, _, info = env.step("<search>ulm</search>")
    assert (reward, terminated, info["won"], info["is_action_valid"]) == (0.0, True, False, False)
    assert (info["search_count"], len(env.retriever.calls)) == (4, calls)
    assert observation == "The episode ended without an answer."
    env, *_ = begin(protocol="verl_agent")
    steps, info = play(env, ["<search>ada</search>"] * 4)
    assert [step[2] for step in steps] == [False, False, False, True]
    assert (info["search_count"], info["is_action_valid"], info["won"]) == (3, False, False)
    env.reset(options={"task_id": "country"})
    steps, info = play(env, ["<search>ada</search>"] * 3 + ["<answer>Kingdom of Zell</answer>"])
    assert info["won"]
    assert env_of(last_turn="counted").turns.total == 4
    assert env_of(protocol="verl_agent", last_turn="extra", max_turns=2).turns.total == 3
    env, *_ = begin(max_turns=1)
    observation, _, terminated, _, info = env.step("Ulm?")
    assert (observation, terminated, info["is_action_valid"], info["turns_left"]) == (INVALID, False, False, 1)
    assert env.step("Ulm?")[2]
    env, *_ = begin(protocol="verl_agent")
    _, _, terminated, _, info = env.step("<answer>x</answer><search>ada</search>")
    assert (terminated, info["is_action_valid"], info["retrieved_ids"]) == (False, False, ("ada",))


def test_searches_that_fail_find_nothing_or_too_much_break_or_have_a_bug() -> None:
    env, *_ = begin()
    observation, _, terminated, _, info = env.step("<search>broken</search>")
    assert observation == FAILED
    assert not [word for word in ("<information>", "broken") if word in observation]
    assert (info["search_failed"], info["search_count"], info["retrieved_ids"]) == (True, 1, ())
    assert (info["is_action_valid"], terminated) == (True, False)
    assert env.step("<search>ada</search>")[-1]["search_failed"] is False
    env, *_ = begin()
    assert env.step("<search>zebra</search>")[0] == "\n\n<information></information>\n\n"
    calls = len(env.retriever.calls)
    observation, _, _, _, info = env.step("<search>  </search>")
    assert (observation, info["search_failed"]) == ("\n\n<information></information>\n\n", False)
    assert len(env.retriever.calls) == calls

    env, *_ = begin(retriever=Gives([[Hit(ADA, 1.0), Hit(ADA, 0.5), Hit(ULM, 0.1)]]), top_k=2)
    assert env.step("<search>x</search>")[-1]["retrieved_ids"] == ("ada",)
    broken = Gives(ConnectionResetError("peer"))
    assert search_all(broken, ["a", "b"], 1) == [SearchFailure("ConnectionResetError: peer")] * 2
    refuses(KeyError, "x", search_all, Gives(KeyError("x")), ["a"], 1)
    refuses(RuntimeError, "0 answers to 1 searches", search_all, Gives([]), ["a"], 1)
    (found,) = search_all(Gives(OSError("http://me:pw12@host/?api_key=k7k7 refused")), ["a"], 1)
    assert "pw12" not in found.reason
    assert "k7k7" not in found.reason


def test_state_keys_tell_ends_orders_and_odd_ids_apart() -> None:
    keys, texts = set(), set()
    for command in ("<answer>Kingdom of Zell</answer>", "<answer>Ulm</answer>", "<answer>Oslo</answer>", "nothing"):
        env, *_ = begin(max_turns=1, last_turn="counted")
        observation, *_, info = env.step(command)
        keys.add(info["state_key"])
        texts.add(observation)
    assert len(keys) == 4
    assert len(texts) == 3  # right, wrong, none
    env, _, info = begin()
    commands = ("<search>ada</search>", "<search>ada</search>", "?", "<search>broken</search>")
    keys = [info["state_key"], *[env.step(command)[-1]["state_key"] for command in commands]]
    assert (keys[-1], len(set(keys))) == ("'country' > ('ada',) > ('ada',) > invalid > failed", 5)
    other, *_ = begin()
    assert other.step("<search>bell ada</search>")[-1]["state_key"] == keys[1]
    keys = set()
    for ids in (("a', 'b",), ("a", "b")):
        env, *_ = begin(retriever=Gives([tuple(Hit(Passage(named, "T\nx"), 1.0) for named in ids)]))
        keys.add(env.step("<search>x</search>")[-1]["state_key"])
    assert len(keys) == 2


def test_the_expert_searches_for_what_is_missing_and_answers_where_nothing_can_be_searched_for():
    question, titles = Question("q", "Who?", ("Ada", "Bell"), "s", "train", ("1", "2")), {"1": "One", "2": "Two"}
    for retrieved, searches, can_search, expected in (
        ((), 0, True, "<search> One </search>"), (("1",), 1, True, "<search> Two </search>"),
        (("1", "2"), 1, True, "<answer> Ada </answer>"), ((), 0, False, "<answer> Ada </answer>"),
        ((), 3, True, "<answer> Ada </answer>"),  # it does not find it
    ):  # fmt: skip
        assert next_command(question, titles, retrieved, searches, can_search=can_search) == expected
    env, _, info = begin("loose", expert=True)
    assert info["expert_action"] == "<search> Is there a sea? </search>"
    assert env.step("<search>x</search>")[-1]["expert_action"] == "<answer> no </answer>"
    _, _, info = begin(expert=True, max_turns=1, last_turn="counted")
    assert info["expert_action"].startswith("<answer>")


def test_splits_sources_counts_and_unknown_content() -> None:
    env = env_of()
    assert env.split == "train"
    assert (env.num_tasks("train"), env.num_tasks("test")) == (2, 1)
    assert env_of(sources="two_hop").num_tasks("train") == 1
    assert env.reset(options={"data_source": "two_hop", "index": 0})[1]["task_id"] == "country"
    words = r"split 'train' of the questions given \(those of nq\) holds no task"
    refuses(ValueError, words, env_of(sources=["nq"]).reset)
    for options, message in (
        ({"task_id": "loose", "split": "train"}, "is in split 'test'"),
        ({"task_id": "wher"}, "unknown task_id 'wher': the questions given has ids such as 'where'"),
        ({"data_source": "one_hopp"}, "did you mean 'one_hop'"),
        ({"task_id": "loose", "data_source": "nq"}, "more than one way"),
        ({"split": "tset"}, "unknown split 'tset' of the questions given.*did you mean 'test'"),
    ):
        refuses(ValueError, message, env.reset, options=options)
    refuses(ValueError, "unknown task_id 'x'", lambda: gym.make("AgentRL/SearchQA-v0").unwrapped.content("x"))


@cases(
    "arguments, message",
    ({"top_k": 0}, "top_k must be an integer of at least 1"), ({"protocol": "search-r1"}, "did you mean 'searchr1'"),
    ({"questions": None, "corpus": "x.jsonl"}, "without questions"), ({"questions": 3}, "questions must be"),
    ({"retriever": "lexical"}, "without a corpus"), ({"format_score": float("nan")}, "finite"),
    ({"questions": (QUESTIONS[0], QUESTIONS[0])}, "distinct ids"), ({"sources": []}, "no data_source is named"),
    ({"kinds": ["compare"]}, "unknown kind 'compare'"), ({"split": "dev"}, "unknown split 'dev'"),
    ({"world_seed": -1, "questions": None, "retriever": "lexical"}, "at least 0"),
    *(({"questions": None, "retriever": "lexical", **wrong}, next(iter(wrong))) for wrong in (
        {"distractors": 6}, {"distractors": -1}, {"missing": 1.0}, {"missing": -0.1})),
)  # fmt: skip
def test_wrong_arguments(arguments, message):
    refuses(ValueError, message, env_of, **arguments)


def vector(n, mode=DISABLED, **kwargs):
    return SearchQAVectorEnv(n, autoreset_mode=mode, questions=QUESTIONS, retriever=Titles(), **kwargs)


def test_a_step_of_many_places_is_one_search_without_repeats_and_none_in_the_last_turn() -> None:
    envs = begun(vector(6), options=[{"task_id": "country"}] * 6)
    calls = envs.envs[0].retriever.calls
    commands = ["<search>ada</search>", "<search>ulm</search>", "<search>ada</search>", "x", "<answer>y</answer>"]
    _, _, terminated, _, infos = envs.step([*commands, "<search> </search>"])
    assert calls == [["ada", "ulm"]]
    assert infos["retrieved_ids"].tolist() == [("ada",), ("ulm",), ("ada",), (), (), ()]
    assert terminated.tolist() == [False] * 4 + [True, False]
    envs.step(["<search>ada</search>"] * 4 + ["<search>zell</search>", "<search>ada</search>"])
    assert calls[1:] == [["ada"]]  # a finished place asks nothing
    assert (len({id(env.retriever) for env in envs.envs}), len({id(env.questions) for env in envs.envs})) == (1, 1)
    envs = begun(vector(2, max_turns=1), options=[{"task_id": "country"}] * 2)
    envs.step(["<search>ada</search>", "x"])
    _, _, terminated, _, _ = envs.step(["<search>ulm</search>"] * 2)
    assert terminated.all()
    assert envs.envs[0].retriever.calls == [["ada"]]


@cases(
    "odd",
    7, None, "text", {"a": 1}, [("x",)],
    [Hit(Passage("1", None), 1.0)], [Hit(Passage(["1"], "x"), 1.0)], [Hit(ADA, [])],
    ids=repr,
)  # fmt: skip
def test_what_holds_no_hits_is_a_failed_search_and_spares_the_others(odd):
    envs = begun(SearchQAVectorEnv(2, questions=QUESTIONS, retriever=Gives([odd, (Hit(ADA, 1.0),)])), seed=0)
    *_, infos = envs.step(["<search>odd</search>", "<search>fine</search>"])
    assert (infos["search_failed"].tolist(), infos["retrieved_ids"][1]) == ([True, False], ("ada",))


def test_no_text_from_outside_carries_surrogates_or_leaves_the_space():
    for protocol in ("searchr1", "verl_agent"):
        huge = Passage("\ud800" * 9, '"\udfff"\n' + "\U0001f600\x1b\ud800 " * 300_000)
        env, *_ = begin(retriever=Titles([huge]), protocol=protocol, max_tokens=None, reward="format")
        for command in ("<search>\udfff</search>", "\ud800", "<search>x\ud800</search>", "<answer>\ud800</answer>"):
            observation, *_, info = env.step(command)
            assert observation in env.observation_space
            json.dumps([observation, info], ensure_ascii=False).encode()
            info["state_key"].encode()
            "".join(info["retrieved_ids"]).encode()


def keys(key, *commands):
    envs = vector(1, top_k=1)
    observations, infos = envs.reset(options={"task_id": "country"})
    found = [key(observations[0], {name: column[0] for name, column in infos.items()})]
    for command in commands:
        observations, *_, infos = envs.step([command])
        found.append(key(observations[0], {name: column[0] for name, column in infos.items()}))
    return found


FIRST, NEXT = "<search>ada</search>", "<search>ulm</search>"


def test_keys_of_documents_and_of_texts_and_of_ends() -> None:
    for key in (observation_key, documents_key):
        endings = (["<answer>Kingdom of Zell</answer>"], ["<answer>Oslo</answer>"], ["?"] * 4)
        played = [keys(key, FIRST, *ending) for ending in endings]
        ends = {each[-1] for each in played}
        assert len(ends) == 3
        assert not ends & {key for each in played for key in each[:-1]}
    one, other = keys(documents_key, FIRST, NEXT, FIRST), keys(documents_key, NEXT, FIRST)
    assert one[0] == other[0]
    assert one[2] == one[3] == other[2] == "country | ['ada', 'ulm']"
    assert one[1] != other[1]
    one, other = keys(observation_key, FIRST, NEXT), keys(observation_key, NEXT, FIRST)
    assert (one[1], one[2]) == (other[2], other[1])


def last_info(env, reader, **options):
    observation, info = env.reset(options=options)
    over = False
    while not over:
        observation, _, over, _, info = env.step(reader.act(observation, info["admissible_actions"]))
    return info


def test_a_reader_finds_what_one_search_finds_compares_years_and_finds_names() -> None:
    env, reader, infos = SearchQAEnv(split="test"), SearchQAPlayer(), []
    for source in ("one_hop", "comparison"):
        infos += [last_info(env, reader, data_source=source, index=index) for index in range(40)]
    assert sum(info["support_recall"] for info in infos) / 80 > 0.9
    assert sum(info["won"] for info in infos) / 80 > 0.3
    assert all(info["is_action_valid"] for info in infos)
    reader = SearchQAPlayer(searches=2)
    for index in range(6):
        assert last_info(env, reader, index=index) == last_info(env, SearchQAPlayer(searches=2), index=index)
    short = SearchQAEnv(split="test", max_turns=1, last_turn="counted")
    assert last_info(short, SearchQAPlayer(), index=0)["search_count"] == 0
    refuses(ValueError, "at least 1", SearchQAPlayer, searches=0)
    reader = SearchQAPlayer(searches=1)
    reader.act("Who was born earlier, Ada Bell or Iva Moll?", ())
    passages = (
        'Doc 1(Title: "Ada Bell") Ada Bell was born in Port Ulm in 1880.\n'
        'Doc 2(Title: "Iva Moll") Born in Ulm in 1843, Iva Moll was a poet.'
    )
    assert reader.act(f"<information>{passages}</information>", ()) == "<answer>Iva Moll</answer>"
    found = names_in("Was The Iron Gate made in Port Ulm or in the Kingdom of Zell?")
    assert found == ["The Iron Gate", "Port Ulm", "Kingdom of Zell"]
    assert names_in("who wrote it in 1911?") == []


made = make_encyclopaedia  # made once per process, and not while tests are collected


@cache
def by_id():
    return {passage.id: passage for passage in made().passages}


@pytest.fixture(scope="module")
def worlds():
    names = Names(np.random.default_rng(0))
    census = Census(people=300, towns=60, countries=6, works=150, events=80)
    return [make_world(np.random.default_rng(seed), names, census) for seed in (1, 2)]


def test_passages_and_questions_have_ids_and_splits_share_no_passage_answer_or_entity() -> None:
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
    for both in combinations(SPLITS, 2):
        asked = [[question for question in made().questions if question.split == split] for split in both]
        used = [{passage for question in part for passage in question.supports} for part in asked]
        titles = [{by_id()[passage].title for passage in passages} for passages in used]
        golds = [{gold for question in part for gold in question.golds if len(gold.split()) > 1} for part in asked]
        assert not any(one & other for one, other in (used, titles, golds))
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


def test_no_difficulty_is_the_plain_encyclopaedia_and_distractors_hold_no_fact() -> None:
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


def test_what_needs_a_missing_passage_is_not_known_and_the_expert_looks_for_it():
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
