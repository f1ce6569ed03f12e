"""Passages as many as wanted, of 100 made-up words, and questions that each have one passage as their source.

How often a word occurs falls with its rank as in ordinary text (Zipf-Mandelbrot), and four words in ten are English
stop words: lists of passages are then as uneven in length as those of an encyclopaedia's words.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from agentgym.searchqa.retriever import Passage

Words = NDArray[np.object_]
Numbers = NDArray[np.int64]
_STOP_WORDS = ("the", "of", "and", "in", "to", "a", "is", "was", "for", "on", "as", "by", "with", "that", "at")
_CONSONANTS, _VOWELS = "bcdfglmnprstvz", "aeiou"
_WORDS, _OFFSET = 150_000, 30
_TITLE, _TEXT, _STOP_SHARE = 2, 98, 0.4
#: Passages drawn at once.
_BLOCK = 1000


class SyntheticPassages:
    """The same passages and questions in every process.

    Args:
        seed: of the words and of the draws.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        rng = np.random.default_rng([seed, 0])
        syllables = [a + b for a in _CONSONANTS for b in _VOWELS]
        words = dict.fromkeys(
            "".join(syllables[i] for i in row[: 2 + row[0] % 3])
            for row in rng.integers(len(syllables), size=(2 * _WORDS, 4)).tolist()
        )
        self._words = np.array(list(words)[:_WORDS], dtype=object)
        weights = 1.0 / (np.arange(len(self._words)) + _OFFSET)
        self._shares = np.cumsum(weights / weights.sum())
        self._last: tuple[int, Words, Numbers] | None = None

    def passages(self, count: int) -> Iterator[Passage]:
        """Yield the first `count` passages."""
        for block in range(-(-count // _BLOCK)):
            words, stop = self._drawn(block)
            mixed = np.where(stop >= 0, np.array(_STOP_WORDS, dtype=object)[stop], words)
            for i in range(min(_BLOCK, count - block * _BLOCK)):
                title, text = " ".join(words[i, :_TITLE]), " ".join(mixed[i, _TITLE:])
                yield Passage(str(block * _BLOCK + i), f'"{title}"\n{text}')

    def questions(self, count: int, passages: int) -> list[tuple[str, str]]:
        """Return questions of five words of one passage each, with the passage's id; of the first `passages`."""
        rng = np.random.default_rng([self._seed, 1])
        made = []
        for position in np.sort(rng.integers(passages, size=count)).tolist():
            words, stop = self._drawn(position // _BLOCK)
            told = words[position % _BLOCK][stop[position % _BLOCK] < 0]
            made.append(("what is " + " the ".join(rng.choice(told, 5, replace=False)), str(position)))
        return made

    def _drawn(self, block: int) -> tuple[Words, Numbers]:
        """Words, shape (passages, words of one), and the numbers of the stop words in their place (-1: none)."""
        if self._last is not None and self._last[0] == block:
            return self._last[1], self._last[2]
        rng = np.random.default_rng([self._seed, 2, block])
        shape = (_BLOCK, _TITLE + _TEXT)
        words = self._words[np.searchsorted(self._shares, rng.random(shape)).clip(max=len(self._words) - 1)]
        stop = np.where(rng.random(shape) < _STOP_SHARE, rng.integers(len(_STOP_WORDS), size=shape), -1)
        stop[:, :_TITLE] = -1
        self._last = (block, words, stop)
        return words, stop
