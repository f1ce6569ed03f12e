"""Question files of every form, what is wrong with others, and which questions can be answered."""

import gzip
import json
import lzma
import re

import numpy as np
import pytest

from agentgym.outside.text import DataError
from agentgym.searchqa.official.questions import read_questions
from agentgym.searchqa.question import Question, check_questions

FLASHRAG = {"id": "dev_0", "question": "Who?", "golden_answers": ["Ada", "The"], "metadata": {"x": 1}}
VERL = {
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer the given question. Question: For example? Question: Where?\n"}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Ulm"]}},
    "extra_info": {"split": "train", "index": 3},
}


def write(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    openers = {".xz": lzma.open, ".gz": gzip.open}
    with openers.get(path.suffix, open)(path, "wt", encoding="utf-8") as stream:
        stream.write(text)
    return path


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.xz", "dev.jsonl.gz"])
def test_flashrag_rows(tmp_path, name):
    assert read_questions(write(tmp_path / name, [FLASHRAG])) == (
        Question("dev_0", "Who?", ("Ada",), "questions", "dev"),
    )


def test_verl_rows(tmp_path):
    assert read_questions(write(tmp_path / "any.jsonl", [VERL])) == (Question("3", "Where?", ("Ulm",), "nq", "train"),)


def test_parquet_is_read_like_json(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist([VERL]), tmp_path / "train.parquet")
    assert read_questions(tmp_path / "train.parquet") == (Question("3", "Where?", ("Ulm",), "nq", "train"),)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not")
    with pytest.raises(DataError, match="expected a Parquet file"):
        read_questions(tmp_path / "bad.parquet")


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
    with pytest.raises(DataError, match=r"x\.parquet: unpacks to more than 67,108,864 bytes"):
        read_questions(tmp_path / "x.parquet")


def test_own_columns_and_separated_answers(tmp_path):
    row = {
        "id": 5, "data_source": "hotpotqa", "split": "eval", "question": " Both? ",
        "golden_answers": "a b<|answer_split|>c", "supporting_ids": ["7", 8], "type": "bridge", "level": None,
    }  # fmt: skip
    assert read_questions(write(tmp_path / "q.jsonl", [row])) == (
        Question("5", "Both?", ("a b", "c"), "hotpotqa", "eval", ("7", "8"), "bridge"),
    )


def test_a_row_that_an_empty_answer_would_win_is_left_out(tmp_path):
    rows = [{**FLASHRAG, "golden_answers": ["The", "?"]}, {**FLASHRAG, "id": "2"}]
    assert [question.id for question in read_questions(write(tmp_path / "q.jsonl", rows))] == ["2"]
    with pytest.raises(DataError, match="no row that is a question"):
        read_questions(write(tmp_path / "q.jsonl", rows[:1]))


def test_equal_ids_of_different_sources_are_told_apart(tmp_path):
    rows = [{**VERL, "data_source": source} for source in ("nq", "popqa")]
    assert [each.id for each in read_questions(write(tmp_path / "q.jsonl", rows))] == ["nq/3", "popqa/3"]
    rows = [{**VERL, "extra_info": {"split": split, "index": 3}} for split in ("train", "test")]
    assert [each.id for each in read_questions(write(tmp_path / "q.jsonl", rows))] == ["train/nq/3", "test/nq/3"]
    with pytest.raises(DataError, match="the id 'train/nq/3' occurs more than once"):
        read_questions(write(tmp_path / "q.jsonl", [VERL, VERL]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "line 2: expected an object, got list"),
        ({**FLASHRAG, "question": " "}, "line 2: no question; expected a text in 'question'"),
        ({**FLASHRAG, "golden_answers": None}, "line 2: field 'golden_answers' must be a list of texts, got None"),
        ({**FLASHRAG, "golden_answers": [["x"]]}, "line 2: field 'golden_answers'"),
        ({"question": "Who?"}, "line 2: field 'golden_answers'"),
        ({**FLASHRAG, "supporting_ids": {"a": 1}}, "line 2: field 'supporting_ids'"),
    ],
)
def test_a_bad_row_is_named(tmp_path, row, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_questions(write(tmp_path / "q.jsonl", [FLASHRAG, row]))


def test_bad_files_are_named(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"id": 1\n')
    with pytest.raises(DataError, match="line 1: not JSON"):
        read_questions(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "missing.jsonl")
    (tmp_path / "q.jsonl.xz").write_bytes(lzma.compress(b"{}" * 5000)[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "q.jsonl.xz")
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"question": "Who?", "golden_answers": ["a"], "id": NaN}', "NaN is not a JSON number"),
        ('{"question": "Who?", "golden_answers": ["a"], "id": 1e400}', "beyond all floats"),
        ('{"question": "Who?", "golden_answers": ["a"], "id": %s}' % ("1" * 5000), "an integer of 5000 digits"),
        ('{"question": "Who?", "golden_answers": ["a"], "id": [1]}', "field 'id' must be a text"),
        ('{"question": "Who?", "golden_answers": ["a"], "id": 1.5}', "field 'id' must be a text"),
        ('{"question": "Who?", "golden_answers": ["a"], "id": true}', "field 'id' must be a text"),
        ('{"question": "Who?", "golden_answers": ["a"], "data_source": {"a": 1}}', "field 'data_source' must be"),
        ('{"question": "Who?", "golden_answers": ["a"], "split": ["dev"]}', "field 'split' must be"),
        ('{"question": "Who?", "golden_answers": ["a"], "type": 0.5}', "field 'type' must be"),
        ('{"question": "Who?", "golden_answers": [true]}', "field 'golden_answers' must be a list of texts"),
        ('{"question": "%s", "golden_answers": ["a"]}' % ("x" * 100_001), "field 'question' has 100,001 characters"),
        ('{"question": "Who?", "golden_answers": ["%s"]}' % ("x" * 100_001), "field 'golden_answers' has 100,001"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_every_damage_is_named_by_file_and_line(tmp_path, row, message):
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(FLASHRAG) + "\n\n" + row + "\n")
    with pytest.raises(DataError, match=f"{re.escape(str(path))}, line 3: .*{message}"):
        read_questions(path)


def test_files_that_are_no_text_or_too_much_are_named(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_bytes(json.dumps(FLASHRAG).encode() + b'\n{"question": "\xff"}\n')
    with pytest.raises(DataError, match="line 2: not UTF-8"):
        read_questions(path)
    path = tmp_path / "q.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(FLASHRAG).encode() + b"\n" * 80_000_000))
    with pytest.raises(DataError, match=r"q\.jsonl\.gz cannot be read.*unpacks to more than"):
        read_questions(path)


def test_equal_ids_are_named_with_their_lines(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(["", json.dumps(VERL), "", json.dumps({**VERL, "question": "x"})]))
    with pytest.raises(DataError, match=r"q\.jsonl, lines 2 and 4: the id 'train/nq/3' occurs more than once"):
        read_questions(path)


def test_texts_are_cleaned(tmp_path):
    row = '{"id": "\\ud800", "question": "Who \\udfff\\u0007?", "golden_answers": ["\\ud801"], "type": "\\u0000"}'
    (tmp_path / "q.jsonl").write_text(row)
    expected = Question("\ufffd", "Who \ufffd\ufffd?", ("\ufffd",), "questions", "test", (), "\ufffd")
    assert read_questions(tmp_path / "q.jsonl") == (expected,)
    given = Question("\ud800", "Who \udfff\x07?", ("\ud801",), "questions", "test", (), "\x00")
    assert check_questions([given]) == (expected,)
    with pytest.raises(DataError, match=r"question 0 .* expected texts"):
        check_questions([Question(3, "Who?", ("x",), "s", "test")])


@pytest.mark.parametrize("golds", ["Rome", (), ("the", "?"), (3,)])
def test_a_question_needs_a_golden_answer(golds: object) -> None:
    with pytest.raises(DataError, match=r"question 0 \(from 0\)"):
        check_questions([Question("q", "Where?", golds, "s", "test")])  # type: ignore[arg-type]
