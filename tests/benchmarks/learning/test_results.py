"""results.json is checked when it is read."""

import copy
import json

import pytest

from benchmarks.json_files import ResultsError, encode
from benchmarks.learning.results import load, save


def test_load_gives_back_what_was_saved(finished_run, tmp_path):
    found = load(finished_run / "results.json")
    save(found, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == found
    assert encode(found) == json.loads((tmp_path / "results.json").read_text("utf-8"))


def change(value, path, new):
    """Set the entry at a path such as ("runs", 0, "curve")."""
    for key in path[:-1]:
        value = value[key]
    if new is KeyError:
        del value[path[-1]]
    else:
        value[path[-1]] = new


@pytest.mark.parametrize(
    ("path", "new", "expected"),
    [
        (("version",), 99, r"this code reads version 2, got 99"),
        (("config", "seeds"), "0", r"results\.json: config\.seeds: Input should be a valid array, got '0'"),
        (("config", "seeds"), [0, 1, 5], r"no run of 'grpo' with seed 5"),
        (("config", "methods"), ["grpo", "rloo"], r"no run of 'rloo' with seed 0"),
        (("config", "eval_tasks"), 13, r"results\.json: scores\[0\]\.success: expected 13 characters"),
        (
            ("runs", 0, "curve", 1, "greedy"),
            "high",
            r"runs\[0\]\.curve\[1\]\.greedy: Input should be a valid number, got 'high'",
        ),
        (("runs", 0, "curve"), [], r"json: runs\[0\]\.curve: iterations must rise"),
        (("runs", 0, "seed"), True, r"runs\[0\]\.seed: Input should be a valid integer, got True"),
        (("runs", 0, "seed"), KeyError, r"runs\[0\]\.seed: Field required"),
        (("runs", 0, "seconsd"), 1.0, r"runs\[0\]\.seconsd: Unexpected keyword argument"),
        (("scores",), [], r"no sampled score of 'random' with seed 0"),
        (
            ("graphs", 0, "edges", 0, "target"),
            10_000,
            r"graphs\[0\]\.edges: an edge ends at a node that does not exist",
        ),
    ],
)
def test_a_malformed_file_is_refused_with_the_path_of_the_fault(finished_run, tmp_path, path, new, expected):
    value = copy.deepcopy(json.loads((finished_run / "results.json").read_text("utf-8")))
    change(value, path, new)
    (tmp_path / "results.json").write_text(json.dumps(value), "utf-8")
    with pytest.raises(ResultsError, match=expected):
        load(tmp_path / "results.json")
