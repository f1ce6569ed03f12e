import os
from pathlib import Path

import numpy as np
import pytest

from agentgym.webshop import store
from agentgym.webshop.catalogue import MemoryCatalogue
from agentgym.webshop.generated.generator import generate
from agentgym.webshop.shop import open_catalogue, open_search
from tests.agentgym.webshop.oracles import catalogue
from tests.agentgym.webshop.small_shop import product
from tests.refusals import refuses


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


def test_the_official_products(tmp_path: Path) -> None:
    store.build(tmp_path / "store", iter(catalogue()))
    assert_equal(store.StoredCatalogue(tmp_path / "store"), catalogue())


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
