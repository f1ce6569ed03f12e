"""Tokens and terms of a search; its answers against Lucene's recorded ones and a naive twin; Lucene behind the same
interface, with a stand-in for pyserini."""

import importlib.metadata
import importlib.util
import json
import math
import re
import sys
import types
from collections import Counter
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.outside.text import DataError, read_text
from agentgym.webshop import store
from agentgym.webshop.catalogue import MemoryCatalogue
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.search import bm25, lucene
from agentgym.webshop.search.analyser import LONGEST, STOP_WORDS, class_of, stem, terms, tokens
from agentgym.webshop.search.bm25 import Bm25, load
from agentgym.webshop.search.bm25_build import _coded, build
from agentgym.webshop.search.lucene import Lucene
from agentgym.webshop.search.search import Recent, documents, search_text
from agentgym.webshop.shop import open_search
from tests.agentgym.webshop.support import FOLDER, PRODUCT, catalogue, rows
from tests.cases import cases
from tests.refusals import refuses


@cases(
    "text, expected",
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
)  # fmt: skip
def test_tokens(text, expected):
    assert tokens(text) == expected


def test_long_tokens_are_cut_and_characters_have_classes() -> None:
    assert tokens("x" * 600) == ["x" * 255, "x" * 255, "x" * 90]
    # An emoji counts twice: 254 letters and half of it do not fit.
    assert tokens("é" * 254 + "\U00010400" * 2) == ["é" * 254, "\U00010400" * 2]
    # Only so many low lines in front belong to a word.
    assert (tokens("_" * 300 + "ab"), tokens("_" + "\u0301" * 300 + "ab")) == (["_" * 254 + "a", "b"], ["ab"])
    assert tokens("_" * 100_000 + "☺") == ["☺"]
    # A low line at the end belongs to the first piece, a dot to neither.
    assert (tokens("x" * 254 + "_yy"), tokens("x" * 254 + ".yy")) == (["x" * 254 + "_", "yy"], ["x" * 254, "yy"])
    assert [class_of(code) for code in (0x41, 0x2019, 0x200B, 0x3006, 0x3005, 0xE31, 0xE01, 0x24C2, 0x1F600)] == [
        *("A", ".", " ", " ", "A", "y", "S", "E", "e")
    ]
    assert terms("The Women's T-Shirts aren't for BOYS") == ["women", "t", "shirt", "aren't", "boi"]
    assert terms("ΟΔΟΣ İSTANBUL STRASSE it's THE ＇ O’s x＇s") == ["οδοσ", "istanbul", "strass", "o", "x"]
    assert terms(" ".join(sorted(STOP_WORDS))) == []
    assert len(STOP_WORDS) == 33


@settings(derandomize=True, max_examples=300)
@given(
    st.text(alphabet="aZ09_.,:;'\"- \n#é’漢カあก™☺\ufe0f\u200d\u0301🇫א", max_size=300)
    | st.text(alphabet="aB09_.,:;'- ", max_size=60)
)
def test_spaces_may_be_cut_first_and_plain_text_takes_the_same_way_as_any_text(text):
    assert tokens(text) == tokens(text + " ☺")[:-1]
    assert tokens(text) == [token for chunk in text.split(" ") for token in tokens(chunk)]
    assert "".join(tokens(text)) == "".join(tokens(text + " "))
    found = tokens(text)
    at = 0
    for token in found:  # pieces of the text, in order, without overlap
        at = text.index(token, at) + len(token)
        assert 0 < len(token) <= LONGEST


def known_words() -> set[str]:
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
    known = known_words()
    assert len(known) > 1_000
    different = {word: (stem(word), stemmer.stem(word)) for word in known if stem(word) != stemmer.stem(word)}
    assert different == {}


F = np.float32


def kept_length(length: int) -> int:
    """A length through Lucene's byte: above 24, the rest keeps its four highest bits."""
    rest = length - 24
    if rest < 16:
        return length
    shift = rest.bit_length() - 4
    return 24 + (rest >> shift << shift)


def naive(texts: list[tuple[str, str]], query: str, k: int) -> list[tuple[int, np.float32]]:
    """Score every text, term by term."""
    bags = [Counter(terms(text)) for _, text in texts]
    lengths = [bag.total() for bag in bags]
    filled = sum(length > 0 for length in lengths)
    mean = F(sum(lengths) / max(filled, 1))
    wanted = Counter(terms(query))
    holders = {term: sum(term in bag for bag in bags) for term in wanted}
    found = []
    for i, bag in enumerate(bags):
        total = 0.0
        for term in sorted(wanted, key=lambda term: holders[term]):
            if bag[term]:
                rarity = F(math.log(1 + (filled - holders[term] + 0.5) / (holders[term] + 0.5)))
                weight = F(wanted[term]) * rarity
                share = F(1) / (F(0.9) * ((F(1) - F(0.4)) + F(0.4) * F(kept_length(lengths[i])) / mean))
                total += float(weight - weight / (F(1) + F(bag[term]) * share))
        if total:
            found.append((i, F(total)))
    return sorted(found, key=lambda pair: (-pair[1], texts[pair[0]][0]))[:k]


@pytest.mark.parametrize("small", [bm25._SMALL, 0])
def test_all_recorded_queries_give_lucenes_products_in_its_order(monkeypatch, small):
    monkeypatch.setattr(bm25, "_SMALL", small)  # 0: as in a large shop
    shop = catalogue()
    search = Bm25(build(documents(shop)))
    assert len(search.index.ends) == 12_074
    count = 0
    for row in rows("lucene_top50"):
        positions, scores = search.ranked(row["query"], 50)
        assert [shop[i].asin for i in positions] == row["top"], row["query"]
        assert scores[: len(row["scores"])] == pytest.approx(row["scores"], abs=5.1e-5, rel=0)
        count += 1
    assert count == 1500


def random_texts(seed: int, count: int) -> list[tuple[str, str]]:
    """Texts over words of very different frequency, some empty, many alike, identifiers in random order."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, 61)
    share /= share.sum()
    names = rng.permutation(count)
    return [
        (f"P{name}", " ".join(f"w{word}" for word in rng.choice(60, rng.integers(0, 9) ** 2 // 4, p=share)))
        for name in names
    ]


@pytest.mark.parametrize("seed", range(2))
def test_fast_search_is_the_naive_one(monkeypatch, seed):
    texts = random_texts(seed, 300)
    search = Bm25(build(texts))
    rng = np.random.default_rng(seed)
    for small in (bm25._SMALL, 0):
        monkeypatch.setattr(bm25, "_SMALL", small)
        for _ in range(20):
            query = " ".join(f"w{word}" for word in rng.integers(0, 70, rng.integers(1, 8)))
            k = int(rng.choice([1, 3, 50, 1000]))
            positions, scores = search.ranked(query, k)
            expected = naive(texts, query, k)
            np.testing.assert_allclose(scores, [score for _, score in expected], rtol=3e-7)
            assert positions.tolist() == [i for i, _ in expected]


@pytest.mark.parametrize("together", [1, 700, 1 << 17])
def test_searches_made_together_and_in_a_large_shop_answer_as_one_by_one_in_a_small_one(monkeypatch, together):
    """One, two and all queries at a time; the recorded queries say what one by one answers."""
    monkeypatch.setattr(bm25, "_AT_ONCE", together)
    search = Bm25(build(random_texts(3, 300)))
    rng = np.random.default_rng(3)
    queries = [" ".join(f"w{word}" for word in rng.integers(0, 70, rng.integers(1, 8))) for _ in range(60)]
    queries[10:10] = ["", "the", "w3 w3 w5", "nothing-like-it", "w3 w3 w5"]
    for k in (0, 1, 3, 50, 1000):
        expected = [search.top(query, k) for query in queries]
        assert search.answers(list(map(search.words, queries)), k) == expected
        with monkeypatch.context() as large:
            large.setattr(bm25, "_SMALL", 0)
            assert [search.top(query, k) for query in queries] == expected
    assert search.answers([], 5) == []


def test_empty_texts_and_lengths_in_a_byte() -> None:
    for texts in ([], [("a", ""), ("b", "the")]):
        search = Bm25(build(texts))
        assert len(search) == len(texts)
        assert search.top("the shoe", 50) == ()
    search = Bm25(build([("a", "red shoe size: 7.5"), ("b", "漢字 blue shoe ™")]))
    assert search.top("the nothing-like-it \ud800", 50) == search.top("shoe", 0) == search.top("shoe", -1) == ()
    lengths = np.arange(0, 5000)
    assert _coded(lengths).tolist() == [kept_length(int(length)) for length in lengths]
    assert _coded(np.array([40, 41, 42, 55, 56, 57, 1000])).tolist() == [40, 40, 42, 54, 56, 56, 984]
    assert search_text(PRODUCT) == (
        "blue cotton shirt for men it dries quickly. machine wash size: small, large, and color: red, sky blue"
    )


@pytest.mark.parametrize("block", [7, 700, 1 << 20])
def test_an_index_is_the_same_in_memory_and_in_a_folder_whatever_the_blocks(tmp_path, block):
    texts = random_texts(7, 200)
    whole = build(texts)
    for index in (build(iter(texts), block=block), build(iter(texts), tmp_path / "deep" / "index", block=block)):
        for field in fields(index):
            one, other = getattr(whole, field.name), getattr(index, field.name)
            np.testing.assert_array_equal(one, other, err_msg=field.name)
            assert field.name == "filled" or one.dtype == other.dtype
    names = {path.name for path in (tmp_path / "deep" / "index").iterdir()}
    assert len(names) == 10, "no runs are left behind"
    assert Bm25(load(tmp_path / "deep" / "index")).top("w3 w40", 50) == Bm25(whole).top("w3 w40", 50)


def test_folders_without_an_index_are_named(tmp_path, monkeypatch):
    refuses(DataError, "contains no search index", load, tmp_path)
    build([("a", "x")], tmp_path)
    monkeypatch.setattr(bm25, "FORMAT", 99)
    refuses(ValueError, "build the index again", load, tmp_path)


def test_recent_answers_are_kept():
    asked = []

    class Slow:
        def top(self, query, k):
            asked.append(query)
            return (len(query), k)

        def words(self, query):
            return query

        def answers(self, words, k):
            return [self.top(query, k) for query in words]

    search = Recent(Slow(), size=2)
    assert [search.top(query, 5) for query in ("a", "bb", "a")] == [(1, 5), (2, 5), (1, 5)]
    assert asked == ["a", "bb"]
    assert search.top("a", 6) == (1, 6)
    long = "x" * 600
    assert search.top(long, 1) == search.top(long, 1) == (600, 1)
    assert asked == ["a", "bb", "a", long, long]  # too long to be kept
    assert search.tops(["a", "ccc", "a", "ccc"], 6) == [(1, 6), (3, 6), (1, 6), (3, 6)]
    assert search.top("ccc", 6) == (3, 6)
    assert asked[5:] == ["ccc"]  # once, and together with nothing that was known
    assert search.top("bb", 5) == (2, 5)
    assert asked[6:] == ["bb"]  # one of the oldest answers, which had to go


def test_the_same_words_in_another_order_are_searched_for_once(monkeypatch):
    search = Bm25(build(random_texts(5, 100)))
    asked = []
    monkeypatch.setattr(search, "_all", lambda queries, k: (asked.extend(queries), Bm25._all(search, queries, k))[1])
    recent = Recent(search)
    queries = ["w3 w9 w1", "the w9 w3 w1", "w1 w3 w9 w9"]
    assert recent.tops([*queries, "w9 W1 w3"], 20) == [search.top(query, 20) for query in (*queries, queries[0])]
    assert recent.top("w1, w9, w3", 20) == search.top(queries[0], 20)
    assert [len(words) for words in asked] == [3, 4, 3, 3, 4, 3, 3]  # two together; the rest one by one
    recent.clear()
    recent.top(queries[0], 20)
    assert len(asked) == 8


@pytest.mark.parametrize("k", [1, 7, 50, 128, 129, 1000])
@pytest.mark.parametrize("longest", [1, 256, 257, 600, 5000])
def test_the_best_of_runs_are_those_of_a_sort(k, longest):
    rng = np.random.default_rng(longest)
    runs = [rng.integers(1, 1 << 40, length) for length in (longest, 0, 3, int(rng.integers(longest)), 300)]
    found = bm25._best(np.concatenate(runs), np.array(list(map(len, runs))), k)
    for row, run in zip(found.tolist(), runs, strict=True):
        expected = sorted(run.tolist(), reverse=True)[:k]
        assert row[: len(expected)] == expected
        assert not any(row[len(expected) :])


INSTALLED = importlib.util.find_spec("pyserini") is not None


class Searcher:
    """Stands in for pyserini's searcher: a word is a docid, and only four words are taken."""

    def __init__(self, folder):
        self.folder = folder

    def search(self, query, k):
        words = query.encode("utf-8").decode().split(" ")  # fails on half characters, as Java does
        if len(words) > 4:
            raise RuntimeError("maxClauseCount is set to 4")
        if "fail" in words:
            raise RuntimeError("disk")
        return [SimpleNamespace(docid=word) for word in words[:k]]


class Indexer:
    def __init__(self, folder, threads):
        self.folder, self.rows = folder, []

    def add_doc_dict(self, row):
        self.rows.append(row["id"])

    def close(self):
        with open(f"{self.folder}/segments_1", "w") as file:
            file.write(" ".join(self.rows))


@pytest.fixture
def pyserini(monkeypatch):
    for name, content in (
        ("pyserini", {}),
        ("pyserini.search", {}),
        ("pyserini.index", {}),
        ("pyserini.search.lucene", {"LuceneSearcher": Searcher}),
        ("pyserini.index.lucene", {"LuceneIndexer": Indexer}),
    ):
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.44.0")


CATALOGUE = SimpleNamespace(find={"a": 0, "b": 1, "c": 2}.get)


def test_a_shop_can_be_searched_by_lucene(pyserini, tmp_path):
    products = list(generate(3))
    store.build(tmp_path / "shop", products)
    for sold in (MemoryCatalogue(products), store.StoredCatalogue(tmp_path / "shop")):
        assert open_search(sold, "lucene").top(f"{products[2].asin} {products[0].asin} nothing", 50) == (2, 0)
    assert (tmp_path / "shop" / "lucene" / "segments_1").read_text().split() == [product.asin for product in products]


def test_without_pyserini_or_an_index_the_error_says_what_is_missing(tmp_path, monkeypatch):
    if INSTALLED:
        pytest.skip("pyserini is installed")
    refuses(ImportError, "pyserini", WebShopEnv, data="generated", search="lucene")
    refuses(DataError, "no Lucene index", Lucene, CATALOGUE, tmp_path)

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    refuses(ImportError, r"\[search\].*bm25", lucene.build, [], tmp_path)


def test_hits_become_positions_and_any_query_is_answered(pyserini, tmp_path) -> None:
    lucene.build([("a", "x"), ("b", "y")], tmp_path / "new")
    assert (tmp_path / "new" / "segments_1").read_text() == "a b"
    search = Lucene(CATALOGUE, tmp_path / "new")
    assert (search.top("c a", 50), search.top("c a", 1), search.top("c a", 0)) == ((2, 0), (2,), ())
    assert (search.top("b unknown a", 50), search.top("b c", 50)) == ((1, 0), (1, 2))
    lucene.build([("a", "x")], tmp_path)
    search = Lucene(CATALOGUE, tmp_path)
    assert search.top("a \ud800 b", 50) == (0, 1)
    assert search.top("a b c a b c", 50) == (0, 1, 2, 0)  # 6 words, then 4
    refuses(RuntimeError, "disk", search.top, "fail", 50)


@pytest.mark.parametrize(("version", "java"), [("0.22.1", 11), ("0.34.9", 11), ("0.35.0", 21), ("1.6.0", 21)])
def test_a_failed_start_names_the_java_that_is_needed(tmp_path, monkeypatch, version, java):
    def fail(name):
        raise OSError("no JVM")

    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(importlib, "import_module", fail)
    refuses(
        RuntimeError, rf"pyserini {version} .* needs Java {java} or newer.*OSError: no JVM", lucene.build, [], tmp_path
    )


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="pyserini is not installed: pip install 'stepcredit[search]'")
def test_lucene_and_bm25_agree(tmp_path):
    shop = catalogue()
    try:
        lucene.build(documents(shop), tmp_path)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"pyserini cannot start here: {error}")
    ours = Bm25(build(documents(shop)))
    for row in rows("lucene_top50"):
        assert Lucene(shop, tmp_path).top(row["query"], 50) == ours.top(row["query"], 50), row["query"]
