"""Nouns of titles by rule, by table, by function, and by spaCy where it is installed."""

import importlib.util
import json

import pytest

from agentgym.webshop.reward import make_tagger, words


def test_words_are_all_but_function_words():
    assert words("The 2-Pack of Women's e.l.f. Brushes, 10.5 oz & More") == (
        *("pack", "women's", "e", "l", "f", "brushes", "oz", "more"),
    )
    assert words("Men'S crème 4K Ünit") == ("men", "s", "cr", "è", "me", "k", "ü", "nit")
    assert words("") == words("12 &!") == ()


def test_a_tagger_by_name():
    assert make_tagger("words")("Red Shoes") == ("red", "shoes")
    for name in ("word", "table:", "words:x", "", None, 3):
        with pytest.raises(ValueError, match="noun_tagger"):
            make_tagger(name)


def test_a_function_is_asked_once_per_title():
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


@pytest.mark.parametrize("content", ["[]", '{"a": "b"}', '{"a": [1]}', "{"])
def test_malformed_tables_are_refused(tmp_path, content):
    path = tmp_path / "nouns.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"nouns\.json"):
        make_tagger(path)
    with pytest.raises(ValueError, match="missing"):
        make_tagger(tmp_path / "missing.json")


def test_spacy_says_what_it_lacks():
    if importlib.util.find_spec("spacy") is None:
        with pytest.raises(ImportError, match="nouns"):
            make_tagger("spacy")
    else:
        with pytest.raises(ValueError, match="spacy download no_such_model"):
            make_tagger("spacy:no_such_model")
