"""One product of the generated shop, made from a seed and its number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from agentgym.webshop import wording
from agentgym.webshop.departments import KINDS, Kind
from agentgym.webshop.product import Options, Product

#: Products whose random numbers are drawn together, and how many each of them may use.
BLOCK = 64
NUMBERS = 64
#: Most products of one shop: as many as there are article numbers.
MOST = 10**8
#: An article number is this prime factor times the product's number, modulo `MOST`, so that neighbours look unlike.
_FACTOR = 61_803_399
_BACK = pow(_FACTOR, -1, MOST)
#: Where the numbers of a shop begin.
_FIRST, _PER_SEED = 27_182_818, 7_919

_RANGE = 0.12
_NO_PRICE = 0.03
_CENTS = (0.99, 0.95, 0.49, 0.0, 0.25, 0.79)
_T = TypeVar("_T")


class _Draws:
    """Choices made with the uniform numbers of one product, in order."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self._next: Iterator[float] = iter(numbers)

    def uniform(self) -> float:
        return next(self._next)

    def below(self, count: int) -> int:
        return int(next(self._next) * count)

    def pick(self, values: Sequence[_T]) -> _T:
        return values[int(next(self._next) * len(values))]

    def sample(self, values: Sequence[_T], count: int) -> list[_T]:
        """Return `count` of the values in random order."""
        left = list(values)
        return [left.pop(int(next(self._next) * len(left))) for _ in range(count)]


def article_number(seed: int, index: int) -> str:
    """Return the asin of a product: "B0" and eight digits, different for every index.

    >>> article_number(0, 1), index_of(0, "B088986217")
    ('B088986217', 1)
    """
    return f"B0{(index * _FACTOR + _FIRST + seed * _PER_SEED) % MOST:08d}"


def index_of(seed: int, asin: str) -> int | None:
    """Return the number of the product with this asin, None for a text that is no asin of such a shop."""
    digits = asin[2:]
    if len(asin) != 10 or not asin.startswith("B0") or not (digits.isascii() and digits.isdigit()):
        return None
    return (int(digits) - _FIRST - seed * _PER_SEED) * _BACK % MOST


@lru_cache(maxsize=8)
def numbers_of_block(seed: int, block: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the uniform numbers of a block, float64 (BLOCK, NUMBERS), the same in any process."""
    return np.random.default_rng([seed, block]).random((BLOCK, NUMBERS))


def kinds_of_block(seed: int, block: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the kinds of a block's products as positions in `KINDS`, int64 (BLOCK,)."""
    return (numbers_of_block(seed, block)[:, 0] * len(KINDS)).astype(np.int64)


def make_product(seed: int, index: int, asked: float = 1.0) -> Product:
    """Return a product of a shop.

    Args:
        seed: of the shop, at least 0.
        index: the product's number, from 0.
        asked: share of the products that somebody asks for.

    >>> product = make_product(0, 3)
    >>> product == make_product(0, 3), product.query in product.title.lower(), len(product.asin)
    (True, True, 10)
    """
    block, row = divmod(index, BLOCK)
    draws = _Draws(numbers_of_block(seed, block)[row].tolist())
    kind = KINDS[draws.below(len(KINDS))]
    wanted = draws.uniform() < asked
    maker = draws.pick(wording.OPENINGS) + draws.pick(wording.ENDINGS)
    qualities = draws.sample(kind.qualities, 1 + draws.below(3))
    features = draws.sample(kind.features, 1 + draws.below(3))
    # Told in the title, in the description or in the bullet points; the first quality is always in the title.
    title, shown_qualities, shown_features = _title(draws, kind, maker, qualities, features)
    hidden = [(name, True) for name in qualities[shown_qualities:]]
    hidden += [(name, False) for name in features[shown_features:]]
    described = draws.below(len(hidden) + 1)
    prices, price_text = _prices(draws, kind)
    instruction, asked_for = _request(draws, kind, qualities, features)
    return Product(
        asin=article_number(seed, index),
        title=title,
        description=_description(draws, kind, maker, hidden[:described]),
        bullets=_bullets(draws, maker, hidden[described:]),
        prices=prices,
        price_text=price_text,
        options=_options(draws, kind),
        attributes=tuple(sorted([*qualities, *features])),
        category=kind.category,
        query=kind.name,
        product_category=" \u203a ".join(kind.path),
        instruction=instruction if wanted else None,
        instruction_attributes=asked_for if wanted else (),
    )


def _title(
    draws: _Draws, kind: Kind, maker: str, qualities: Sequence[str], features: Sequence[str]
) -> tuple[str, int, int]:
    """Return the title, and how many of the qualities and features it tells."""
    told_qualities = 1 + draws.below(min(2, len(qualities)))
    told_features = draws.below(min(2, len(features)) + 1)
    template = draws.pick(wording.TITLES if told_features else wording.TITLES_WITHOUT_FEATURE)
    title = template.format(
        maker=maker, kind=kind.name.title(), code=f"{draws.pick('ABCDEFGHKLMNPRSTVX')}{100 + draws.below(900)}",
        quality=", ".join(qualities[:told_qualities]).title(), feature=" and ".join(features[:told_features]).title(),
    )  # fmt: skip
    return title, told_qualities, told_features


def _description(draws: _Draws, kind: Kind, maker: str, told: Sequence[tuple[str, bool]]) -> str:
    parts = [draws.pick(wording.OPENERS[kind.category])]
    for name, is_quality in told:
        parts.append(
            draws.pick(wording.QUALITY_SENTENCES if is_quality else wording.FEATURE_SENTENCES).replace("{0}", name)
        )
    if draws.uniform() < 0.6:
        parts.append(draws.pick(wording.REMARKS[kind.category]))
    return " ".join(part for part in parts if part).replace("{kind}", kind.name).replace("{maker}", maker)


def _bullets(draws: _Draws, maker: str, told: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
    bullets = [
        draws.pick(wording.QUALITY_BULLETS if is_quality else wording.FEATURE_BULLETS).replace("{0}", name)
        for name, is_quality in told
    ]
    plain = draws.sample(wording.PLAIN_BULLETS, 1 + draws.below(2))
    for text in plain:
        bullets.insert(draws.below(len(bullets) + 1), text)
    return tuple(text.replace("{maker}", maker) for text in bullets)


def _options(draws: _Draws, kind: Kind) -> Options:
    """Return the option groups of a product: most of its kind's, each with some of the values in their order."""
    groups = []
    for name, values in kind.groups[:2]:
        if draws.uniform() < 0.8:
            chosen = set(draws.sample(values, 2 + draws.below(min(3, len(values) - 1))))
            groups.append((name, tuple(value for value in values if value in chosen)))
    return tuple(groups)


def _prices(draws: _Draws, kind: Kind) -> tuple[tuple[float, ...], str]:
    """Return the amounts of the price tag, cheap ones more often than dear ones, and its text."""
    kind_of_tag, place, width = draws.uniform(), draws.uniform(), draws.uniform()
    cents = draws.pick(_CENTS)
    price = round(math.floor(kind.cheapest * (kind.dearest / kind.cheapest) ** place) + cents, 2)
    if kind_of_tag < _NO_PRICE:
        return (), "$100.0"
    if kind_of_tag < _NO_PRICE + _RANGE:
        dearer = round(math.floor(price * (1.2 + 0.6 * width)) + cents, 2)
        return (price, dearer), f"${price} to ${dearer}"
    return (price,), f"${price}"


def _request(
    draws: _Draws, kind: Kind, qualities: Sequence[str], features: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Return what somebody says who wants this product, and the attributes that are named."""
    before = draws.sample(qualities, draws.below(min(2, len(qualities)) + 1))
    behind = draws.sample(features, draws.below(min(2, len(features)) + 1))
    if not before and not behind:
        before = [qualities[0]]
    wish = f"{', '.join(before)} {kind.name}".strip() + (f" with {' and '.join(behind)}" if behind else "")
    return draws.pick(wording.REQUESTS).format(wish=wish), (*before, *behind)
