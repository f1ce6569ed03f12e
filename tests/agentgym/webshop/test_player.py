"""Scripted shoppers: the one who knows the goal always succeeds, the one who reads comes close and knows nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.catalogue import read_tag
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.expert import best_query, wished
from agentgym.webshop.goals import Goal
from agentgym.webshop.player import WebShopPlayer, keywords, mentioned, price_limit, wished_options
from tests.agentgym.webshop.small_shop import goal_of, product
from tests.refusals import refuses

HAT = product("B000000001", "Red Hat", (("size", ("small", "large")), ("color", ("red", "large"))), query="hat")


def goal(*options: object) -> Goal:
    return goal_of(HAT, options=options)


def play(env: WebShopEnv, index: int, patience: int) -> dict[str, Any]:
    """The last info of a shopper's visit, with the number of steps and whether it bought."""
    observation, info = env.reset(seed=index, options={"split": "test", "index": index})
    shopper, steps, bought = WebShopPlayer(patience), 0, False
    while steps < 15 and not bought:
        observation, _, bought, _, info = env.step(shopper.act(observation, info["admissible_actions"]))
        assert info["is_action_valid"]
        steps += 1
    return {**info, "steps": steps, "bought": bought}


def test_the_expert_finds_back_from_anywhere() -> None:
    env = WebShopEnv(expert=True)
    _, info = env.reset(seed=3)
    target = env.session.goal.asin.lower()
    for commands in (
        ["search[no such thing at all]"],
        ["search[olive oil]", "click[next >]", "click[next >]"],
        ["search[<c> fashion]"],
        [f"search[{env.session.goal.name}]", f"click[{target}]", "click[features]"],
        [f"search[{env.session.goal.name}]", f"click[{target}]", "click[back to search]"],
    ):
        before = env.snapshot()
        for command in commands:
            *_, info = env.step(command)
            assert info["is_action_valid"], command
        while not info["won"]:
            *_, terminated, _, info = env.step(info["expert_action"])
            assert terminated == info["won"] == (info["expert_action"] == "")
        _, info = env.restore(before)


def test_wishes_are_pairs_or_bare_values_and_titles_are_searched_for() -> None:
    assert list(wished(goal(("size", "small"), ("color", "red")), HAT)) == [("size", "small"), ("color", "red")]
    assert list(wished(goal("red", "large", "blue"), HAT)) == [("color", "red"), ("size", "large")]
    assert best_query(ByTitle(), goal(), 39) == "red hat"  # type: ignore[arg-type]
    assert best_query(ByTitle(), goal(), 77) == ""  # type: ignore[arg-type]


class ByTitle:
    """Finds the product only by a word of its title, as the 40th."""

    def top(self, query: str, k: int) -> tuple[int, ...]:
        return tuple(range(50)) if "red" in query else ()


@pytest.mark.parametrize(
    ("arguments", "least"), [({}, 0.8), ({"observation_mode": "text_rich"}, 0.8), ({"noise": (1, 0.3)}, 0.7)]
)
def test_a_patient_shopper_buys_in_time_and_mostly_well(arguments: dict[str, object], least: float) -> None:
    env = WebShopEnv(**arguments)  # type: ignore[arg-type]
    played = [play(env, index, patience=5) for index in range(60)]
    assert all(info["bought"] for info in played)
    assert sum(info["won"] for info in played) >= least * 60
    hasty = [play(env, index, patience=0) for index in range(60)]
    assert sum(info["score"] for info in hasty) < sum(info["score"] for info in played)
    assert max(info["steps"] for info in hasty) <= 5  # type: ignore[arg-type]


@settings(max_examples=200, derandomize=True)
@given(st.lists(st.tuples(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=4)), max_size=6))
def test_any_text_is_answered_with_a_command(pages: list[tuple[str, list[str]]]) -> None:
    shopper = WebShopPlayer()
    for observation, clicks in pages:
        command = shopper.act(
            observation, [f"click[{click}]" for click in clicks] + ["click[next >]"] * (len(clicks) % 2)
        )
        assert command.startswith(("search[", "click["))
        assert command.endswith("]")


def test_price_tags_that_are_none_and_arguments_out_of_range() -> None:
    page = " [SEP] ".join(["Instruction:", "a hat", "Back to Search", "Page 1", "Next >", "B1", "Hat", "$.", "$1.2.3"])
    assert WebShopPlayer().act(page, ["click[back to search]", "click[next >]", "click[b1]"]) == "click[b1]"
    for arguments in ({"patience": -1}, {"steps": 0}):
        refuses(ValueError, "at least", WebShopPlayer, **arguments)


FULL = (
    "my sister wants cruelty free, oil free lip balm with shea butter and metal tin with flavor: sea salt, "
    "and quantity: 2 pack, and price lower than 40.00 dollars"
)


def test_requests_are_read() -> None:
    assert keywords(FULL) == ["cruelty", "free", "oil", "free", "lip", "balm", "shea", "butter", "metal", "tin"]
    assert price_limit(FULL) == 40
    assert wished_options(FULL) == {"flavor": "sea salt", "quantity": "2 pack"}
    request = "find me hats with brim"
    assert (keywords(request), price_limit(request), wished_options(request)) == (["hats", "brim"], float("inf"), {})
    request = "i'm looking for an x-large hoodie in dark red under 50 dollars."
    assert keywords(request) == ["x-large", "hoodie", "dark", "red", "50"]
    values = ["large", "x-large", "xx-large", "red", "dark red", "green", "zip/er (new)"]
    assert mentioned(request, values) == ["dark red", "x-large"]
    assert wished_options(request) == {}
    assert price_limit(request) == float("inf")
    assert mentioned("with a+b (new)", ["a+b (new)", "aab new", "", " "]) == ["a+b (new)"]
    assert wished_options("hat with fit: a+b (new), 3' with x, and color: r.b") == {
        "fit": "a+b (new), 3' with x",
        "color": "r.b",
    }
    for text in ("$" + "9" * 400, "$" + "0." + "1" * 10**6, "$" + "1" * 5000):
        refuses(ValueError, "expected amounts", read_tag, text)
    assert np.isinf(price_limit("price lower than " + "9" * 400))


@settings(max_examples=200, derandomize=True)
@given(st.text(max_size=60), st.lists(st.text(max_size=8), max_size=4))
def test_any_text_is_a_request(request: str, values: list[str]) -> None:
    assert all(word and word == word.strip() for word in keywords(request))
    assert price_limit(request) >= 0
    assert set(mentioned(request, values)) <= set(values)
    assert all(name and value in request.lower() for name, value in wished_options(request).items())
