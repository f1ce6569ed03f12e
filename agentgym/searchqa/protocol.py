"""The published protocols: "searchr1" (Search-R1) and "verl_agent" (verl-agent)."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

from agentgym.checks import check_name, whole
from agentgym.outside.text import clean, tables_beside
from agentgym.searchqa.retriever import MOST_ID, Hit, Passage

#: Instructions, prompts and answers.
TEXTS: dict[str, Any] = tables_beside(__file__, "texts.toml")
#: Golden answer of a question whose passage is missing.
UNKNOWN = "unknown"
Kind = Literal["search", "answer", ""]
PROTOCOLS = ("searchr1", "verl_agent")
#: Kinds of last turns, see `Turns`.
LAST_TURNS = ("extra", "counted")

#: Opening and closing tags in any case, by kind of block.
_TAGS: dict[Kind, tuple[re.Pattern[str], re.Pattern[str]]] = {
    "search": (re.compile("<search>", re.IGNORECASE), re.compile("</search>", re.IGNORECASE)),
    "answer": (re.compile("<answer>", re.IGNORECASE), re.compile("</answer>", re.IGNORECASE)),
}
#: The `<` of what a tokenizer or a reply parser might take for a tag; possessive quantifiers keep it linear.
_DANGEROUS = re.compile(r"<(?=\s*+(?:/\s*+)?(?:information|search|answer|think|action|s)\b|\|)", re.IGNORECASE)
#: Maximum number of characters of passages in an observation: as JSON, with up to twelve each, they fit into the space.
_MOST_SHOWN = 80_000
# Approximate tokens: words, long ones in parts, and marks.
_WORD = r"\w{1,8}|[^\w\s]"

INVALID: str = TEXTS["invalid"]
FAILED: str = TEXTS["failed"]


class Command(NamedTuple):
    """A parsed reply: `kind` is "" without a command; `valid` means that the protocol accepts its form."""

    kind: Kind
    text: str
    valid: bool


_NOTHING = Command("", "", False)


class Tokenizer(Protocol):
    """The methods of a Hugging Face tokenizer that are used."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Any:
        """Return the ids of a text's tokens."""

    def decode(self, token_ids: Any) -> str:
        """Return the text of ids."""


def parse(reply: str, protocol: str) -> Command:
    """Read a reply or a bare command.

    A reply ends after its first `</search>`, without one after its first `</answer>`. In "searchr1" its first block is
    the command. In "verl_agent" it is the first search block, else the first answer block; a reply with tags of both
    kinds or two of a kind is invalid, but its command is executed.

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
        # The first block begins at the first tag: if that is unclosed, so are later ones.
        opened = opening.search(written)
        closed = closing.search(written, opened.end()) if opened else None
        if opened and closed:
            return Command(kind, written[opened.end() : closed.start()].strip(), valid)
    return _NOTHING


def blocks(text: str, tag: str) -> Iterator[tuple[int, str]]:
    """Yield position and content of each block of a tag, up to the first unclosed one."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    start = text.find(opening)
    while start >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        yield start, text[start + len(opening) : end]
        start = text.find(opening, end + len(closing))


@dataclass(frozen=True)
class Turns:
    """Number of turns of an episode, each of them a step.

    With `last="extra"` (Search-R1) a turn for the answer alone follows them; with "counted" (verl-agent) the last one
    is it.
    """

    number: int
    last: str

    def __post_init__(self) -> None:
        check_name(self.last, LAST_TURNS, "last_turn")
        whole("max_turns", self.number, 0 if self.last == "extra" else 1)

    @property
    def total(self) -> int:
        return self.number + (self.last == "extra")


@dataclass(frozen=True)
class Format:
    """How found passages are shown.

    Attributes:
        protocol: "searchr1": `Doc 1(Title: "Ada") text` per passage; "verl_agent": one JSON object.
        max_tokens: most tokens of an observation, counted before conversion to JSON; None for no limit.
        tokenizer: counts tokens; None: words and marks are counted, long words in parts of eight letters.
        close_block: cut the documents; False: cut the whole observation as Search-R1 does, perhaps without its end tag.
        escape: write `&lt;` for the `<` of tags, `<s>` and `<|` in retrieved text, which cannot end its block then.
    """

    protocol: str
    max_tokens: int | None = 500
    tokenizer: Tokenizer | None = None
    close_block: bool = True
    escape: bool = True

    def __post_init__(self) -> None:
        check_name(self.protocol, PROTOCOLS, "protocol")
        if self.max_tokens is not None:
            whole("max_tokens", self.max_tokens, 16)

    def show(self, passages: Sequence[Passage]) -> str:
        """Return the observation of a search, best passage first."""
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
        empty = self._block("")
        if self.tokenizer is None:
            return len(re.findall(_WORD, empty))
        return len(self.tokenizer.encode(empty, add_special_tokens=False))

    def _cut(self, text: str, limit: int) -> str:
        if len(text) <= limit:  # a token has at least one character
            return text
        if self.tokenizer is None:
            match = _beginning(limit).match(text)
            end = match.end() if match else 0
            return text if not text[end:].strip() else text[:end]
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        return text if len(ids) <= limit else self.tokenizer.decode(ids[:limit])


def escape_tags(text: str) -> str:
    """Write `&lt;` for the `<` of every protocol tag in a text, see `Format`."""
    return _DANGEROUS.sub("&lt;", text) if "<" in text else text


@lru_cache(maxsize=64)
def _beginning(limit: int) -> re.Pattern[str]:
    return re.compile(rf"(?:\s*(?:{_WORD})){{0,{limit}}}")


def searchr1_prompt(question: str) -> str:
    """Return Search-R1's first user turn; its checkpoints expect these exact words."""
    question = question.strip()
    return str(TEXTS["searchr1"]).format(question=question if question.endswith("?") else f"{question}?")


#: Maximum number of characters of passages whose observation is cached.
_SHORT = 20_000
#: Ends of an episode: won, lost, no answer.
ENDINGS = {True: "The answer is right.", False: "The answer is wrong.", None: "The episode ended without an answer."}


def instructions(turns: Turns, top_k: int, *, missing: bool) -> str:
    """Return the rules of a task; a single turn excludes searching, `missing` allows the answer "unknown"."""
    if turns.total == 1:
        rules: str = TEXTS["by_heart"]
    else:
        rules = TEXTS["searching"].format(k=top_k, turns=TEXTS["last_turn"][turns.last].format(n=turns.number))
    return f"{rules}{TEXTS['not_known'].format(unknown=UNKNOWN)}" if missing else rules


def found_passages(form: Format, hits: tuple[Hit, ...]) -> tuple[str, tuple[str, ...], str]:
    """Return text, passage ids and state key of a search's result."""
    short = sum([len(hit.passage.contents) for hit in hits]) <= _SHORT
    return (_shown_again if short else _shown)(form, hits)


def _shown(form: Format, hits: tuple[Hit, ...]) -> tuple[str, tuple[str, ...], str]:
    passages = [hit.passage for hit in hits]
    ids = tuple([clean(passage.id, MOST_ID) for passage in passages])
    return form.show(passages), ids, f" > {ids!r}"


#: Short passages only, which bounds the cache that all environments share.
_shown_again = lru_cache(maxsize=4096)(_shown)
