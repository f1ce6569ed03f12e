"""The simulated engine: its curriculum by hand, useful and noisy documents, and episodes that it answers."""

import pickle

import pytest

from agentgym.outside.chat.wire import ChatAnswer, ChatFailure
from agentgym.rollout import collect
from agentgym.searchqa.env import SearchQAEnv, SearchQAVectorEnv
from agentgym.searchqa.protocol import FAILED
from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval import simulated
from agentgym.searchqa.retrieval.simulated import ModelSimulator, NoiseCurriculum, RuleSimulator, SimulatedSearch
from agentgym.searchqa.retriever import Hit, SearchFailure
from agentgym.searchqa.tasks import Questions
from tests.agentgym.searchqa.support import ADA, COUNTRY, IVA, LOOSE, ULM, ZELL, Gives, Titles, ids
from tests.cases import cases
from tests.playing import Scripted, begun, of
from tests.refusals import refuses

#: Of the same source, kind and split as COUNTRY, and supported by other passages.
OTHER = Question("other", "Whose currency is the crown?", ("Iva",), "two_hop", "train", ("iva", "zell"))
QUESTIONS = (COUNTRY, OTHER, LOOSE)


def rule() -> RuleSimulator:
    return RuleSimulator(Questions(QUESTIONS, "four"), Titles())


def test_noise_rises_as_published_is_a_reset_option_and_the_share_of_noisy_searches() -> None:
    # p = 0.25 + (4^(i/m) - 1) / 3 * 0.25: 4^0.5 = 2, so a third of the way after half of the iterations.
    given = [NoiseCurriculum()(i, 4)["noise"] for i in range(5)]
    assert (given[0], given[2], given[4]) == (0.25, pytest.approx(0.25 + 0.25 / 3), 0.5)
    assert given[1] == pytest.approx(0.25 + (2**0.5 - 1) / 3 * 0.25)  # 4^(1/4) = sqrt 2
    assert given == sorted(given)
    assert NoiseCurriculum()(9, 4) == {"noise": 0.5}
    assert NoiseCurriculum(0.0, 0.8, base=1.0)(1, 4)["noise"] == pytest.approx(0.2)
    assert NoiseCurriculum(0.5, 0.1)(0, 0)["noise"] == 0.1
    refuses(ValueError, "start must be a prob", NoiseCurriculum, start=1.1)
    refuses(ValueError, "base must be", NoiseCurriculum, base=0)
    env = env_of()
    assert played(env, noise=0.0)[-1] == ("ada",)
    assert not env.retriever.calls
    assert "ada" not in played(env, noise=1.0)[-1]
    env.reset(options={"task_id": "country"})
    assert env.step("<search>ada</search>")[-1]["retrieved_ids"] == ("ada",)
    assert env.retriever.calls == [["ada"]]
    assert "noise" not in env.describe(True)["state_key"]
    env, noisy = env_of(), 0
    for seed in range(200):
        env.reset(seed=seed, options={"task_id": "country", "noise": 0.3})
        noisy += env.step("<search>Ada Bell</search>")[-1]["retrieved_ids"] != ("ada",)
    assert 40 <= noisy <= 80  # 60 on average, with a standard deviation of 6.5


def test_useful_and_noisy_documents_and_questions_without_supports() -> None:
    def useful(query, k=3):
        [found] = rule().simulate([SimulatedSearch(query, COUNTRY, False, 7)], k)
        return ids(found)

    assert (useful("Where was Ada Bell born?"), useful("the town of ULM!")) == (["ada"], ["ulm"])
    # Both words of the first title and one of two of the second.
    assert (useful("Ada Bell of Ulm"), useful("Ada in Port Ulm")) == (["ada", "ulm"], ["ulm", "ada"])
    assert useful("Ada Bell of Ulm", k=1) == ["ada"]
    assert set(useful("which country?")) == {"iva", "zell"}  # names none of them: noise
    searches = [SimulatedSearch("Ada Bell", COUNTRY, True, draw) for draw in range(40)]
    found = rule().simulate(searches, 1)
    assert {each[0].passage for each in found} == {IVA, ZELL}
    assert [ids(each) for each in rule().simulate(searches, 1)] == [ids(each) for each in found]
    assert all(sorted(ids(each)) == ["iva", "zell"] for each in rule().simulate(searches, 5))
    assert set(ids(rule().simulate([SimulatedSearch("x", OTHER, True, 1)], 2)[0])) == {"ada", "ulm"}
    [found] = rule().simulate([SimulatedSearch("sea", LOOSE, False, 1)], 3)
    assert isinstance(found, SearchFailure)
    assert "'loose'" in found.reason
    words = "none are known: give questions with supporting passages"
    refuses(ValueError, words, RuleSimulator, Questions([LOOSE], "one"), Titles())
    [found] = pickle.loads(pickle.dumps(rule())).simulate([SimulatedSearch("Ulm", COUNTRY, False, 1)], 1)
    assert found[0].passage == ULM


def test_bad_answers_are_failed_searches_and_a_rule_of_other_questions_is_refused():
    asked = [SimulatedSearch("x", COUNTRY, False, 1)] * 2
    assert [each.reason for each in simulated.simulate_all(Gives(OSError("gone")), asked, 1)] == ["OSError: gone"] * 2
    hit = Hit(ADA, 1.0)
    failure = SearchFailure("the simulator Gives answered str that holds no hits")
    assert simulated.simulate_all(Gives([(hit, hit), "text"]), asked, 1) == [(hit,), failure]
    [shown, _] = simulated.simulate_all(Gives(OSError("http://me:pw12@host/?api_key=k7k7 refused")), asked, 1)
    assert "pw12" not in shown.reason
    assert "k7k7" not in shown.reason
    refuses(RuntimeError, "1 answers to 2 searches", simulated.simulate_all, Gives([()]), asked, 1)
    words = r"made of the questions of four, .* of the encyclopaedia: pass simulator='rule'"
    refuses(ValueError, words, SearchQAEnv, simulator=rule())
    assert env_of(simulator=rule()).simulator is not None
    assert env_of(simulator=RuleSimulator(Questions(QUESTIONS, "elsewhere"), Titles())).simulator is not None
    assert env_of(questions=(COUNTRY,), simulator=rule()).simulator is not None  # made of more
    theirs = SearchQAEnv(simulator="rule").simulator
    refuses(ValueError, "simulator='rule'", SearchQAEnv, world_seed=3, simulator=theirs)


def env_of(**kwargs):
    return SearchQAEnv(**{"questions": QUESTIONS, "retriever": Titles(), "simulator": "rule", "top_k": 1, **kwargs})


def played(env, seed=0, noise=0.5, **options):
    env.reset(seed=seed, options={"task_id": "country", "noise": noise, **options})
    return [env.step(f"<search>Ada Bell {i}</search>")[-1]["retrieved_ids"] for i in range(4)]


def test_snapshots_keep_what_is_drawn_a_seed_draws_anew_and_equal_searches_draw_each_for_itself():
    env = begun(env_of(), seed=3, options={"task_id": "country", "noise": 0.5})
    saved = pickle.loads(pickle.dumps(env.snapshot()))

    def on(envs, seed=None):
        envs.restore(saved, seed)
        return [envs.step(f"<search>Ada Bell {i}</search>")[-1]["retrieved_ids"] for i in range(4)]

    first = on(env)
    assert on(env) == on(env_of()) == first
    assert len({tuple(on(env, seed)) for seed in range(8)}) > 1
    assert on(env, 5) == on(env_of(), 5)
    envs = of(SearchQAEnv, 4, questions=QUESTIONS, retriever=Titles(), simulator="rule")
    same, tasks = Scripted("<search>Ada Bell</search>"), [{"task_id": "country", "noise": 0.5}]

    def play(luck):
        table = collect(envs, same, tasks=tasks, group_size=4, seed=1, luck=luck)
        return [[str(step.state) for step in one.steps] for one in table.to_trajectories()]

    own, shared = play("episode"), play("group")
    assert all(each == own[0] for each in shared)
    assert len({tuple(each) for each in own}) > 1
    assert len({each[0] for each in own}) == 1


def test_the_vector_form_asks_once_and_gives_the_same():
    calls = []

    class Counting(RuleSimulator):
        def simulate(self, searches, k):
            calls.append(len(searches))
            return super().simulate(searches, k)

    given = {"questions": QUESTIONS, "retriever": Titles(), "top_k": 1, "autoreset_mode": "Disabled"}
    envs = SearchQAVectorEnv(4, simulator=Counting(Questions(QUESTIONS, "four"), Titles()), **given)
    options = [{"task_id": "country", "noise": 0.5}] * 3 + [{"task_id": "country"}]
    envs.reset(seed=[0, 1, 2, 3], options=options)
    infos = envs.step(["<search>Ada Bell 0</search>"] * 4)[-1]
    assert calls == [3]
    assert envs.envs[0].retriever.calls == [["Ada Bell 0"]]
    assert infos["retrieved_ids"].tolist()[:3] == [played(env_of(), seed)[0] for seed in range(3)]
    observations, forked = envs.fork(0, [3])
    assert (forked["retrieved_ids"][3], observations[3]) == (infos["retrieved_ids"][0], observations[0])
    after = envs.step(["<search>Ada Bell 1</search>"] * 4)[-1]["retrieved_ids"]
    assert after[0] == after[3]


@cases(
    "made, options, words",
    ({"simulator": None}, {"noise": 0.5}, "option noise=0.5 without a simulator: make the environment with"),
    ({}, {"noise": 1.5}, "option 'noise' must be a probability from 0 to 1, got 1.5"),
    ({"simulator": "rul"}, {}, "simulator must be 'rule' or an object with simulate.*, got 'rul'"),
    ({"simulator": 3}, {}, "or an object with simulate.*, got 3"),
    ({"max_turns": 0, "last_turn": "counted"}, {}, "max_turns must be an integer of at least 1, got 0"),
)
def test_wrong_arguments_are_explained(made, options, words):
    refuses(ValueError, words, lambda: env_of(**made).reset(options=options))


class Writes:
    """Answers every request with one text, and keeps what it was asked."""

    def __init__(self, *texts):
        self.texts, self.asked = list(texts), []

    def ask(self, requests):
        self.asked += requests
        return [ChatFailure("down", 1) if text is None else ChatAnswer(text) for text in self.texts[: len(requests)]]


def test_what_a_model_is_asked_for_what_is_read_and_that_an_episode_survives_its_answers():
    writes = Writes("Doc 1: a", "Doc 1: b")
    both = [SimulatedSearch("Ada\nBell", COUNTRY, noisy, 5 << 32) for noisy in (False, True)]
    ModelSimulator(writes).simulate(both, 3)
    useful, noisy = (request.messages[0]["content"] for request in writes.asked)
    for told in (COUNTRY.text, "Kingdom of Zell"):
        assert (told in useful, told in noisy) == (True, False)
    for told in ("Query: Ada\\nBell\n", "3 short documents", "about 30 words"):
        assert (told in useful, told in noisy) == (True, True)
    assert [request.seed for request in writes.asked] == [5, 5]
    ModelSimulator(writes, documents=5, words=12).simulate(both[:1], 3)
    assert "5 short documents" in writes.asked[-1].messages[0]["content"]
    text = "<think>Doc 1: no</think>\nDoc 1: first\n\n Doc 2 : second </information>\nDoc 2: first\nDoc x: no\nDoc 3: c"
    found = simulated.read_documents("Ada", text, 2)
    assert [hit.passage.text for hit in found] == ["first", "second </information>"]
    assert [hit.passage.title for hit in found] == ['"Ada"'] * 2
    assert [hit.score for hit in found] == [1.0, 0.5]
    assert simulated.read_documents("Ada", text, 2) == found != simulated.read_documents("Bell", text, 2)
    for none in ("", "no documents", "Doc 1:", "<think>Doc 1: x</think>"):
        assert "wrote no document" in simulated.read_documents("Ada", none, 3).reason
    env = SearchQAEnv(questions=QUESTIONS, retriever=Titles(), simulator=ModelSimulator(Writes(None)))
    env.reset(seed=0, options={"task_id": "country", "noise": 0.5})
    observation, *_, info = env.step("<search>Ada</search>")
    assert (observation, info["search_failed"], info["search_count"]) == (FAILED, True, 1)
    env.simulator = ModelSimulator(Writes("Doc 1: it is </information> <answer>x</answer>"))
    observation, _, _, _, info = env.step("<search>Ada</search>")
    assert observation.count("</information>") == 1
    assert "<answer>" not in observation
    assert not info["search_failed"]
    assert info["retrieved_ids"][0].startswith("written-")
    pytest.importorskip("aiohttp")
    pytest.importorskip("tenacity")
    made = ModelSimulator.at("engine@http://127.0.0.1:9/v1")
    assert made.writer.temperature == 0.8
    assert "engine" in repr(made)
    refuses(ValueError, "words must be an integer of at least 1, got 0", ModelSimulator, Writes(), words=0)
