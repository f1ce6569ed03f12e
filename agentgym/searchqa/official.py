"""Passage and question files in the published formats: JSON lines, plain or compressed, and Parquet."""

import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.outside.packages import install
from agentgym.outside.text import DataError, Unpacked, clean_json, most_unpacked, read_json, read_json_lines
from agentgym.searchqa.question import MOST_TEXT, Question
from agentgym.searchqa.retriever import MOST_CONTENTS, MOST_ID, Passage
from agentgym.searchqa.scoring import countable

_FORMATS = ".jsonl, .jsonl.xz, .jsonl.gz or .jsonl.bz2"
#: Field, its types, their name, most characters.
_FIELDS: tuple[tuple[str, tuple[type, ...], str, int], ...] = (
    ("id", (str, int), "a string or an integer", MOST_ID),
    ("contents", (str,), "a string", MOST_CONTENTS),
)


class PassageReader:
    """The passages of a JSON-lines file (compressed too), read lazily, without the first `start`.

    A row has `id` (a string or an integer) and `contents` (title in the first line, then the text), as in Search-R1's
    files; other fields and blank lines are ignored. Errors are a `DataError` with file, line and field. `fraction` is
    the share of the file's bytes read, `line` the number of the last line.
    """

    def __init__(self, path: str | os.PathLike[str], start: int = 0) -> None:
        self.path = Path(path).expanduser()
        self._start = start
        self.fraction = 0.0
        self.line = 0

    def __iter__(self) -> Iterator[Passage]:
        return map(self._passage, self._rows())

    def _rows(self) -> Iterator[bytes]:
        self.line = seen = 0
        try:
            with Unpacked(self.path) as stream:
                for self.line, line in enumerate(stream, 1):
                    if line.isspace():
                        continue
                    seen += 1
                    if seen > self._start:
                        self.fraction = stream.fraction
                        yield line
        except (OSError, DataError) as error:
            after = f" after line {self.line}" if self.line else ""
            raise DataError(
                f"corpus {self.path} cannot be read{after} ({error}); expected a file of JSON lines ({_FORMATS}) with "
                "the fields 'id' and 'contents'"
            ) from error

    def lines(self, positions: Sequence[int]) -> list[int]:
        """Return the line numbers of passages by their positions from 0."""
        with Unpacked(self.path) as stream:
            filled = [number for number, line in enumerate(stream, 1) if not line.isspace()]
        return [filled[position] for position in positions]

    def _passage(self, line: bytes) -> Passage:
        where = f"corpus {self.path}, line {self.line}"
        try:
            row: Any = read_json(line)
        except DataError as error:
            raise DataError(f"{where}: {error}; expected an object with 'id' and 'contents'") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: expected an object with 'id' and 'contents', got {type(row).__name__}")
        for field, kinds, words, most in _FIELDS:
            if field not in row:
                raise DataError(f"{where}: no field {field!r}; the row has {sorted(row)!r:.300}")
            value = row[field]
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise DataError(f"{where}: field {field!r} must be {words}, got {value!r:.100}")
            if not str(value).strip():
                raise DataError(f"{where}: field {field!r} is blank")
            if len(str(value)) > most:
                raise DataError(
                    f"{where}: field {field!r} has {len(str(value)):,} characters, at most {most:,} are read"
                )
        return Passage(str(row["id"]), row["contents"])


def read_passages(path: str | os.PathLike[str]) -> tuple[Passage, ...]:
    """Return all passages of a corpus file that fits into memory; DataError for none or equal ids."""
    lines: dict[str, int] = {}
    passages = []
    reader = PassageReader(path)
    for passage in reader:
        first = lines.setdefault(passage.id, reader.line)
        if first != reader.line:
            raise same_id(f"{path}: lines {first} and {reader.line}", passage.id)
        passages.append(passage)
    check_some(len(passages), str(path))
    return tuple(passages)


def check_passages(passages: Sequence[Any]) -> tuple[Passage, ...]:
    """Return passages given as objects, cleaned; DataError unless they are texts with unique ids."""
    check_some(len(passages), "of passages given")
    positions: dict[str, int] = {}
    checked = []
    for position, each in enumerate(passages):
        if not (isinstance(each, Passage) and isinstance(each.id, str) and isinstance(each.contents, str)):
            raise DataError(f"passage {position} (from 0) must be a Passage of two texts, got {each!r:.100}")
        passage = each.cleaned()
        first = positions.setdefault(passage.id, position)
        if first != position:
            raise same_id(f"of passages given: passages {first} and {position} (from 0)", passage.id)
        checked.append(passage)
    return tuple(checked)


def check_some(count: int, name: str) -> None:
    """Raise a DataError if there are no passages."""
    if not count:
        raise DataError(f"corpus {name} holds no passages; expected rows with 'id' and 'contents'")


def same_id(where: str, named: str) -> DataError:
    """Return the error for two passages with one id."""
    return DataError(f"corpus {where} have the same id {named!r}; ids must be unique")


def corpus_state(corpus: Path) -> dict[str, Any]:
    """Return name, size in bytes and modification time of a file."""
    try:
        status = corpus.stat()
    except OSError as error:
        raise DataError(f"corpus {corpus} cannot be read ({error.strerror})") from error
    return {"name": corpus.name, "bytes": status.st_size, "written": status.st_mtime_ns}


#: Evaluation sources of the papers, in their order.
SOURCES = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
#: Splits that may be taken from a file's name.
_STEMS = ("train", "dev", "validation", "valid", "eval", "test")
#: Separates several answers in one string.
_SEPARATOR = "<|answer_split|>"
#: Parquet rows unpacked at a time, and least bytes of a value.
_BATCH, _VALUE = 256, 8
_QUESTION_FORMATS = ".jsonl, .jsonl.xz, .jsonl.gz, .jsonl.bz2 or .parquet"


def read_questions(path: str | os.PathLike[str]) -> tuple[Question, ...]:
    """Return the questions of a file: JSON lines (compressed too), or Parquet (needs pyarrow).

    Columns are FlashRAG's (`id`, `question`, `golden_answers`, `metadata`) or verl's (`data_source`, `prompt`,
    `reward_model.ground_truth.target`, `extra_info.split`), optionally with `supporting_ids` and `type`. The default
    split is the one in the file's name, else "test". Ids that several sources share become "<source>/<id>". Rows whose
    golden answers all normalise to nothing are left out. Errors are a `DataError` with file, line (or row) and field.
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
            f"questions {path} cannot be read{after} ({error}); expected a file of questions ({_QUESTION_FORMATS})"
        ) from error


def _parquet(path: Path) -> Iterator[Any]:
    """Yield the rows in batches, since a small file can hold millions of long ones."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: {install('parquet')} (or give a .jsonl file)") from error
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
    """Return the question of a row; None if no answer can be right."""
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
    if isinstance(value, str):
        value = value.split(_SEPARATOR)
    if not isinstance(value, Sequence) or not all(
        isinstance(each, (str, int)) and not isinstance(each, bool) for each in value
    ):
        raise DataError(f"questions {where}: field {field!r} must be a list of texts, got {reprlib.repr(value)}")
    texts = tuple([str(each) for each in value])
    _check_length(max(texts, key=len, default=""), field, where)
    return texts


def _asked(prompt: Any) -> str | None:
    """Return the text after the last "Question:" of a prompt."""
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
