"""The pages of the shop: what stands on them in order, what can be clicked, and how they read as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
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


#: Texts that stand together on a page, with their kind.
Parts = tuple[tuple[str, tuple[str, ...]], ...]


class Piece(NamedTuple):
    """What stands together on a page: as one line (see `text`), and by its parts."""

    line: str
    parts: Parts


def piece(*parts: tuple[str, tuple[str, ...]]) -> Piece:
    """Return texts as one piece, without those that `nodes` leaves out."""
    lines = [text.strip() for _, texts in parts for text in texts]
    if not all(lines):
        parts = tuple([(kind, tuple([node.text for node in nodes(kind, *texts)])) for kind, texts in parts])
        lines = [text.strip() for _, texts in parts for text in texts]
    return Piece(SEPARATOR.join(lines), parts)


class Page:
    """A page without the request, which stands between `lead` and `body`; shared by all sessions.

    Args:
        kind: "index", "results", "item", "sub" or "done".
        name: what `keys.page_name` gives; "" for results, whose name is the visitor's query.
        lead: what stands before the request; without a line there is no request either.
        pieces: what stands after it.
        line: the lines of these pieces as one.
        clickables: what can be clicked, in lower case and in order: a link's product, an option's group, or None.
        commands: the clicks that the shop accepts, in order; None to find them among the clickables.

    Attributes:
        lead_text, body_text: what stands before and after the request as one line of text each.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        lead: Piece,
        pieces: Sequence[Piece | Listing],
        line: str,
        clickables: Mapping[str, int | str | None],
        commands: tuple[str, ...] | None = None,
    ) -> None:
        self.kind, self.name, self.clickables = kind, name, clickables
        self.lead_text, self.body_text = lead.line, line
        self._lead, self._pieces = lead, pieces
        self.commands = _plain_commands(clickables) if commands is None else commands

    @cached_property
    def lead(self) -> Nodes:
        """The nodes before the request."""
        return _nodes_of([self._lead])

    @cached_property
    def body(self) -> Nodes:
        """The nodes after the request."""
        return _nodes_of(self._pieces)

    def nodes(self, request: Iterable[Node]) -> list[Node]:
        """Return all nodes of the page."""
        return [*self.lead, *request, *self.body] if self.lead else list(self.body)

    @cached_property
    def all_commands(self) -> tuple[str, ...]:
        """The clicks that are accepted when an argument may hold a bracket."""
        return _commands(list(self.clickables))


def _nodes_of(pieces: Iterable[Piece | Listing]) -> Nodes:
    return tuple([Node(kind, text) for each in pieces for kind, texts in each.parts for text in texts])


def _commands(names: Sequence[str]) -> tuple[str, ...]:
    together = "".join(names)
    if "\n" in together or "" in names or SEARCH.lower() in names or together.lower() != together:
        names = [
            name for name in names if name not in ("", SEARCH.lower()) and not ("\n" in name or name.lower() != name)
        ]
    return tuple([f"click[{name}]" for name in names])


def _plain_commands(names: Iterable[str]) -> tuple[str, ...]:
    """Return the clicks whose argument holds no bracket."""
    return _commands([name for name in names if "[" not in name])


def _buttons(*texts: str) -> dict[str, int | str | None]:
    return {text.lower(): None for text in texts}


_NOTHING, _LEAD = piece(), piece((TEXT, ("Instruction:",)))
_ON_FIRST, _ON_LATER = _buttons(BACK, NEXT), _buttons(BACK, PREVIOUS, NEXT)
_ON_SUB, _ON_ITEM = _buttons(BACK, PREVIOUS), _buttons(BACK, PREVIOUS, *_SHOWN, BUY)
_FIRST_COMMANDS, _LATER_COMMANDS, _SUB_COMMANDS, _ITEM_COMMANDS = (
    _commands(list(names)) for names in (_ON_FIRST, _ON_LATER, _ON_SUB, _ON_ITEM)
)
_BACK_PREVIOUS, _ITEM = (BUTTON, (BACK, PREVIOUS)), (BUTTON, (*_SHOWN, BUY))

INDEX = Page(
    "index", "index", piece((TEXT, ("WebShop", "Instruction: "))), [piece((BUTTON, (SEARCH,)))], SEARCH,
    _buttons(SEARCH),
)  # fmt: skip


class Listing(NamedTuple):
    """A product among results: a `Piece` with its position, its asin in lower case, the clicks on it (one or none)."""

    line: str
    parts: Parts
    position: int
    name: str
    commands: tuple[str, ...]


def listing(position: int, product: Product) -> Listing:
    """Return what a page of results shows of a product."""
    name = product.asin.lower()
    line, parts = piece((LINK, (product.asin,)), (TEXT, (product.title, product.price_text)))
    return Listing(line, parts, position, name, _plain_commands([name]))


def results_page(listings: Sequence[Listing], number: int, total: int) -> Page:
    """Return a page of search results.

    Args:
        listings: of the products on this page.
        number: of the page, from 1.
        total: number of all results.
    """
    clicks: tuple[str, ...]
    buttons, known, clicks = (
        ((PREVIOUS, NEXT), _ON_LATER, _LATER_COMMANDS) if number > 1 else ((NEXT,), _ON_FIRST, _FIRST_COMMANDS)
    )
    clickables, commands = known.copy(), [*clicks]
    count = f"Page {number} (Total results: {total})"
    lines = [BACK, count, *buttons]
    for line, _, position, name, clicks in listings:
        lines.append(line)
        clickables[name] = position
        commands += clicks
    line = SEPARATOR.join(lines)
    head = Piece("", ((BUTTON, (BACK,)), (TEXT, (count,)), (BUTTON, buttons)))
    # Two of one name are one click.
    different = len(clickables) == len(known) + len(listings)
    return Page("results", "", _LEAD, [head, *listings], line, clickables, tuple(commands) if different else None)


def item_page(product: Product) -> Page:
    """Return a product's page."""
    parts: list[tuple[str, tuple[str, ...]]] = [_BACK_PREVIOUS]
    clickables = _ON_ITEM.copy()
    for name, values in product.options:
        parts += (TEXT, (name,)), (OPTION, values)
        # a value that is there twice keeps its first place and belongs to the last group
        clickables.update(dict.fromkeys(values, name))
    parts += (TEXT, (product.title, f"Price: {product.price_text}", "Rating: N.A.")), _ITEM
    whole = piece(*parts)
    commands = None if product.options else _ITEM_COMMANDS
    return Page("item", f"item {product.asin}", _LEAD, [whole], whole.line, clickables, commands)


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
    whole = piece(_BACK_PREVIOUS, (TEXT, tuple(texts)))
    return Page("sub", f"{name} of {product.asin}", _LEAD, [whole], whole.line, _ON_SUB, _SUB_COMMANDS)


_THANKS = piece((TEXT, (
    "Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)",
    "Purchased", "asin",
)))  # fmt: skip
_GOAL = piece((TEXT, (
    "attrs", "None", "category", "None", "query", "None", "product category", "None",
    "Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query",
    "Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)",
)))  # fmt: skip
_write_sorted = json.JSONEncoder(sort_keys=True).encode


def done_page(asin: str, options: Mapping[str, str], score: float) -> Page:
    """Return the page after a purchase, which shows the score."""
    chosen = _write_sorted(dict(options)).translate(_SAFE_IN_HTML) if options else "{}"
    bought, end = piece((TEXT, (asin, "options", chosen))), piece((TEXT, (repr(score), "Reward Details ", "None")))
    line = f"{_THANKS.line}{SEPARATOR}{bought.line}{SEPARATOR}{_GOAL.line}{SEPARATOR}{end.line}"
    return Page("done", f"done {asin}", _NOTHING, [_THANKS, bought, _GOAL, end], line, {}, ())


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
        def listed(position: int) -> Listing:
            return listing(position, catalogue[position])

        @lru_cache(_CACHED)
        def results(positions: tuple[int, ...], number: int, total: int) -> Page:
            return results_page(list(map(listed, positions)), number, total)

        self.item, self.sub, self.results = item, sub, results
        self._kept = item, sub, results, listed

    def clear(self) -> None:
        """Forget all pages."""
        for kept in self._kept:
            kept.cache_clear()


def page_text(page: Page, request: str | None) -> str:
    """Return a page as plain text: what `pages.text` gives for all its nodes.

    Args:
        page: the page.
        request: `pages.text` of the request's nodes; None when there are none.
    """
    if not page.lead_text:
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
