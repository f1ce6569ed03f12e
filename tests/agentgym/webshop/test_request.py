"""Reading requests: generated, official and human wordings."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.player import keywords, mentioned, price_limit, wished_options

FULL = (
    "my sister wants cruelty free, oil free lip balm with shea butter and metal tin with flavor: sea salt, "
    "and quantity: 2 pack, and price lower than 40.00 dollars"
)


def test_a_synthetic_request() -> None:
    assert keywords(FULL) == ["cruelty", "free", "oil", "free", "lip", "balm", "shea", "butter", "metal", "tin"]
    assert price_limit(FULL) == 40
    assert wished_options(FULL) == {"flavor": "sea salt", "quantity": "2 pack"}


def test_a_request_without_options_or_price() -> None:
    request = "find me hats with brim"
    assert (keywords(request), price_limit(request), wished_options(request)) == (["hats", "brim"], float("inf"), {})


def test_a_human_request() -> None:
    request = "i'm looking for an x-large hoodie in dark red under 50 dollars."
    assert keywords(request) == ["x-large", "hoodie", "dark", "red", "50"]
    values = ["large", "x-large", "xx-large", "red", "dark red", "green", "zip/er (new)"]
    assert mentioned(request, values) == ["dark red", "x-large"]
    assert wished_options(request) == {}
    assert price_limit(request) == float("inf")


def test_values_with_signs_are_found_as_they_are() -> None:
    assert mentioned("with a+b (new)", ["a+b (new)", "aab new", "", " "]) == ["a+b (new)"]
    assert wished_options("hat with fit: a+b (new), 3' with x, and color: r.b") == {
        "fit": "a+b (new), 3' with x",
        "color": "r.b",
    }


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=8), max_size=4))
def test_any_text_is_a_request(request: str, values: list[str]) -> None:
    assert all(word and word == word.strip() for word in keywords(request))
    assert price_limit(request) >= 0
    assert set(mentioned(request, values)) <= set(values)
    assert all(name and value in request.lower() for name, value in wished_options(request).items())
