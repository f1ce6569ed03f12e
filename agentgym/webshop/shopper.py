"""A shopper who knows what a player knows: the text of the pages, and what can be clicked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from agentgym.webshop.request import keywords, price_limit, wished_groups, wished_values, wished_words

_MARKS = re.compile(r"\[(?:clicked )?button_?\]")
_AMOUNT = re.compile(r"\$(\d+(?:\.\d+)?)")
_WORD = re.compile(r"[^\W_]+(?:['.-][^\W_]+)*")
_BUY, _NEXT, _PREVIOUS = "click[buy now]", "click[next >]", "click[< prev]"
_SUB_PAGES = ("features", "description")
#: How much an option that cannot be chosen, or a price too high, weighs in words that are not found.
_WRONG = 2


class Shopper:
    """Buys in WebShop from observations ("text" or "text_rich") and admissible commands alone.

    It searches for the words of the request and opens the affordable product whose title has most of them. Where a
    wished option cannot be chosen, or words of the request are not in the title, among the features or in the
    description, it goes back to the next product, `patience` times; then the best one is bought.

    Args:
        patience: how many products may be left; 0 buys the first one it opens.
        reads: look for missing words among features and in the description, and leave a product that lacks them;
            otherwise it leaves only those whose options or price are wrong.
        steps: commands of an episode; it buys before they run out.

    Raises:
        ValueError: a number is out of range.

    >>> Shopper().act("WebShop [SEP] Instruction: [SEP] show me wool socks with size: large [SEP] Search", ())
    'search[wool socks large]'
    """

    def __init__(self, patience: int = 5, reads: bool = True, steps: int = 15) -> None:
        if patience < 0 or steps < 1:
            raise ValueError(f"patience must be at least 0 and steps at least 1, got {patience!r} and {steps!r}")
        self.patience, self.reads, self.steps = patience, reads, steps
        self._begin("")

    def _begin(self, request: str) -> None:
        self._request, self._left = request, self.steps
        self._words = {_stem(word) for word in keywords(request)}
        self._query = [*keywords(request), *wished_words(request)]
        self._limit = price_limit(request)
        self._read: dict[str, set[str]] = {}  # asin -> words read about it
        self._prices: dict[str, float] = {}
        self._lacks: dict[str, int] = {}  # asin -> how much a product that was left lacks
        self._asin = ""  # the product that was opened last
        self._choice = ""  # the product that will be bought
        self._pages: set[str] = set()  # pages of it that were read
        self._options: dict[str, str] = {}  # chosen on its page

    def act(self, observation: str, admissible: Collection[str]) -> str:
        """Return the next command.

        Args:
            observation: the page.
            admissible: what can be clicked now.
        """
        pieces = _pieces(observation)
        request = pieces[pieces.index("Instruction:") + 1] if "Instruction:" in pieces[:2] and pieces[2:] else ""
        if request != self._request or not admissible:
            self._begin(request)
        self._left -= 1
        if _BUY in admissible:
            return self._on_product(pieces, admissible)
        if _NEXT in admissible:
            return self._on_results(pieces, admissible)
        if _PREVIOUS in admissible:
            self._read.setdefault(self._asin, set()).update(_words(" ".join(pieces[4:])))
            return _PREVIOUS
        return f"search[{' '.join(self._query) or 'gift'}]"

    def _on_results(self, pieces: Sequence[str], admissible: Collection[str]) -> str:
        """Open the product that was chosen, or the most promising one, or turn the page, or search with fewer words."""
        listed = []
        for asin, title, tag in zip(pieces[4:], pieces[5:], pieces[6:], strict=False):
            if f"click[{asin.lower()}]" in admissible and (amounts := _AMOUNT.findall(tag)):
                listed.append(asin.lower())
                self._prices[asin.lower()] = sum(map(float, amounts)) / len(amounts)
                self._read.setdefault(asin.lower(), _words(title))
        fresh = [asin for asin in listed if asin not in self._lacks and self._prices[asin] <= self._limit]
        if self._choice in listed:
            return self._open(self._choice)
        if fresh or (listed and self._left < 4):
            return self._open(max(fresh or listed, key=lambda asin: len(self._words & self._read[asin])))
        if listed:
            return _NEXT
        self._query = self._query[1:] or self._query
        return f"search[{' '.join(self._query) or 'gift'}]"

    def _open(self, asin: str) -> str:
        self._asin, self._pages, self._options = asin, set(), {}
        return f"click[{asin}]"

    def _on_product(self, pieces: Sequence[str], admissible: Collection[str]) -> str:
        """Look closer, go back, choose an option or buy."""
        wishes = wished_values(self._request, _groups(pieces, admissible))
        spare = self._left - len(wishes)
        if self._asin != self._choice:
            impossible = len(set(wished_groups(self._request)) - set(wishes))
            unread = [page for page in _SUB_PAGES if page not in self._pages and f"click[{page}]" in admissible]
            unknown = len(self._words - self._read.get(self._asin, set()))
            if self.reads and self.patience and unknown and not impossible and unread and spare >= 3:
                self._pages.add(unread[0])
                return f"click[{unread[0]}]"
            too_dear = self._prices.get(self._asin, 0.0) > self._limit
            self._lacks[self._asin] = unknown + _WRONG * (impossible + too_dear)
            best = min(self._lacks, key=lambda asin: self._lacks[asin])
            bad = impossible or too_dear or (unknown and self.reads)
            if bad and len(self._lacks) <= self.patience and spare >= 4:
                return _PREVIOUS
            self._choice = best if spare >= 3 else self._asin
            if self._choice != self._asin:
                return _PREVIOUS
        for name, value in wishes.items():
            if self._left and self._options.get(name) != value and f"click[{value}]" in admissible:
                self._options[name] = value
                return f"click[{value}]"
        return _BUY


def _pieces(observation: str) -> list[str]:
    """Return the pieces of text of a page, in either form."""
    if " [SEP] " in observation:
        return observation.split(" [SEP] ")
    lines = [_MARKS.sub("", line).strip() for line in observation.split("\n")]
    return [line for line in lines if line and not line.startswith("You have clicked ")]


def _groups(pieces: Sequence[str], admissible: Collection[str]) -> Mapping[str, list[str]]:
    """Return the option groups on a product's page: a name that cannot be clicked, then values that can."""
    groups: dict[str, list[str]] = {}
    name = ""
    for piece in pieces[4:]:
        if piece.startswith("Price: "):
            break
        if f"click[{piece.lower()}]" not in admissible:
            name = piece
        elif name:
            groups.setdefault(name, []).append(piece.lower())
    return groups


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def _words(text: str) -> set[str]:
    return {_stem(word) for word in _WORD.findall(text.lower())}
