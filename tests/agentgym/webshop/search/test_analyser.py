"""Tokens, terms and stems."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.outside.text import read_text
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.search.analyser import LONGEST, STOP_WORDS, class_of, stem, terms, tokens
from agentgym.webshop.search.search import search_text
from tests.agentgym.webshop.oracles import FOLDER


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:b c.d e'f g,h 1,2 1.2 1;2 1'2 1:2", ["a:b", "c.d", "e'f", "g", "h", "1,2", "1.2", "1;2", "1'2", "1", "2"]),
        ("_a__b_ ___ a_1 7_8", ["_a__b_", "a_1", "7_8"]),
        ("x.1 1.x v2.0a end. .5", ["x", "1", "1", "x", "v2.0a", "end", "5"]),
        ("T-shirt/top (L)", ["T", "shirt", "top", "L"]),
        ("12\u00bd\u2033 x 3\u00b2", ["12", "x", "3"]),
        ("漢字 カタカナ ひら ｶﾅ", ["漢", "字", "カタカナ", "ひ", "ら", "ｶﾅ"]),
        ("한국어abc aカ a_カ", ["한국어abc", "a", "カ", "a_カ"]),
        ("ไทยนี้ x", ["ไทยนี้", "x"]),
        ("Acme™ ©2020 ☺ ❤\ufe0f 👍🏽 👩\u200d💻 🇫🇷🇩🇪 3\ufe0f\u20e3 #\u20e3 →",
         ["Acme", "™", "©", "2020", "☺", "❤\ufe0f", "👍🏽", "👩\u200d💻", "🇫🇷", "🇩🇪", "3\ufe0f\u20e3", "#\u20e3"]),
        ("e\u0301te\u0301 \u0301 soft\u00adhyphen", ["e\u0301te\u0301", "soft\u00adhyphen"]),
        ('שבת"ת א\' b"c', ['שבת"ת', "א'", "b", "c"]),
        ("l’été’s 2024’s", ["l’été’s", "2024", "s"]),
        ("a\u00a0b\u200bc\td\ne", ["a", "b", "c", "d", "e"]),
        ("", []),
    ],
)  # fmt: skip
def test_tokens(text, expected):
    assert tokens(text) == expected


def test_long_tokens_are_cut_and_characters_have_classes() -> None:
    assert tokens("x" * 600) == ["x" * 255, "x" * 255, "x" * 90]
    # An emoji counts twice: 254 letters and half of it do not fit.
    assert tokens("é" * 254 + "\U00010400" * 2) == ["é" * 254, "\U00010400" * 2]
    # Only so many low lines in front belong to a word.
    assert tokens("_" * 300 + "ab") == ["_" * 254 + "a", "b"]
    assert tokens("_" + "\u0301" * 300 + "ab") == ["ab"]
    assert tokens("_" * 100_000 + "☺") == ["☺"]
    # A low line at the end belongs to the first piece, a dot to neither.
    assert tokens("x" * 254 + "_yy") == ["x" * 254 + "_", "yy"]
    assert tokens("x" * 254 + ".yy") == ["x" * 254, "yy"]
    assert [class_of(code) for code in (0x41, 0x2019, 0x200B, 0x3006, 0x3005, 0xE31, 0xE01, 0x24C2, 0x1F600)] == [
        *("A", ".", " ", " ", "A", "y", "S", "E", "e")
    ]
    assert terms("The Women's T-Shirts aren't for BOYS") == ["women", "t", "shirt", "aren't", "boi"]
    assert terms("ΟΔΟΣ İSTANBUL STRASSE") == ["οδοσ", "istanbul", "strass"]
    assert terms("it's THE ＇ O’s x＇s") == ["o", "x"]
    assert terms(" ".join(sorted(STOP_WORDS))) == []
    assert len(STOP_WORDS) == 33


@settings(derandomize=True, max_examples=300)
@given(st.text(alphabet="aZ09_.,:;'\"- \n#é’漢カあก™☺\ufe0f\u200d\u0301🇫א", max_size=300))
def test_spaces_may_be_cut_first(text):
    assert tokens(text) == [token for chunk in text.split(" ") for token in tokens(chunk)]
    assert "".join(tokens(text)) == "".join(tokens(text + " "))
    found = tokens(text)
    at = 0
    for token in found:  # pieces of the text, in order, without overlap
        at = text.index(token, at) + len(token)
        assert 0 < len(token) <= LONGEST


@settings(derandomize=True, max_examples=300)
@given(st.text(alphabet="aB09_.,:;'- ", max_size=60))
def test_plain_text_takes_the_same_way_as_any_text(text):
    assert tokens(text) == tokens(text + " ☺")[:-1]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("ties", "ti"), ("cats", "cat"), ("feed", "feed"),
        ("agreed", "agre"), ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor"), ("sing", "sing"),
        ("conflated", "conflat"), ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"), ("falling", "fall"),
        ("hissing", "hiss"), ("filing", "file"), ("happy", "happi"), ("relational", "relat"), ("rational", "ration"),
        ("digitizer", "digit"), ("conformably", "conform"), ("vietnamization", "vietnam"), ("operator", "oper"),
        ("sensibility", "sensibl"), ("apology", "apolog"), ("triplicate", "triplic"), ("hopeful", "hope"),
        ("goodness", "good"), ("revival", "reviv"), ("adjustable", "adjust"), ("replacement", "replac"),
        ("adoption", "adopt"), ("effective", "effect"), ("probate", "probat"), ("rate", "rate"), ("cease", "ceas"),
        ("controll", "control"), ("roll", "roll"), ("is", "is"), ("sky", "sky"), ("10.5", "10.5"), ("été's", "été'"),
    ],
)  # fmt: skip
def test_stems(word, expected):
    assert stem(word) == expected


def words() -> set[str]:
    """Lower-case words of the generated shop and, where they are, of official products and an encyclopaedia."""
    texts = [search_text(product) for product in generate(2_000)]
    for name in ("webshop/items_shuffle_1000.json", "webshop/items_human_ins.json", "searchqa/corpus.jsonl.xz"):
        path = FOLDER.parent / name
        if path.exists():
            # Escapes of JSON would be words of their own: they are read as what they stand for.
            texts += [json.dumps(json.loads(line), ensure_ascii=False) for line in read_text(path).splitlines()]
    return {word for text in texts for word in re.findall(r"[^\W_]+(?:'[^\W_]+)?", text.lower())} - STOP_WORDS


@pytest.mark.slow
def test_stems_are_nltks() -> None:
    nltk = pytest.importorskip("nltk.stem.porter", reason="nltk is not installed: pip install 'stepcredit[dev]'")
    stemmer = nltk.PorterStemmer(mode=nltk.PorterStemmer.MARTIN_EXTENSIONS)
    known = words()
    assert len(known) > 1_000
    different = {word: (stem(word), stemmer.stem(word)) for word in known if stem(word) != stemmer.stem(word)}
    assert different == {}
