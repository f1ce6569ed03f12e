import pickle
from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import pytest

import agentgym  # noqa: F401  # registers the environments
from agentgym.outside.text import DataError
from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval import engines
from agentgym.searchqa.retrieval.engines import find_retriever
from agentgym.searchqa.retrieval.index_folder import build_index
from agentgym.searchqa.retrieval.lexical import LexicalRetriever
from agentgym.searchqa.retrieval.passage_file import PassageFile
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Found, Passage
from tests.agentgym.searchqa.corpus_files import WORDS, random_passages, write_corpus

PASSAGES = random_passages(30, seed=4)


class Own:
    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        return [() for _ in queries]


def test_a_retriever_of_ones_own_and_a_url_are_taken_as_they_are() -> None:
    own = Own()
    assert find_retriever(own, PASSAGES) is own
    remote = find_retriever("http://host:9/x", PASSAGES)
    assert isinstance(remote, HttpRetriever)
    assert remote.url == "http://host:9/x"


def test_environments_of_a_process_share_one_index_of_a_corpus(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "c.jsonl", PASSAGES)
    of_file = find_retriever("lexical", path)
    assert find_retriever("lexical", str(path)) is of_file
    of_passages = find_retriever("lexical", PASSAGES)
    assert find_retriever("lexical", PASSAGES) is of_passages
    assert find_retriever("lexical", list(PASSAGES)) is not of_passages
    folder = build_index(path, tmp_path / "index")
    of_folder = find_retriever("lexical", folder)
    assert find_retriever("lexical", folder) is of_folder
    for retriever in (of_file, of_passages, of_folder, pickle.loads(pickle.dumps(of_folder))):
        assert isinstance(retriever, LexicalRetriever)
        assert retriever.search(WORDS, 3) == LexicalRetriever(PASSAGES).search(WORDS, 3)
    write_corpus(path, PASSAGES[:10])
    changed = find_retriever("lexical", path)
    assert isinstance(changed, LexicalRetriever)
    assert len(changed.passages) == 10


def test_a_large_corpus_is_indexed_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_MOST_IN_MEMORY", 10)
    path = write_corpus(tmp_path / "c.jsonl", PASSAGES)
    monkeypatch.setenv("AGENTGYM_CACHE", "off")
    with pytest.raises(DataError, match="index_folder CORPUS FOLDER"):
        find_retriever("lexical", path)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    retriever = find_retriever("lexical", path)
    assert isinstance(retriever, LexicalRetriever)
    assert isinstance(retriever.passages, PassageFile)
    (folder,) = (tmp_path / "cache").glob("searchqa-c-*[0-9a-f]")
    assert retriever.passages.folder == folder


def test_a_link_that_leads_to_itself_is_no_corpus(tmp_path: Path) -> None:
    """It was a RuntimeError of the standard library."""
    path = tmp_path / "corpus.jsonl"
    path.symlink_to("corpus.jsonl")
    with pytest.raises((OSError, ValueError), match=r"corpus\.jsonl"):
        find_retriever("lexical", path)


def test_what_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'lexical'"):
        find_retriever("lexicl", PASSAGES)
    with pytest.raises(ValueError, match=r"must have search\(queries, k\)"):
        find_retriever(3, PASSAGES)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="No such file"):
        find_retriever("lexical", tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="holds no passages"):
        find_retriever("lexical", ())
    with pytest.raises(DataError, match="same id 'a'"):
        find_retriever("lexical", [Passage("a", "x"), Passage("a", "y")])
    with pytest.raises(ValueError, match="expected an index folder"):
        find_retriever("lexical", tmp_path)
    with pytest.raises(DataError, match="give its folder as the corpus"):
        find_retriever("lucene", PASSAGES)


@pytest.mark.parametrize("url", ["http://me:hush@127.0.0.1:1/retrieve", "http://127.0.0.1:1/retrieve?api_key=hush"])
def test_a_credential_in_a_url_is_refused_where_it_would_stay_in_a_spec(url: str) -> None:
    questions = [Question("1", "Who?", ("Ada",), "nq", "test")]
    with pytest.raises(ValueError, match=r"HttpRetriever\(url\)") as caught:
        gym.make("AgentRL/SearchQA-v0", questions=questions, retriever=url)
    assert "hush" not in str(caught.value)
    env = gym.make("AgentRL/SearchQA-v0", questions=questions, retriever=HttpRetriever(url))
    assert env.spec is not None
    assert b"hush" not in pickle.dumps(env.spec)
    assert "hush" not in repr(env.spec)
