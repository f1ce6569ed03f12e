import contextlib
import itertools
import json
import lzma
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.webshop.catalogue import MemoryCatalogue, draw_prices, known_prices
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.goals import NO_LIMIT, GivenGoals, HumanGoals, HumanRequest, SyntheticGoals, draw_limit
from agentgym.webshop.official.files import read_human, read_record
from tests.agentgym.webshop.oracles import catalogue, find
from tests.agentgym.webshop.small_shop import product
from tests.refusals import refuses


def naive(products: MemoryCatalogue, seed: int) -> tuple[list[float], list[tuple[Any, ...]]]:
    """Prices and synthetic goals as the original makes them."""
    rng = random.Random(seed)
    prices = [p.prices[0] if len(p.prices) == 1 else rng.uniform(*p.prices) for p in products]
    goals = []
    for p, price in zip(products, prices, strict=True):
        if p.instruction is None:
            continue
        above = [limit for limit in (10.0 * i for i in range(1, 100)) if limit > price][:4]
        limit = sorted(rng.sample(above, 2))[1] if len(above) >= 2 else NO_LIMIT
        tail = f", and price lower than {limit:.2f} dollars" if limit != NO_LIMIT else ""
        groups = dict(p.options)
        for values in itertools.product(*(groups[name] for name in sorted(groups))):
            wishes = list(zip(sorted(groups), values, strict=True))
            middle = " with " + ", and ".join(f"{name}: {value}" for name, value in wishes) if wishes else ""
            goals.append((p.asin, p.instruction + middle + tail, tuple(wishes), limit))
    random.Random(233).shuffle(goals)
    return prices, goals


@pytest.mark.parametrize("seed", [0, 1])
def test_synthetic_goals_equal_a_naive_generator(seed: int) -> None:
    extra = [
        product("X1", "dear", prices=(985.0,)),
        product("X2", "range of nothing", prices=(5.0, 5.0)),
        product("X3", "an empty group", (("size", ()), ("color", ("red",)))),
        product("X4", "repeats", (("size", ("s", "s")), ("color", ("red", "tan")))),
        product("X5", "nobody asks", instruction=None),
    ]
    products = MemoryCatalogue([*extra, *generate(300, asked=0.7)])
    rng = random.Random(seed)
    prices = draw_prices(products, rng)
    goals = SyntheticGoals(products, prices, rng)
    expected_prices, expected = naive(products, seed)
    assert prices.tolist() == expected_prices
    assert [(g.asin, g.instruction, g.options, g.price_upper) for g in goals] == expected
    assert [products[i].asin for i in goals.products] == [g.asin for g in goals]


def test_recorded_prices_and_goals_are_drawn_with_the_recorded_seed() -> None:
    path = find("goals_prices_synthetic.json.xz")
    record = read_record(path)
    with lzma.open(path) as stream:
        rng = random.Random(json.load(stream)["seed"])
    prices = draw_prices(catalogue(), rng)
    assert np.array_equal(prices, known_prices(catalogue(), record.prices))
    goals = SyntheticGoals(catalogue(), prices, rng)
    assert len(goals) == 6910
    assert len(set(goals.products.tolist())) == 415
    assert record.goals is not None
    assert list(goals) == list(record.goals)
    assert sum(goal.price_upper == NO_LIMIT for goal in goals) == 15


def test_human_goals_of_the_small_set() -> None:
    requests = read_human(find("items_human_ins.json"))
    rng = random.Random(0)
    prices = draw_prices(catalogue(), rng)
    goals = HumanGoals(catalogue(), prices, rng, requests)
    assert len(goals) == 13
    for goal, position in zip(goals, goals.products, strict=True):
        bought = catalogue()[int(position)]
        (request,) = [r for r in requests[bought.asin] if goal.instruction.startswith(r.instruction.strip("."))]
        assert (goal.asin, goal.attributes, goal.options) == (bought.asin, request.attributes, request.options)


def test_human_goals_are_drawn_in_order_of_products_without_empty_requests() -> None:
    products = MemoryCatalogue([product("B1", "socks"), product("B2", "hats", prices=(995.0,))])
    requests = {
        "B9": (HumanRequest("unknown", ("a",), ()),),
        "B2": (HumanRequest("..a hat..", ("warm",), ("red",)),),
        "B1": (HumanRequest("nothing", (), ()), HumanRequest("socks.", ("warm",), ())),
    }
    goals = HumanGoals(products, np.array([12.0, 995.0]), random.Random(3), requests)
    limit = max(random.Random(3).sample([20.0, 30.0, 40.0, 50.0], 2))
    found = {goal.asin: goal for goal in goals}
    assert found["B1"].instruction == f"socks, and price lower than {limit:.2f} dollars"
    assert (found["B2"].instruction, found["B2"].price_upper) == ("a hat", NO_LIMIT)
    assert (found["B2"].options, found["B1"].attributes, len(goals)) == (("red",), ("warm",), 2)


def test_limits_and_records_must_fit(tmp_path: Path) -> None:
    rng = random.Random(0)
    assert {draw_limit(10.0, rng) for _ in range(200)} == {30.0, 40.0, 50.0}
    assert {draw_limit(9.99, rng) for _ in range(200)} == {20.0, 30.0, 40.0}
    assert {draw_limit(970.0, rng) for _ in range(20)} == {990.0}
    before = rng.getstate()
    assert draw_limit(980.0, rng) == draw_limit(5000.0, rng) == NO_LIMIT
    assert rng.getstate() == before
    products = MemoryCatalogue([product("B1", "socks")])
    refuses(ValueError, "lacks the product B1", known_prices, products, {"B2": 1.0})
    goals = list(SyntheticGoals(products, np.array([1.0]), random.Random(0)))
    with pytest.raises(ValueError, match="goal 0 is about B1, which the catalogue"):
        GivenGoals(MemoryCatalogue([product("B2", "hats")]), goals, "synthetic")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "expected an object with 'prices'"),
        ('{"prices": {}, "goals": 3}', "'goals' must be a list"),
        ('{"prices": {}, "goals": [{"goal_options": {}, "asin": 3}]}', "goal 0: field 'asin'"),
        ('{"prices": {}, "goals": ["x"]}', "goal 0: field 'goal_options'"),
    ],
)
def test_malformed_records(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(content)
    refuses(ValueError, message, read_record, path)


def test_a_shop_of_too_many_goals_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two products with twelve ways to choose each are 24 goals."""
    groups = (("size", ("s", "m", "l")), ("color", ("red", "tan", "blue", "teal")))
    products = MemoryCatalogue([product("B1", "socks", groups), product("B2", "hats", groups)])
    for most in (24, 23):
        monkeypatch.setattr("agentgym.webshop.goals.MOST_GOALS", most)
        with contextlib.nullcontext() if most == 24 else pytest.raises(ValueError, match="more than 23 combinations"):
            assert len(SyntheticGoals(products, np.array([1.0, 1.0]), random.Random(0))) == 24
