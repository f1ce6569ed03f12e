import pytest

from agentgym.webshop.pages import (
    BUTTON,
    INDEX,
    LINK,
    OPTION,
    TEXT,
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


def test_index() -> None:
    session = visit(shop_of(product("B1", "Wool Socks")))
    assert shown(session) == "WebShop [SEP] Instruction: [SEP] find me warm socks [SEP] Search"
    assert INDEX.commands == ()
    assert (session.page is INDEX, list(session.page.clickables)) == (True, ["search"])


def test_results() -> None:
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


def test_item_with_values_that_are_there_twice_or_cannot_be_clicked() -> None:
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


def test_sub_pages() -> None:
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


def test_done_page_writes_options_as_the_original_does() -> None:
    page = done_page("B1", {"size": '5\' "x"', "color": "é<&>"}, 1 / 3)
    told = [node.text for node in page.body]
    assert told[7] == r"options"
    assert told[8] == r'{"color": "\u00e9\u003c\u0026\u003e", "size": "5\u0027 \"x\""}'
    assert told[-4:] == ["Your score (min 0.0, max 1.0)", "0.3333333333333333", "Reward Details ", "None"]
    assert page.nodes([Node(TEXT, "request")]) == list(page.body)


def test_rich_text_marks() -> None:
    page = [Node(BUTTON, "Back"), Node(LINK, "B1"), Node(LINK, "B2"), Node(TEXT, " x "), Node(OPTION, "s"),
            Node(OPTION, "red"), Node(OPTION, "rot\u00e9")]  # fmt: skip
    assert text_rich(page, '/{"size": "s", "color": "red", "x": "rot\\u00e9"}', {"B2"}) == (
        "You have clicked red.\nYou have clicked s.\n[button] Back [button_]\n\n[button] B1 [button_]\n"
        "\n[clicked button] B2 [clicked button_]\n x \n  [clicked button] s [clicked button_]\n"
        "  [clicked button] red [clicked button_]\n  [button] rot\u00e9 [button_]\n"
    )
