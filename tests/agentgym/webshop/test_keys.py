"""Keys of pages: what they leave out and what they never confuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.keys import chosen, option_key, page_key
from agentgym.webshop.session import _PARTS

text = st.text(max_size=4)


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


def test_the_order_of_choices_counts_for_the_exact_state_only() -> None:
    one, other = {"size": "s", "color": "red"}, {"color": "red", "size": "s"}
    assert chosen(one) == chosen(other) == "color: red; size: s"
    assert page_key("", {"page": "item B1", "options": chosen(one)}) == "item B1 | color: red; size: s"
    assert exact_key("item B1", one, "hat", 1, ["B1"]) != exact_key("item B1", other, "hat", 1, ["B1"])


STATES = st.tuples(st.dictionaries(text, text, max_size=3), text, st.integers(1, 3))


@settings(max_examples=300, derandomize=True)
@given(STATES, STATES)
def test_different_choices_or_ways_back_have_different_keys(
    one: tuple[dict[str, str], str, int], other: tuple[dict[str, str], str, int]
) -> None:
    def key(state: tuple[dict[str, str], str, int]) -> str:
        options, query, number = state
        return exact_key("item B1", options, query, number, ["B1"])

    same = (list(one[0].items()), *one[1:]) == (list(other[0].items()), *other[1:])
    assert (key(one) == key(other)) == same


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
        if session.page.kind in ("item", "sub"):
            assert session._part() == next(part for part in _PARTS if part in session.url())
        if info["won"] or session.purchase is not None:
            return
        if data.draw(st.booleans()):
            env.restore(env.snapshot())
