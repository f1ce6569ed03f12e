"""How many states each key merges: counts by hand, and the order of the keys on real episodes."""

import zlib

import numpy as np

from agentgym.trajectory import StepTable
from benchmarks.keys.merging import STUDY, MergingConfig, bag_of_words, count, leaders_by_difflib


def test_counting_leaders_and_vectors() -> None:
    table = StepTable.from_arrays(
        group=["g", "g", "g", "g", "h"], trajectory=[0, 0, 1, 1, 2], t=[0, 1, 0, 1, 0], state=["a", "b", "a", "c", "a"],
        action=["x"] * 5, next_state=["b", "end", "c", "end", "pit"], reward=[0, 1, 0, 1, 0], won=[1, 1, 1, 1, 0],
    )  # fmt: skip
    found = count("by hand", table)
    assert found.states == 6  # g: a, b, c, end; h: a, pit
    assert found.met == 2 / 5  # the two visits of a in g
    texts = ["one two three four", "one two three fou", "nothing", "one two three fo", "nothing"]
    assert leaders_by_difflib(texts, 0.9) == [texts[0], texts[0], "nothing", texts[0], "nothing"]
    assert leaders_by_difflib(texts, 1.0) == [*texts[:4], "nothing"]
    vectors = bag_of_words(["Ada", "", "Ada Ada Bell"])
    assert vectors.sum(axis=1).tolist() == [1.0, 1.0, 3.0]
    assert np.flatnonzero(vectors[0]).tolist() == [zlib.crc32(b"ada") % 1024]


def test_coarser_keys_merge_more(tmp_path):
    found = STUDY.play(MergingConfig(6, 4, "two_hop", "", 0), tmp_path)
    exact, text, difflib, cosine, passages = (row.states for row in found.keys)
    assert exact > passages
    assert exact > text >= difflib
    assert text >= cosine
    assert found.keys[0].met <= min(row.met for row in found.keys)  # finer states are shared less
    assert STUDY.load(tmp_path / "merging.json") == found
    assert found.keys == STUDY.run(found.config, "two_hop", None, print)
    assert [row[1] for row in STUDY.page(found).tables[0].texts] == [f"{row.states:,}" for row in found.keys]
