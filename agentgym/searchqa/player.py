"""A player without privileged information: it reads the observations only."""

import re
from collections import Counter
from collections.abc import Collection

from agentgym.checks import whole
from agentgym.searchqa.protocol import TEXTS
from agentgym.searchqa.scoring import normalise

_OPENING, _CLOSING = "<information>", "</information>"
_NAME = re.compile(r"(?:(?:The|Kingdom|Republic|Duchy) )?[A-Z][\w'-]*(?: (?:of |the |de )?[A-Z][\w'-]*)*")
_SENTENCE = re.compile(r"(?<=[.!?]) |\n")
_YEAR = re.compile(r"\b(1\d{3}|20\d{2})\b")
_TITLE = re.compile(r"Doc \d+(?:\(Title: |: )\"*([^\"\n)]+)")
_YES_NO = re.compile(r"(?:are|is|was|were|do|does|did|has|have|can)\b", re.IGNORECASE)
#: Capitalised words that are no names.
_NO_NAMES = frozenset(TEXTS["no_names"].split())


class SearchQAPlayer:
    """Plays Search-QA from observations alone; a fair baseline.

    It searches `searches` times: for the question's name (or the whole question if it has several names or none), then
    for the names most frequent in the passages. It answers "yes" where that fits, the older of two, or a year or name
    that is not in the question, from the sentence that shares most words with the question.
    """

    def __init__(self, searches: int = 3) -> None:
        self.searches = whole("searches", searches, 1)
        self._question = ""
        self._asked: list[str] = []
        self._texts: list[str] = []

    def act(self, observation: str, admissible: Collection[str]) -> str:
        """Return the next command; `admissible` only shows whether searches are possible."""
        start = observation.find(_OPENING) + len(_OPENING)
        end = observation.rfind(_CLOSING)
        if len(_OPENING) <= start <= end:
            self._texts.append(observation[start:end])
        elif not self._asked or observation.rstrip().endswith("?"):
            self._question, self._asked, self._texts = observation.strip(), [], []
        can_search = not admissible or any(command.startswith("<search>") for command in admissible)
        query = self._query() if can_search and len(self._asked) < self.searches else None
        if query is None:
            return f"<answer>{self._answer()}</answer>"
        self._asked.append(query)
        return f"<search>{query}</search>"

    def _query(self) -> str | None:
        names = names_in(self._question)
        named = names if len(names) == 1 else [self._question, *names]
        found = Counter(name for text in self._texts for name in names_in(text))
        heads = {normalise(title) for text in self._texts for title in _TITLE.findall(text)}
        further = [name for name, _ in found.most_common() if normalise(name) not in heads]
        return next((name for name in [*named, *further] if name not in self._asked), None)

    def _answer(self) -> str:
        question = self._question
        either = " or " in question
        if _YES_NO.match(question) and not either:
            return "yes"
        named = names_in(question)
        if either and len(named) > 1:
            passages = self._passages()
            return min(named, key=lambda name: min(_YEAR.findall(passages.get(normalise(name), "")), default="9"))
        asks_year = re.search(r"\b(?:year|when)\b", question, re.IGNORECASE)
        known = {normalise(name) for name in named}
        wanted = set(normalise(question).split())
        best, overlap = "unknown", -1
        for text in self._texts[::-1]:
            for sentence in _SENTENCE.split(text):
                said = _YEAR.findall(sentence) if asks_year else names_in(sentence)
                said = [each for each in said if normalise(each) not in known]
                common = len(wanted & set(normalise(sentence).split()))
                if said and common > overlap:
                    best, overlap = said[0], common
        return best

    def _passages(self) -> dict[str, str]:
        """Return the first shown passage of each normalised title."""
        parts = [part for text in self._texts for part in re.split(r"(?=Doc \d+[(:])", text)]
        return {normalise(title): part for part in parts[::-1] for title in _TITLE.findall(part)}


def names_in(text: str) -> list[str]:
    """Return the names in a text, runs of capitalised words, in order of first appearance."""
    found = []
    for name in _NAME.findall(text):
        words = name.split()
        begin, end = 0, len(words)
        while begin < end and words[begin].lower() in _NO_NAMES and not (words[begin] == "The" and end - begin > 2):
            begin += 1
        if any(word.lower() not in _NO_NAMES for word in words[begin:]):
            found.append(" ".join(words[begin:]))
    return list(dict.fromkeys(found))
