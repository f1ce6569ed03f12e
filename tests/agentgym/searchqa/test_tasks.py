"""Which questions there are, and environments that go to another process."""

import pickle

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from agentgym.searchqa.env import SearchQAEnv
from agentgym.searchqa.official import read_questions
from agentgym.searchqa.question import Question, is_answerable
from agentgym.searchqa.retrieval.dense import DenseRetriever
from agentgym.searchqa.retriever import SearchFailure
from agentgym.searchqa.tasks import Questions
from tests.agentgym.searchqa.support import COUNTRY, LOOSE, PASSAGES, QUESTIONS, WHERE, Titles, write_corpus
from tests.agentgym.searchqa.test_official import FLASHRAG, write
from tests.refusals import refuses


def test_tasks_are_counted_within_sources_and_kinds():
    questions = Questions(QUESTIONS, "mine")
    tasks = questions.narrowed()
    assert (tasks.splits, tasks.count("train"), list(tasks.ids("train"))) == (
        ("test", "train"),
        2,
        ["where", "country"],
    )
    assert tasks.by_index("train", 1) is COUNTRY
    some = questions.narrowed(("two_hop",))
    assert (some.count("train"), some.count("test"), some.by_index("train", 0)) == (1, 0, COUNTRY)
    assert some.by_id("where", None) is WHERE  # ids are those of all questions
    assert some.by_id("loose", "test") is LOOSE
    with pytest.raises(IndexError):
        some.by_index("train", 1)
    assert questions.narrowed(("two_hop",)) is some


def play(envs, seed):
    _, infos = envs.reset(seed=seed)
    commands = ("<search>founded town</search>", "hm", "<answer>x</answer>")
    return repr([infos["task_id"], *[envs.step([command] * 2 if seed else command) for command in commands]])


@pytest.mark.parametrize("module", [pickle, cloudpickle])
@pytest.mark.parametrize("make", [lambda: SearchQAEnv(expert=True), lambda: gym.make("AgentRL/SearchQA-v0")])
def test_an_environment_goes_to_another_process_as_a_recipe(module, make):
    env = make()
    env.reset(seed=1)
    data = module.dumps(env)
    assert len(data) < 2_000_000  # passages, but not the 32,000 questions and no index
    copy = module.loads(data)
    assert play(copy, 0) == play(env, 0)
    assert module.loads(data).unwrapped.retriever is copy.unwrapped.retriever


def test_questions_of_a_file_are_read_again(tmp_path):
    path = write(tmp_path / "dev.jsonl", [FLASHRAG])
    corpus = write_corpus(tmp_path / "c.jsonl", PASSAGES)
    env = SearchQAEnv(corpus=corpus, questions=path)
    data = pickle.dumps(env.questions)
    assert b"Who?" not in data
    assert pickle.loads(data).all == read_questions(path)
    assert pickle.loads(pickle.dumps(env)).reset(seed=0)[0] == "Who?"


def test_a_dense_retriever_without_a_folder_says_why_it_cannot_be_pickled():
    pytest.importorskip("faiss")
    retriever = DenseRetriever(PASSAGES, lambda texts: np.ones((len(texts), 2), np.float32))
    refuses(TypeError, "from_folder", pickle.dumps, retriever)


def test_answerable_by_support_or_by_a_gold_that_is_found() -> None:
    asked = [
        Question("supported", "zzz", ("anything",), "s", "test", supports=("ada",)),
        Question("found", "ada", ("port ulm!",), "s", "test"),
        Question("not found", "ada", ("Zell",), "s", "test"),
        Question("part of a word", "ada", ("Ada Be",), "s", "test"),
        Question("closed", "ada", ("no",), "s", "test"),
        Question("second gold", "kingdom", ("pound", "Crown"), "s", "test"),
    ]
    assert is_answerable(asked, Titles(PASSAGES)) == [True, True, False, False, False, True]
    assert is_answerable([], Titles()) == []

    class Broken:
        def search(self, queries, k):
            return [SearchFailure("down")] * len(queries)

    refuses(RuntimeError, "down", is_answerable, [Question("1", "x", ("y",), "s", "test")], Broken())
