"""The pages of the shop: their texts, what can be clicked, and adverts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from json.encoder import encode_basestring_ascii as _write
from typing import Any, NamedTuple

import numpy as np

from agentgym.checks import real
from agentgym.webshop.catalogue import TEXTS, Catalogue, Product
from agentgym.webshop.generated.departments import KINDS
from agentgym.webshop.generated.generator import ENDINGS, OPENINGS

TEXT, BUTTON, LINK, OPTION = "text", "button", "link", "option"
BUTTONS = SEARCH, BACK, PREVIOUS, NEXT, BUY = "Search", "Back to Search", "< Prev", "Next >", "Buy Now"
#: Pages below a product's page.
SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")
#: Buttons of a product's page that lead to them; only an option of that name leads to the last one.
_SHOWN = SUB_PAGES[:3]
PER_PAGE = 10
SEPARATOR = " [SEP] "
_HTML_SPACE = " \n\t\f\r"
_CACHED = 1024
_SAFE_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})


class Node(NamedTuple):
    """A text on a page: its kind (`TEXT`, `BUTTON`, `LINK` or `OPTION`) and the text."""

    kind: str
    text: str


Nodes = tuple[Node, ...]
#: Texts of a page with their kind, in order, as they were before a browser showed them (`nodes`).
Groups = Sequence[tuple[str, Sequence[str]]]


def nodes(kind: str, *texts: str) -> list[Node]:
    """Return texts as nodes as a browser does: empty ones vanish, white space alone is one blank or nothing."""
    found = []
    for text in texts:
        if text.strip(_HTML_SPACE):
            found.append(Node(kind, text))
        elif text and "\n" not in text:
            found.append(Node(kind, " "))
    return found


def text(nodes: Iterable[Node]) -> str:
    """Return the nodes as one line, "Search [SEP] red [SEP] "."""
    return SEPARATOR.join([text.strip() for _, text in nodes])


class Lead(NamedTuple):
    """The part of a page before the request: as nodes, and as one line."""

    nodes: Nodes
    line: str


class Page:
    """A page without the request, which is between `lead` and `body`; shared by all sessions.

    Args:
        kind: "index", "results", "item", "sub" or "done".
        name: of the page, without choices; "" for results, which are named by the query.
        lead: the part before the request; if empty, there is no request.
        groups: the part after it.
        clickables: texts that can be clicked, in lower case and in order, with a link's product or an option's group.
        commands: the accepted clicks, in order; None to compute them from the clickables.
        line: the part after the request as `text`; None to compute it.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        lead: Lead,
        groups: Groups,
        clickables: Mapping[str, int | str | None],
        commands: tuple[str, ...] | None = None,
        line: str | None = None,
    ) -> None:
        self.kind, self.name, self.clickables = kind, name, clickables
        self.lead, self.lead_text = lead
        self._groups, self.body_text = groups, _line(groups) if line is None else line
        self.commands = _commands(clickables, False) if commands is None else commands
        self.plain = len(self.commands) == len(clickables)

    @cached_property
    def body(self) -> Nodes:
        return _shown(self._groups)

    def nodes(self, request: Iterable[Node]) -> list[Node]:
        return [*self.lead, *request, *self.body] if self.lead else list(self.body)

    @cached_property
    def all_commands(self) -> tuple[str, ...]:
        """The accepted clicks when an argument may contain a bracket."""
        return _commands(self.clickables)


def _commands(names: Collection[str], brackets: bool = True) -> tuple[str, ...]:
    together = "".join(names)
    if (
        "\n" in together or ("[" in together and not brackets) or "" in names or _SEARCH in names
        or together.lower() != together
    ):  # fmt: skip
        names = [
            name for name in names
            if name not in ("", _SEARCH) and "\n" not in name and name.lower() == name and (brackets or "[" not in name)
        ]  # fmt: skip
    # names have no line breaks: one join and one split are faster than single commands
    return tuple(f"click[{_BETWEEN_CLICKS.join(names)}]".split("\n")) if names else ()


_SEARCH, _BETWEEN_CLICKS = SEARCH.lower(), "]\nclick["


def _shown(groups: Groups) -> Nodes:
    return tuple([node for kind, texts in groups for node in nodes(kind, *texts)])


def _line(groups: Groups) -> str:
    lines = [each.strip() for _, texts in groups for each in texts]
    return text(_shown(groups)) if "" in lines else SEPARATOR.join(lines)


def _buttons(*texts: str) -> dict[str, int | str | None]:
    return {text.lower(): None for text in texts}


_NOTHING, _LEAD = Lead((), ""), Lead((Node(TEXT, "Instruction:"),), "Instruction:")
_ON_FIRST, _ON_LATER = _buttons(BACK, NEXT), _buttons(BACK, PREVIOUS, NEXT)
_ON_SUB, _ON_ITEM = _buttons(BACK, PREVIOUS), _buttons(BACK, PREVIOUS, *_SHOWN, BUY)
_FIRST_COMMANDS, _LATER_COMMANDS, _SUB_COMMANDS, _ITEM_COMMANDS = (
    _commands(names) for names in (_ON_FIRST, _ON_LATER, _ON_SUB, _ON_ITEM)
)
_FIRST_BUTTONS, _LATER_BUTTONS = (NEXT,), (PREVIOUS, NEXT)

_INDEX_LEAD = tuple(nodes(TEXT, "WebShop", "Instruction: "))
INDEX = Page("index", "index", Lead(_INDEX_LEAD, text(_INDEX_LEAD)), [(BUTTON, (SEARCH,))], _buttons(SEARCH))


class Listing(NamedTuple):
    """A product among results: its line, position, asin in lower case, and clicks (one or none)."""

    line: str
    position: int
    name: str
    commands: tuple[str, ...]
    groups: Groups


def listing(position: int, product: Product) -> Listing:
    """Return the entry of a product on a page of results."""
    name = product.asin.lower()
    groups = (LINK, (product.asin,)), (TEXT, (product.title, product.price_text))
    return Listing(_line(groups), position, name, _commands((name,), False), groups)


def results_page(listings: Sequence[Listing], number: int, total: int) -> Page:
    """Return a page of results by its number from 1; `total` is the number of all results."""
    buttons, known, commands = (
        (_LATER_BUTTONS, _ON_LATER, _LATER_COMMANDS) if number > 1 else (_FIRST_BUTTONS, _ON_FIRST, _FIRST_COMMANDS)
    )
    count = f"Page {number} (Total results: {total})"
    groups: list[tuple[str, Sequence[str]]] = [(BUTTON, (BACK,)), (TEXT, (count,)), (BUTTON, buttons)]
    clickables, line = known.copy(), SEPARATOR.join((BACK, count, *buttons))
    clicks: tuple[str, ...] | None = commands
    if listings:
        lines, positions, names, each, listed = zip(*listings, strict=True)
        groups += chain.from_iterable(listed)
        clickables.update(zip(names, positions, strict=True))
        line = SEPARATOR.join((line, *lines))
        # two buttons with one name are one click
        different = len(clickables) == len(known) + len(names)
        clicks = (*commands, *chain.from_iterable(each)) if different else None
    return Page("results", "", _LEAD, groups, clickables, clicks, line)


def item_page(product: Product) -> Page:
    """Return a product's page."""
    groups: list[tuple[str, Sequence[str]]] = [(BUTTON, (BACK, PREVIOUS))]
    clickables = _ON_ITEM.copy()
    for name, values in product.options:
        groups += (TEXT, (name,)), (OPTION, values)
        # a repeated value keeps its first place and belongs to the last group
        clickables.update(dict.fromkeys(values, name))
    facts = product.title, f"Price: {product.price_text}", "Rating: N.A."
    groups += (TEXT, facts), (BUTTON, (*_SHOWN, BUY))
    commands = None if product.options else _ITEM_COMMANDS
    return Page("item", f"item {product.asin}", _LEAD, groups, clickables, commands)


def _sub_texts(product: Product, name: str) -> tuple[str, ...]:
    if name == "Description":
        return (product.description,)
    if name == "Features":
        return tuple([f" {bullet}" for bullet in product.bullets])
    if name == "Reviews":
        return ()
    attributes = [f" {attribute}" for attribute in product.attributes]
    return (*attributes, product.category, product.query, product.product_category)


def sub_page(product: Product, name: str) -> Page:
    """Return one of the `SUB_PAGES` of a product."""
    groups = (BUTTON, (BACK, PREVIOUS)), (TEXT, _sub_texts(product, name))
    return Page("sub", f"{name} of {product.asin}", _LEAD, groups, _ON_SUB, _SUB_COMMANDS)


_THANKS = (
    "Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)",
    "Purchased", "asin",
)  # fmt: skip
_GOAL = (
    "attrs", "None", "category", "None", "query", "None", "product category", "None",
    "Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query",
    "Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)",
)  # fmt: skip
_DETAILS = ("Reward Details ", "None")
_THANKS_LINE, _GOAL_LINE, _DETAILS_LINE = (_line([(TEXT, texts)]) for texts in (_THANKS, _GOAL, _DETAILS))


def done_page(asin: str, options: Mapping[str, str], score: float) -> Page:
    """Return the page after a purchase, with its score."""
    # as `json.dumps(options, sort_keys=True)`, which creates an encoder per call
    pairs = ", ".join([f"{_write(name)}: {_write(options[name])}" for name in sorted(options)])
    chosen = f"{{{pairs}}}".translate(_SAFE_IN_HTML) if pairs else "{}"
    texts = *_THANKS, asin, "options", chosen, *_GOAL, repr(score), *_DETAILS
    line = _line([(TEXT, (_THANKS_LINE, asin, "options", chosen, _GOAL_LINE, repr(score), _DETAILS_LINE))])
    return Page("done", f"done {asin}", _NOTHING, [(TEXT, texts)], {}, (), line)


class Pages:
    """The pages of a catalogue; recent pages, and the listings of products, are cached."""

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
        self._kept = item, sub, results

    def clear(self) -> None:
        for kept in self._kept:
            kept.cache_clear()


def page_text(page: Page, request: str | None) -> str:
    """Return `text` of all nodes of a page; `request` is None without a request."""
    if not page.lead_text:
        return page.body_text
    between = SEPARATOR if request is None else f"{SEPARATOR}{request}{SEPARATOR}"
    return f"{page.lead_text}{between}{page.body_text}"


def text_rich(nodes: Iterable[Node], url: str, visited: Collection[str]) -> str:
    """Return the nodes line by line with marks.

    An option is marked as clicked if the URL contains it in double quotes, an opened product if `visited` has its asin.
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


_ADVERTS: list[str] = TEXTS["adverts"]


class Adverts:
    """Puts adverts on pages: they cannot be clicked and change nothing else.

    A view of a page has adverts with probability `page`; each place between its lines then has one with probability
    `slot`. Views of the same page rarely have equal texts, so states cannot be identified by exact comparison.
    """

    def __init__(self, page: Any, slot: Any) -> None:
        self.page = real("noise: the probability of a page", page, 0, 1, expected="in 0..1")
        self.slot = real("noise: the probability of a slot", slot, 0, 1, expected="in 0..1")

    def around(self, nodes: Iterable[Node], view: tuple[int, int]) -> list[Node]:
        """Return the nodes below the request with adverts, a function of `view` (seed of the episode, step)."""
        given = list(nodes)
        rng = np.random.default_rng(view)
        if rng.random() >= self.page:
            return given
        places = rng.random(len(given) + 1) < self.slot
        found = []
        for place, node in zip(places.tolist(), [*given, None], strict=True):
            if place:
                found.append(Node(TEXT, _advert(rng)))
            if node is not None:
                found.append(node)
        return found


def _advert(rng: np.random.Generator) -> str:
    maker = OPENINGS[rng.integers(len(OPENINGS))] + ENDINGS[rng.integers(len(ENDINGS))]
    kind = KINDS[rng.integers(len(KINDS))].name.title()
    template = _ADVERTS[rng.integers(len(_ADVERTS))]
    return template.format(maker=maker, kind=kind, price=rng.integers(5, 100), percent=5 * rng.integers(1, 15))
