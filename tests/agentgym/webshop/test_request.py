"""Reading requests: generated, official and human wordings."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.request import keywords, price_limit, wished_groups, wished_values

FULL = (
    "my sister wants cruelty free, oil free lip balm with shea butter and metal tin with flavor: sea salt, "
    "and quantity: 2 pack, and price lower than 40.00 dollars"
)
GROUPS = {"quantity": ["1 pack", "2 pack", "12 pack"], "flavor": ["sea salt", "lemon", "salt"]}


def test_a_synthetic_request() -> None:
    assert keywords(FULL) == ["cruelty", "free", "oil", "free", "lip", "balm", "shea", "butter", "metal", "tin"]
    assert price_limit(FULL) == 40
    assert wished_groups(FULL) == ["flavor", "quantity"]
    assert wished_values(FULL, GROUPS) == {"quantity": "2 pack", "flavor": "sea salt"}


def test_a_group_that_the_product_offers_without_the_wished_value_stays_open() -> None:
    assert wished_values(FULL, {"flavor": ["lemon", "salt"]}) == {}
    assert wished_values(FULL, {"color": ["red"]}) == {}


def test_a_human_request() -> None:
    request = "i'm looking for an x-large hoodie in dark red under 50 dollars."
    assert keywords(request) == ["x-large", "hoodie", "dark", "red", "50"]
    groups = {
        "size": ["large", "x-large", "xx-large"],
        "color": ["red", "dark red", "green"],
        "style": ["zip/er (new)"],
    }
    assert wished_values(request, groups) == {"size": "x-large", "color": "dark red"}
    assert price_limit(request) == float("inf")


def test_values_with_signs_are_found_as_they_are() -> None:
    assert wished_values("with fit: a+b (new)", {"fit": ["a+b (new)", "aab new"]}) == {"fit": "a+b (new)"}


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.text(max_size=60), st.dictionaries(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=3), max_size=3)
)
def test_any_text_is_a_request(request: str, groups: dict[str, list[str]]) -> None:
    assert all(word and word == word.strip() for word in keywords(request))
    assert price_limit(request) >= 0
    for name, value in wished_values(request, groups).items():
        assert value in groups[name]
