"""A shop, and a visit to it: its state, and the effects of searching and clicking."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from agentgym.outside.text import MOST_CHARACTERS
from agentgym.webshop.catalogue import Catalogue, Product
from agentgym.webshop.goals import Goal
from agentgym.webshop.pages import BUTTONS, INDEX, PER_PAGE, SUB_PAGES, TEXT, Node, Page, Pages, done_page, nodes, text
from agentgym.webshop.reward import Purchase
from agentgym.webshop.search.search import Recent

RESULTS = 50
#: Maximum length of a command: addresses and state keys contain it and must stay inside their space.
LONGEST_COMMAND = MOST_CHARACTERS
_BASE = "http://127.0.0.1:3000"
_SUB_PAGES = {name.lower(): name for name in SUB_PAGES}
_SEARCH, _BACK, _PREVIOUS, _NEXT, _BUY = (name.lower() for name in BUTTONS)
#: The original identifies a page by the first of these parts in the URL.
_PARTS = ("search_results", "item_page", "item_sub_page", "done")
_NOWHERE = object()
#: Grades a purchase: position of the product, chosen options, goal.
Grade = Callable[[int, Mapping[str, str], Goal], Purchase]


@dataclass(frozen=True)
class Shop:
    """The shared part of all sessions in a shop."""

    catalogue: Catalogue
    search: Recent
    grade: Grade
    pages: Pages


def parse(command: str, brackets: bool = False) -> tuple[str, str]:
    r"""Return name and argument of a command as the pattern `(.+)\[(.+)\]` finds them; ("", "") without a match.

    Only the first line counts, up to its last "]". The argument starts after the last "[", with `brackets` the first.

    >>> parse("click[Buy Now] please"), parse("click[a [b]]"), parse("click[a [b]]", True), parse("click[]")
    (('click', 'Buy Now'), ('click[a ', 'b]'), ('click', 'a [b]'), ('', ''))
    """
    begin, end = command.find("["), len(command) - 1
    if 0 < begin < end - 1 and command[end] == "]" and command.find("[", begin + 1) < 0 and "\n" not in command:
        return command[:begin], command[begin + 1 : end]
    line = command.partition("\n")[0]
    end = line.rfind("]")
    if end < 3:
        return "", ""
    begin = line.find("[", 1, end - 1) if brackets else line.rfind("[", 1, end - 1)
    return ("", "") if begin < 0 else (line[:begin], line[begin + 1 : end])


class Session:
    """One visit with one goal, starting at the index page; `name` is the session id in URLs.

    Attributes:
        request_text: the request as plain text on a page; None if it does not appear.
        number: of the page of results.
        product: position of the product opened last; None on results.
        options: chosen options, group -> value, in the order of the first choice of each group.
        visited: positions of the products opened since the index page.
        sub: the page below the product's page, "" elsewhere.
        draws: number of answers to the query `<r>`, each with other products, drawn with `seed`.
        place: number and query of the results behind the page, as in keys; "" before a search.
        choice: two texts of the options, cached by the environment; None after a change.
    """

    def __init__(self, shop: Shop, goal: Goal, name: str, seed: int = 0, brackets: bool = False) -> None:
        self.shop, self.goal, self.name = shop, goal, name
        self.request_text: str | None = goal.instruction.strip()
        if not self.request_text:
            self.request_text = text(self.request) if self.request else None
        self.seed, self._brackets = seed, brackets
        self.draws, self._drawn_with = 0, seed
        self._read = "", ("", "")
        self._begin()

    @cached_property
    def request(self) -> list[Node]:
        return nodes(TEXT, self.goal.instruction)

    def _begin(self, _: str = "") -> None:
        self.query: str | None = None
        self.number = 0
        self.product: int | None = None
        self.options: dict[str, str] = {}
        self.visited: dict[int, None] = {}
        self.purchase: Purchase | None = None
        self.sub = ""
        self.page: Page = INDEX
        self.place = ""
        self.choice: tuple[str, str] | None = None

    def read(self, command: str) -> tuple[str, str]:
        """Return name and argument of a command, the argument in lower case; ("", "") if it has no meaning."""
        if self._read[0] is not command:
            name, argument = ("", "") if len(command) > LONGEST_COMMAND else parse(command, self._brackets)
            # a vector environment reads a search before it is played
            self._read = command, (name, argument.lower())
        return self._read[1]

    def play(self, command: str) -> bool:
        """Search or click; return False if the shop does nothing."""
        page, argument = self.page, command[6:-1]
        # the same for most clicks, without a search for brackets, lines and capitals
        if page.plain and argument in page.clickables and command == f"click[{argument}]":
            self._click(argument)
            return True
        return self.do(*self.read(command))

    def do(self, name: str, argument: str) -> bool:
        if name == "click":
            target = self.page.clickables.get(argument, _NOWHERE)
            if target is _NOWHERE or argument == _SEARCH:
                return False
            self._click(argument)
            return True
        if name == "search" and argument:
            self.query = argument
            self._show_results(1)
            return True
        return False

    def _click(self, name: str) -> None:
        button = _BUTTONS.get(name)
        if button is None:
            self._show_item(name)
        else:
            button(self, name)

    def _turn(self, name: str) -> None:
        url = self.url()
        part = next(part for part in _PARTS if part in url)
        if part == "search_results":
            self._show_results(self.number + (1 if name == _NEXT else -1))
        elif name == _PREVIOUS and part == "item_page":
            self._show_results(self.number)
        else:
            self._show_item(name)

    def _show_sub(self, name: str) -> None:
        if self.product is None:
            self._show_item(name)
        else:
            self.sub = _SUB_PAGES[name]
            self.page = self.shop.pages.sub(self.product, self.sub)

    def _show_results(self, number: int) -> None:
        query = self.query
        self.number, self.product, self.options, self.sub, self.purchase = number, None, {}, "", None
        self.choice = None
        self.place = f"{number} of {query!r}"
        found = self._found()
        shown = found[(number - 1) * PER_PAGE : number * PER_PAGE] if number > 0 else ()
        if not isinstance(shown, tuple):
            shown = tuple(map(int, shown))
        self.page = self.shop.pages.results(shown, number, len(found))

    def _show_item(self, name: str) -> None:
        target = self.page.clickables[name]
        if isinstance(target, int):
            self.product = target
            self.visited[target] = None
        elif isinstance(target, str):
            self.options[target] = name
            self.choice = None
        assert self.product is not None  # every page that leads here has a product
        self.sub = ""
        self.page = self.shop.pages.item(self.product)

    def _buy(self, _: str) -> None:
        assert self.product is not None
        self.purchase = self.shop.grade(self.product, self.options, self.goal)
        self.sub = ""
        self.page = done_page(self.bought.asin, self.options, self.purchase.score)

    @property
    def bought(self) -> Product:
        assert self.product is not None
        return self.shop.catalogue[self.product]

    def opened(self) -> set[str]:
        return {self.shop.catalogue[position].asin for position in self.visited}

    def _found(self) -> Sequence[int]:
        assert self.query is not None
        catalogue = self.shop.catalogue
        first, *rest = self.query.split(" ")
        if first == "<r>":
            self.draws, self._drawn_with = self.draws + 1, self.seed
            count = min(RESULTS, len(catalogue))
            rng = np.random.default_rng((self.seed, self.draws))
            return tuple(rng.choice(len(catalogue), count, replace=False).tolist())
        if first == "<c>":
            return catalogue.having("category", rest[0].strip()) if rest else ()
        if first == "<q>":
            return catalogue.having("query", " ".join(rest).strip())
        # "<a>" stops the original, as "<c>" alone does
        return () if first == "<a>" else self.shop.search.top(self.query, RESULTS)

    def url(self) -> str:
        """Return the address of the page, with all choices."""
        kind, name = self.page.kind, self.name
        if kind == "index":
            return f"{_BASE}/{name}"
        words = (self.query or "").replace(" ", "+")
        if kind == "results":
            return f"{_BASE}/search_results/{name}/{words}/{self.number}"
        asin = self.bought.asin
        if kind == "item":
            options = json.dumps(self.options) if self.options else "{}"
            return f"{_BASE}/item_page/{name}/{asin}/{words}/{self.number}/{options}"
        if kind == "sub":
            return f"{_BASE}/item_sub_page/{name}/{asin}/{words}/{self.number}/{self.sub}/{self.options}"
        return f"{_BASE}/done/{name}/{asin}/{self.options}"

    def get_state(self) -> tuple[Any, ...]:
        return (
            self.page.kind, self.query, self.number, self.product, tuple(self.options.items()), tuple(self.visited),
            self.purchase, self.sub, self.draws, self._drawn_with,
        )  # fmt: skip

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Load a state of a session with the same shop, goal and seed."""
        (kind, self.query, self.number, self.product, options, visited, self.purchase, self.sub, self.draws,
         self._drawn_with) = state  # fmt: skip
        self.options, self.visited = dict(options), dict.fromkeys(visited)
        self.place = "" if self.query is None else f"{self.number} of {self.query!r}"
        self.choice = None
        if kind == "index":
            self.page = INDEX
        elif kind == "results":
            self.draws -= (self.query or "").split(" ")[0] == "<r>"
            seed, self.seed = self.seed, self._drawn_with  # a list that was drawn before a `reseed` stays
            self._show_results(self.number)
            self.seed = seed
        elif self.product is not None:
            pages = self.shop.pages
            if kind == "item":
                self.page = pages.item(self.product)
            elif kind == "sub":
                self.page = pages.sub(self.product, self.sub)
            elif self.purchase is not None:
                self.page = done_page(self.bought.asin, self.options, self.purchase.score)


#: The buttons' effects; they take precedence over options and products with the same name.
_BUTTONS: dict[str, Callable[[Session, str], None]] = {
    _BUY: Session._buy,
    _BACK: Session._begin,
    _NEXT: Session._turn,
    _PREVIOUS: Session._turn,
    **dict.fromkeys(_SUB_PAGES, Session._show_sub),
}
