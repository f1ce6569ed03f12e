"""A shopper who knows what the request was made from: for demonstrations, and as an upper bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from agentgym.webshop.catalogue import Product
from agentgym.webshop.goals import Goal
from agentgym.webshop.pages import PER_PAGE
from agentgym.webshop.player import keywords
from agentgym.webshop.search.search import Search
from agentgym.webshop.session import RESULTS, Session

_WORD = re.compile(r"\w+")


def expert_action(session: Session) -> str:
    """Return the next command on the way to buying the goal's product with the wished options, from any page.

    It searches with words of the request where that brings the product onto the first page of results, else with the
    words of its title.

    Returns:
        A command; "" after the purchase, and where no search finds the product.
    """
    shop, goal, kind = session.shop, session.goal, session.page.kind
    if kind == "done":
        return ""
    target = shop.catalogue.find(goal.asin)
    if target is None:
        return ""
    if session.product == target and kind == "sub":
        return "click[< prev]"
    if session.product == target and kind == "item":
        clickables = session.page.clickables
        for group, value in wished(goal, shop.catalogue[target]):
            # A value that another group or button has taken over, or with a bracket inside, cannot be chosen.
            if session.options.get(group) != value and clickables.get(value) == group and "[" not in value:
                return f"click[{value}]"
        return "click[buy now]"
    if kind == "results" and session.query is not None:
        found = shop.search.top(session.query, RESULTS)
        if target in found:
            page = list(found).index(target) // PER_PAGE + 1
            if page != session.number:
                return "click[next >]" if page > session.number else "click[< prev]"
            return f"click[{goal.asin.lower()}]"
    query = best_query(shop.search, goal, target)
    return f"search[{query}]" if query and (kind != "results" or query != session.query) else ""


def wished(goal: Goal, product: Product) -> Iterator[tuple[str, str]]:
    """Yield (group, value) for each option that the goal wishes and the product has."""
    for wish in goal.options:
        if isinstance(wish, tuple):
            yield wish
            continue
        for group, values in product.options:
            if wish in values:
                yield group, wish
                break


@lru_cache(maxsize=4096)
def best_query(search: Search, goal: Goal, target: int) -> str:
    """Return words that find the product: those of the request if they bring it onto the first page, else the better.

    Returns:
        "" when neither the request nor the title finds it.
    """
    ranks: dict[str, int] = {}
    for words in (keywords(goal.instruction), _WORD.findall(goal.name.lower())):
        query = " ".join(words)
        found = list(search.top(query, RESULTS)) if query else []
        if target in found:
            ranks[query] = found.index(target)
            if ranks[query] < PER_PAGE:
                return query
    return min(ranks, key=lambda query: ranks[query], default="")
