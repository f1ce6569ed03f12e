import json
from pathlib import Path

import pytest

from agentgym.searchqa.retrieval.passage_file import PassageFile, PassageWriter
from agentgym.searchqa.retriever import Passage

PASSAGES = (Passage("a", '"Café"\nCoffee."'), Passage("7", "No text"))


def test_a_passage_file_gives_back_what_was_written(tmp_path: Path) -> None:
    written = (*PASSAGES, Passage("ü", 'line\u2028separator\n\x00 "quoted"\n\n'), Passage("end", "E\n" + "x" * 70_000))
    writer = PassageWriter(tmp_path)
    for passage in written:
        writer.append(passage)
    writer.close()
    passages = PassageFile(tmp_path)
    assert (len(passages), tuple(passages), passages[-1], list(passages[1:3])) == (
        4, written, written[-1], list(written[1:3]),
    )  # fmt: skip
    for position in (4, -5):
        with pytest.raises(IndexError, match=f"passage {position} of 4"):
            passages[position]


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_writing_goes_on_after_any_number_of_passages(tmp_path: Path, keep: int) -> None:
    first = PassageWriter(tmp_path)
    for passage in PASSAGES:
        first.append(passage)
    first.close()
    second = PassageWriter(tmp_path, keep)
    second.append(Passage("new", "New"))
    second.close()
    assert tuple(PassageFile(tmp_path)) == (*PASSAGES[:keep], Passage("new", "New"))


def test_files_that_do_not_belong_together_are_noticed(tmp_path: Path) -> None:
    writer = PassageWriter(tmp_path)
    writer.append(PASSAGES[0])
    writer.close()
    with open(tmp_path / "passages.jsonl", "ab") as stream:
        stream.write(b"x")
    with pytest.raises(ValueError, match="is damaged"):
        PassageFile(tmp_path)
    (tmp_path / "passages.ends").write_bytes(b"\0" * 9)
    with pytest.raises(ValueError, match="is damaged: 9 bytes"):
        PassageFile(tmp_path)


@pytest.mark.parametrize("row", [b"[", b'"x"', b"[1, 2]", b'["a"]', b'["a", "b", "c"]', b"[" * 100_000, b"\xff"])
def test_a_damaged_row_names_its_folder_and_position(tmp_path: Path, row: bytes) -> None:
    (tmp_path / "passages.jsonl").write_bytes(json.dumps(["a", "A"]).encode() + row)
    ends = (10, 10 + len(row))
    (tmp_path / "passages.ends").write_bytes(b"".join(end.to_bytes(8, "little") for end in ends))
    passages = PassageFile(tmp_path)
    assert passages[0] == Passage("a", "A")
    with pytest.raises(ValueError, match=f"{tmp_path} is damaged: passage 1 is no row of two texts"):
        passages[1]
