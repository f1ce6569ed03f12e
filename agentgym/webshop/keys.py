"""A page as a state: what is shown with what was chosen, and the exact state, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def chosen(options: Mapping[str, str]) -> str:
    """Return the chosen options, whatever their order, "nothing" when there are none.

    >>> chosen({"size": "small", "color": "red"}), chosen({})
    ('color: red; size: small', 'nothing')
    """
    return "; ".join([f"{name}: {value}" for name, value in sorted(options.items())]) or "nothing"


def option_key(options: Mapping[str, str]) -> str:
    """Return the chosen options in their order, so that no two choices give the same text.

    >>> option_key({"size": "small", "color": "red"})
    "'size': 'small'; 'color': 'red'"
    """
    return "; ".join([f"{name!r}: {value!r}" for name, value in options.items()])


def page_name(kind: str, query: str | None, number: int, asin: str, sub: str) -> str:
    """Return the page without what was chosen on it: two pages of one name show the same but for the request.

    Args:
        kind: "index", "results", "item", "sub" or "done".
        query: what was searched for.
        number: of the page of results.
        asin: the product; "" where there is none.
        sub: the page below the product's page.

    >>> page_name("results", "red shoes", 2, "", ""), page_name("sub", "red shoes", 2, "B01", "Features")
    ("results 2 of 'red shoes'", 'Features of B01')
    """
    if kind == "index":
        return "index"
    if kind == "results":
        return f"results {number} of {query!r}"
    return f"{sub} of {asin}" if kind == "sub" else f"{kind} {asin}"


def page_key(observation: Any, info: Mapping[str, Any]) -> str:
    """Return page and choice as one node of a state graph, however it was come by: a key for `CanonicalStates`.

    >>> page_key("WebShop [SEP] ...", {"page": "item B01", "options": "color: red"})
    'item B01 | color: red'
    >>> page_key("WebShop [SEP] ...", {"page": "index", "options": "nothing"})
    'index'
    """
    page, options = str(info["page"]), str(info["options"])
    return page if options == "nothing" else f"{page} | {options}"


def exact_key(page: str, options: Mapping[str, str], query: str | None, number: int, visited: Iterable[str]) -> str:
    """Return everything that decides what the shop will show: two states of a goal are equal only if their keys are.

    Args:
        page: see `page_name`.
        options: chosen options; the order of the choices is part of the state (the page's address shows it).
        query: what was searched for: "< Prev" leads back to its results.
        number: of the page of results that "< Prev" leads back to.
        visited: asins of the products that were opened, in order.
    """
    parts = [page]
    if options:
        parts.append(option_key(options))
    if query is not None and not page.startswith("results"):
        parts.append(f"back to {number} of {query!r}")
    opened = list(visited)
    if opened:
        parts.append("opened " + " ".join(opened))
    return " | ".join(parts)
