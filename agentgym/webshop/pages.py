"""The pages of the shop: what stands on them in order, what can be clicked, and how they read as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from agentgym.webshop.catalogue.catalogue import Catalogue
from agentgym.webshop.catalogue.product import Product

TEXT, BUTTON, LINK, OPTION = "text", "button", "link", "option"
SEARCH, BACK, PREVIOUS, NEXT, BUY = "Search", "Back to Search", "< Prev", "Next >", "Buy Now"
#: Pages below a product's page.
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
#: Buttons of a product's page that lead to them; nothing leads to the last one but an option of that name.
_SHOWN = SUB_PAGES[:3]
PER_PAGE = 10
SEPARATOR = " [SEP] "
_HTML_SPACE = " \n\t\f\r"
_CACHED = 1024
_SAFE_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})


class Node(NamedTuple):
    """A piece of text on a page: its kind (`TEXT`, `BUTTON`, `LINK` or `OPTION`) and the text."""

    kind: str
    text: str


Nodes = tuple[Node, ...]


def nodes(kind: str, *texts: str) -> list[Node]:
    """Return texts as nodes; as in a browser, empty ones vanish and nothing but blanks is one blank or nothing."""
    found = []
    for text in texts:
        if text.strip(_HTML_SPACE):
            found.append(Node(kind, text))
        elif text and "\n" not in text:
            found.append(Node(kind, " "))
    return found


def text(nodes: Iterable[Node]) -> str:
    """Return the nodes as one line.

    >>> text([Node(BUTTON, "Search"), Node(TEXT, " red "), Node(TEXT, " ")])
    'Search [SEP] red [SEP] '
    """
    return SEPARATOR.join([text.strip() for _, text in nodes])


class Page:
    """A page without the request, which stands between `lead` and `body`; shared by all sessions.

    Attributes:
        kind: "index", "results", "item", "sub" or "done".
        lead: nodes before the request; without any there is no request either.
        body: nodes after it.
        clickables: what can be clicked, in lower case and in order: a link's product, an option's group, or None.
    """

    def __init__(
        self, kind: str, lead: Iterable[Node], body: Iterable[Node], clickables: dict[str, int | str | None]
    ) -> None:
        self.kind = kind
        self.lead, self.body, self.clickables = tuple(lead), tuple(body), clickables

    def nodes(self, request: Iterable[Node]) -> list[Node]:
        """Return all nodes of the page."""
        return [*self.lead, *request, *self.body] if self.lead else list(self.body)

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """The clicks that the shop accepts here, in order."""
        return _commands([name for name in self.clickables if "[" not in name])

    @cached_property
    def all_commands(self) -> tuple[str, ...]:
        """The clicks that are accepted when an argument may hold a bracket."""
        return _commands(list(self.clickables))

    @cached_property
    def lead_text(self) -> str:
        """The lead as one line of text."""
        return text(self.lead)

    @cached_property
    def body_text(self) -> str:
        """The body as one line of text."""
        return text(self.body)


def _commands(names: list[str]) -> tuple[str, ...]:
    together = "".join(names)
    if "\n" in together or "" in names or SEARCH.lower() in names or together.lower() != together:
        names = [
            name for name in names if name not in ("", SEARCH.lower()) and not ("\n" in name or name.lower() != name)
        ]
    return tuple([f"click[{name}]" for name in names])


def _buttons(*texts: str) -> dict[str, int | str | None]:
    return {text.lower(): None for text in texts}


_LEAD = tuple(nodes(TEXT, "Instruction:"))
_BACK, _PREVIOUS, _NEXT = (Node(BUTTON, text) for text in (BACK, PREVIOUS, NEXT))

INDEX = Page("index", nodes(TEXT, "WebShop", "Instruction: "), [Node(BUTTON, SEARCH)], _buttons(SEARCH))


def result(product: Product) -> Nodes:
    """Return what a page of results shows of a product."""
    return tuple(nodes(LINK, product.asin) + nodes(TEXT, product.title, product.price_text))


def results_page(results: Iterable[tuple[int, str, Nodes]], number: int, total: int) -> Page:
    """Return a page of search results.

    Args:
        results: position, asin in lower case and `result` of each product on this page.
        number: of the page, from 1.
        total: number of all results.
    """
    body = [_BACK, Node(TEXT, f"Page {number} (Total results: {total})")]
    body += [_PREVIOUS, _NEXT] if number > 1 else [_NEXT]
    clickables = _buttons(BACK, PREVIOUS, NEXT) if number > 1 else _buttons(BACK, NEXT)
    for position, asin, shown in results:
        body += shown
        clickables[asin] = position
    return Page("results", _LEAD, body, clickables)


def item_page(product: Product) -> Page:
    """Return a product's page."""
    body = [_BACK, _PREVIOUS]
    clickables = _buttons(BACK, PREVIOUS, *_SHOWN, BUY)
    for name, values in product.options:
        body += nodes(TEXT, name)
        body += nodes(OPTION, *values)
        # a value that is there twice keeps its first place and belongs to the last group
        clickables.update(dict.fromkeys(values, name))
    body += nodes(TEXT, product.title, f"Price: {product.price_text}", "Rating: N.A.")
    body += nodes(BUTTON, *_SHOWN, BUY)
    return Page("item", _LEAD, body, clickables)


def sub_page(product: Product, name: str) -> Page:
    """Return one of the `SUB_PAGES` of a product."""
    if name == "Description":
        texts = [product.description]
    elif name == "Features":
        texts = [f" {bullet}" for bullet in product.bullets]
    elif name == "Reviews":
        texts = []
    else:
        texts = [*(f" {attribute}" for attribute in product.attributes)]
        texts += [product.category, product.query, product.product_category]
    return Page("sub", _LEAD, [_BACK, _PREVIOUS, *nodes(TEXT, *texts)], _buttons(BACK, PREVIOUS))


_THANKS = nodes(
    TEXT, "Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)",
    "Purchased", "asin",
)  # fmt: skip
_OPTIONS = Node(TEXT, "options")
_GOAL = nodes(
    TEXT, "attrs", "None", "category", "None", "query", "None", "product category", "None",
    "Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query",
    "Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)",
)  # fmt: skip
_END = nodes(TEXT, "Reward Details ", "None")


def done_page(asin: str, options: Mapping[str, str], score: float) -> Page:
    """Return the page after a purchase, which shows the score."""
    chosen = json.dumps(dict(options), sort_keys=True).translate(_SAFE_IN_HTML)
    body = [*_THANKS, *nodes(TEXT, asin), _OPTIONS, Node(TEXT, chosen), *_GOAL, Node(TEXT, repr(score)), *_END]
    return Page("done", (), body, {})


class Pages:
    """The pages of a catalogue; those asked for last are kept.

    Args:
        catalogue: the products.
    """

    def __init__(self, catalogue: Catalogue) -> None:

        @lru_cache(_CACHED)
        def item(position: int) -> Page:
            return item_page(catalogue[position])

        @lru_cache(_CACHED)
        def sub(position: int, name: str) -> Page:
            return sub_page(catalogue[position], name)

        @lru_cache(4 * _CACHED)
        def one(position: int) -> tuple[int, str, Nodes]:
            product = catalogue[position]
            return position, product.asin.lower(), result(product)

        @lru_cache(_CACHED)
        def results(positions: tuple[int, ...], number: int, total: int) -> Page:
            return results_page(map(one, positions), number, total)

        self.item, self.sub, self.results = item, sub, results


def page_text(page: Page, request: str | None) -> str:
    """Return a page as plain text: what `pages.text` gives for all its nodes.

    Args:
        page: the page.
        request: `pages.text` of the request's nodes; None when there are none.
    """
    if not page.lead:
        return page.body_text
    between = SEPARATOR if request is None else f"{SEPARATOR}{request}{SEPARATOR}"
    return f"{page.lead_text}{between}{page.body_text}"


def text_rich(nodes: Iterable[Node], url: str, visited: Collection[str]) -> str:
    """Return the nodes line by line with marks.

    Args:
        nodes: of the page.
        url: of the page; an option is marked as clicked when it stands in the URL between double quotes.
        visited: asins of the products that were opened, marked as clicked too.
    """
    lines = []
    chosen = []
    for kind, content in nodes:
        if kind == BUTTON:
            line = f"[button] {content} [button_]"
        elif kind == LINK:
            clicked = "clicked " if content in visited else ""
            line = f"\n[{clicked}button] {content} [{clicked}button_]"
        elif kind == OPTION:
            clicked = "clicked " if f'"{content}"' in url else ""
            line = f"  [{clicked}button] {content} [{clicked}button_]"
            if clicked:
                chosen.append(f"You have clicked {content}.\n")
        else:
            line = content
        lines.append(line + "\n")
    return "".join([*reversed(chosen), *lines])
