"""The given questions of seven sources over the given corpus."""

from collections import Counter

import pytest

from agentgym.searchqa.env import SearchQAEnv
from agentgym.searchqa.official.questions import SOURCES, read_questions
from tests.agentgym.searchqa.corpus_files import find


@pytest.fixture(scope="module")
def files():
    return find("corpus.jsonl.xz"), find("questions.jsonl.xz")


def test_all_questions_of_all_sources_are_read(files):
    questions = read_questions(files[1])
    assert len(questions) == 8881
    assert sum(bool(question.supports) for question in questions) == 3455
    counts = Counter(question.source for question in questions)
    assert set(counts) == set(SOURCES)
    assert [counts[source] for source in SOURCES] == [2970, 633, 624, 2072, 1324, 1133, 125]


@pytest.mark.slow
def test_episodes_over_the_given_corpus(files):
    corpus, questions = files
    env = SearchQAEnv(corpus=corpus, questions=questions, retriever="lexical", top_k=3, split="train", expert=True)
    task = "hotpot-5a84690c5542992ef85e23ea"
    observation, info = env.reset(options={"split": "train", "task_id": task})
    assert observation.startswith("Amazon Prime Air is a cargo airline")
    commands = []
    while info["expert_action"]:
        commands.append(info["expert_action"])
        info = env.step(commands[-1])[-1]
    assert info["won"]
    assert info["support_recall"] == 1.0
    assert commands[-1] == "<answer> Airborne Express </answer>"
    easy = SearchQAEnv(corpus=corpus, questions=questions, answerable=True)
    assert 4700 < len(easy.questions.all) < 4850  # 3,455 by their passages, the others by what BM25 finds
