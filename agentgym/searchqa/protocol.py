"""The two published protocols: how a reply is read as a command, and what is shown.

"searchr1" is the one of Search-R1, "verl_agent" the one of the search environment of verl-agent and RewardFlow. Both
write `<search>query</search>` and `<answer>text</answer>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

from agentgym.checks import check_name
from agentgym.outside.text import clean
from agentgym.searchqa.retriever import MOST_ID, Hit, Passage

#: The golden answer of a question that needs a passage which is in no corpus.
UNKNOWN = "unknown"
Kind = Literal["search", "answer", ""]
PROTOCOLS = ("searchr1", "verl_agent")
#: What may happen in the last turn, see `Turns`.
LAST_TURNS = ("extra", "counted")

#: Opening and closing tags in any case, by the kind of their block.
_TAGS: dict[Kind, tuple[re.Pattern[str], re.Pattern[str]]] = {
    "search": (re.compile("<search>", re.IGNORECASE), re.compile("</search>", re.IGNORECASE)),
    "answer": (re.compile("<answer>", re.IGNORECASE), re.compile("</answer>", re.IGNORECASE)),
}
#: The `<` of whatever a model's tokenizer or a reader of replies might take for a tag of its own. The spaces are
#: possessive: given back one by one, they would cost the square of their number.
_DANGEROUS = re.compile(r"<(?=\s*+(?:/\s*+)?(?:information|search|answer|think|action|s)\b|\|)", re.IGNORECASE)
#: Characters of passages in one observation: as JSON, which may write one character as twelve, they fit into the space.
_MOST_SHOWN = 80_000
# Roughly the tokens of a language model: words, long ones in parts, and marks.
_WORD = r"\w{1,8}|[^\w\s]"

INVALID = (
    "\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. "
    "If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n"
)
FAILED = "\nThe search engine could not be reached, so nothing was searched. The same search may work later.\n"


class Command(NamedTuple):
    """What a reply asks for: `kind` is "" where it asks for nothing; `valid` is the protocol's opinion of its form."""

    kind: Kind
    text: str
    valid: bool


_NOTHING = Command("", "", False)


class Tokenizer(Protocol):
    """What is needed of a tokenizer; those of Hugging Face have it."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Any:
        """Return the ids of a text's tokens."""

    def decode(self, token_ids: Any) -> str:
        """Return the text of ids."""


def parse(reply: str, protocol: str) -> Command:
    """Read a reply, or a bare command.

    "searchr1": the reply ends after the first `</search>`, without one after the first `</answer>`; its first block
    is the command. "verl_agent": the same end; the first search block is the command, without one the first answer
    block. It is invalid, but carried out all the same, when the whole reply holds tags of both kinds or two of a kind.

    >>> parse("<think>hm</think><search> Ada </search><answer>no</answer>", "searchr1")
    Command(kind='search', text='Ada', valid=True)
    >>> parse("<search>Ada</search><answer>no</answer>", "verl_agent")
    Command(kind='search', text='Ada', valid=False)
    >>> parse("<search>Ada", "searchr1")
    Command(kind='', text='', valid=False)
    """
    end = reply.find("</search>")
    end = reply.find("</answer>") if end < 0 else end
    written = reply if end < 0 else reply[: end + len("</search>")]
    if protocol == "searchr1":
        first = [(*found, kind) for kind in _TAGS for found in islice(blocks(written, kind), 1)]
        if not first:
            return _NOTHING
        _, text, kind = min(first)
        return Command(kind, text.strip(), True)
    valid = sum([len(opening.findall(reply)) for opening, _ in _TAGS.values()]) == 1
    for kind, (opening, closing) in _TAGS.items():
        # The first block begins at the first tag: if nothing closes that one, nothing closes a later one.
        opened = opening.search(written)
        closed = closing.search(written, opened.end()) if opened else None
        if opened and closed:
            return Command(kind, written[opened.end() : closed.start()].strip(), valid)
    return _NOTHING


def blocks(text: str, tag: str) -> Iterator[tuple[int, str]]:
    """Yield where each block of a tag begins and what stands in it, up to the tag that nothing closes.

    >>> list(blocks("a <b>c</b><b><b>d</b> <b>", "b"))
    [(2, 'c'), (10, '<b>d')]
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    start = text.find(opening)
    while start >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        yield start, text[start + len(opening) : end]
        start = text.find(opening, end + len(closing))


@dataclass(frozen=True)
class Turns:
    """How many turns an episode has. A turn is a step, whatever it does.

    Attributes:
        number: turns in which a search is carried out, where `last` is "extra"; 0 leaves the answer alone.
        last: "extra" (Search-R1): after these turns there is one more, for the answer alone; "counted" (verl-agent):
            the last of these turns is the one for the answer alone. A search in it is not carried out and ends the
            episode without an answer, as anything else but an answer does.
    """

    number: int
    last: str

    def __post_init__(self) -> None:
        check_name(self.last, LAST_TURNS, "last_turn")
        least = 0 if self.last == "extra" else 1
        if isinstance(self.number, bool) or not isinstance(self.number, int) or self.number < least:
            raise ValueError(f"max_turns must be an integer of at least {least}, got {self.number!r}")

    @property
    def total(self) -> int:
        """Steps of the longest episode.

        >>> Turns(4, "extra").total, Turns(4, "counted").total
        (5, 4)
        """
        return self.number + (self.last == "extra")


@dataclass(frozen=True)
class Format:
    """How found passages are shown.

    Attributes:
        protocol: "searchr1": `Doc 1(Title: "Ada") text` for each passage, in an information block with two line
            breaks before and behind it; "verl_agent": a JSON object with all of them in an information block.
        max_tokens: longest observation in tokens, counted before it is written as JSON; None for no limit.
        tokenizer: counts tokens; None: words and marks are counted, long words in parts of eight letters.
        close_block: cut the documents, so that the block's end is always there; False: cut the whole observation as
            Search-R1 does, which then may lack its end.
        escape: write `&lt;` for the `<` of protocol tags (information, search, answer, think, action, in any case,
            opening or closing), of `<s>` and of `<|` in retrieved text, so that it can neither end its block nor look
            like somebody's turn.
    """

    protocol: str
    max_tokens: int | None = 500
    tokenizer: Tokenizer | None = None
    close_block: bool = True
    escape: bool = True

    def __post_init__(self) -> None:
        check_name(self.protocol, PROTOCOLS, "protocol")
        limit = self.max_tokens
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 16):
            raise ValueError(f"max_tokens must be an integer of at least 16 or None for no limit, got {limit!r}")

    def show(self, passages: Sequence[Passage]) -> str:
        r"""Return the observation of a search, best passage first.

        >>> print(Format("searchr1").show([Passage("7", '"Ada"\nShe wrote </information> notes.')]).strip())
        <information>Doc 1(Title: "Ada") She wrote &lt;/information> notes.</information>
        >>> print(Format("verl_agent").show([Passage("7", '"Ada"\nShe wrote notes.')]))
        <information>{"result": "Doc 1: \"Ada\"\nShe wrote notes."}</information>
        """
        if self.protocol == "verl_agent":
            text = "\n".join([f"Doc {i}: {passage.contents}" for i, passage in enumerate(passages, 1)])
        else:
            text = "".join(
                [f"Doc {i}(Title: {each.title}) {each.text}\n" for i, each in enumerate(passages, 1)]
            ).strip()
        text = clean(escape_tags(text) if self.escape else text, _MOST_SHOWN)
        if self.max_tokens is None:
            return self._block(text)
        if not self.close_block:
            return self._cut(self._block(text), self.max_tokens)
        return self._block(self._cut(text, self.max_tokens - self._frame))

    def _block(self, text: str) -> str:
        if self.protocol == "verl_agent":
            return f"<information>{json.dumps({'result': text})}</information>"
        return f"\n\n<information>{text}</information>\n\n"

    @cached_property
    def _frame(self) -> int:
        """Tokens of an empty block."""
        empty = self._block("")
        if self.tokenizer is None:
            return len(re.findall(_WORD, empty))
        return len(self.tokenizer.encode(empty, add_special_tokens=False))

    def _cut(self, text: str, limit: int) -> str:
        """Return the beginning of a text, at most `limit` tokens."""
        if len(text) <= limit:  # a token has a character at least
            return text
        if self.tokenizer is None:
            match = _beginning(limit).match(text)
            end = match.end() if match else 0
            return text if not text[end:].strip() else text[:end]
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        return text if len(ids) <= limit else self.tokenizer.decode(ids[:limit])


def escape_tags(text: str) -> str:
    """Write `&lt;` for the `<` of every protocol tag in a text, see `Format`; other `<` stay.

    >>> escape_tags("a < b </Information> <|im_end|> <b>")
    'a < b &lt;/Information> &lt;|im_end|> <b>'
    """
    return _DANGEROUS.sub("&lt;", text) if "<" in text else text


@lru_cache(maxsize=64)
def _beginning(limit: int) -> re.Pattern[str]:
    return re.compile(rf"(?:\s*(?:{_WORD})){{0,{limit}}}")


def searchr1_prompt(question: str) -> str:
    r"""Return the user turn with which Search-R1 begins an episode; its checkpoints expect these very words.

    >>> searchr1_prompt("who wrote Emma")[-26:]
    'Question: who wrote Emma?\n'
    """
    question = question.strip()
    question += "" if question.endswith("?") else "?"
    return (
        "Answer the given question. You must conduct reasoning inside <think> and </think> first every time you get "
        "new information. After reasoning, if you find you lack some knowledge, you can call a search engine by "
        "<search> query </search> and it will return the top searched results between <information> and "
        "</information>. You can search as many times as your want. If you find no further external knowledge needed, "
        "you can directly provide the answer inside <answer> and </answer>, without detailed illustrations. For "
        f"example, <answer> Beijing </answer>. Question: {question}\n"
    )


_SEARCHING = (
    "Answer the question. You can look things up in a collection of passages: `<search>query</search>` shows the {k} "
    "passages that fit the query best, inside <information> and </information>. As soon as you know the answer, give "
    "it in as few words as possible: `<answer>text</answer>`; that is the end. Each turn, give one command of these "
    "two. You have {turns}"
)
_LAST = {
    "extra": "{n} turns in which you can search, and after them one turn for the answer.",
    "counted": "{n} turns, the last of which is for the answer.",
}
_BY_HEART = (
    "Answer the question from what you know, in as few words as possible: `<answer>text</answer>`. You have one turn."
)
_NOT_KNOWN = f" Where no passage holds the answer, give `<answer>{UNKNOWN}</answer>`."
#: Characters of the passages of one search whose observation is remembered.
_SHORT = 20_000
#: How an episode ended: won, lost, or without an answer.
ENDINGS = {True: "The answer is right.", False: "The answer is wrong.", None: "The episode ended without an answer."}


def instructions(turns: Turns, top_k: int, *, missing: bool) -> str:
    """Return the rules of a task; with a single turn there is no searching, with `missing` an answer may be "unknown".

    >>> print(instructions(Turns(0, "extra"), 3, missing=False)[:42])
    Answer the question from what you know, in
    """
    if turns.total == 1:
        rules = _BY_HEART
    else:
        rules = _SEARCHING.format(k=top_k, turns=_LAST[turns.last].format(n=turns.number))
    return rules + _NOT_KNOWN if missing else rules


def found_passages(form: Format, hits: tuple[Hit, ...]) -> tuple[str, tuple[str, ...], str]:
    """Return what a search found as a text, the ids of the passages, and their part of the state key."""
    short = sum([len(hit.passage.contents) for hit in hits]) <= _SHORT
    return (_shown_again if short else _shown)(form, hits)


def _shown(form: Format, hits: tuple[Hit, ...]) -> tuple[str, tuple[str, ...], str]:
    passages = [hit.passage for hit in hits]
    ids = tuple([clean(passage.id, MOST_ID) for passage in passages])
    return form.show(passages), ids, f" > {ids!r}"


#: Only short passages, so that what is remembered is bounded in bytes; all environments share it.
_shown_again = lru_cache(maxsize=4096)(_shown)
