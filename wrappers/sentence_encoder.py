"""Embeddings of states by a sentence-transformers model, for `wrappers.clusters`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.foreign_text import clean

#: The small general-purpose encoder that is used most; 384 dimensions.
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


class SentenceEncoder:
    """Callable: n states -> float32 (n, dimensions). Texts it has seen lately are not encoded again.

    The model is loaded at the first call and sees `str(state)`, cut off at its own maximal length. The vector of a
    text is the one of its first sight: what else is in a batch may change the last digits.

    Args:
        model: name of a sentence-transformers model (fetched from its hub) or a folder that holds one.
        batch_size: texts encoded at a time.
        device: "cpu", "cuda", ...; by default the library's choice.
        cache_size: number of texts whose vectors are kept, the latest used ones.

    Raises:
        ImportError: at the first call, where sentence-transformers is not installed.

    Needs the extra `embed`: `pip install "stepcredit[embed]"`.
    """

    def __init__(
        self,
        model: str | Path = MODEL,
        *,
        batch_size: int = 64,
        device: str | None = None,
        cache_size: int = 100_000,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("cache_size", cache_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.model = str(model)
        self.batch_size = batch_size
        self.device = device
        self.cache_size = cache_size
        self._encoder: Any = None
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def __call__(self, states: Sequence[Hashable]) -> NDArray[np.float32]:
        """Return float32 (n, dimensions), one vector per state."""
        texts = [clean(str(state)) for state in states]
        if not texts:
            return np.zeros((0, 0), np.float32)
        distinct = list(dict.fromkeys(texts))
        new = [text for text in distinct if text not in self._cache]
        if new:
            self._cache.update(zip(new, self._encode(new), strict=True))
        for text in distinct:
            self._cache.move_to_end(text)
        vectors = np.stack([self._cache[text] for text in texts])
        while len(self._cache) > self.cache_size:
            self._cache.popitem(last=False)
        return vectors

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        if self._encoder is None:
            self._encoder = self._load()
        encoded = self._encoder.encode(
            texts, batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        return np.array(encoded, np.float32)

    def _load(self) -> Any:
        """Import here: the library brings torch."""
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ImportError(
                'SentenceEncoder needs sentence-transformers: pip install "stepcredit[embed]" (or give any function '
                "of your own that takes n states and returns n vectors)"
            ) from error
        return SentenceTransformer(self.model, device=self.device)
