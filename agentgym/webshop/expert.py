"""A privileged shopper, which knows the product behind the request: for demonstrations, and as an upper bound."""

import re
from collections.abc import Iterator
from functools import lru_cache

from agentgym.webshop.catalogue import Product
from agentgym.webshop.goals import Goal
from agentgym.webshop.pages import PER_PAGE
from agentgym.webshop.player import keywords
from agentgym.webshop.search.search import Recent
from agentgym.webshop.session import RESULTS, Session

_WORD = re.compile(r"\w+")


def expert_action(session: Session) -> str:
    """Return the next command to buy the goal's product with the wished options; "" when done or not found."""
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
            # A value that another group or button shadows, or with a bracket inside, cannot be chosen.
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
    """Yield (group, value) for each wished option that the product has."""
    for wish in goal.options:
        if isinstance(wish, tuple):
            yield wish
            continue
        for group, values in product.options:
            if wish in values:
                yield group, wish
                break


@lru_cache(maxsize=4096)
def best_query(search: Recent, goal: Goal, target: int) -> str:
    """Return the words of the request or of the title, whichever rank the product better; "" if neither finds it.

    The request wins if it puts the product on the first page of results.
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
