"""Visits: commands, pages, adverts and keys."""

import pickle
import re
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.webshop import pages
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.keys import chosen, option_key
from agentgym.webshop.pages import BUTTON, LINK, OPTION, TEXT, Adverts, Node
from agentgym.webshop.session import LONGEST_COMMAND, Session, Shop, parse
from tests.agentgym.webshop.small_shop import product, shop_of, visit
from tests.refusals import refuses

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


def page_name(kind: str, query: str | None, number: int, asin: str, sub: str) -> str:
    """The page without what was chosen on it."""
    if kind == "index":
        return "index"
    if kind == "results":
        return f"results {number} of {query!r}"
    return f"{sub} of {asin}" if kind == "sub" else f"{kind} {asin}"


def exact_key(page: str, options: Mapping[str, str], query: str | None, number: int, visited: Iterable[str]) -> str:
    """All that decides what the shop will show; the order of the choices is part of it, as the address shows it."""
    parts = [page, option_key(options)]
    if query is not None and not page.startswith("results"):
        parts.append(f"back to {number} of {query!r}")
    opened = " ".join(visited)
    return " | ".join(filter(None, [*parts, opened and f"opened {opened}"]))


@settings(max_examples=300, derandomize=True)
@given(CHOICES, CHOICES)
def test_different_choices_have_different_keys(one: dict[str, str], other: dict[str, str]) -> None:
    assert (option_key(one) == option_key(other)) == (list(one.items()) == list(other.items()))
    assert chosen(one) == chosen(dict(reversed(one.items())))


@pytest.mark.parametrize("mode", ["text", "text_rich", "url"])
@given(seed=st.integers(0, 1000), data=st.data())
def test_names_and_keys_are_those_of_the_state(mode: str, seed: int, data: st.DataObject) -> None:
    """The environment puts them together from parts of earlier steps; here they are written from nothing."""
    env = WebShopEnv(observation_mode=mode, num_products=30)
    _, info = env.reset(seed=seed)
    for _ in range(12):
        more = ("search[red <c> shoes]", "search[it's a_b]", "search[<r>]", "click[attributes]", "nothing")
        *_, info = env.step(data.draw(st.sampled_from((*info["admissible_actions"], *more))))
        session = env.session
        asin = "" if session.product is None else session.bought.asin
        page = page_name(session.page.kind, session.query, session.number, asin, session.sub)
        options = session.options if mode == "url" else dict(sorted(session.options.items()))
        opened = sorted(session.opened()) if mode == "text_rich" else ()
        key = exact_key(page, options, session.query, session.number, opened)
        assert (info["page"], info["options"]) == (page, chosen(options))
        assert info["state_key"] == (f"{key} | {session.draws} draws" if session.draws else key)
        if info["won"] or session.purchase is not None:
            return
        if data.draw(st.booleans()):
            env.restore(env.snapshot())
