"""Episodes of Search-QA worked out by hand, and those of players."""

import json

import gymnasium as gym
import pytest

from agentgym.searchqa.env import SearchQAEnv, SearchQAVectorEnv
from agentgym.searchqa.expert import next_command
from agentgym.searchqa.keys import documents_key
from agentgym.searchqa.player import SearchQAPlayer, names_in
from agentgym.searchqa.protocol import FAILED, INVALID
from agentgym.searchqa.question import Question
from agentgym.searchqa.retriever import Hit, Passage, SearchFailure, search_all
from agentgym.searchqa.scoring import FormatReward
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
    assert env.step("<answer>in the Kingdom of Zell</answer>")[1] == pytest.approx(
        {"sub_em": 1, "f1": 6 / 7}.get(reward, 0)
    )


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


def test_searches_that_fail_find_nothing_or_too_much() -> None:
    env, *_ = begin()
    observation, _, terminated, _, info = env.step("<search>broken</search>")
    assert observation == FAILED
    assert "<information>" not in observation
    assert "broken" not in observation
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


def test_a_connection_that_breaks_is_a_failed_search_without_credentials_and_a_bug_is_an_error() -> None:
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


def test_the_expert_answers_where_nothing_can_be_searched_for():
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
    ({"top_k": 0}, "top_k must be an integer of at least 1"),
    ({"protocol": "search-r1"}, "did you mean 'searchr1'"),
    ({"questions": None, "corpus": "x.jsonl"}, "without questions"),
    ({"questions": 3}, "questions must be"),
    ({"retriever": "lexical"}, "without a corpus"),
    ({"format_score": float("nan")}, "finite"),
    ({"questions": (QUESTIONS[0], QUESTIONS[0])}, "distinct ids"),
    ({"sources": []}, "no data_source is named"),
    ({"kinds": ["compare"]}, "unknown kind 'compare'"),
    ({"split": "dev"}, "unknown split 'dev'"),
    ({"world_seed": -1, "questions": None, "retriever": "lexical"}, "at least 0"),
)
def test_wrong_arguments(arguments, message):
    refuses(ValueError, message, env_of, **arguments)


def vector(n, mode=DISABLED, **kwargs):
    return SearchQAVectorEnv(n, autoreset_mode=mode, questions=QUESTIONS, retriever=Titles(), **kwargs)


def test_a_step_of_many_places_is_one_search_without_repeats_and_none_in_the_last_turn() -> None:
    envs = vector(6)
    envs.reset(options=[{"task_id": "country"}] * 6)
    calls = envs.envs[0].retriever.calls
    commands = ["<search>ada</search>", "<search>ulm</search>", "<search>ada</search>", "x", "<answer>y</answer>"]
    _, _, terminated, _, infos = envs.step([*commands, "<search> </search>"])
    assert calls == [["ada", "ulm"]]
    assert infos["retrieved_ids"].tolist() == [("ada",), ("ulm",), ("ada",), (), (), ()]
    assert terminated.tolist() == [False] * 4 + [True, False]
    envs.step(["<search>ada</search>"] * 4 + ["<search>zell</search>", "<search>ada</search>"])
    assert calls[1:] == [["ada"]]  # a finished place asks nothing
    assert (len({id(env.retriever) for env in envs.envs}), len({id(env.questions) for env in envs.envs})) == (1, 1)
    envs = vector(2, max_turns=1)
    envs.reset(options=[{"task_id": "country"}] * 2)
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
    envs = SearchQAVectorEnv(1, autoreset_mode="Disabled", questions=QUESTIONS, retriever=Titles(), top_k=1)
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


@pytest.fixture(scope="module")
def env():
    return SearchQAEnv(split="test")


def test_a_reader_finds_what_one_search_finds_anew_in_each_episode(env):
    reader, infos = SearchQAPlayer(), []
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


def test_comparisons_go_by_the_years_and_names_are_found() -> None:
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


QUESTION = Question("q", "Who?", ("Ada", "Bell"), "s", "train", ("1", "2"))
TITLES = {"1": "One", "2": "Two"}


@cases(
    "retrieved, searches, can_search, expected",
    ((), 0, True, "<search> One </search>"),
    (("1",), 1, True, "<search> Two </search>"),
    (("1", "2"), 1, True, "<answer> Ada </answer>"),
    ((), 3, True, "<answer> Ada </answer>"),  # it does not find it
    ((), 0, False, "<answer> Ada </answer>"),
)
def test_the_expert_searches_for_what_is_missing(retrieved, searches, can_search, expected):
    assert next_command(QUESTION, TITLES, retrieved, searches, can_search=can_search) == expected
