"""What all sessions in a shop share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentgym.webshop.catalogue.product import Catalogue
from agentgym.webshop.goal import Goal
from agentgym.webshop.pages import Pages
from agentgym.webshop.search.search import Search


class Purchase(NamedTuple):
    """What a purchase is worth: the score in 0..1, and its parts by name."""

    score: float
    parts: Mapping[str, Any]


#: Grades a purchase: position of the product, chosen options, goal.
Grade = Callable[[int, Mapping[str, str], Goal], Purchase]


@dataclass(frozen=True)
class Shop:
    """A shop.

    Attributes:
        catalogue: the products.
        search: finds products by words.
        grade: grades a purchase.
        pages: the pages of the catalogue.
    """

    catalogue: Catalogue
    search: Search
    grade: Grade
    pages: Pages
