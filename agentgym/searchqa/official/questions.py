"""Questions read from files, one row each: JSON lines or Parquet, in the columns of FlashRAG or of verl."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, clean_json, most_unpacked, read_json_lines
from agentgym.searchqa.question import MOST_TEXT, Question
from agentgym.searchqa.retriever import MOST_ID
from agentgym.searchqa.scoring import countable

#: The sources that papers evaluate on, in their order.
SOURCES = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
#: Split names that a file's name may give to rows that name none.
_STEMS = ("train", "dev", "validation", "valid", "eval", "test")
#: What stands between several answers in one string.
_SEPARATOR = "<|answer_split|>"
#: Rows of a Parquet file that are unpacked at a time, and the bytes that a value takes at least.
_BATCH, _VALUE = 256, 8
_FORMATS = ".jsonl, .jsonl.xz, .jsonl.gz, .jsonl.bz2 or .parquet"


def read_questions(path: str | os.PathLike[str]) -> tuple[Question, ...]:
    """Return the questions of a file, in its order.

    The columns are FlashRAG's (`id`, `question`, `golden_answers`, `metadata`) or verl's (`data_source`, `prompt`,
    `reward_model.ground_truth.target`, `extra_info.split`), and `supporting_ids` and `type` where they are there. Rows
    without a split have the one that the file is named after, else "test". Where rows of different sources have the
    same id, ids become "<source>/<id>". A row whose golden answers all normalise to nothing is left out: it would be
    won by an empty answer. Texts are `clean`.

    Args:
        path: a file of JSON lines (`.xz` and `.gz` are unpacked) or a Parquet file, which needs the package pyarrow.

    Raises:
        DataError: when the file cannot be read or a row is no question; the message names file, line (of a Parquet
            file the row) and field.
        ImportError: for a Parquet file without pyarrow.
    """
    path = Path(path).expanduser()
    questions, places = [], []
    stem = path.name.partition(".")[0]
    unit = "row" if path.suffix == ".parquet" else "line"
    for number, row in _rows(path):
        question = _question(row, f"{path}, {unit} {number}", stem)
        if question is not None:
            questions.append(question)
            places.append(number)
    if not questions:
        raise DataError(f"questions {path}: no row that is a question; expected rows with 'question' and answers")
    return _named_apart(questions, places, f"{path}, {unit}s")


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, row) of a file."""
    if path.suffix == ".parquet":
        yield from enumerate(_parquet(path), 1)
        return
    number = 0
    try:
        for number, row in read_json_lines(path):
            yield number, row
    except (OSError, DataError) as error:
        after = f" after line {number}" if number else ""
        raise DataError(
            f"questions {path} cannot be read{after} ({error}); expected a file of questions ({_FORMATS})"
        ) from error


def _parquet(path: Path) -> Iterator[Any]:
    """Yield the rows; a file of some hundred bytes can stand for millions of long ones."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install pyarrow (or give a .jsonl file)") from error
    try:
        most = most_unpacked(path.stat().st_size)
        with pyarrow.parquet.ParquetFile(path) as file:
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            columns = [group.column(number) for group in groups for number in range(group.num_columns)]
            size = sum(max(_VALUE * column.num_values, column.total_uncompressed_size) for column in columns)
            for batch in file.iter_batches(_BATCH) if size <= most else ():
                size += batch.nbytes
                if size > most:
                    break
                yield from clean_json(batch.to_pylist())
    except (OSError, ValueError, RecursionError, MemoryError, pyarrow.ArrowException) as error:
        raise DataError(f"questions {path} cannot be read ({error}); expected a Parquet file") from error
    if size > most:
        raise DataError(f"questions {path}: unpacks to more than {most:,} bytes; write it as .jsonl if you trust it")


def _question(row: Any, where: str, stem: str) -> Question | None:
    """Return the question of a row; None where no answer could ever be right."""
    if not isinstance(row, Mapping):
        raise DataError(f"questions {where}: expected an object, got {type(row).__name__}")
    verl = _mapping(_mapping(row.get("reward_model")).get("ground_truth"))
    extra = _mapping(row.get("extra_info"))
    golds = _texts(row.get("golden_answers", verl.get("target")), "golden_answers", where)
    text = _asked(row.get("prompt")) if row.get("question") is None else row["question"]
    if not isinstance(text, str) or not text.strip():
        raise DataError(
            f"questions {where}: no question; expected a text in 'question', or 'Question: ...' ending the 'prompt'; "
            f"the row has {sorted(map(str, row))!r:.300}"
        )
    _check_length(text, "question", where)
    split = row.get("split") or extra.get("split") or (stem if stem in _STEMS else "test")
    source = row.get("data_source") or "questions"
    named = next(each for each in (row.get("id"), extra.get("index"), where.rpartition(" ")[2]) if each is not None)
    names = {"id": named, "data_source": source, "split": split, "type": row.get("type") or ""}
    for field, name in names.items():
        if isinstance(name, bool) or not isinstance(name, (str, int)) or len(str(name)) > MOST_ID:
            raise DataError(
                f"questions {where}: field {field!r} must be a text of at most {MOST_ID:,} characters or an integer, "
                f"got {name!r:.100}"
            )
    supports = _texts(row.get("supporting_ids") or (), "supporting_ids", where)
    kept = countable(golds)
    named, source, split, kind = map(str, names.values())
    return Question(named, text.strip(), kept, source, split, supports, kind) if kept else None


def _check_length(text: str, field: str, where: str) -> None:
    if len(text) > MOST_TEXT:
        raise DataError(
            f"questions {where}: field {field!r} has {len(text):,} characters, at most {MOST_TEXT:,} are read"
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any, field: str, where: str) -> tuple[str, ...]:
    """Return a list of texts, or a text whose parts are separated."""
    if isinstance(value, str):
        value = value.split(_SEPARATOR)
    if not isinstance(value, Sequence) or not all(
        isinstance(each, (str, int)) and not isinstance(each, bool) for each in value
    ):
        raise DataError(f"questions {where}: field {field!r} must be a list of texts, got {_brief(value)}")
    texts = tuple([str(each) for each in value])
    _check_length(max(texts, key=len, default=""), field, where)
    return texts


def _brief(value: Any) -> str:
    """Return the beginning of what a value looks like; the deepest ones have no representation."""
    try:
        return f"{value!r:.100}"
    except RecursionError:
        return type(value).__name__


def _asked(prompt: Any) -> str | None:
    """Return what stands after the last "Question:" of a prompt."""
    messages = [message for message in prompt if isinstance(message, Mapping)] if isinstance(prompt, list) else []
    content = messages[-1].get("content") if messages else None
    return content.rpartition("Question:")[2] if isinstance(content, str) and "Question:" in content else None


def _named_apart(questions: list[Question], places: list[int], where: str) -> tuple[Question, ...]:
    if len({question.id for question in questions}) < len(questions):
        questions = [replace(question, id=f"{question.source}/{question.id}") for question in questions]
        if len({question.id for question in questions}) < len(questions):
            questions = [replace(each, id=f"{each.split}/{each.id}") for each in questions]
    first: dict[str, int] = {}
    for question, place in zip(questions, places, strict=True):
        if first.setdefault(question.id, place) != place:
            raise DataError(
                f"questions {where} {first[question.id]} and {place}: the id {question.id!r} occurs more than once; "
                "ids must be unique"
            )
    return tuple(questions)
