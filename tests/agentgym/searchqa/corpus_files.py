"""Small corpora for the tests of retrieval, the recorded one, and the naive form of BM25."""

import json
import lzma
import math
import os
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.searchqa.retriever import Passage

#: The folder that holds `agentgym` and `tests`, for processes that a test starts.
ROOT = Path(__file__).resolve().parents[3]
_DEFAULT = ROOT.parent / "shared" / "data"
FOLDER = Path(os.environ.get("AGENTGYM_ORACLES", _DEFAULT)) / "searchqa"

#: Words that are their own stems and no stop words.
WORDS = ("ka", "lo", "mi", "nu", "ro", "su", "ta", "vo")


def find(name: str) -> Path:
    """Path of a file of the folder, such as "corpus.jsonl.xz"."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no corpus: {path} does not exist (set AGENTGYM_ORACLES to the folder that holds searchqa/)")
    return path


@cache
def rows(name: str) -> list[dict[str, Any]]:
    with lzma.open(find(name), "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def random_passages(count: int, seed: int, words: Sequence[str] = WORDS) -> tuple[Passage, ...]:
    """Passages of a few words each, so that many scores are equal."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        title, text = (" ".join(rng.choice(words, size=int(n))) for n in (rng.integers(1, 3), rng.integers(0, 6)))
        made.append(Passage(f"p{i}", f"{title}\n{text}"))
    return tuple(made)


def write_corpus(path: Path, passages: Sequence[Passage]) -> Path:
    path.write_text("".join(json.dumps(passage._asdict()) + "\n" for passage in passages), encoding="utf-8")
    return path


def naive_scores(passages: Sequence[Passage], query: str) -> list[float]:
    """BM25 of Robertson & Zaragoza (2009), idf = ln(1 + (N - n + 1/2) / (n + 1/2)); words of the title count thrice."""
    texts = [(p.title + " ") * 3 + p.text for p in passages]
    counts = [Counter(text.split()) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths)
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        score = 0.0
        for word in set(query.split()):
            n = sum(word in other for other in counts)
            idf = math.log(1 + (len(passages) - n + 0.5) / (n + 0.5))
            tf = count[word]
            score += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean))
        scores.append(score)
    return scores
