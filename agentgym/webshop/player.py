"""A shopper without privileged information: page texts and clickable texts."""

import re
from collections.abc import Collection, Iterable, Sequence

from agentgym.checks import whole
from agentgym.webshop.catalogue import TEXTS

_MARKS = re.compile(r"\[(?:clicked )?button_?\]")
_AMOUNT = re.compile(r"\$(\d+(?:\.\d+)?)")
_BUY, _NEXT, _PREVIOUS = "click[buy now]", "click[next >]", "click[< prev]"
_SUB_PAGES = ("click[features]", "click[description]")
_BUTTONS = ("Back to Search", "< Prev", "Next >", "Description", "Features", "Reviews", "Buy Now")
_TAG = re.compile(r"\$\d[\d.]*(?: to \$\d[\d.]*)?")
#: Weight of a missing option, or of too high a price, in missing words.
_WRONG = 2


class WebShopPlayer:
    """Buys in WebShop from observations ("text" or "text_rich") and admissible commands alone.

    It searches for the words of the request and opens the first affordable product. While an option, or words of the
    request in title, features or description, are missing, it tries up to `patience` others; then it buys the best.

    Args:
        patience: maximum number of rejected products; 0 buys the first opened one.
        reads: search for missing words in features and description; otherwise reject only wrong options or prices.
        steps: commands of an episode; it buys before they run out.
    """

    def __init__(self, patience: int = 5, reads: bool = True, steps: int = 15) -> None:
        self.patience, self.reads, self.steps = whole("patience", patience, 0), reads, whole("steps", steps, 1)
        self._begin("")

    def _begin(self, request: str) -> None:
        self._request, self._left = request, self.steps
        self._wishes = list(wished_options(request).values())
        self._words = {_stem(word) for word in keywords(request)}
        self._query = [*keywords(request), *words(" ".join(self._wishes))]
        self._limit = price_limit(request)
        self._read: dict[str, set[str]] = {}  # asin -> words read about it
        self._prices: dict[str, float] = {}
        self._lacks: dict[str, int] = {}  # asin -> number of missing words of an inspected product
        self._asin = ""  # the product that was opened last
        self._choice = ""  # the product that will be bought
        self._clicked: set[str] = set()  # on its page

    def act(self, observation: str, admissible: Collection[str]) -> str:
        pieces, admissible = _pieces(observation), frozenset(admissible)
        begins = pieces[0] == "WebShop"
        request = pieces[1 + begins] if len(pieces) > 3 else ""
        if begins or request != self._request:
            self._begin(request)
        self._left -= 1
        if _BUY in admissible:
            return self._on_product(pieces, admissible)
        if _NEXT in admissible:
            return self._on_results(pieces, admissible)
        if _PREVIOUS in admissible:
            self._read.setdefault(self._asin, set()).update(_stems(" ".join(pieces[4:])))
            return _PREVIOUS
        return self._search()

    def _on_results(self, pieces: Sequence[str], admissible: Collection[str]) -> str:
        listed = []
        for piece in pieces[4:]:
            if f"click[{piece.lower()}]" in admissible and piece not in _BUTTONS:
                listed.append(piece.lower())
                self._read.setdefault(listed[-1], set())
            elif listed and _TAG.fullmatch(piece):
                amounts = [float(amount) for amount in _AMOUNT.findall(piece)]
                self._prices[listed[-1]] = sum(amounts) / len(amounts)
            elif listed:
                self._read[listed[-1]] |= _stems(piece)
        fresh = [asin for asin in listed if asin not in self._lacks and self._prices.get(asin, 0.0) <= self._limit]
        if self._choice in listed:
            return self._open(self._choice)
        if fresh or (listed and self._left < 4):
            return self._open((fresh or listed)[0])
        if listed:
            return _NEXT
        self._query = self._query[1:] or self._query
        return self._search()

    def _search(self) -> str:
        return f"search[{' '.join(self._query) or 'gift'}]"

    def _open(self, asin: str) -> str:
        self._asin, self._clicked = asin, set()
        return f"click[{asin}]"

    def _on_product(self, pieces: Sequence[str], admissible: Collection[str]) -> str:
        offered = [piece for piece in pieces[4:] if f"click[{piece.lower()}]" in admissible and piece not in _BUTTONS]
        wishes = self._wishes or mentioned(self._request, offered)
        commands = [f"click[{value.lower()}]" for value in wishes]
        spare = self._left - len(wishes)
        if self._asin != self._choice:
            impossible = sum(command not in admissible for command in commands)
            unread = [page for page in _SUB_PAGES if page not in self._clicked and page in admissible]
            unknown = len(self._words - self._read.get(self._asin, set()))
            if self.reads and self.patience and unknown and not impossible and unread and spare >= 3:
                return self._click(unread[0])
            too_dear = self._prices.get(self._asin, 0.0) > self._limit
            self._lacks[self._asin] = unknown + _WRONG * (impossible + too_dear)
            bad = impossible or too_dear or (unknown and self.reads)
            if bad and len(self._lacks) <= self.patience and spare >= 4:
                return _PREVIOUS
            best = min(self._lacks, key=lambda asin: self._lacks[asin])
            self._choice = best if spare >= 3 else self._asin
            if self._choice != self._asin:
                return _PREVIOUS
        left = [command for command in commands if command in admissible and command not in self._clicked]
        return self._click(left[0]) if left and self._left else _BUY

    def _click(self, command: str) -> str:
        self._clicked.add(command)
        return command


def _pieces(observation: str) -> list[str]:
    if " [SEP] " in observation:
        return observation.split(" [SEP] ")
    lines = [_MARKS.sub("", line).strip() for line in observation.split("\n")]
    return [line for line in lines if line and not line.startswith("You have clicked ")] or [""]


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in words(text)}


_LIMIT = re.compile(r"price (?:lower|less) than \$?(\d+(?:\.\d+)?)")
#: Options in a request: "with size: small, and color: red".
_WISH = re.compile(r"(?: with|, and) ([^:,]{1,40}): ")
_PRICE = re.compile(r",? and price (?:lower|less) than .*")
_WORD = re.compile(r"[^\W_]+(?:['.-][^\W_]+)*")
#: Words without information about the product.
_EMPTY = frozenset(TEXTS["asking"].split())
#: Maximum number of characters of a request that are searched for values.
_LONGEST = 2_000


def price_limit(request: str) -> float:
    """Return the price limit of a request, inf without one."""
    found = _LIMIT.search(request)
    return float(found[1]) if found else float("inf")


def wished_options(request: str) -> dict[str, str]:
    """Return the options that the request names: group -> value, in lower case and in order.

    >>> wished_options("show me hats with brim with color: dark red, and size: 7, and price lower than 30.00 dollars")
    {'color': 'dark red', 'size': '7'}
    """
    options = _parts(request)[1]
    marks = list(_WISH.finditer(options))
    bounds = [mark.start() for mark in marks] + [len(options)]
    return {mark[1]: options[mark.end() : end] for mark, end in zip(marks, bounds[1:], strict=True)}


def mentioned(request: str, values: Iterable[str]) -> list[str]:
    """Return the values that a request contains as whole words, longest first, none a part of another."""
    text, found = f" {request[:_LONGEST].lower()} ", []
    for value in sorted(set(values), key=lambda value: (-len(value), value)):
        if not value.strip() or value.lower() not in text:
            continue
        shorter = re.sub(rf"(?<![\w-]){re.escape(value.lower())}(?![\w-])", " ", text)
        if shorter != text:
            found.append(value)
            text = shorter
    return found


def keywords(request: str) -> list[str]:
    """Return the words that describe the product, without options and price."""
    return [word for word in words(_parts(request)[0]) if word not in _EMPTY]


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; hyphens, points and apostrophes inside belong to them."""
    return _WORD.findall(text.lower())


def _parts(request: str) -> tuple[str, str]:
    text = _PRICE.sub("", request.lower())
    wish = _WISH.search(text)
    if wish is None:
        return text, ""
    first = text.rindex(" with ", 0, wish.end()) if wish[0].startswith(" with") else wish.start()
    return text[:first], text[first:]
