"""BM25 in memory, against a naive one, and the file of passages."""

import json
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.searchqa.official import read_passages
from agentgym.searchqa.retrieval.lexical import LexicalRetriever, PassageFile, PassageWriter
from agentgym.searchqa.retriever import Passage, Retriever
from tests.agentgym.searchqa.support import WORDS, naive_scores, random_passages, rows
from tests.oracles import oracle
from tests.refusals import refuses

PASSAGES = (
    Passage("0", '"Ada Lovelace"\nShe wrote the first program for an engine.'),
    Passage("1", '"Analytical Engine"\nA machine by Babbage, never finished; engines were costly.'),
    Passage("2", '"The Who"\nA band of London.'),
    Passage("3", '"Müller"\nAND OR NOT body:engine "quoted" (brackets) title^2 wild* fuzzy~1'),
)


@pytest.fixture(scope="module")
def retriever() -> LexicalRetriever:
    return LexicalRetriever(PASSAGES)


def ids(found: object) -> list[str]:
    assert isinstance(found, tuple)
    return [hit.passage.id for hit in found]


def test_words_are_stemmed_folded_and_found_in_titles_first(retriever: LexicalRetriever) -> None:
    assert isinstance(retriever, Retriever)
    engines, muller, finished = retriever.search(["ENGINES", "muller", "finishing"], k=4)
    # In passage 1 it is in the title too; passage 0 has 14 words (the title's two count thrice), passage 3 has 15.
    assert (ids(engines), ids(muller), ids(finished)) == (["1", "0", "3"], ["3"], ["1"])
    assert engines[0].passage == PASSAGES[1]
    the, the_band = retriever.search(["the", "the band"], k=4)
    assert set(ids(the)) == {"0", "2"}
    assert ids(the_band) == ["2"]
    assert retriever.search(["", "  ", "?!", "zebra", "x" * 100_000, "日本語"], k=3) == [()] * 6
    assert retriever.search([], k=3) == []
    filler = [f"w{i}" for i in range(128)]
    inside, outside = retriever.search([" ".join([*filler[:127], "ada"]), " ".join([*filler, "ada"])], k=1)
    assert (ids(inside), ids(outside)) == (["0"], [])
    again = pickle.loads(pickle.dumps(retriever))
    assert again.search(["engine", "band"], 3) == retriever.search(["engine", "band"], 3)
    refuses(TypeError, "sequence of strings", retriever.search, "engine", k=3)
    refuses(TypeError, "sequence of strings", retriever.search, ["engine", None], k=3)
    for k in (0, -1, True, 2.0):
        refuses(ValueError, "integer of at least 1", retriever.search, ["engine"], k=k)
    refuses(ValueError, "threads must be at least 1", LexicalRetriever, PASSAGES, threads=0)


@pytest.mark.parametrize(
    "query",
    [
        'engine"', "body:engine", "+engine -ada", "engine AND (", "engine*", "engine~2", "[engine TO", "engine^9",
        "NOT engine", "\\engine", "engine\x00", "engine \ud800", "/engine/", "{engine}", "IN [engine]", "*", "\nengine",
    ],
)  # fmt: skip
def test_no_character_is_query_syntax(retriever: LexicalRetriever, query: str) -> None:
    (found,) = retriever.search([query], k=4)
    (plain,) = retriever.search(["".join(c if c.isalnum() else " " for c in query)], k=4)
    assert found == plain
    assert ("1" in ids(found)) == ("engine" in query)


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 60),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    k=st.integers(1, 12),
)
def test_hits_are_those_of_naive_bm25_and_ties_keep_the_order_of_the_corpus(
    seed: int, count: int, query: str, k: int
) -> None:
    passages = random_passages(count, seed)
    expected = naive_scores(passages, query)
    (found,) = LexicalRetriever(passages).search([query], k)
    assert isinstance(found, tuple)
    positions = [int(hit.passage.id[1:]) for hit in found]
    assert len(found) == min(k, sum(score > 0 for score in expected))
    for hit, position in zip(found, positions, strict=True):
        # Tantivy sums in single precision, and four decimals stay.
        assert hit.score == pytest.approx(expected[position], abs=1e-4)
    assert [(-hit.score, p) for hit, p in zip(found, positions, strict=True)] == sorted(
        (-hit.score, p) for hit, p in zip(found, positions, strict=True)
    )
    left_out = [score for position, score in enumerate(expected) if position not in positions]
    if len(found) == k and left_out:
        assert max(left_out) <= found[-1].score + 1e-4
        # Of equal passages the first ones are taken.
        tied = [p for p, passage in enumerate(passages) if passage.contents == found[-1].passage.contents]
        assert positions[-1] in tied[: sum(p in positions for p in tied)]


def test_a_thousand_equal_passages_come_in_order() -> None:
    same = LexicalRetriever([Passage(f"p{i}", "Ka\nlo") for i in range(1000)])
    assert ids(same.search(["ka"], k=5)[0]) == [f"p{i}" for i in range(5)]
    assert ids(same.search(["lo ka"], k=2000)[0]) == [f"p{i}" for i in range(1000)]


def test_a_batch_gives_what_single_queries_give_whatever_the_threads() -> None:
    passages = random_passages(500, seed=3)
    queries = [f"{a} {b}" for a in WORDS for b in WORDS] * 2
    one = LexicalRetriever(passages, threads=1)
    expected = [one.search([query], 3)[0] for query in queries]
    for threads in (1, 2, 5):
        assert LexicalRetriever(passages, threads=threads).search(queries, 3) == expected
    shared = LexicalRetriever(passages, threads=2)
    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(lambda _: shared.search(queries, 3), range(8)))


def _search(retriever: LexicalRetriever, queries: list[str], answers: "multiprocessing.Queue[object]") -> None:
    answers.put(retriever.search(queries, 2))


def test_a_forked_process_searches_with_threads_of_its_own() -> None:
    queries = [f"{a} {b}" for a in WORDS for b in WORDS]
    retriever = LexicalRetriever(random_passages(100, seed=1), threads=2)
    expected = retriever.search(queries, 2)
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[object] = context.Queue()
    process = context.Process(target=_search, args=(retriever, queries, answers))
    process.start()
    assert answers.get(timeout=60) == expected
    process.join()


@pytest.mark.slow
def test_support_recall_on_the_recorded_questions() -> None:
    """Share of the gold passages among the first hits, mean over questions: at least 0.77 at three."""
    retriever = LexicalRetriever(read_passages(oracle("searchqa", "corpus.jsonl.xz")))
    questions = [row for row in rows("questions.jsonl.xz") if row["supporting_ids"]]
    assert len(questions) == 3_455
    found = retriever.search([row["question"] for row in questions], k=10)
    for k, least in ((3, 0.81), (10, 0.90)):
        gold = [set(row["supporting_ids"]) for row in questions]
        shares = [len(set(ids(hits)[:k]) & names) / len(names) for hits, names in zip(found, gold, strict=True)]
        assert sum(shares) / len(shares) >= least


WRITTEN = (Passage("a", '"Café"\nCoffee."'), Passage("7", "No text"))


def test_a_passage_file_gives_back_what_was_written(tmp_path: Path) -> None:
    written = (*WRITTEN, Passage("ü", 'line\u2028separator\n\x00 "quoted"\n\n'), Passage("end", "E\n" + "x" * 70_000))
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
    for passage in WRITTEN:
        first.append(passage)
    first.close()
    second = PassageWriter(tmp_path, keep)
    second.append(Passage("new", "New"))
    second.close()
    assert tuple(PassageFile(tmp_path)) == (*WRITTEN[:keep], Passage("new", "New"))


def test_files_that_do_not_belong_together_are_noticed(tmp_path: Path) -> None:
    writer = PassageWriter(tmp_path)
    writer.append(WRITTEN[0])
    writer.close()
    with open(tmp_path / "passages.jsonl", "ab") as stream:
        stream.write(b"x")
    refuses(ValueError, "is damaged", PassageFile, tmp_path)
    (tmp_path / "passages.ends").write_bytes(b"\0" * 9)
    refuses(ValueError, "is damaged: 9 bytes", PassageFile, tmp_path)


@pytest.mark.parametrize("row", [b"[", b'"x"', b"[1, 2]", b'["a"]', b'["a", "b", "c"]', b"[" * 100_000, b"\xff"])
def test_a_damaged_row_names_its_folder_and_position(tmp_path: Path, row: bytes) -> None:
    (tmp_path / "passages.jsonl").write_bytes(json.dumps(["a", "A"]).encode() + row)
    ends = (10, 10 + len(row))
    (tmp_path / "passages.ends").write_bytes(b"".join(end.to_bytes(8, "little") for end in ends))
    passages = PassageFile(tmp_path)
    assert passages[0] == Passage("a", "A")
    refuses(ValueError, f"{tmp_path} is damaged: passage 1 is no row of two texts", lambda: passages[1])
