import pickle
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.session import LONGEST_COMMAND, Session, Shop, parse
from tests.agentgym.webshop.small_shop import product, shop_of, visit
from tests.growth import FAMILIES, text_of

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
    assert parse("[" * 300_000) == ("", "")
    assert parse("a[" * 300_000 + "b]")[1] == "b"
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
    assert (session.page.kind, session.play("click[buy now]"), session.play("click[back to search]")) == (
        "done", False, False,
    )  # fmt: skip
    walk(session, "search[ ]")
    assert (session.page.kind, session.page.commands[2:], session.purchase) == ("results", (), None)


def test_back_and_forth(shop: Shop) -> None:
    session = walk(visit(shop), "search[sock]", "click[next >]")
    second = session.page
    asin = second.commands[-1]
    walk(session, asin, "click[reviews]", "click[< prev]")
    assert session.page.kind == "item"
    walk(session, "click[< prev]")
    assert (session.page, session.number, session.product) == (second, 2, None)
    assert len(session.opened()) == 1
    walk(session, "click[< prev]")
    assert session.number == 1
    walk(session, "click[back to search]")
    assert (session.query, session.opened(), session.page.kind) == (None, set(), "index")


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
    assert (session.page.kind, session.number, session.page.commands) == (
        "results", 0, ("click[back to search]", "click[next >]"),
    )  # fmt: skip
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
        pages = []
        for command in ("search[<r>]", "search[<r>]", "click[next >]"):
            walk(session, command)
            pages.append(session.page.commands)
            state = session.get_state()
            session.set_state(state)
            assert (session.page.commands, session.get_state()) == (pages[-1], state)
        return pages

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
        assert (other.get_state(), other.page.body, other.url()) == (
            session.get_state(), session.page.body, session.url(),
        )  # fmt: skip
        assert valid or (session.get_state() == before and command not in known)


@pytest.mark.parametrize("command", ["search[{}]", "click[{}]", "{}"])
def test_a_command_of_a_million_characters_changes_nothing(command: str) -> None:
    session = visit(SOCKS_AND_HAT)
    before = session.get_state()
    for family in FAMILIES.values():
        assert not session.play(command.format(text_of(family, 1_000_000)))
    assert session.get_state() == before


def test_another_seed_changes_what_is_drawn_from_there_on_and_nothing_before() -> None:
    env = WebShopEnv(noise=(1.0, 0.9), num_products=200)
    env.reset(seed=5)
    shown, *_, info = env.step("search[<r>]")
    saved = env.snapshot()

    def play_on() -> list[str]:
        commands = ("click[next >]", "search[<r>]", "search[socks]", "click[back to search]")
        return [env.step(command)[0] for command in commands]

    on = play_on()
    branches = []
    for seed in (3, 3, 4):
        assert env.restore(saved, seed) == (shown, info)  # the list and the adverts that were seen
        here = pickle.loads(pickle.dumps(env.snapshot()))
        branches.append(play_on())
        assert env.restore(here) == (shown, info)
        assert play_on() == branches[-1]
    assert branches[0] == branches[1]
    assert all(len(set(texts)) == 3 for texts in zip(on, branches[0], branches[2], strict=True))
    env.restore(saved)
    assert play_on() == on
