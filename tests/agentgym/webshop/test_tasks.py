"""Goals of a shop against a naive generator and the recorded ones; which of them are tasks."""

import contextlib
import itertools
import json
import lzma
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.webshop.catalogue import MemoryCatalogue, draw_prices, known_prices
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.goals import NO_LIMIT, GivenGoals, HumanGoals, HumanRequest, SyntheticGoals, Wish, draw_limit
from agentgym.webshop.official.files import read_human, read_record
from agentgym.webshop.tasks import Tasks, split_goals
from tests.agentgym.webshop.oracles import catalogue, find
from tests.agentgym.webshop.small_shop import product, tasks_of
from tests.cases import cases
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
    assert (len(goals), len(set(goals.products.tolist()))) == (6910, 415)
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


def test_limits_are_drawn_above_the_price() -> None:
    rng = random.Random(0)
    assert {draw_limit(10.0, rng) for _ in range(200)} == {30.0, 40.0, 50.0}
    assert {draw_limit(9.99, rng) for _ in range(200)} == {20.0, 30.0, 40.0}
    assert {draw_limit(970.0, rng) for _ in range(20)} == {990.0}
    before = rng.getstate()
    assert draw_limit(980.0, rng) == draw_limit(5000.0, rng) == NO_LIMIT
    assert rng.getstate() == before


def test_the_original_s_ranges_and_how_many_goals_a_shop_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two products with twelve ways to choose each are 24 goals."""
    groups = (("size", ("s", "m", "l")), ("color", ("red", "tan", "blue", "teal")))
    products = MemoryCatalogue([product("B1", "socks", groups), product("B2", "hats", groups)])
    for most in (24, 23):
        monkeypatch.setattr("agentgym.webshop.goals.MOST_GOALS", most)
        with contextlib.nullcontext() if most == 24 else pytest.raises(ValueError, match="more than 23 combinations"):
            assert len(SyntheticGoals(products, np.array([1.0, 1.0]), random.Random(0))) == 24
    found = split_goals(np.zeros(6910, np.int32), "goal")
    ends = [(found[split][0], found[split][-1]) for split in ("test", "validation", "train")]
    assert ends == [(0, 499), (500, 1499), (1500, 6909)]


@pytest.mark.parametrize("by", ["goal", "product"])
@given(products=st.lists(st.integers(0, 60), max_size=300))
def test_splits_share_nothing_and_leave_nothing_out(by: str, products: list[int]) -> None:
    column = np.array(products, np.int32)
    found = split_goals(column, by)
    parts = [found[name] for name in ("train", "validation", "test")]
    assert sorted(np.concatenate(parts).tolist()) == found["all"].tolist() == list(range(len(products)))
    assert all((np.diff(part) > 0).all() for part in parts)
    if by == "product":
        kinds = [set(column[part].tolist()) for part in parts]
        assert sum(map(len, kinds)) == len(set(products))
        assert [len(kind) for kind in kinds[1:]] == [len(set(products)) // 5, len(set(products)) // 10]


SIZES = (("color", ("red", "blue")), ("size", ("s", "m")))


def wishes() -> Tasks:
    """Socks in four forms, a hat without options, and gloves that nobody asks for."""
    gloves = product("G1", "Gloves", instruction=None, instruction_attributes=())
    return tasks_of(product("B1", "Wool Socks", SIZES), product("H1", "Wool Hat"), gloves)


def test_a_purchase_does_the_task_that_asks_for_it_if_any() -> None:
    tasks = wishes()
    trained = [tasks.by_index("train", i) for i in range(tasks.count("train"))]
    asked, full = [index for index in trained if tasks.goal(index).asin == "B1"][:2]
    chosen: Any = tasks.goal(full).options
    assert tasks.bought(0, dict(reversed(chosen)), asked) == full
    # where options are left open, so does the request
    part = tasks.bought(0, {"size": "m"}, asked)
    assert part == Wish(0, (("size", "m"),))
    assert tasks.task_id(part) == 'synthetic/B1{"size":"m"}'
    goal = tasks.goal(part)
    assert (goal.asin, goal.attributes, goal.options) == ("B1", ("warm",), (("size", "m"),))
    assert goal.instruction == f"find me warm socks with size: m, and price lower than {goal.price_upper:.2f} dollars"
    assert goal.price_upper == tasks.goal(full).price_upper > 12
    nothing = tasks.bought(0, {}, asked)
    assert nothing == Wish(0, ())
    assert tasks.goal(nothing).instruction.startswith("find me warm socks, and price lower")
    tasks = wishes()
    assert (tasks.bought(2, {}, 0), tasks.bought(0, {"size": "xl"}, 0)) == (None, None)
    # the request names an attribute that the reward does not find in its own product
    odd = tasks_of(
        product("B1", "Hat", instruction_attributes=("made of glass",), attributes=(), bullets=(), description="")
    )
    assert odd.bought(0, {}, 0) is None


@pytest.mark.parametrize("split_by", ["goal", "product"])
def test_what_was_bought_is_of_the_split_of_what_was_asked_for(split_by: str) -> None:
    products = [product(f"B{i}", f"Sock {i}", SIZES) for i in range(10)]
    tasks = tasks_of(*products, split_by=split_by)
    of = {task_id: name for name in ("train", "validation", "test") for task_id in tasks.ids(name)}
    wished = {int(tasks.goals.products[i]): of[tasks.task_id(i)] for i in range(len(tasks.goals))}
    for asked in range(len(tasks.goals)):
        split = of[tasks.task_id(asked)]
        for position in range(10):
            full = tasks.bought(position, {"color": "red", "size": "s"}, asked)
            (same,) = tasks.goals.indices(Wish(position, (("color", "red"), ("size", "s"))))
            assert full == (same if of[tasks.task_id(same)] == split else None)
            part = tasks.bought(position, {"size": "s"}, asked)
            assert (part is not None) == (split_by == "goal" or wished[position] == split)


def test_a_wish_has_one_id_which_is_taken_back() -> None:
    tasks = wishes()
    for wish in (Wish(0, ()), Wish(0, (("size", "m"),)), Wish(0, (("color", "blue"),))):
        assert tasks.by_id(tasks.task_id(wish), None) == tasks.by_id(tasks.task_id(wish), "all") == wish
    refuses(ValueError, "belongs to no split: omit 'split'", tasks.by_id, 'synthetic/B1{"size":"m"}', "train")
    full = tasks.goals.indices(Wish(0, (("color", "red"), ("size", "m"))))[0]
    for other in ('synthetic/B1{"color":"red","size":"m"}', 'synthetic/B1{"size":"m","color":"red"}'):
        refuses(ValueError, f"this task is 'synthetic/{full}'", tasks.by_id, other, None)
    refuses(ValueError, r"""this task is 'synthetic/B1{"size":"m"}'""", tasks.by_id, 'synthetic/B1{"size": "m"}', None)
    given = Tasks(tasks.shop, GivenGoals(tasks.shop.catalogue, [tasks.goals[0]], "human"), "goal", False)
    refuses(TypeError, "human goals from people or a record", given.bought, 0, {}, 0)
    refuses(ValueError, r"unknown task_id 'human/B1{}': human goals", given.by_id, "human/B1{}", None)


@cases(
    "number, message",
    ("B1{nonsense}", "its options are no JSON object"),
    ('B1{"size":3}', "expected '<kind>/<asin>"),
    ("B9{}", "expected '<kind>/<asin>"),
    ('B1{"size":"xl"}', "has no option 'size' with the value 'xl'"),
    ('B1{"brand":"x"}', "has no option 'brand'"),
    ("G1{}", "no goal asks for G1"),
    ids=lambda value: value[:20],
)
def test_a_wish_that_is_none_is_refused(number: str, message: str) -> None:
    refuses(ValueError, message, wishes().by_id, f"synthetic/{number}", None)
