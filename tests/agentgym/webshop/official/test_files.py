import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.text import DataError
from agentgym.webshop.catalogue import Product
from agentgym.webshop.official.files import find_files, read_human, read_products, requests_of
from tests.agentgym.webshop.oracles import catalogue
from tests.refusals import refuses

RECORD: dict[str, Any] = {
    "asin": "B01",
    "name": "Wool Socks",
    "full_description": "",
    "small_description": ["a ", ""],
    "pricing": "$5 - $1,007.50",
    "product_category": "Clothing › Socks",
    "category": "fashion",
    "query": " Socks ",
    "customization_options": {"Size": [{"value": " S/M "}, {"value": "L"}], "Fit": None, "size": [{"value": "XL"}]},
}
REQUEST = {"attributes": ["warm"], "instruction": "find socks", "instruction_attributes": ["warm"]}


def read(tmp_path: Path, records: list[Any], requests: dict[str, Any], limit: int | None = None) -> list[Product]:
    path = tmp_path / "items_shuffle_1000.json"
    path.write_text(json.dumps(records))
    return list(read_products(path, requests.get, limit))


def test_a_record_becomes_a_product_and_what_may_be_missing(tmp_path: Path) -> None:
    (product,) = read(tmp_path, [RECORD], {"B01": REQUEST})
    assert product == Product(
        asin="B01",
        title="Wool Socks",
        description="",
        bullets=("a ", ""),
        prices=(5.0, 1007.5),
        price_text="$5.0 to $1007.5",
        options=(("size", ("xl",)),),
        attributes=("warm",),
        category="fashion",
        query="socks",
        product_category="Clothing › Socks",
        instruction="find socks",
        instruction_attributes=("warm",),
    )
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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("asin", 7),
        ("name", None),
        ("full_description", ["a"]),
        ("small_description", [1]),
        ("small_description", None),
        ("pricing", 12.5),
        ("pricing", "12.50"),
        ("pricing", "$12.5.0"),
        ("pricing", "$"),
        ("product_category", {}),
        ("category", 0),
        ("query", None),
        ("customization_options", ["red"]),
        ("customization_options", {"size": "red"}),
        ("customization_options", {"size": ["red"]}),
        ("customization_options", {"size": [{"name": "red"}]}),
    ],
)
def test_malformed_products_are_named_with_the_field(tmp_path: Path, field: str, value: Any) -> None:
    who = "product 1" if field == "asin" else r"product 1 \(B02\)"
    with pytest.raises(DataError, match=rf"items_shuffle_1000.json: {who}: field '{field}'"):
        read(tmp_path, [RECORD, {**RECORD, "asin": "B02", field: value}], {})


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"attributes": "warm"}, "attributes"),
        ({"instruction": 3}, "instruction_attributes"),
        ({"instruction": 3, "instruction_attributes": ["warm"]}, "instruction"),
        ({"instruction": "find", "instruction_attributes": []}, "instruction_attributes"),
    ],
)
def test_malformed_requests_are_named_with_the_field(tmp_path: Path, request_: Any, field: str) -> None:
    with pytest.raises(DataError, match=rf"product 0 \(B01\), its entry in the requests file: field '{field}'"):
        read(tmp_path, [RECORD], {"B01": request_})


def test_human_requests_entries_and_files_of_another_shape(tmp_path: Path) -> None:
    refuses(DataError, "product 0: expected an object", read, tmp_path, ["sock"], {})
    path = tmp_path / "items_shuffle.json"
    path.write_text('{"a": 1}')
    refuses(DataError, "expected a list of products", list, read_products(path, {}.get))
    path = tmp_path / "items_human_ins.json"
    refuses(ValueError, "goals='human' needs it", read_human, path)
    path.write_text('{"B01": [{"instruction": "x.", "instruction_attributes": [], "instruction_options": "s"}]}')
    refuses(DataError, "product B01, request 0: field 'instruction_options'", read_human, path)
    path.write_text('{"B01": {}}')
    refuses(DataError, "product B01: expected a list", read_human, path)
    path = tmp_path / "items_ins_v2.json"
    path.write_text('{"B2": {"attributes": ["é"]}, "B1": {"a": [1]}, "": {}}', "utf-8")
    request_of = requests_of(path)
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
    assert max(len(product.options) for product in products) == 3
    assert len({value for product in products for _, values in product.options for value in values}) == 1945
    assert sum(len(product.prices) == 2 for product in products) == 93
    assert sum(product.price_text == "$100.0" for product in products) == 89
    assert sum(product.description == "" for product in products) == 301
    assert sum(product.bullets == ("",) for product in products) == 69
    assert len({attribute for product in products for attribute in product.attributes}) == 598
    assert sum(product.instruction is not None for product in products) == 415
