"""Products of the generated shop and their texts, each a function of seed and number."""

import math
import numbers
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.checks import real
from agentgym.outside.text import tables_beside
from agentgym.tasks import Draws
from agentgym.webshop.catalogue import UNPRICED, Options, Product
from agentgym.webshop.generated.departments import KINDS, Kind

_TEXTS = tables_beside(__file__, "wording.toml")
#: Makers' names: 24 first x 20 second syllables.
OPENINGS, ENDINGS = (tuple(_TEXTS[name].split()) for name in ("openings", "endings"))


def _texts(*names: str) -> Iterator[tuple[str, ...]]:
    return (tuple(_TEXTS[name]) for name in names)


TITLES, TITLES_WITHOUT_FEATURE, REQUESTS = _texts("titles", "titles_without_feature", "requests")
QUALITY_SENTENCES, FEATURE_SENTENCES = _texts("quality_sentences", "feature_sentences")
QUALITY_BULLETS, FEATURE_BULLETS, PLAIN_BULLETS = _texts("quality_bullets", "feature_bullets", "plain_bullets")
#: First sentences of a description, and others, by category.
OPENERS, REMARKS = ({name: tuple(each) for name, each in _TEXTS[part].items()} for part in ("openers", "remarks"))


#: Default number of products.
NUM_PRODUCTS = 2_000
#: Products whose random numbers are drawn together, and random numbers per product.
BLOCK = 64
NUMBERS = 64
#: Maximum number of products: the number of article numbers.
MOST = 10**8
#: Article numbers are permuted in blocks of this size: factor, offset, shift per seed.
_MIXED, _FACTOR, _FIRST, _PER_SEED = 10_000, 6_181, 2_718, 7_919
#: Prices end in these.
CENTS = (99, 95, 49, 0, 25, 79)
#: A model's code is one of these and a digit.
CODE_LETTERS = "ABCDEFGHKLMNPRSTVX"
_RANGE = 0.12
_NO_PRICE = 0.03


def article_number(seed: int, index: int) -> str:
    """Return the asin of a product: "B0" and eight digits, different for every index."""
    block, place = divmod(index, _MIXED)
    return f"B0{block * _MIXED + (place * _FACTOR + _FIRST + seed * _PER_SEED) % _MIXED:08d}"


@lru_cache(maxsize=8)
def _numbers_of_block(seed: int, block: int) -> NDArray[np.float64]:
    return np.random.default_rng([seed, block]).random((BLOCK, NUMBERS))


def generate(num_products: Any = NUM_PRODUCTS, *, seed: Any = 0, asked: Any = 1.0) -> Iterator[Product]:
    """Yield the products of a shop, a function of `seed`; a larger shop starts with the products of a smaller one.

    `asked` is the share of the products with a goal, in 0..1. A value out of range is a ValueError.
    """
    for name, value, least, most in (("num_products", num_products, 1, MOST), ("seed", seed, 0, 2**63)):
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= int(value) <= most:
            raise ValueError(f"{name} must be an integer in {least}..{most}, got {value!r}")
    share = real("asked", asked, 0, 1, expected="a share in 0..1")
    # Arguments are checked before the first product is asked for.
    return (make_product(int(seed), index, share) for index in range(int(num_products)))


def make_product(seed: int, index: int, asked: float = 1.0) -> Product:
    """Return a product by its number from 0; arguments are those of `generate`."""
    block, row = divmod(index, BLOCK)
    draws = Draws(_numbers_of_block(seed, block)[row].tolist())
    kind = KINDS[draws.below(len(KINDS))]
    wanted = draws.uniform() < asked
    maker = draws.pick(OPENINGS) + draws.pick(ENDINGS)
    qualities = draws.sample(kind.qualities, 1 + draws.below(3))
    features = draws.sample(kind.features, 1 + draws.below(3))
    # Stated in the title, the description or the bullet points; the first quality is always in the title.
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
    draws: Draws, kind: Kind, maker: str, qualities: Sequence[str], features: Sequence[str]
) -> tuple[str, int, int]:
    named_qualities = 1 + draws.below(min(2, len(qualities)))
    named_features = draws.below(min(2, len(features)) + 1)
    template = draws.pick(TITLES if named_features else TITLES_WITHOUT_FEATURE)
    title = template.format(
        maker=maker, kind=kind.name.title(), code=f"{draws.pick(CODE_LETTERS)}{1 + draws.below(9)}",
        quality=", ".join(qualities[:named_qualities]).title(), feature=" and ".join(features[:named_features]).title(),
    )  # fmt: skip
    return title, named_qualities, named_features


def _description(draws: Draws, kind: Kind, maker: str, named: Sequence[tuple[str, bool]]) -> str:
    parts = [draws.pick(OPENERS[kind.category])]
    for name, quality in named:
        parts.append(draws.pick(QUALITY_SENTENCES if quality else FEATURE_SENTENCES).replace("{0}", name))
    if draws.uniform() < 0.6:
        parts.append(draws.pick(REMARKS[kind.category]))
    return " ".join(part for part in parts if part).replace("{kind}", kind.name).replace("{maker}", maker)


def _bullets(draws: Draws, maker: str, named: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
    bullets = [
        draws.pick(QUALITY_BULLETS if quality else FEATURE_BULLETS).replace("{0}", name) for name, quality in named
    ]
    plain = draws.sample(PLAIN_BULLETS, 1 + draws.below(2))
    for text in plain:
        bullets.insert(draws.below(len(bullets) + 1), text)
    return tuple(text.replace("{maker}", maker) for text in bullets)


def _options(draws: Draws, kind: Kind) -> Options:
    groups = []
    for name, values in kind.groups[:2]:
        if draws.uniform() < 0.8:
            chosen = set(draws.sample(values, 2 + draws.below(min(3, len(values) - 1))))
            groups.append((name, tuple(value for value in values if value in chosen)))
    return tuple(groups)


def _prices(draws: Draws, kind: Kind) -> tuple[tuple[float, ...], str]:
    kind_of_tag, place, width = draws.uniform(), draws.uniform(), draws.uniform()
    cents = draws.pick(CENTS) / 100
    price = round(math.floor(kind.cheapest * (kind.dearest / kind.cheapest) ** place) + cents, 2)
    if kind_of_tag < _NO_PRICE:
        return (UNPRICED,), f"${UNPRICED}"  # as the shop shows a product without a tag
    if kind_of_tag < _NO_PRICE + _RANGE:
        dearer = round(math.ceil(price * (1.2 + 0.6 * width)) + cents, 2)
        return (price, dearer), f"${price} to ${dearer}"
    return (price,), f"${price}"


def _request(
    draws: Draws, kind: Kind, qualities: Sequence[str], features: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    before = draws.sample(qualities, draws.below(min(2, len(qualities)) + 1))
    behind = draws.sample(features, draws.below(min(2, len(features)) + 1))
    if not before and not behind:
        before = [qualities[0]]
    wish = f"{', '.join(before)} {kind.name}".strip() + (f" with {' and '.join(behind)}" if behind else "")
    return draws.pick(REQUESTS).format(wish=wish), (*before, *behind)
