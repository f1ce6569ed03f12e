"""Adverts between the lines of a page, for studies of robustness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from agentgym.checks import real
from agentgym.webshop.generated.departments import KINDS
from agentgym.webshop.generated.wording import ENDINGS, OPENINGS
from agentgym.webshop.pages import TEXT, Node

_ADVERTS = (
    "Sponsored: {maker} {kind}, now from ${price}",
    "Advert: {kind} week at {maker}, save {percent} percent",
    "{maker} recommends: the {kind} for ${price}",
    "Others who came here bought a {kind} by {maker}",
    "Advert: {maker} ships every {kind} for free",
)


class Adverts:
    """Puts adverts on pages: they can be read, not clicked, and change nothing else.

    With probability `page` a view of a page carries adverts; then each place before and after its lines has one with
    probability `slot`. Two views of the same page seldom look the same, so that states can no longer be told by exact
    comparison of texts.

    Args:
        page: probability that a view carries adverts.
        slot: probability of an advert in each place of such a view.

    Raises:
        ValueError: a probability is not in 0..1.

    >>> [node.text for node in Adverts(1.0, 1.0).around([Node(TEXT, "Search")], (5, 0))]
    ['Sponsored: Pelford Hot Sauce, now from $31', 'Search', 'Sponsored: Norosa Eye Shadow Palette, now from $5']
    """

    def __init__(self, page: Any, slot: Any) -> None:
        self.page = real("noise: the probability of a page", page, 0, 1, expected="in 0..1")
        self.slot = real("noise: the probability of a slot", slot, 0, 1, expected="in 0..1")

    def around(self, nodes: Iterable[Node], view: tuple[int, int]) -> list[Node]:
        """Return the nodes with adverts before, between and after them.

        Args:
            nodes: what stands on the page below the request, which stays where it is.
            view: seed of the episode and number of the step: the same view shows the same adverts.
        """
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
