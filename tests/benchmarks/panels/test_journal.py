"""The file of finished episodes: damage has a place."""

import pytest

from benchmarks.json_files import ResultsError
from benchmarks.panels.journal import Episode, Journal

EPISODE = Episode("train/1", 0, "", True, 1.0, 10.5, 2, 0, False, 0.0, 0.0, 0.1, 0.0, ["up", "down"])


def test_episodes_come_back_as_they_were_written(tmp_path):
    journal = Journal(tmp_path / "episodes.jsonl")
    journal.add([EPISODE])
    assert Journal(journal.path).episodes == journal.episodes == {("train/1", 0): EPISODE}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 2: .*remove the line"),
        (b'{"task": 3}', "line 2: task: Input should be a valid string, got 3"),
        (None, "line 2: sample 0 of 'train/1'"),
    ],
)
def test_what_is_no_episode_is_named(tmp_path, line, words):
    journal = Journal(tmp_path / "episodes.jsonl")
    journal.add([EPISODE])
    content = journal.path.read_bytes()
    journal.path.write_bytes(content + (content if line is None else line + b"\n"))
    with pytest.raises(ResultsError, match=words):
        Journal(journal.path)
