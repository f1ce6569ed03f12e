"""A catalogue on disk, for millions of products: records in SQLite, memory-mapped columns."""

import json
import os
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.outside.files import damage, new_folder, seal
from agentgym.outside.text import DataError
from agentgym.webshop.catalogue import Product, ends

#: Increase it with every change of a store's content.
VERSION = 3
_RECORDS, _NAMES = "products.db", "names.json"
_COLUMNS = ("prices", "choices", "category", "query")
_UNPACKED = 2048


def build(folder: Path, products: Iterable[Product]) -> None:
    """Write a catalogue into a new folder, product by product; a repeated asin is a ValueError."""
    with new_folder(folder) as temporary:
        _write(temporary, products)
        seal(temporary)


def _write(folder: Path, products: Iterable[Product]) -> None:
    prices, choices = array("d"), array("q")
    numbers: dict[str, tuple[dict[str, int], array[int]]] = {name: ({}, array("i")) for name in _COLUMNS[-2:]}

    def rows() -> Iterator[tuple[int, bytes, bytes]]:
        for position, product in enumerate(products):
            prices.extend(ends(product))
            choices.append(product.choices())
            for field, (names, column) in numbers.items():
                column.append(names.setdefault(getattr(product, field), len(names)))
            yield position, _key(product.asin), _pack(product)

    with closing(sqlite3.connect(folder / _RECORDS)) as database:
        database.execute("PRAGMA journal_mode = OFF")  # the folder appears whole or not at all
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE products (position INTEGER PRIMARY KEY, asin BLOB, record BLOB)")
        database.executemany("INSERT INTO products VALUES (?, ?, ?)", rows())
        try:
            database.execute("CREATE UNIQUE INDEX asins ON products (asin)")
        except sqlite3.IntegrityError:
            raise ValueError("the asins of a catalogue must differ, some are repeated") from None
        database.commit()
    columns: dict[str, NDArray[Any]] = {
        "prices": np.array(prices).reshape(-1, 2),
        "choices": np.array(choices),
        **{name: np.array(column) for name, (_, column) in numbers.items()},
    }
    for name, values in columns.items():
        np.save(folder / f"{name}.npy", values)
    content: dict[str, Any] = {"version": VERSION, **{name: list(known) for name, (known, _) in numbers.items()}}
    (folder / _NAMES).write_text(json.dumps(content), encoding="ascii")


def _key(asin: str) -> bytes:
    return asin.encode("utf-8", "surrogatepass")


def _pack(product: Product) -> bytes:
    row = [getattr(product, name) for name in Product.__slots__]
    return zlib.compress(json.dumps(row, separators=(",", ":")).encode(), 1)


def _tuples(value: Any) -> Any:
    return tuple([_tuples(each) for each in value]) if isinstance(value, list) else value


class StoredCatalogue:
    """Products in a folder from `build`, read on access; a `DataError` if it is damaged or of another version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if problem := damage(folder):
            raise DataError(f"{folder} contains no complete catalogue ({problem}): remove it to rebuild it")
        names = json.loads((folder / _NAMES).read_text(encoding="ascii"))
        if names["version"] != VERSION:
            raise DataError(f"{folder} was written by version {names['version']} of the store: remove it")
        self._names = {name: {value: i for i, value in enumerate(names[name])} for name in _COLUMNS[-2:]}
        self._columns: dict[str, NDArray[Any]] = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r").view(np.ndarray) for name in _COLUMNS
        }
        self._connected: tuple[int, sqlite3.Connection] | None = None
        self._product = lru_cache(_UNPACKED)(self._read)
        self._of = lru_cache(64)(self._select)

    def __len__(self) -> int:
        return len(self._columns["choices"])

    def __getitem__(self, position: int) -> Product:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range: the catalogue has {len(self)} products")
        return self._product(int(position))

    def __iter__(self) -> Iterator[Product]:
        return (self._read(position) for position in range(len(self)))

    def _ask(self, question: str, value: int | bytes) -> Any:
        """Return the first column of a row, None without a row; a connection belongs to one process."""
        process = os.getpid()
        if self._connected is None or self._connected[0] != process:
            path = f"{(self.folder / _RECORDS).absolute().as_uri()}?mode=ro&immutable=1"
            self._connected = process, sqlite3.connect(path, uri=True, check_same_thread=False)
        row = self._connected[1].execute(question, (value,)).fetchone()
        return None if row is None else row[0]

    def _read(self, position: int) -> Product:
        record = zlib.decompress(self._ask("SELECT record FROM products WHERE position = ?", position))
        return Product(*_tuples(json.loads(record)))

    def find(self, asin: str) -> int | None:
        found: int | None = self._ask("SELECT position FROM products WHERE asin = ?", _key(asin))
        return found

    def having(self, field: str, value: str) -> Sequence[int]:
        return self._of(field, value)

    def _select(self, field: str, value: str) -> Sequence[int]:
        found: Any = np.flatnonzero(self._columns[field] == self._names[field].get(value, -1))
        return found  # type: ignore[no-any-return]  # an array serves as a sequence

    def prices(self) -> NDArray[np.float64]:
        return self._columns["prices"]

    def choices(self) -> NDArray[np.int64]:
        return self._columns["choices"]
