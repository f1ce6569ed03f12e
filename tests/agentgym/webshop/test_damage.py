"""Damaged files: whatever is wrong with one, the error names it and the place, and nothing is overwritten silently."""

import bz2
import contextlib
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.text import DataError
from agentgym.webshop import store
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.official.files import (
    read_human,
    read_products,
    read_record,
    requests_of,
)
from agentgym.webshop.reward import make_tagger
from agentgym.webshop.search import bm25, bm25_build
from agentgym.webshop.search.search import documents
from agentgym.webshop.shop import open_catalogue, open_search
from tests.agentgym.webshop.official_files import raw_record, raw_request, write_files
from tests.refusals import refuses

FIRST, SECOND = generate(2)

#: What may stand where a value should, and what the message says about it.
VALUES = {
    "5,000 digits": ("9" * 5_000, "5000 digits"),
    "NaN": ("NaN", "NaN"),
    "infinite": ("-Infinity", "Infinity"),
    "too large": ("1e400", "1e400"),
    "nested": ("[" * 5_000 + "]" * 5_000, "nested too deeply"),
    "brackets": ("[" * 100_000, "nested too deeply"),
    "nothing": ("", "Expecting value"),
}


def written(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def items(path: Path) -> list[Any]:
    return list(read_products(path, {}.get))


def requests(path: Path) -> object:
    return requests_of(path)("B1")


ITEM = json.dumps(raw_record(FIRST) | {"extra": "VALUE"}).replace('"VALUE"', "VALUE")
REQUEST = json.dumps(raw_request(FIRST) | {"extra": "VALUE"}).replace('"VALUE"', "VALUE")
HUMAN = '[{"instruction": "x", "instruction_attributes": [], "instruction_options": [], "extra": VALUE}]'
GOAL = {
    "asin": "B1", "name": "n", "category": "c", "query": "q", "product_category": "p", "instruction_text": "i",
    "attributes": ["a"], "goal_options": ["o"], "price_upper": 30.0,
}  # fmt: skip
#: Reader of a file, its name, and a text with the place of a value.
FILES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "items": (items, "items_shuffle.json", f"[{json.dumps(raw_record(SECOND))},\n{ITEM}]"),
    "requests": (requests, "items_ins_v2.json", f'{{"B0": {{}}, "B1": {REQUEST}}}'),
    "human": (read_human, "items_human_ins.json", f'{{"B0": [], "B1": {HUMAN}}}'),
    "record": (read_record, "prices.json", '{"prices": {"B1": VALUE}}'),
    "nouns": (make_tagger, "nouns.json", '{"title": ["a"], "b": VALUE}'),
}
READERS = pytest.mark.parametrize("kind", FILES)


@READERS
@pytest.mark.parametrize("value", VALUES)
def test_values_that_no_program_should_be_handed(tmp_path: Path, kind: str, value: str) -> None:
    read, name, text = FILES[kind]
    content, words = VALUES[value]
    path = written(tmp_path, name, text.replace("VALUE", content))
    with pytest.raises(ValueError, match=words) as caught:
        read(path)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 1_000
    if kind not in ("record", "nouns"):
        assert "entry 1" in str(caught.value)


@READERS
def test_text_that_is_not_utf8_or_ends_early(tmp_path: Path, kind: str) -> None:
    read, name, text = FILES[kind]
    raw = text.replace("VALUE", '"x"').encode()
    for damaged, words in ((raw.replace(b'"x"', b'"\xff"'), "UTF-8"), (raw[: len(raw) // 2], " "), (raw + b"]", " ")):
        path = written(tmp_path, name, damaged)
        with pytest.raises(ValueError, match=words) as caught:
            read(path)
        assert name in str(caught.value)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_damaged_compressed_records(tmp_path: Path, suffix: str) -> None:
    whole = json.dumps({"prices": {"B1": 1.0}}).encode()
    packed = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[suffix](whole)
    assert read_record(written(tmp_path, f"whole.json{suffix}", packed)).prices == {"B1": 1.0}
    for damaged in (packed[:-6], packed[:20] + b"\x00\xff\x00" + packed[23:], b"no such file"):
        path = written(tmp_path, f"prices.json{suffix}", damaged)
        refuses(ValueError, rf"prices\.json\{suffix}", read_record, path)


def test_marks_surrogates_and_control_characters_are_cleaned(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    assert len(items(written(tmp_path, "items_shuffle.json", mark + json.dumps([raw_record(FIRST)]).encode()))) == 1
    assert read_record(written(tmp_path, "prices.json", mark + b'{"prices": {}}')).prices == {}
    raw = raw_record(FIRST) | {"name": "so\ud800cks \x1b[31m", "full_description": "\U0001f600\udc00"}
    (product,) = items(written(tmp_path, "items_shuffle.json", json.dumps([raw])))
    assert (product.title, product.description) == ("so\ufffdcks \ufffd[31m", "\U0001f600\ufffd")
    human = [{"instruction": "a \udfff", "instruction_attributes": ["\ud800"], "instruction_options": []}]
    (request,) = read_human(written(tmp_path, "items_human_ins.json", json.dumps({"B1": human})))["B1"]
    assert (request.instruction, request.attributes) == ("a \ufffd", ("\ufffd",))
    record = read_record(written(tmp_path, "p.json", json.dumps({"prices": {}, "goals": [GOAL | {"name": "\ud800"}]})))
    assert record.goals is not None
    assert record.goals[0].name == "\ufffd"


def test_an_asin_stands_once(tmp_path: Path) -> None:
    path = written(tmp_path, "items_ins_v2.json", '{"B1": {}, "B2": {"attributes": []}, "B1": {"attributes": ["x"]}}')
    refuses(DataError, r"items_ins_v2\.json: .*B1.* repeated", requests_of, path)
    path = written(tmp_path, "items_human_ins.json", '{"B1": [], "B1": []}')
    refuses(DataError, r"items_human_ins\.json: entry 1: .*B1.* repeated", read_human, path)
    path = written(tmp_path, "prices.json", '{"prices": {"B1": 1, "B1": 2}}')
    refuses(ValueError, r"prices\.json .*'B1' is repeated", read_record, path)
    twice = [raw_record(FIRST), raw_record(FIRST) | {"name": "another"}]
    assert [each.title for each in items(written(tmp_path, "items_shuffle.json", json.dumps(twice)))] == [FIRST.title]
    path = written(tmp_path, "items_ins_v2.json", '{"B\\ud800": {}, "B\\udfff": {}}')
    refuses(DataError, "repeated", requests_of, path)
    with pytest.raises(DataError, match=r"items_ins_v2\.json: expected an object"):
        requests_of(written(tmp_path, "items_ins_v2.json", "[{}]"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("asin", "B\n1"),
        ("pricing", "$" + "9" * 5_000),
        ("pricing", "$" + "9" * 350),
        ("name", "x" * 30_000),
        ("full_description", "x" * 400_000),
        ("small_description", ["x"] * 10_000),
        ("customization_options", {"size": [{"value": "x" * 3_000}]}),
        ("customization_options", {"x" * 3_000: [{"value": "x"}]}),
        ("customization_options", {str(i): [{"value": str(i % 7)} for i in range(10)] for i in range(40)}),
        ("customization_options", {"size": [{"value": str(i)} for i in range(20_000)]}),
    ],
)
def test_products_that_no_page_can_hold(tmp_path: Path, field: str, value: object) -> None:
    record = raw_record(FIRST) | {field: value}
    path = written(tmp_path, "items_shuffle.json", json.dumps([raw_record(SECOND), record]))
    with pytest.raises(DataError, match=rf"items_shuffle\.json: product 1.*'{field}'") as caught:
        list(read_products(path, {FIRST.asin: raw_request(FIRST)}.get))
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attributes", [1]), ("attributes", "a"), ("attributes", ["a"] * 101), ("goal_options", [["size", "s"]]),
        ("goal_options", {"size": 7}), ("price_upper", True), ("price_upper", "30"),
        ("instruction_text", "x" * 30_000), ("asin", None),
    ],
)  # fmt: skip
def test_damaged_goals_are_named(tmp_path: Path, field: str, value: object) -> None:
    path = written(tmp_path, "prices.json", json.dumps({"prices": {}, "goals": [GOAL, GOAL | {field: value}]}))
    refuses(ValueError, rf"prices\.json: goal 1: field '{field}'", read_record, path)


@pytest.mark.parametrize("price", [None, "1", True, [1.0]])
def test_damaged_prices_are_named(tmp_path: Path, price: object) -> None:
    path = written(tmp_path, "prices.json", json.dumps({"prices": {"B0": 1, "B1": price}}))
    refuses(ValueError, r"prices\.json: the price of 'B1'", read_record, path)


def test_a_record_that_does_not_fit_the_shop_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "prices.json", json.dumps({"prices": {FIRST.asin: 1}}))
    refuses(ValueError, rf"prices\.json: .*{SECOND.asin}", WebShopEnv, num_products=2, prices=path)
    prices = {FIRST.asin: 1, SECOND.asin: 1}
    path = written(tmp_path, "prices.json", json.dumps({"prices": prices, "goals": [GOAL]}))
    refuses(ValueError, r"prices\.json: goal 0 is about B1", WebShopEnv, num_products=2, prices=path)


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 4
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "first byte": lambda path: flip(path, 0),
    "middle": lambda path: flip(path, 0.5),
    "last byte": lambda path: flip(path, 1),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_stored_catalogue_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    store.build(tmp_path / "whole", generate(50))
    for name in sorted(path.name for path in (tmp_path / "whole").iterdir()):
        folder = tmp_path / f"{name}-{damage}"
        store.build(folder, generate(50))
        DAMAGES[damage](folder / name)
        refuses(ValueError, rf"{name}-{damage}.*remove", store.StoredCatalogue, folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    texts = list(documents(generate(50)))
    bm25_build.build(texts, tmp_path / "whole")
    for name in sorted(path.name for path in (tmp_path / "whole").iterdir()):
        folder = tmp_path / f"{name}-{damage}"
        bm25_build.build(texts, folder)
        DAMAGES[damage](folder / name)
        refuses(DataError, rf"{name}-{damage}.*build", bm25.load, folder)


def shop_and_search(folder: Path) -> tuple[object, object]:
    shop = open_catalogue("generated", 50, 0, folder)
    assert isinstance(shop, store.StoredCatalogue)
    return list(shop), open_search(shop, "bm25").top("socks lamp", 50)


def test_a_damaged_cache_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym.webshop.shop.LARGE_SHOP", 10)
    found = []
    for damaged in (None, "products.db", "bm25/divisors.npy"):
        open_catalogue.cache_clear()
        open_search.cache_clear()
        if damaged:
            (path,) = tmp_path.glob(f"webshop-*/{damaged}")
            flip(path, 0.5)
        with pytest.warns(UserWarning, match="rebuilt now") if damaged else contextlib.nullcontext():
            found.append(shop_and_search(tmp_path))
    assert found[0] == found[1] == found[2]


def test_the_whole_way(tmp_path: Path) -> None:
    """An environment on damaged official files raises what their reader raises."""
    write_files(generate(20), tmp_path)
    whole = (tmp_path / "items_ins_v2.json").read_text()
    (tmp_path / "items_ins_v2.json").write_text(whole.replace('"attributes": [', '"attributes": [NaN, ', 1))
    refuses(ValueError, r"items_ins_v2\.json.*NaN", WebShopEnv, data=tmp_path)
