"""What Search-QA says besides passages: the rules of a task, and how an episode ended."""

from __future__ import annotations

from functools import lru_cache

from agentgym.outside.text import clean
from agentgym.searchqa.generated.difficulty import UNKNOWN
from agentgym.searchqa.protocol import Format, Turns
from agentgym.searchqa.retriever import MOST_ID, Hit

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
    """Return the rules of a task.

    Args:
        turns: how many there are; with a single one nothing can be searched for, and nothing is said of searching.
        top_k: passages shown per search.
        missing: whether the answer may be that it is not known.

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
    return (_remembered if short else _shown)(form, hits)


def _shown(form: Format, hits: tuple[Hit, ...]) -> tuple[str, tuple[str, ...], str]:
    passages = [hit.passage for hit in hits]
    ids = tuple([clean(passage.id, MOST_ID) for passage in passages])
    return form.show(passages), ids, f" > {ids!r}"


#: Only short passages, so that what is remembered is bounded in bytes; all environments share it.
_remembered = lru_cache(maxsize=4096)(_shown)
