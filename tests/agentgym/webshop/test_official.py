"""Official files: what is read, and what is damaged, which is named with its place; products that are stored."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentgym.outside.text import DataError, clean_json
from agentgym.webshop import store
from agentgym.webshop.catalogue import MemoryCatalogue, Product
from agentgym.webshop.env import WebShopEnv
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.official import json_stream
from agentgym.webshop.official.files import find_files, read_human, read_products, read_record, requests_of
from agentgym.webshop.official.json_stream import entries
from agentgym.webshop.search import bm25, bm25_build
from agentgym.webshop.search.search import documents
from agentgym.webshop.shop import open_catalogue, open_search
from tests.agentgym.webshop.support import catalogue, product, raw_record
from tests.cases import cases
from tests.refusals import refuses

RECORD: dict[str, Any] = {
    "asin": "B01", "name": "Wool Socks", "full_description": "", "small_description": ["a ", ""],
    "pricing": "$5 - $1,007.50", "product_category": "Clothing › Socks", "category": "fashion", "query": " Socks ",
    "customization_options": {"Size": [{"value": " S/M "}, {"value": "L"}], "Fit": None, "size": [{"value": "XL"}]},
}  # fmt: skip
ASKED = {"attributes": ["warm"], "instruction": "find socks", "instruction_attributes": ["warm"]}


def written(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(tmp_path: Path, records: list[Any], requests: dict[str, Any], limit: int | None = None) -> list[Product]:
    path = written(tmp_path, "items_shuffle_1000.json", json.dumps(records))
    return list(read_products(path, requests.get, limit))


def test_a_record_becomes_a_product_and_what_may_be_missing(tmp_path: Path) -> None:
    (product,) = read(tmp_path, [RECORD], {"B01": ASKED})
    assert product == Product(
        asin="B01", title="Wool Socks", description="", bullets=("a ", ""), prices=(5.0, 1007.5),
        price_text="$5.0 to $1007.5", options=(("size", ("xl",)),), attributes=("warm",), category="fashion",
        query="socks", product_category="Clothing › Socks", instruction="find socks", instruction_attributes=("warm",),
    )  # fmt: skip
    bare = {**RECORD, "customization_options": "", "small_description": "one", "pricing": ""}
    (product,) = read(tmp_path, [bare], {})
    assert (product.options, product.bullets) == ((), ("one",))
    assert (product.prices, product.price_text) == ((100.0,), "$100.0")
    assert (product.attributes, product.instruction) == (("DUMMY_ATTR",), None)
    (product,) = read(tmp_path, [RECORD | {"customization_options": {"Size": [{"value": " S/M "}]}}], {"B01": {}})
    assert product.options == (("size", ("s | m",)),)


def test_which_records_count(tmp_path: Path) -> None:
    """Cut first; then without the asin "nan", those of more than ten characters and repeated ones."""
    asins = ["nan", "B01", "B0123456789", "B02", "B01", "B03"]
    records = [{**RECORD, "asin": asin, "name": str(i)} for i, asin in enumerate(asins)]
    assert [(p.asin, p.title) for p in read(tmp_path, records, {})] == [("B01", "1"), ("B02", "3"), ("B03", "5")]
    assert [p.asin for p in read(tmp_path, records, {}, limit=4)] == ["B01", "B02"]


@cases(
    "field, value",
    ("asin", 7),
    ("name", None),
    ("small_description", [1]),
    ("pricing", "12.50"),
    ("pricing", "$"),
    ("customization_options", ["red"]),
    ("asin", "B\n1"),
    ("pricing", "$" + "9" * 350),
    ("full_description", "x" * 400_000),
    ("customization_options", {"size": [{"value": "x" * 3_000}]}),
    ("customization_options", {str(i): [{"value": str(i % 7)} for i in range(10)] for i in range(40)}),
    ("customization_options", {"size": [{"value": str(i)} for i in range(20_000)]}),
)
def test_malformed_products_are_named_with_the_field(tmp_path: Path, field: str, value: Any) -> None:
    """Values of another type, and those that no page can hold."""
    who = "product 1" if field == "asin" else r"product 1 \(B02\)"
    records, words = (
        [RECORD, {**RECORD, "asin": "B02", field: value}],
        rf"items_shuffle_1000.json: {who}: field '{field}'",
    )
    assert len(refuses(DataError, words, read, tmp_path, records, {"B02": ASKED})) < 1_000


def test_requests_and_files_of_another_shape_are_named(tmp_path: Path) -> None:
    for request, field in (
        ({"attributes": "warm"}, "attributes"),
        ({"instruction": 3}, "instruction_attributes"),
        ({"instruction": 3, "instruction_attributes": ["warm"]}, "instruction"),
        ({"instruction": "find", "instruction_attributes": []}, "instruction_attributes"),
    ):
        words = rf"product 0 \(B01\), its entry in the requests file: field '{field}'"
        refuses(DataError, words, read, tmp_path, [RECORD], {"B01": request})
    refuses(DataError, "product 0: expected an object", read, tmp_path, ["sock"], {})
    path = written(tmp_path, "items_shuffle.json", '{"a": 1}')
    refuses(DataError, "expected a list of products", list, read_products(path, {}.get))
    refuses(ValueError, "goals='human' needs it", read_human, tmp_path / "items_human_ins.json")
    for text, words in (
        (
            '[{"instruction": "x.", "instruction_attributes": [], "instruction_options": "s"}]',
            ", request 0: field 'instr",
        ),
        ("{}", ": expected a list"),
    ):
        path = written(tmp_path, "items_human_ins.json", f'{{"B01": {text}}}')
        refuses(DataError, f"product B01{words}", read_human, path)
    request_of = requests_of(written(tmp_path, "i.json", '{"B2": {"attributes": ["é"]}, "B1": {"a": [1]}, "": {}}'))
    found = [request_of(asin) for asin in ("B1", "B2", "", "B", "B3", "é", "\ud800")]
    assert found == [{"a": [1]}, {"attributes": ["é"]}, {}, None, None, None, None]


def test_folders(tmp_path: Path) -> None:
    refuses(ValueError, "contains no items_shuffle", find_files, tmp_path)
    refuses(ValueError, "neither a folder nor", find_files, tmp_path / "nothing")
    for name in ("items_shuffle.json", "items_shuffle_1000.json", "items_ins_v2_1000.json"):
        (tmp_path / name).write_text("[]")
    assert find_files(tmp_path).requests == tmp_path / "items_ins_v2_1000.json"
    with pytest.raises(ValueError, match=r"items_ins_v2.json is missing beside items_shuffle.json"):
        find_files(tmp_path / "items_shuffle.json")


def test_the_official_small_set() -> None:
    products = list(catalogue())
    assert len(products) == 1000
    categories = ("beauty", "electronics", "garden", "fashion", "grocery")
    assert [len(catalogue().having("category", name)) for name in categories] == [238, 229, 216, 200, 117]
    assert sum(bool(product.options) for product in products) == 423
    assert len({value for product in products for _, values in product.options for value in values}) == 1945
    assert sum(len(product.prices) == 2 for product in products) == 93
    assert len({attribute for product in products for attribute in product.attributes}) == 598
    assert sum(product.instruction is not None for product in products) == 415


NUMBERS = st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(data=[0.0], chunk=1, indented=False)
@example(data=[1e-7, -1.5e300], chunk=1, indented=False)
@given(
    data=st.lists(JSON, max_size=5) | st.dictionaries(st.text(), JSON, max_size=5),
    chunk=st.integers(1, 9),
    indented=st.booleans(),
)
def test_entries_are_those_of_the_whole_file(
    data: Any, chunk: int, indented: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the length of the pieces that are read: here down to one character."""
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data, indent=2 if indented else None, ensure_ascii=False), encoding="utf-8", newline="")
    listed = enumerate(data) if isinstance(data, list) else data.items()
    expected = [tuple(clean_json(list(pair))) for pair in listed]
    assert list(entries(path)) == expected


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@cases(
    "content, message",
    ("", "the file ends before '\\[' or '{'"),
    ("[1 2]", "expected ',' or ']', found '2' at character 3"),
    ('[{"a": }]', "in the entry that begins at character 1"),
    ('{"a" 1}', "expected ':', found '1'"),
    ("{1: 2}", 'expected a name in "quotes"'),
    ("[1] [2]", "text after the outermost value"),
)
def test_damaged_files_are_explained(
    content: str, message: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    refuses(ValueError, message, list, entries(written(tmp_path, "data.json", content)))


def test_a_damaged_entry_does_not_read_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", 10)
    monkeypatch.setattr(json_stream, "_LONGEST_ENTRY", 100)
    path, read = written(tmp_path, "data.json", '["' + "a" * 10_000), []
    real = json_stream._Text._more
    monkeypatch.setattr(json_stream._Text, "_more", lambda text: read.append(len(text._buffer)) or real(text))
    refuses(ValueError, "character 1", list, entries(path))
    assert max(read) < 400


FIRST, SECOND = generate(2)


def items(path: Path) -> list[Any]:
    return list(read_products(path, {}.get))


GOAL = {
    "asin": "B1", "name": "n", "category": "c", "query": "q", "product_category": "p", "instruction_text": "i",
    "attributes": ["a"], "goal_options": ["o"], "price_upper": 30.0,
}  # fmt: skip


def test_marks_surrogates_and_control_characters_are_cleaned(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    assert len(items(written(tmp_path, "items_shuffle.json", mark + json.dumps([raw_record(FIRST)]).encode()))) == 1
    assert read_record(written(tmp_path, "prices.json", mark + b'{"prices": {}}')).prices == {}
    raw = raw_record(FIRST) | {"name": "so\ud800cks \x1b[31m", "full_description": "\U0001f600\udc00"}
    (product,) = items(written(tmp_path, "items_shuffle.json", json.dumps([raw])))
    assert (product.title, product.description) == ("so\ufffdcks \ufffd[31m", "\U0001f600\ufffd")
    record = read_record(written(tmp_path, "p.json", json.dumps({"prices": {}, "goals": [GOAL | {"name": "\ud800"}]})))
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


@cases(
    "record, message",
    ([], "expected an object with 'prices'"),
    *(({"prices": {"B0": 1, "B1": price}}, "the price of 'B1'") for price in (None, "1", True, [1.0])),
    ({"prices": {}, "goals": 3}, "'goals' must be a list"),
    ({"prices": {}, "goals": [GOAL, "x"]}, "goal 1: expected an object with fields, got 'x'"),
    *(
        ({"prices": {}, "goals": [GOAL, GOAL | {field: value}]}, f"goal 1: field '{field}'")
        for field, value in (
            ("attributes", [1]), ("attributes", "a"), ("attributes", ["a"] * 101), ("price_upper", True),
            ("goal_options", [["size", "s"]]), ("goal_options", {"size": 7}), ("price_upper", "30"),
            ("instruction_text", "x" * 30_000), ("asin", None), ("asin", 3),
        )
    ),
)  # fmt: skip
def test_damaged_records_are_named(tmp_path: Path, record: object, message: str) -> None:
    refuses(ValueError, rf"prices\.json: {message}", read_record, written(tmp_path, "prices.json", json.dumps(record)))


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
    **{name: partial(flip, at=at) for name, at in (("first byte", 0), ("middle", 0.5), ("last byte", 1))},
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "gone": Path.unlink,
}


def build_index(folder: Path) -> None:
    bm25_build.build(documents(generate(50)), folder)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("build", "load"), [(lambda path: store.build(path, generate(50)), store.StoredCatalogue), (build_index, bm25.load)]
)
def test_a_damaged_catalogue_or_index_is_refused_by_name(tmp_path: Path, build: Any, load: Any, damage: str) -> None:
    build(tmp_path / "whole")
    for name in sorted(path.name for path in (tmp_path / "whole").iterdir()):
        folder = tmp_path / f"{name}-{damage}"
        shutil.copytree(tmp_path / "whole", folder)
        DAMAGES[damage](folder / name)
        refuses(ValueError, rf"{name}-{damage}.*(remove|build)", load, folder)


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
            shop = open_catalogue("generated", 50, 0, tmp_path)
            assert isinstance(shop, store.StoredCatalogue)
            found.append((list(shop), open_search(shop, "bm25").top("socks lamp", 50)))
    assert found[0] == found[1] == found[2]


def assert_equal(stored: store.StoredCatalogue, memory: MemoryCatalogue) -> None:
    assert (len(stored), list(stored)) == (len(memory), list(memory))
    assert [stored[i] for i in (0, len(memory) - 1)] == [memory[0], memory[len(memory) - 1]]
    for position, each in enumerate(memory):
        assert stored.find(each.asin) == position
    for asin in ("", "nothing", "Z" * 40, "\ud800"):
        assert stored.find(asin) is None
    assert np.array_equal(stored.prices(), memory.prices(), equal_nan=True)
    assert stored.choices().tolist() == memory.choices().tolist()
    for name in {each.category for each in memory} | {"no such"}:
        assert list(stored.having("category", name)) == list(memory.having("category", name))
    for name in {each.query for each in memory} | {"no such"}:
        assert list(stored.having("query", name)) == list(memory.having("query", name))
    for position in (-1, len(memory)):
        with pytest.raises(IndexError):
            stored[position]


def test_a_stored_catalogue_equals_one_in_memory(tmp_path: Path) -> None:
    odd = product("Ä\U0001f600", "", prices=(5.0, 7.0), description='"\x00\ud800', bullets=(), instruction=None)
    products = MemoryCatalogue([*generate(200), odd])
    store.build(tmp_path / "a" / "b", iter(products))
    assert_equal(store.StoredCatalogue(tmp_path / "a" / "b"), products)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b"]


def test_a_build_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    products = [product("B1", "socks"), product("B1", "hats")]
    refuses(ValueError, "asins of a catalogue must differ", store.build, tmp_path / "store", products)
    assert list(tmp_path.iterdir()) == []


def test_large_shops_lie_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym.webshop.shop.LARGE_SHOP", 100)
    opened = open_catalogue("generated", 150, 0, tmp_path)
    assert isinstance(opened, store.StoredCatalogue)
    search = open_search(opened, "bm25")
    assert list(opened) == list(generate(150))
    open_catalogue.cache_clear()
    open_search.cache_clear()
    monkeypatch.setattr(store, "build", None)  # nothing is made anew
    again = open_catalogue("generated", 150, 0, tmp_path)
    assert open_search(again, "bm25").top("socks", 50) == search.top("socks", 50)
    assert isinstance(open_catalogue("generated", 150, 0, False), MemoryCatalogue)
    assert isinstance(open_catalogue("generated", 99, 0, tmp_path), MemoryCatalogue)


def test_a_forked_process_reads_on(tmp_path: Path) -> None:
    """A connection to the database belongs to the process that opened it."""
    store.build(tmp_path / "store", generate(20))
    shop = store.StoredCatalogue(tmp_path / "store")
    expected = [each.asin for each in shop]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, " ".join([each.asin for each in shop]).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10_000).decode().split() == expected == [each.asin for each in shop]
    os.close(reader)
    os.close(writer)
