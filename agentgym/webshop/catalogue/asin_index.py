"""Which product has an asin, for millions of them in a few bytes each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class AsinIndex:
    """Asins in sorted order, with their positions.

    Args:
        asins: as UTF-8, sorted; dtype bytes, shape (products,).
        order: position of each of them, shape (products,).
    """

    def __init__(self, asins: NDArray[np.bytes_], order: NDArray[np.int32]) -> None:
        self.asins, self.order = asins, order

    @classmethod
    def of(cls, asins: Sequence[bytes]) -> AsinIndex:
        """Build the index of asins in order of their positions; of equal ones the last is found."""
        column = np.array(asins, np.bytes_)
        order = np.argsort(column, kind="stable").astype(np.int32)
        return cls(column[order], order)

    def find(self, asin: str) -> int | None:
        """Return the position of an asin, None when there is none."""
        wanted = asin.encode("utf-8", "surrogatepass")
        place = int(np.searchsorted(self.asins, np.bytes_(wanted), "right")) - 1
        return int(self.order[place]) if place >= 0 and self.asins[place] == wanted else None
