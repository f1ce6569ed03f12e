"""The entries of the official attribute file by asin, without keeping a large file in memory."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.webshop.catalogue.asin_index import AsinIndex
from agentgym.webshop.official.files import ProductError
from agentgym.webshop.official.json_stream import entries

#: Up to this size, in bytes, a file is kept in memory.
SMALL = 1 << 26


def attributes_of(path: Path, small: int = SMALL) -> Callable[[str], Any | None]:
    """Return a function from asin to entry, None where there is none.

    Args:
        path: items_ins_v2*.json.
        small: a file of more bytes is put on the disk in a form in which one entry is found at once.

    Raises:
        ValueError: when the file is malformed, or names an asin twice.
    """
    if path.stat().st_size <= small:
        known: dict[str | int, Any] = {}
        for asin, entry in entries(path):
            if asin in known:
                raise _twice(path, str(asin))
            known[asin] = entry
        return known.get
    stream = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the function returned
    asins, starts = [], array("q", [0])
    for asin, entry in entries(path):
        stream.write(json.dumps(entry).encode())
        asins.append(str(asin).encode("utf-8", "surrogatepass"))
        starts.append(stream.tell())
    index = AsinIndex.of(asins)
    repeated = np.flatnonzero(index.asins[1:] == index.asins[:-1])
    if len(repeated):
        raise _twice(path, index.asins[repeated[0]].decode("utf-8", "replace"))

    def get(asin: str) -> Any | None:
        position = index.find(asin)
        if position is None:
            return None
        stream.seek(starts[position])
        return json.loads(stream.read(starts[position + 1] - starts[position]))

    return get


def _twice(path: Path, asin: str) -> ProductError:
    return ProductError(f"{path}: the asin {asin!r} stands twice; the official files name each once")
