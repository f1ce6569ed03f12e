"""A simulated search engine that is a language model: it writes the documents that a search brings (ZeroSearch).

The prompts have the parts of ZeroSearch's prompted engine (query, question and golden answer, number of documents and
words in each, an answer in lines `Doc 1: ...`), in words of our own: useful documents are written with question and
answer at hand, noisy ones from the query alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Protocol, Self

from agentgym.checks import whole
from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import ChatAnswer, ChatFailure, ChatRequest
from agentgym.outside.text import clean, one_line
from agentgym.searchqa.retrieval.simulated import SimulatedSearch
from agentgym.searchqa.retriever import Found, Hit, Passage, SearchFailure

_FORM = (
    "Write {k} short documents as a search engine would list them for the query, of about {words} words each. "
    "{quality} Answer with nothing but the documents, one a line, as in\nDoc 1: the text of the first\nDoc 2: the text "
    "of the second\n\nQuery: {query}\n"
)
_USEFUL = (
    'They are useful: somebody who wants to know "{question}" (the answer is {answer}) finds in them what the query '
    "asks for."
)
_NOISY = "They are noisy: they have to do with the words of the query, and hold nothing of what it asks for."
_DOCUMENT = re.compile(r"^[ \t]*Doc[ \t]*(\d{1,3})[ \t]*:[ \t]*(\S.*)$", re.MULTILINE)
#: Characters of an answer that are read, and of a query that becomes a title.
_MOST_READ, _MOST_TITLE = 100_000, 200


class Writer(Protocol):
    """Who is asked: `agentgym.outside.chat.endpoint.ChatEndpoint`, or a policy behind the same method."""

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | ChatFailure]:
        """Return what is answered to each request, or why there is no answer."""


class ModelSimulator:
    """Asks a model for the documents of all searches of a step at the same time; see `Simulator`.

    Every request has a seed that follows from the search's draw: an endpoint that respects seeds answers equal searches
    alike in any process, and one with `cache=` keeps what it wrote. What the endpoint does not answer, and an answer
    without a document, is a failed search.

    A document's title is the query in quotation marks, and its id a digest of both.

    Args:
        writer: who is asked. ZeroSearch samples at a temperature of 0.8 and 600 tokens at most, see `at`.
        documents: how many are asked for; None for as many as are shown. (ZeroSearch asks for five and shows five.)
        words: about how many each is to have.

    Raises:
        ValueError: a number is less than 1.
    """

    def __init__(self, writer: Writer, *, documents: int | None = None, words: int = 30) -> None:
        self.writer = writer
        self.documents = None if documents is None else whole("documents", documents, 1)
        self.words = whole("words", words, 1)

    @classmethod
    def at(cls, name: str, **options: Any) -> Self:
        """Make the simulator that a name stands for, `MODEL@URL`; `options` are those of `ChatEndpoint`."""
        return cls(ChatEndpoint.at(name, **({"temperature": 0.8, "max_tokens": 600} | options)))

    def simulate(self, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
        """Answer searches; see `Simulator.simulate`."""
        count = self.documents or k
        answers = self.writer.ask([ChatRequest(self.messages(each, count), each.draw >> 32) for each in searches])
        return [
            SearchFailure(answer.reason)
            if isinstance(answer, ChatFailure)
            else read_documents(each.query, answer.text, k)
            for each, answer in zip(searches, answers, strict=True)
        ]

    def messages(self, search: SimulatedSearch, documents: int) -> list[dict[str, str]]:
        """Return what the model is asked for a search."""
        question = search.question
        useful = _USEFUL.format(question=one_line(question.text), answer=one_line(question.golds[0]))
        quality = _NOISY if search.noisy else useful
        text = _FORM.format(k=documents, words=self.words, quality=quality, query=one_line(search.query))
        return [{"role": "user", "content": text}]

    def __repr__(self) -> str:
        return f"ModelSimulator({self.writer!r}, documents={self.documents!r}, words={self.words})"


def read_documents(query: str, text: str, k: int) -> Found:
    r"""Return the documents in a model's answer, at most `k`, or a failure where there is none.

    A document is a line `Doc 1: ...`; other lines, and what was thought aloud before `</think>`, do not count.

    >>> found = read_documents("Ada", "Sure!\nDoc 1: Ada wrote.\nDoc 2: So she did.\nDoc 3: Yes.", 2)
    >>> [hit.passage.contents for hit in found]
    ['"Ada"\nAda wrote.', '"Ada"\nSo she did.']
    """
    written = clean(text, _MOST_READ).rpartition("</think>")[2]
    texts = list(dict.fromkeys([match[2].strip() for match in _DOCUMENT.finditer(written)]))[:k]
    if not texts:
        return SearchFailure(f"the model wrote no document (a line such as `Doc 1: ...`): {written[:200]!r}")
    title = f'"{one_line(query)[:_MOST_TITLE]}"'
    return tuple([Hit(_passage(title, each), 1.0 / place) for place, each in enumerate(texts, 1)])


def _passage(title: str, text: str) -> Passage:
    contents = f"{title}\n{text}"
    return Passage(f"written-{hashlib.blake2b(contents.encode(errors='replace'), digest_size=8).hexdigest()}", contents)
