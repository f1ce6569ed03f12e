"""Files of passages and questions, which of them are tasks."""

import gzip
import json
import lzma
import pickle
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from agentgym.outside.text import DataError
from agentgym.searchqa.env import SearchQAEnv
from agentgym.searchqa.official import SOURCES, PassageReader, check_passages, read_passages, read_questions
from agentgym.searchqa.question import Question, check_questions, is_answerable
from agentgym.searchqa.retriever import Passage, SearchFailure
from agentgym.searchqa.tasks import Questions
from tests.agentgym.searchqa.support import COUNTRY, LOOSE, PASSAGES, QUESTIONS, WHERE, Gives, Titles, write_corpus
from tests.cases import cases
from tests.oracles import oracle
from tests.refusals import refuses

ROWS = b"""{"id": "a", "contents": "\\"Caf\\u00e9\\"\\nCoffee."}

{"id": 7, "contents": "No text", "source": "x"}
"""
TWO = (Passage("a", '"Café"\nCoffee.'), Passage("7", "No text"))


@pytest.mark.parametrize(("name", "pack"), [("c.jsonl", bytes), ("c.jsonl.xz", lzma.compress), ("c.gz", gzip.compress)])
def test_rows_of_all_formats_are_read_in_order(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(ROWS))
    assert read_passages(path) == TWO
    assert [(each.title, each.text) for each in TWO] == [('"Café"', "Coffee."), ("No text", "")]
    reader = PassageReader(path, start=1)
    assert (tuple(reader), reader.fraction) == (TWO[1:], 1.0)


def test_passages_have_one_id_each_and_are_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "1", "contents": "A"}\n{"id": 1, "contents": "B"}\n', encoding="utf-8")
    refuses(DataError, "lines 1 and 2 have the same id '1'", read_passages, path)
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "\\udfff", "contents": "T\\n\\ud800 \\u001b[2J \\u0000"}\n')
    assert read_passages(path) == (Passage("\ufffd", "T\n\ufffd \ufffd[2J \ufffd"),)
    with open(path, "ab") as stream:
        stream.write(b'\n{"id": "\\udffe", "contents": "B"}\n')  # the same id once it is clean
    refuses(DataError, "lines 1 and 3 have the same id", read_passages, path)
    assert check_passages([Passage("\ud800", "a\udfff")]) == (Passage("\ufffd", "a\ufffd"),)


@pytest.mark.parametrize("given", [[Passage("1", 2)], [Passage(None, "x")], ["text"], [("1", "x")]])  # type: ignore[arg-type]
def test_passages_given_are_texts(given: list[Any]) -> None:
    refuses(DataError, "passage 0 \\(from 0\\) must be a Passage of two texts", check_passages, given)


FLASHRAG = {"id": "dev_0", "question": "Who?", "golden_answers": ["Ada", "The"], "metadata": {"x": 1}}
VERL = {
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer the given question. Question: For example? Question: Where?\n"}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Ulm"]}},
    "extra_info": {"split": "train", "index": 3},
}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rows_of_all_formats_and_ids_of_several_sources(tmp_path) -> None:
    (tmp_path / "dev.jsonl.xz").write_bytes(lzma.compress(json.dumps(FLASHRAG).encode()))
    assert read_questions(tmp_path / "dev.jsonl.xz") == (Question("dev_0", "Who?", ("Ada",), "questions", "dev"),)
    assert read_questions(write(tmp_path / "any.jsonl", VERL)) == (Question("3", "Where?", ("Ulm",), "nq", "train"),)
    path = tmp_path / "q.jsonl"
    row = {
        "id": 5, "data_source": "hotpotqa", "split": "eval", "question": " Both? ",
        "golden_answers": "a b<|answer_split|>c", "supporting_ids": ["7", 8], "type": "bridge", "level": None,
    }  # fmt: skip
    assert read_questions(write(path, row)) == (
        Question("5", "Both?", ("a b", "c"), "hotpotqa", "eval", ("7", "8"), "bridge"),
    )
    rows = [{**VERL, "data_source": source} for source in ("nq", "popqa")]
    assert [each.id for each in read_questions(write(path, *rows))] == ["nq/3", "popqa/3"]
    rows = [{**VERL, "extra_info": {"split": split, "index": 3}} for split in ("train", "test")]
    assert [each.id for each in read_questions(write(path, *rows))] == ["train/nq/3", "test/nq/3"]
    rows = [{**FLASHRAG, "golden_answers": ["The", "?"]}, {**FLASHRAG, "id": "2"}]
    assert [question.id for question in read_questions(write(path, *rows))] == ["2"]
    refuses(DataError, "no row that is a question", read_questions, write(path, rows[0]))


def test_parquet_is_read_like_json(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist([VERL]), tmp_path / "train.parquet")
    assert read_questions(tmp_path / "train.parquet") == (Question("3", "Where?", ("Ulm",), "nq", "train"),)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not")
    refuses(DataError, "expected a Parquet file", read_questions, tmp_path / "bad.parquet")


@pytest.mark.parametrize("what", ["long text", "many rows", "many answers"])
def test_a_parquet_file_is_unpacked_up_to_a_limit(tmp_path, what):
    """Each takes less than 100 kB, and gigabytes of memory when it is unpacked."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    if what == "many answers":
        lists = arrow.ListArray.from_arrays(arrow.array([0, 9_000_000], arrow.int32()), arrow.nulls(9_000_000))
        table = arrow.table({"question": ["Where?"], "golden_answers": lists})
    else:
        count, text = (9_000_000, "Where?") if what == "many rows" else (20_000, "Where? " * 10_000)
        alike = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(count, np.int32)), arrow.array([text]))
        answers = arrow.DictionaryArray.from_arrays(alike.indices, arrow.array(["Ulm"]))
        table = arrow.table({"question": alike, "golden_answers": answers})
    parquet.write_table(table, tmp_path / "x.parquet", store_schema=False)
    refuses(DataError, r"x\.parquet: unpacks to more than 67,108,864 bytes", read_questions, tmp_path / "x.parquet")


@cases(
    "read, row, words",
    (read_passages, b"{", "not JSON"),
    (read_questions, b'{"id": 1', "not JSON"),
    (read_passages, b"\xff\xfe", "not UTF-8"),
    (read_questions, b'{"question": "\xff"}', "not UTF-8"),
    (read_passages, {"id": "i" * 1001}, "field 'id' has 1,001 characters, at most 1,000"),
    (read_passages, {"id": "b", "contents": "x" * 1_000_001}, "field 'contents' has 1,000,001 characters"),
    (read_passages, b'["a", "b"]', "expected an object with 'id' and 'contents', got list"),
    (read_questions, b"[1]", "expected an object, got list"),
    (read_passages, b'{"contents": "x"}', "no field 'id'; the row has \\['contents'\\]"),
    (read_passages, {"id": True}, "field 'id' must be a string or an integer, got True"),
    (read_passages, {"id": "b", "contents": " \n"}, "field 'contents' is blank"),
    (read_questions, {"question": " "}, "no question; expected a text in 'question'"),
    (read_questions, {"golden_answers": None}, "field 'golden_answers' must be a list of texts, got None"),
    (read_questions, {"golden_answers": [["x"]]}, "field 'golden_answers' must be a list of texts"),
    (read_questions, {"golden_answers": [True]}, "field 'golden_answers' must be a list of texts"),
    (read_questions, {"supporting_ids": {"a": 1}}, "field 'supporting_ids'"),
    *((read_questions, {"id": name}, "field 'id' must be a text") for name in ([1], 1.5, True)),
    (read_questions, {"data_source": {"a": 1}}, "field 'data_source' must be"),
    (read_questions, {"split": ["dev"]}, "field 'split' must be"),
    (read_questions, {"question": "x" * 100_001}, "field 'question' has 100,001 characters"),
    (read_questions, {"golden_answers": ["x" * 100_001]}, "field 'golden_answers' has 100,001"),
    ids=lambda value: getattr(value, "__name__", str(value)[:40]),
)
def test_a_bad_row_is_named_by_file_line_and_field(tmp_path, read, row, words):
    path, good = tmp_path / "q.jsonl", {**FLASHRAG, "contents": "A"}
    bad = row if isinstance(row, bytes) else json.dumps({**good, **row}).encode()
    path.write_bytes(json.dumps(good).encode() + b"\n\n" + bad + b"\n")
    refuses(DataError, f"{re.escape(str(path))}, line 3: {words}", read, path)


@pytest.mark.parametrize("read", [read_passages, read_questions])
def test_files_that_cannot_be_read_and_equal_ids_are_named(tmp_path, read) -> None:
    refuses(DataError, "cannot be read.*No such file", read, tmp_path / "none.jsonl")
    refuses(DataError, "cannot be read.*Is a directory", read, tmp_path)
    row = json.dumps({**VERL, "id": "a", "contents": "A"}).encode() + b"\n"
    for name, content, words in (
        ("short.xz", lzma.compress(row * 99)[:-20], "cannot be read"),
        ("large.gz", gzip.compress(row + b" " * 80_000_000), r"large\.gz cannot be read.*unpacks to more than"),
        ("empty.jsonl", b"\n", "holds no passages|no row that is a question"),
        ("same.jsonl", b"\n" + row + b"\n" + row, r"same\.jsonl[,:] lines 2 and 4(: the id '| have the same id 'a')"),
    ):
        (tmp_path / name).write_bytes(content)
        refuses(DataError, words, read, tmp_path / name)


def test_texts_of_questions_are_cleaned(tmp_path):
    row = '{"id": "\\ud800", "question": "Who \\udfff\\u0007?", "golden_answers": ["\\ud801"], "type": "\\u0000"}'
    (tmp_path / "q.jsonl").write_text(row)
    expected = Question("\ufffd", "Who \ufffd\ufffd?", ("\ufffd",), "questions", "test", (), "\ufffd")
    assert read_questions(tmp_path / "q.jsonl") == (expected,)
    given = Question("\ud800", "Who \udfff\x07?", ("\ud801",), "questions", "test", (), "\x00")
    assert check_questions([given]) == (expected,)
    refuses(DataError, r"question 0 .* expected texts", check_questions, [Question(3, "Who?", ("x",), "s", "test")])


@pytest.mark.parametrize("golds", ["Rome", (), ("the", "?"), (3,)])
def test_a_question_needs_a_golden_answer(golds: object) -> None:
    refuses(DataError, r"question 0 \(from 0\)", check_questions, [Question("q", "Where?", golds, "s", "test")])


def test_all_questions_of_all_sources_are_read():
    questions = read_questions(oracle("searchqa", "questions.jsonl.xz"))
    assert len(questions) == 8881
    assert sum(bool(question.supports) for question in questions) == 3455
    counts = Counter(question.source for question in questions)
    assert set(counts) == set(SOURCES)
    assert [counts[source] for source in SOURCES] == [2970, 633, 624, 2072, 1324, 1133, 125]


@pytest.mark.slow
def test_episodes_over_the_given_corpus():
    corpus, questions = (oracle("searchqa", f"{name}.jsonl.xz") for name in ("corpus", "questions"))
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


def test_tasks_are_counted_within_sources_and_kinds():
    questions = Questions(QUESTIONS, "mine")
    tasks = questions.narrowed()
    assert (tasks.splits, tasks.count("train")) == (("test", "train"), 2)
    assert list(tasks.ids("train")) == ["where", "country"]
    assert tasks.by_index("train", 1) is COUNTRY
    some = questions.narrowed(("two_hop",))
    assert (some.count("train"), some.count("test"), some.by_index("train", 0)) == (1, 0, COUNTRY)
    assert some.by_id("where", None) is WHERE  # ids are those of all questions
    assert some.by_id("loose", "test") is LOOSE
    with pytest.raises(IndexError):
        some.by_index("train", 1)
    assert questions.narrowed(("two_hop",)) is some


@pytest.mark.parametrize("module", [pickle, cloudpickle])
def test_an_environment_goes_to_another_process_as_a_recipe(module):
    env = gym.make("AgentRL/SearchQA-v0", expert=True)
    env.reset(seed=1)
    data = module.dumps(env)
    assert len(data) < 2_000_000  # passages, but not the 32,000 questions and no index
    one, other = module.loads(data), module.loads(data)
    assert one.step("<search>founded town</search>") == env.step("<search>founded town</search>")
    assert one.unwrapped.retriever is other.unwrapped.retriever


def test_questions_of_a_file_are_read_again(tmp_path):
    path = write(tmp_path / "dev.jsonl", FLASHRAG)
    env = SearchQAEnv(corpus=write_corpus(tmp_path / "c.jsonl", PASSAGES), questions=path)
    data = pickle.dumps(env.questions)
    assert b"Who?" not in data
    assert pickle.loads(data).all == read_questions(path)
    assert pickle.loads(pickle.dumps(env)).reset(seed=0)[0] == "Who?"


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
    broken = Gives([SearchFailure("down")])
    refuses(RuntimeError, "down", is_answerable, [Question("1", "x", ("y",), "s", "test")], broken)
