from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.webshop.goals import GivenGoals, Wish
from agentgym.webshop.tasks import Tasks, split_goals
from tests.agentgym.webshop.small_shop import product, tasks_of
from tests.refusals import refuses


def test_the_original_s_ranges() -> None:
    found = split_goals(np.zeros(6910, np.int32), "goal")
    assert [(each[0], each[-1]) for each in (found["test"], found["validation"], found["train"])] == [
        (0, 499), (500, 1499), (1500, 6909),
    ]  # fmt: skip


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
    assert tasks.bought(2, {}, 0) is None
    assert tasks.bought(0, {"size": "xl"}, 0) is None
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
    with pytest.raises(ValueError, match=r"""this task is 'synthetic/B1{"size":"m"}'"""):
        tasks.by_id('synthetic/B1{"size": "m"}', None)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("B1{nonsense}", "its options are no JSON object"),
        ("B1" + "{" * 20_000 + "}", "its options are no JSON object"),
        ('B1{"size":3}', "expected '<kind>/<asin>"),
        ("B9{}", "expected '<kind>/<asin>"),
        ("}", "its options are no JSON object"),
        ('B1{"size":"xl"}', "has no option 'size' with the value 'xl'"),
        ('B1{"brand":"x"}', "has no option 'brand'"),
        ("G1{}", "no goal asks for G1"),
    ],
    ids=lambda value: value[:20],
)
def test_a_wish_that_is_none_is_refused(number: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        wishes().by_id(f"synthetic/{number}", None)
    assert len(str(caught.value)) < 2_000


def test_requests_of_people_are_not_made_up() -> None:
    tasks = wishes()
    goals = GivenGoals(tasks.shop.catalogue, [tasks.goals[0]], "human")
    given = Tasks(tasks.shop, goals, "goal", False)
    refuses(TypeError, "human goals from people or a record", given.bought, 0, {}, 0)
    refuses(ValueError, r"unknown task_id 'human/B1{}': human goals", given.by_id, "human/B1{}", None)
