"""The generated shop: its form, its variety, and that what is asked for can be bought."""

import itertools
import math
import re
from collections import Counter

import pytest

from agentgym.webshop.generated.departments import CATEGORIES, KINDS, VALUES
from agentgym.webshop.generated.generator import BLOCK, generate, make_product
from agentgym.webshop.reward import reduced
from tests.refusals import refuses

SHOP = list(generate(2_000))


def test_kinds_attributes_prices_and_options_vary() -> None:
    assert Counter(product.category for product in SHOP).keys() == set(CATEGORIES)
    kinds = Counter(product.query for product in SHOP)
    assert len(kinds) == len(KINDS) == 67
    assert min(kinds.values()) >= 10
    assert all(product.query in product.title.lower() for product in SHOP)
    for kind in KINDS:
        alike = [product for product in SHOP if product.query == kind.name]
        assert len({product.attributes for product in alike}) > len(alike) / 2
        assert len({product.options for product in alike}) > 5
        assert max(p.prices[0] for p in alike) > 1.5 * min(p.prices[0] for p in alike)
    assert Counter(len(product.prices) for product in SHOP).keys() == {1, 2}
    assert sum(product.price_text == "$100.0" for product in SHOP) > 20
    assert Counter(len(product.options) for product in SHOP).keys() == {0, 1, 2}
    for product in SHOP:
        assert all(price >= 3 and round(price, 2) == price for price in product.prices)
        assert product.price_text == " to ".join(f"${price}" for price in product.prices)
        assert len(product.prices) < 2 or product.prices[0] < product.prices[1]
    for product in SHOP:
        text = " ".join([product.title, product.description, *product.bullets]).lower()
        assert all(attribute in text for attribute in product.attributes), product


def test_a_request_names_the_kind_and_its_attributes_and_as_many_as_asked_are_made() -> None:
    for product in SHOP:
        assert product.instruction is not None
        assert product.query in product.instruction
        assert 1 <= len(product.instruction_attributes) <= 4
        assert set(product.instruction_attributes) <= set(product.attributes)
        assert all(attribute in product.instruction for attribute in product.instruction_attributes)
        assert "{" not in product.instruction + product.title + product.description + "".join(product.bullets)
    few = list(generate(2_000, asked=0.25))
    assert 400 < sum(product.instruction is not None for product in few) < 600
    assert all((product.instruction is None) == (not product.instruction_attributes) for product in few)
    assert not any(product.instruction for product in generate(50, asked=0))


def test_shops_are_functions_of_the_seed() -> None:
    assert make_product(0, 3 * BLOCK + 5) == SHOP[3 * BLOCK + 5]
    assert list(generate(100)) == SHOP[:100]
    assert [product.title for product in list(generate(100, seed=1))] != [product.title for product in SHOP[:100]]
    far = [make_product(0, index).asin for index in (9_999, 10_000, 10**6, 10**8 - 1)]
    asins = [product.asin for product in SHOP] + far
    assert len(set(asins)) == len(asins)
    assert all(re.fullmatch(r"B0\d{8}", asin) for asin in asins)


@pytest.mark.parametrize(
    "arguments", [{"num_products": 0}, {"num_products": True}, {"seed": -1}, {"asked": 1.5}, {"num_products": 10**9}]
)
def test_numbers_out_of_range_are_refused_at_once(arguments: dict[str, float]) -> None:
    refuses(ValueError, f"{next(iter(arguments))} must be", generate, **arguments)


def test_options_differ_keep_their_order_and_hold_no_colour_inside_a_word() -> None:
    for key, values in VALUES.items():
        for value in values:
            assert set(reduced(value).split()) <= set(value.split()), (key, value)
    for product in SHOP:
        for name, values in product.options:
            (known,) = (dict(kind.groups)[name] for kind in KINDS if kind.name == product.query)
            assert 2 <= len(values) == len(set(values))
            assert list(values) == [value for value in known if value in values]
        listed = list(itertools.chain.from_iterable(values for _, values in product.options))
        assert len(set(listed)) == len(listed), "a value of two groups could be clicked for one of them only"
    assert sum(math.prod(len(values) for _, values in product.options) for product in SHOP) > 6_000
