"""Pages: what stands on them, and adverts between their lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.pages import (
    BUTTON,
    INDEX,
    LINK,
    OPTION,
    TEXT,
    Adverts,
    Node,
    done_page,
    item_page,
    nodes,
    page_text,
    sub_page,
    text,
    text_rich,
)
from agentgym.webshop.session import Session
from tests.agentgym.webshop.small_shop import product, shop_of, visit
from tests.refusals import refuses

SIZES = (("size", ("s", "m")), ("fit", ("m", "buy now", "a [b]", "", "two\nlines")))


def shown(session: Session) -> str:
    assert page_text(session.page, session.request_text) == text(session.page.nodes(session.request))
    return text(session.page.nodes(session.request))


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", []), ("\n", []), (" \n\t", []), (" ", [" "]), ("\t\r", [" "]), ("\xa0", ["\xa0"]), (" a\n", [" a\n"])],
)
def test_texts_become_nodes_as_in_a_browser(given: str, expected: list[str]) -> None:
    assert nodes(TEXT, given) == [Node(TEXT, text) for text in expected]


def test_index_results_item_and_sub_pages() -> None:
    session = visit(shop_of(product("B1", "Wool Socks")))
    assert shown(session) == "WebShop [SEP] Instruction: [SEP] find me warm socks [SEP] Search"
    assert INDEX.commands == ()
    assert (session.page is INDEX, list(session.page.clickables)) == (True, ["search"])
    shop = shop_of(*[product(f"B{i:02}", f"Sock {i}") for i in range(11)])
    session = visit(shop)
    assert session.play("search[sock]")
    lines = shown(session).split(" [SEP] ")
    assert lines[:8] == [
        "Instruction:", "find me warm socks", "Back to Search", "Page 1 (Total results: 11)", "Next >",
        "B00", "Sock 0", "$12.0",
    ]  # fmt: skip
    assert session.page.commands[:3] == ("click[back to search]", "click[next >]", "click[b00]")
    session.play("click[next >]")
    assert shown(session).endswith("Back to Search [SEP] Page 2 (Total results: 11) [SEP] < Prev [SEP] Next > [SEP] "
                                   "B10 [SEP] Sock 10 [SEP] $12.0")  # fmt: skip
    session.play("click[next >]")
    assert shown(session).endswith("Page 3 (Total results: 11) [SEP] < Prev [SEP] Next >")
    page = item_page(product("B1", "Wool Socks", SIZES))
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
        name: [node.text for node in sub_page(sold, name).body[2:]]
        for name in ("Description", "Features", "Reviews", "Attributes")
    }
    assert texts == {
        "Description": [" "],
        "Features": [" a ", " "],
        "Reviews": [],
        "Attributes": [" warm", " soft", "fashion", "socks", "Clothing › Socks › Warm Socks"],
    }


def test_done_page_and_rich_text() -> None:
    page = done_page("B1", {"size": '5\' "x"', "color": "é<&>"}, 1 / 3)
    told = [node.text for node in page.body]
    assert told[7] == r"options"
    assert told[8] == r'{"color": "\u00e9\u003c\u0026\u003e", "size": "5\u0027 \"x\""}'
    assert told[-4:] == ["Your score (min 0.0, max 1.0)", "0.3333333333333333", "Reward Details ", "None"]
    assert page.nodes([Node(TEXT, "request")]) == list(page.body)
    page = [Node(BUTTON, "Back"), Node(LINK, "B1"), Node(LINK, "B2"), Node(TEXT, " x "), Node(OPTION, "s"),
            Node(OPTION, "red"), Node(OPTION, "rot\u00e9")]  # fmt: skip
    assert text_rich(page, '/{"size": "s", "color": "red", "x": "rot\\u00e9"}', {"B2"}) == (
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
