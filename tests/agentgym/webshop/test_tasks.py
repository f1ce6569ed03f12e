"""The generated shop, and goals of a shop against the recorded ones: which of them are tasks. Visits: commands, pages,
adverts and keys."""

import contextlib
import itertools
import json
import lzma
import math
import pickle
import random
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.webshop import pages
from agentgym.webshop.catalogue import MemoryCatalogue, draw_prices, known_prices
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.generated.departments import CATEGORIES, KINDS, VALUES
from agentgym.webshop.generated.generator import BLOCK, generate, make_product
from agentgym.webshop.goals import NO_LIMIT, GivenGoals, HumanGoals, HumanRequest, SyntheticGoals, Wish, draw_limit
from agentgym.webshop.keys import chosen, option_key
from agentgym.webshop.official.files import read_human, read_record
from agentgym.webshop.pages import BUTTON, LINK, OPTION, TEXT, Adverts, Node
from agentgym.webshop.reward import reduced
from agentgym.webshop.session import LONGEST_COMMAND, Session, Shop, parse
from agentgym.webshop.tasks import Tasks, split_goals
from tests.agentgym.webshop.support import catalogue, find, product, shop_of, tasks_of, visit
from tests.cases import cases
from tests.refusals import refuses

SHOP = list(generate(2_000))


def test_kinds_attributes_prices_and_options_vary() -> None:
    assert Counter(sold.category for sold in SHOP).keys() == set(CATEGORIES)
    kinds = Counter(sold.query for sold in SHOP)
    assert len(kinds) == len(KINDS) == 67
    assert min(kinds.values()) >= 10
    assert all(sold.query in sold.title.lower() for sold in SHOP)
    for kind in KINDS:
        alike = [sold for sold in SHOP if sold.query == kind.name]
        assert len({sold.attributes for sold in alike}) > len(alike) / 2
        assert len({sold.options for sold in alike}) > 5
        assert max(p.prices[0] for p in alike) > 1.5 * min(p.prices[0] for p in alike)
    assert Counter(len(sold.prices) for sold in SHOP).keys() == {1, 2}
    assert sum(sold.price_text == "$100.0" for sold in SHOP) > 20
    assert Counter(len(sold.options) for sold in SHOP).keys() == {0, 1, 2}
    for sold in SHOP:
        assert all(price >= 3 and round(price, 2) == price for price in sold.prices)
        assert sold.price_text == " to ".join(f"${price}" for price in sold.prices)
        assert len(sold.prices) < 2 or sold.prices[0] < sold.prices[1]
    for sold in SHOP:
        text = " ".join([sold.title, sold.description, *sold.bullets]).lower()
        assert all(attribute in text for attribute in sold.attributes), sold


def test_a_request_names_the_kind_and_its_attributes_and_as_many_as_asked_are_made() -> None:
    for sold in SHOP:
        assert sold.instruction is not None
        assert sold.query in sold.instruction
        assert 1 <= len(sold.instruction_attributes) <= 4
        assert set(sold.instruction_attributes) <= set(sold.attributes)
        assert all(attribute in sold.instruction for attribute in sold.instruction_attributes)
        assert "{" not in sold.instruction + sold.title + sold.description + "".join(sold.bullets)
    few = list(generate(2_000, asked=0.25))
    assert 400 < sum(sold.instruction is not None for sold in few) < 600
    assert all((sold.instruction is None) == (not sold.instruction_attributes) for sold in few)
    assert not any(sold.instruction for sold in generate(50, asked=0))


def test_shops_are_functions_of_the_seed() -> None:
    assert make_product(0, 3 * BLOCK + 5) == SHOP[3 * BLOCK + 5]
    assert list(generate(100)) == SHOP[:100]
    assert [sold.title for sold in list(generate(100, seed=1))] != [sold.title for sold in SHOP[:100]]
    far = [make_product(0, index).asin for index in (9_999, 10_000, 10**6, 10**8 - 1)]
    asins = [sold.asin for sold in SHOP] + far
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
    for sold in SHOP:
        for name, values in sold.options:
            (known,) = (dict(kind.groups)[name] for kind in KINDS if kind.name == sold.query)
            assert 2 <= len(values) == len(set(values))
            assert list(values) == [value for value in known if value in values]
        listed = list(itertools.chain.from_iterable(values for _, values in sold.options))
        assert len(set(listed)) == len(listed), "a value of two groups could be clicked for one of them only"
    assert sum(math.prod(len(values) for _, values in sold.options) for sold in SHOP) > 6_000


def test_goals_of_odd_products_by_hand() -> None:
    """Every way to choose is a goal, also where a value is listed twice; what nobody asks for is none."""
    products = MemoryCatalogue([
        product("X1", "dear", prices=(985.0,)), product("X2", "range of nothing", prices=(5.0, 5.0)),
        product("X3", "an empty group", (("size", ()), ("color", ("red",)))),
        product("X4", "repeats", (("size", ("s", "s")), ("color", ("red", "tan")))),
        product("X5", "nobody asks", instruction=None),
    ])  # fmt: skip
    rng = random.Random(0)
    prices = draw_prices(products, rng)
    assert prices.tolist() == [985.0, 5.0, 12.0, 12.0, 12.0]
    goals = SyntheticGoals(products, prices, rng)
    red, tan = ((("color", color), ("size", "s")) for color in ("red", "tan"))
    assert sorted((g.asin, g.options) for g in goals) == [
        ("X1", ()),
        ("X2", ()),
        *[("X4", red)] * 2,
        *[("X4", tan)] * 2,
    ]
    texts = {g.asin: g.instruction for g in goals if g.options != red}
    assert texts["X1"] == "find me warm socks"
    assert re.fullmatch(r"find me warm socks, and price lower than [1-5]0\.00 dollars", texts["X2"])
    assert texts["X4"].startswith("find me warm socks with color: tan, and size: s, and price lower than ")
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


FORMS = (("color", ("red", "blue")), ("size", ("s", "m")))


def wishes() -> Tasks:
    """Socks in four forms, a hat without options, and gloves that nobody asks for."""
    gloves = product("G1", "Gloves", instruction=None, instruction_attributes=())
    return tasks_of(product("B1", "Wool Socks", FORMS), product("H1", "Wool Hat"), gloves)


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
    products = [product(f"B{i}", f"Sock {i}", FORMS) for i in range(10)]
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


PATTERN = re.compile(r"(.+)\[(.+)\]")
SOCKS_AND_HAT = shop_of(product("B1", "Wool Socks", (("size", ("s", "m")),)), product("B2", "Hat"))
ODD = (("size", ("s", "m", "next >")), ("fit", ("m", "< prev", "description", "attributes", "search", "a [b]", "")))


@pytest.fixture(scope="module")
def shop() -> Shop:
    more = [product(f"B{i:02}", f"Sock {i}", ODD if i % 2 else ()) for i in range(12)]
    return shop_of(*more, product("H1", "Hat", category="garden", query="hats"))


def walk(session: Session, *commands: str) -> Session:
    for command in commands:
        assert session.play(command), command
    return session


@given(st.text(alphabet="ab[]\n\r \u2028é", max_size=12) | st.text(max_size=20))
@example("[]]")
@example("a[b]]")
@example("a[[]")
def test_commands_are_read_as_the_pattern_reads_them(command: str) -> None:
    found = PATTERN.match(command)
    assert parse(command) == (found.groups() if found else ("", ""))
    first = re.match(r"([^\n]+?)\[([^\n]+)\]", command)
    assert parse(command, True) == (first.groups() if first else ("", ""))


def test_commands_of_any_length_take_no_long_time() -> None:
    assert (parse("[" * 300_000), parse("a[" * 300_000 + "b]")[1]) == (("", ""), "b")
    session = visit(SOCKS_AND_HAT)
    words = "wool " * (LONGEST_COMMAND // 5)
    longest = f"search[{words[: LONGEST_COMMAND - 8]}]"
    assert len(longest) == LONGEST_COMMAND
    assert session.play(longest)
    assert session.page.clickables["b1"] == 0
    assert not session.play(f"{longest[:-1]}x]")
    assert len(session.url()) < 1_000_000


@pytest.mark.parametrize(
    "command",
    ["", "search", "search[]", "Search[a]", " search[a]", "search [a]", "click[Search]", "click[nothing]", "buy now",
     "click[b00]", "click[next >]", "<action>search[a]</action>", "search[a\nb]"],
)  # fmt: skip
def test_no_ops_on_the_index_page(shop: Shop, command: str) -> None:
    session = visit(shop)
    before = session.get_state()
    assert not session.play(command)
    assert session.get_state() == before


def test_search_on_every_page_also_after_the_purchase(shop: Shop) -> None:
    session = walk(visit(shop), "search[sock]", "search[HAT] please")
    assert (session.query, session.page.kind) == ("hat", "results")
    walk(session, "click[H1]", "search[sock]", "click[b00]", "click[features]", "search[hat]", "click[h1]")
    assert not session.play("click[buy now]]")
    walk(session, "click[Buy Now] please")
    assert session.page.kind == "done"
    assert not session.play("click[buy now]") | session.play("click[back to search]")
    walk(session, "search[ ]")
    assert (session.page.kind, session.page.commands[2:], session.purchase) == ("results", (), None)


def test_options(shop: Shop) -> None:
    session = walk(visit(shop), "search[sock 1]", "click[b01]", "click[s]", "click[S]")
    assert session.options == {"size": "s"}
    walk(session, "click[m]")  # the value of both groups belongs to the last one
    assert session.options == {"size": "s", "fit": "m"}
    walk(session, "click[next >]")  # on a product's page it is but a value
    assert session.options == {"size": "next >", "fit": "m"}
    walk(session, "click[attributes]")
    assert (session.page.kind, session.sub) == ("sub", "Attributes")
    walk(session, "click[< prev]")
    assert session.options == {"size": "next >", "fit": "m"}
    assert not session.play("click[search]")
    assert not session.play("click[a [b]]")
    walk(session, "click[< prev]")  # the button, not the value
    assert (session.page.kind, session.options) == ("results", {})
    assert visit(shop, brackets=True).play("search[a [b]]")
    session = walk(visit(shop, brackets=True), "search[sock 1]", "click[b01]", "click[a [b]]")
    assert session.options == {"fit": "a [b]"}


def test_words_of_the_query_that_look_like_an_address(shop: Shop) -> None:
    """The original tells pages apart by their address, and the query is part of it."""
    session = walk(visit(shop), "search[sock search_results]", "click[next >]")
    walk(session, session.page.commands[-1], "click[features]", "click[< prev]")
    assert (session.page.kind, session.number) == ("results", 1)
    walk(session, session.page.commands[-1], "click[< prev]")
    assert (session.page.kind, session.number) == ("results", 0)
    assert session.page.commands == ("click[back to search]", "click[next >]")
    walk(session, "click[next >]")
    assert session.number == 1
    session = walk(visit(shop), "search[sock item_page]", "click[b01]", "click[features]", "click[< prev]")
    assert session.page.kind == "results"


def test_hidden_queries(shop: Shop) -> None:
    def total(query: str) -> int:
        session = walk(visit(shop), f"search[{query}]")
        return int(re.search(r"results: (\d+)", session.page.body[1].text)[1])  # type: ignore[index]

    assert [total(f"<c> {name}") for name in ("garden", "fashion", "fashion shoes", "none")] == [1, 12, 12, 0]
    assert [total(query) for query in ("<q> hats", "<q> socks", "<q>", "<c>", "<c>  garden")] == [1, 12, 0, 0, 0]
    assert [total(query) for query in ("<a> warm", "<a>", "<r>", "<r> sock", "sock <r>")] == [0, 0, 13, 13, 12]


def test_random_products_are_drawn_anew_each_time_and_the_same_again(shop: Shop) -> None:
    def drawn(seed: int) -> list[tuple[str, ...]]:
        session = Session(shop, visit(shop).goal, "7", seed)
        shown = []
        for command in ("search[<r>]", "search[<r>]", "click[next >]"):
            walk(session, command)
            shown.append(session.page.commands)
            state = session.get_state()
            session.set_state(state)
            assert (session.page.commands, session.get_state()) == (shown[-1], state)
        return shown

    assert drawn(1) == drawn(1) != drawn(2)
    assert drawn(1)[0] != drawn(1)[1]


COMMANDS = st.sampled_from(
    ["search[sock]", "search[hat]", "search[<r>]", "search[<c> garden]", "search[<a> x]", "search[<c>]",
     "search[sock item_page search_results]", "click[next >]", "click[< prev]", "click[back to search]", "click[b01]",
     "click[b00]", "click[s]", "click[m]", "click[description]", "click[attributes]", "click[buy now]", "click[h1]"],
) | st.text(max_size=8).map("search[{}]".format) | st.text(max_size=8)  # fmt: skip


@settings(max_examples=150)
@given(commands=st.lists(COMMANDS, max_size=25), brackets=st.booleans())
def test_any_commands_are_steps_or_no_ops_and_states_continue_alike(
    shop: Shop, commands: list[str], brackets: bool
) -> None:
    session, other = visit(shop, brackets), visit(shop, brackets)
    for command in commands:
        before = session.get_state()
        other.set_state(pickle.loads(pickle.dumps(before)))
        known = session.page.all_commands if brackets else session.page.commands
        valid = session.play(command)
        assert other.play(command) == valid
        for one in (Session.get_state, Session.url, lambda session: session.page.body):
            assert one(other) == one(session)
        assert valid or (session.get_state() == before and command not in known)


def test_another_seed_changes_what_is_drawn_from_there_on_and_nothing_before() -> None:
    env = WebShopEnv(noise=(1.0, 0.9), num_products=200)
    env.reset(seed=5)
    shown, *_, info = env.step("search[<r>]")
    saved, played = env.snapshot(), dict[int | None, list[str]]()
    commands = ("click[next >]", "search[<r>]", "search[socks]", "click[back to search]")
    for seed in (None, 3, 4, 3, None):
        assert env.restore(saved, seed) == (shown, info)  # the list and the adverts that were seen
        here = pickle.loads(pickle.dumps(env.snapshot()))
        for _ in range(2):
            texts = [env.step(command)[0] for command in commands]
            assert texts == played.setdefault(seed, texts)
            assert env.restore(here) == (shown, info)
    assert all(len(set(texts)) == 3 for texts in zip(*played.values(), strict=True))


SIZES = (("size", ("s", "m")), ("fit", ("m", "buy now", "a [b]", "", "two\nlines")))


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", []), ("\n", []), (" \n\t", []), (" ", [" "]), ("\t\r", [" "]), ("\xa0", ["\xa0"]), (" a\n", [" a\n"])],
)
def test_texts_become_nodes_as_in_a_browser(given: str, expected: list[str]) -> None:
    assert pages.nodes(TEXT, given) == [Node(TEXT, text) for text in expected]


def test_item_and_sub_pages() -> None:
    page = pages.item_page(product("B1", "Wool Socks", SIZES))
    assert [tuple(node) for node in page.body[2:12]] == [
        (TEXT, "size"), (OPTION, "s"), (OPTION, "m"), (TEXT, "fit"), (OPTION, "m"), (OPTION, "buy now"),
        (OPTION, "a [b]"), (OPTION, "two\nlines"), (TEXT, "Wool Socks"), (TEXT, "Price: $12.0"),
    ]  # fmt: skip
    assert list(page.clickables) == [
        "back to search", "< prev", "description", "features", "reviews", "buy now", "s", "m", "a [b]", "",
        "two\nlines",
    ]  # fmt: skip
    assert page.clickables["m"] == "fit"
    buttons = ("click[back to search]", "click[< prev]", "click[description]", "click[features]", "click[reviews]")
    assert page.commands == (*buttons, "click[buy now]", "click[s]", "click[m]")
    assert page.all_commands == (*buttons, "click[buy now]", "click[s]", "click[m]", "click[a [b]]")
    sold = product("B1", "Socks", bullets=("a ", "", "\n"), attributes=("warm", "soft"), description=" ")
    texts = {
        name: [node.text for node in pages.sub_page(sold, name).body[2:]]
        for name in ("Description", "Features", "Reviews", "Attributes")
    }
    assert texts == {
        "Description": [" "],
        "Features": [" a ", " "],
        "Reviews": [],
        "Attributes": [" warm", " soft", "fashion", "socks", "Clothing › Socks › Warm Socks"],
    }


def test_done_page_and_rich_text() -> None:
    page = pages.done_page("B1", {"size": '5\' "x"', "color": "é<&>"}, 1 / 3)
    shown = [node.text for node in page.body]
    assert (shown[7], shown[8]) == (r"options", r'{"color": "\u00e9\u003c\u0026\u003e", "size": "5\u0027 \"x\""}')
    assert shown[-4:] == ["Your score (min 0.0, max 1.0)", "0.3333333333333333", "Reward Details ", "None"]
    assert page.nodes([Node(TEXT, "request")]) == list(page.body)
    page = [Node(BUTTON, "Back"), Node(LINK, "B1"), Node(LINK, "B2"), Node(TEXT, " x "), Node(OPTION, "s"),
            Node(OPTION, "red"), Node(OPTION, "rot\u00e9")]  # fmt: skip
    assert pages.text_rich(page, '/{"size": "s", "color": "red", "x": "rot\\u00e9"}', {"B2"}) == (
        "You have clicked red.\nYou have clicked s.\n[button] Back [button_]\n\n[button] B1 [button_]\n"
        "\n[clicked button] B2 [clicked button_]\n x \n  [clicked button] s [clicked button_]\n"
        "  [clicked button] red [clicked button_]\n  [button] rot\u00e9 [button_]\n"
    )


PAGE = [Node(BUTTON, "Back to Search"), Node(LINK, "B0"), Node(TEXT, "Red Hat"), Node(TEXT, "$5.0")]
some_nodes = st.lists(st.builds(Node, st.sampled_from([TEXT, BUTTON, LINK]), st.text(max_size=5)), max_size=6)
share = st.floats(0, 1)


@settings(max_examples=100, derandomize=True)
@given(some_nodes, share, share, st.integers(0, 2**63), st.integers(0, 10**6))
def test_the_page_stays_and_adverts_are_plain_text(
    page: list[Node], p: float, q: float, episode: int, step: int
) -> None:
    adverts = Adverts(p, q)
    shown = adverts.around(page, (episode, step))
    assert shown == adverts.around(page, (episode, step))
    left = iter(shown)
    assert all(node in left for node in page)  # in order
    extra = len(shown) - len(page)
    assert 0 <= extra <= len(page) + 1
    assert sum(node.kind == TEXT for node in shown) == sum(node.kind == TEXT for node in page) + extra


def test_adverts_are_as_frequent_as_asked_and_differ_by_view() -> None:
    for view in [(1, 0), (1, 1), (2, 0)]:
        assert Adverts(0, 1).around(PAGE, view) == PAGE
        assert Adverts(1, 0).around(PAGE, view) == PAGE
        assert len(Adverts(1, 1).around(PAGE, view)) == 2 * len(PAGE) + 1
    counts = [len(Adverts(0.5, 0.2).around(PAGE, (7, step))) - len(PAGE) for step in range(4_000)]
    # 5 places: 0.5 * 5 * 0.2 adverts a view; none with probability 1 - 0.5 * (1 - 0.8^5) = 0.664
    assert abs(sum(counts) / 4_000 - 0.5) < 0.05
    assert abs(counts.count(0) / 4_000 - 0.664) < 0.03
    assert len({tuple(Adverts(1, 0.5).around(PAGE, (0, step))) for step in range(50)}) > 45


@pytest.mark.parametrize(("page", "slot"), [(-0.1, 0.5), (0.5, 1.1), ("1", 0.5), (True, 0.5), (0.5, float("nan"))])
def test_probabilities_out_of_range_are_refused(page: float, slot: float) -> None:
    refuses(ValueError, r"noise: the probability of a (page|slot) must be in 0\.\.1", Adverts, page, slot)


CHOICES = st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3)


@settings(max_examples=300, derandomize=True)
@given(CHOICES, CHOICES)
def test_different_choices_have_different_keys(one: dict[str, str], other: dict[str, str]) -> None:
    assert (option_key(one) == option_key(other)) == (list(one.items()) == list(other.items()))
    assert chosen(one) == chosen(dict(reversed(one.items())))
