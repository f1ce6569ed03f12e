"""What a purchase is worth, and the nouns that it is judged by."""

import importlib.metadata
import importlib.util
import json
from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.webshop.catalogue import MemoryCatalogue
from agentgym.webshop.goals import Goal
from agentgym.webshop.reward import COLOURS, Grader, Match, _words, alike, compare, grade, make_tagger, reduced, words
from tests.agentgym.webshop.support import PRODUCT, catalogue, goal_of, recorded_goal, rows
from tests.cases import cases
from tests.refusals import refuses


def goal(**changes: object) -> Goal:
    return goal_of(PRODUCT, **changes)


def bought(chosen: tuple[str, ...] = (), **changes: object):
    wanted = goal(**changes)
    return grade(compare(PRODUCT, wanted, words), 20.0, chosen, wanted)


def test_all_recorded_purchases_score_as_in_the_original():
    count = 0
    for row in rows("reward_oracle"):
        shop = catalogue()
        product, wanted = shop[shop.find(row["asin"])], recorded_goal(row["goal"])
        assert list(words(product.title)) == row["nouns_purchased_stub"]
        assert list(words(wanted.name)) == row["nouns_goal_stub"]
        score, parts = grade(compare(product, wanted, words), row["price"], tuple(row["options"].values()), wanted)
        assert score == pytest.approx(row["reward"], abs=1e-9, rel=0)
        assert parts == pytest.approx(row["info"], abs=1e-9, rel=0)
        count += 1
    assert count == 750


def test_scores_and_their_parts_by_hand() -> None:
    grader = Grader(MemoryCatalogue([PRODUCT]), np.array([20.0]), words)
    wanted = goal(options=(("size", "small"), ("color", "red")))
    assert grader(0, {"size": "small", "color": "red"}, wanted) == bought(("small", "red"), options=wanted.options)
    assert grader(0, {"size": "small", "color": "red"}, wanted).score == 1.0
    assert grade(Match(1.0, True, True, 1.0, 0), 5.0, (), goal(attributes=())).score == 1.0
    assert grade(Match(1.0, True, True, 1.0, 0), 5.0, (), goal(attributes=(), price_upper=0.0)).score == 0.0


@cases(
    "name, query, path, r_type, title",
    ("Cotton Shirt", "other", "Other", 1.0, 1.0),  # both nouns are there
    ("Shirt Shoe Hat Belt Cap", "other", "Other", 0.5, 0.2),  # one of five is not above 0.2
    ("Shirt Shoe Hat Belt Cap", "shirts", "Other", 1.0, 0.2),
    ("Shirt Shoe Hat Belt Cap", "other", "Men ›  Clothing › Hats", 1.0, 0.2),
    ("Shirt Shoe Hat Belt Cap", "other", "Men › Hats", 0.5, 0.2),  # one level is not enough
    ("Shirt " + "Shoe " * 10, "shirts", PRODUCT.product_category, 0.1, 1 / 11),
    ("Shoe", "shirts", PRODUCT.product_category, 0.0, 0.0),  # whatever else is the same
    ("Shirt Shirt", "other", "Other", 1.0, 0.5),  # repeats count below, not above
    ("24 7", "other", "Other", 0.5, 0.2),  # no noun at all
)
def test_kinds_of_products(name, query, path, r_type, title):
    match = compare(PRODUCT, goal(name=name, query=query, product_category=path), words)
    assert (match.r_type, match.title) == (r_type, title)


def test_attributes_and_options_are_compared_as_in_the_original() -> None:
    wishes = ("care easy", "cotton", "machine wash long", "dries quick", "wash  long", "waterproof", "men machine")
    # In turn: like an attribute; title; two bullets joined; description; two spaces; nowhere; across title and bullets.
    assert [compare(PRODUCT, goal(attributes=(wish,)), words).attributes for wish in wishes] == [1, 1, 1, 1, 0, 0, 0]
    assert bought(("small",), options=(("size", "x-small"),)).score == 1.0  # "small" is among size, x, small
    assert bought(("size",), options=(("size", "x-small"),)).score == 1.0
    assert bought(("dark red",), options=("red wine",)).score == 2 / 3  # "dark" is not like "red"
    assert (reduced("dark red"), reduced("red wine")) == ("dark", "red")
    wish = ("color", "r.brown2070")
    assert reduced(wish) == "('color', 'r.brown2070')"
    assert bought(("r.brown2070",), options=(wish,)).score == 2 / 3
    assert (list(COLOURS), len(COLOURS)) == (sorted(COLOURS), 102)
    assert [reduced(value) for value in ("washed", "stand", "layered", "x-small")] == ["ash", "tan", "red", "x-small"]
    assert reduced(("red", "x")) == reduced(("size", "red")) == "red"


def ratio(left: str, right: str) -> int:
    """The token set ratio, in full."""
    one, other = sorted(_words(left)), sorted(_words(right))
    if not one or not other:
        return 0
    both = [word for word in one if word in other]
    base = " ".join(both)
    first = " ".join(both + [word for word in one if word not in both])
    second = " ".join(both + [word for word in other if word not in both])
    found = [0]
    for a, b in ((base, first), (base, second), (first, second)):
        found.append(100 if a == b else round(100 * SequenceMatcher(None, a, b).ratio()) if a and b else 0)
    return max(found)


PIECES = ["a", "bc", "bd", "bcd", "size", "small", "x-small", "é\u00a0", "'x'", "wash", "washed", "---"]
PHRASES = st.lists(st.sampled_from(PIECES), max_size=5)


@settings(derandomize=True, max_examples=500)
@given(PHRASES, PHRASES)
def test_alike_is_a_token_set_ratio_above_85(left, right):
    one, other = " ".join(left), " ".join(right)
    assert alike(one, other) == (ratio(one, other) > 85)


def test_alike_by_hand():
    # "stainless steel" against "stainless steal": 2 x 14 of 30 characters agree, 93 %.
    assert alike("stainless steel", "Stainless-Steal")
    # "abcdef" against "abcdxy": 8 of 12 characters, 67 %.
    assert not alike("abcdef", "abcdxy")
    assert alike("façade", "faade")  # ç is dropped
    assert not alike("---", "---")  # no words at all
    assert not alike("", "")


def test_words_are_all_but_function_words_and_taggers_have_names() -> None:
    assert words("The 2-Pack of Women's e.l.f. Brushes, 10.5 oz & More") == (
        *("pack", "women's", "e", "l", "f", "brushes", "oz", "more"),
    )
    assert words("Men'S crème 4K Ünit") == ("men", "s", "cr", "è", "me", "k", "ü", "nit")
    assert words("") == words("12 &!") == ()
    assert make_tagger("words")("Red Shoes") == ("red", "shoes")
    for name in ("word", "table:", "words:x", "", None, 3):
        refuses(ValueError, "noun_tagger", make_tagger, name)
    asked = []
    tag = make_tagger(lambda title: asked.append(title) or [title.lower()])
    assert tag("Shoe") == tag("Shoe") == ["shoe"]
    assert asked == ["Shoe"]


def test_a_table_by_path_or_name(tmp_path):
    path = tmp_path / "nouns.json"
    path.write_text(json.dumps({"Red Shoes": ["shoes"]}))
    for name in (path, f"table:{path}"):
        tag = make_tagger(name)
        assert tag("Red Shoes") == ["shoes"]
        with pytest.warns(UserWarning, match="lacks the title 'Blue Hat'"):
            assert tag("Blue Hat") == ("blue", "hat")
        assert tag("A Cap") == ("cap",)  # no second warning
    for malformed in ("[]", '{"a": "b"}', '{"a": [1]}'):
        path.write_text(malformed)
        refuses(ValueError, r"nouns\.json", make_tagger, path)
    refuses(ValueError, "missing", make_tagger, tmp_path / "missing.json")


def test_spacy_says_what_it_lacks():
    if importlib.util.find_spec("spacy") is None:
        refuses(ImportError, "nouns", make_tagger, "spacy")
    else:
        refuses(ValueError, "spacy download no_such_model", make_tagger, "spacy:no_such_model")
