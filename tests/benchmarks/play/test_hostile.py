"""Every file that `grade`, `compare`, `hub` and `play` read, with every value in it replaced by hostile ones."""

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.json_files import ResultsError, write_json
from benchmarks.play.compare import check_same, compare_results
from benchmarks.play.grade import Replay
from benchmarks.play.hub import read_folder, write_folder
from benchmarks.play.panel import JOURNAL, Episode, Lines, choose_panel
from benchmarks.play.results import VERSION, PanelInfo, PanelResults, PolicyInfo, Summary, TaskOutcome, load
from benchmarks.play.transcripts import LoggedEpisode, read_log
from benchmarks.statistics import Interval
from tests.cases import cases
from tests.refusals import refuses
from tests.robustness.damage import VALUES

MARK = "@here@"
#: Beside the values that may stand anywhere: lists and objects with one entry that is none.
HOSTILE = (*VALUES, "[null]", '{"x": null}', "[[]]", "[{}]", '[{"x": [1]}]', "-0.0", "2", '["x", 3]')


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a JSON value, the whole first."""
    yield here
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inside:
        yield from places(item, (*here, name))


def changed(value: Any) -> Iterator[str]:
    """The value as JSON with one place left out, or something else there."""
    for place in places(value):
        if not place:
            yield from HOSTILE
            continue
        whole = copy.deepcopy(value)
        inner = whole
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = MARK
        text = json.dumps(whole)
        yield from (text.replace(f'"{MARK}"', each) for each in HOSTILE)
        del inner[place[-1]]
        yield json.dumps(whole)


def refused(read: Callable[[], Any], *words: str) -> bool:
    """Whether a file is refused, in an error that has these words and can be shown."""
    try:
        read()
    except ResultsError as error:
        said = str(error)
        assert all(word in said for word in words), said[:500]
        assert len(said) < 3_000
        said.encode("utf-8")
        return True
    return False


NOW = "Your current observation is: a room.\nYour admissible actions of the current situation are: ['look']."
LOGS: dict[str, list[Any]] = {
    "lines": [{"task": "t", "actions": ["a", "b"], "observations": ["o", "p", "q"], "won": True, "score": 0.5}],
    "steps": [
        {"kind": "reset", "observation": "o", "game": "g/h"},
        {"kind": "step", "observation": "p", "action": "a", "done": False, "won": False},
    ],
    "verl": [
        {"input": NOW, "output": "<action>look</action>", "score": 10.0, "step": 1},
        {"input": f"You have already taken 1 step(s). {NOW}", "output": "look", "score": 0.0, "step": 1},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def replay():
    return Replay(choose_panel("sokoban/generated@1", {}, 2)[0])


@pytest.mark.parametrize("form", LOGS)
def test_a_log_is_read_or_refused_with_file_and_line(form: str, replay: Replay, tmp_path: Path) -> None:
    path, rows = tmp_path / "log.jsonl", LOGS[form]
    lines, counts, read = [json.dumps(row) for row in rows], [0, 0], set[LoggedEpisode]()
    for number, row in enumerate(rows):
        for text in changed(row):
            path.write_text("\n".join([*lines, *lines[:number], text, *lines[number + 1 :]]), encoding="utf-8")
            if refused(lambda: read.update(read_log(path, form)), f"{path}, line {len(lines) + number + 1}: "):
                counts[1] += 1
            else:
                counts[0] += 1
    assert min(counts) > 20
    for episode in read:
        written = (episode.task, *(step.action for step in episode.steps))
        shown = (episode.opening, *(step.observation for step in episode.steps))
        assert all(type(text) is str for text in (*written, *filter(None, shown)))
        assert (type(episode.won) in (bool, type(None)), type(episode.score) in (float, type(None))) == (True, True)
        assert replay.grade(episode).line == episode.line


@pytest.mark.parametrize("form", LOGS)
def test_a_log_of_unknown_format_is_read_or_refused_with_its_file(form: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for text in changed(LOGS[form][0]):
        path.write_text(text, encoding="utf-8")
        refused(lambda: read_log(path), str(path))


@cases(
    "text, words",
    ('{"task": "t", "actions": ["a"], "score": NaN}', "line 1: NaN is not a JSON number"),
    ('{"task": "t", "actions": ' + "[" * 100_000, "line 1: nested too deeply"),
    ('{"task": "t", "actions": [], "score": ' + "9" * 400 + "}", "line 1: an integer of 400 digits"),
    ('{"input": "already taken ' + "1" * 9_000 + f' step {NOW[5:-3]}", "output": ""}}'.replace("\n", " "),
     "line 1: expected the first step of an episode, got one after " + "1" * 40),
    (f'{{"input": "{NOW[:20]}", "output": ""}}', "line 1: the prompt has no 'current observation is: ..."),
    ("Hello", "line 1: unknown format, 'Hello'; known are lines: "),
    ('{"a": 1}', "line 1: unknown format, an object with a"),
    ("", "unknown format"),
    ('{"task": "x", "actions": ["a"]}\n{"task": 3}', "line 2: expected the id of a task"),
    ('{"task": "x", "actions": [], "observations": ["b", "c"]}', "line 1: expected an observation for each of 0"),
    ('{"task": "x", "actions": [1]}', "line 1: 'actions' must be a list of texts"),
    ('{"task": "x", "actions": [], "won": 7}', "line 1: 'won' must be true or false"),
    ('{"kind": "step", "action": "a", "observation": "b"}', "line 1: a step before the first 'reset'"),
    ('{"task": "x", "actions": []}\n{', "line 2"),
)  # fmt: skip
def test_what_a_log_cannot_hold_is_named(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError) as error:
        read_log(tmp_path / "log")
    assert words in str(error.value)
    assert str(error.value).count(str(tmp_path)) == 1
    assert len(str(error.value)) < 1_000


def made_up() -> PanelResults:
    """Results of two tasks, played twice each."""
    task = TaskOutcome("test/0", "d0", "short", [True, False], [1.0, 0.5], [10.0, -1.0], [3, 20], [0, 2])
    half = Interval(0.75, 0.5, 1.0)
    return PanelResults(
        VERSION, "2026-01-01T00:00:00+00:00", "0.2.0",
        PanelInfo("sokoban/generated@1", "0123456789abcdef", True, "AgentRL/Sokoban-v0", {"n": [1]}, {"a": 2},
                  {"l": "x"}),
        PolicyInfo("random", {"weights": None}, [{"role": "user", "content": "Hi."}]), 2, 0, None,
        Summary(half, half, half, {"short": half}, 0.1, 10.0, 0.0, 0.0, 0.5, 0.25),
        [task, dataclasses.replace(task, id="test/1", digest="d1", won=[False, False])],
    )  # fmt: skip


def test_results_are_compared_or_refused_with_their_file(tmp_path: Path) -> None:
    path, one = tmp_path / "results.json", made_up()
    write_json(one, path)
    assert load(tmp_path) == one
    counts = [0, 0]
    for text in changed(json.loads(path.read_text(encoding="utf-8"))):
        path.write_text(text, encoding="utf-8")
        read: list[PanelResults] = []
        if refused(lambda read=read: read.append(load(path)), str(path)):
            counts[1] += 1
        else:
            refused(lambda read=read: check_same(one, read[0], ("here", "there")), "here", "there")
            assert read[0].success().shape == read[0].scores().shape == (len(read[0].tasks), 2)
            counts[0] += 1
    assert min(counts) > 200


@cases(
    "change, words",
    ({"score": [1.0, 1e308]}, "the task 'test/1' has a score outside 0..1: [1.0, 1e+308]"),
    ({"score": [1.0, -0.5]}, "the task 'test/1' has a score outside 0..1: [1.0, -0.5]"),
    ({"won": [True]}, "the task 'test/1' has not all of 2 samples"),
)
def test_a_task_that_cannot_be_is_named(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    one = made_up()
    tasks = [one.tasks[0], dataclasses.replace(one.tasks[1], **change)]
    write_json(dataclasses.replace(one, tasks=tasks), tmp_path / "x")
    with pytest.raises(ResultsError) as error:
        load(tmp_path / "x")
    assert words in str(error.value)


def test_a_number_that_is_none_is_refused_where_any_value_may_stand(tmp_path: Path) -> None:
    write_json(made_up(), tmp_path / "x")
    text = (tmp_path / "x").read_text(encoding="utf-8")
    number = "9" * 99
    for old, new in (('"a": 2', '"a": NaN'), ('"weights": null', '"weights": 1e400'), ('"n": [1]', f'"n": [{number}]')):
        assert old in text
        (tmp_path / "y").write_text(text.replace(old, new), encoding="utf-8")
        refuses(ResultsError, r"y: .*delete it", lambda: load(tmp_path / "y"))


@cases(
    "tasks, words",
    ([1, 0], "the same tasks are in another order"),
    ([0], "only in one"),
    ([0, 1, 1], "occur 2 and 3 times"),
)
def test_results_whose_hash_is_not_that_of_their_tasks_are_not_paired(tasks: list[int], words: str) -> None:
    one = made_up()
    other = dataclasses.replace(one, tasks=[one.tasks[i] for i in tasks])
    with pytest.raises(ResultsError, match="not the same tasks in the same order") as error:
        compare_results([one, other], ["one", "other"])
    assert words in str(error.value)


def test_another_listing_is_refused_with_its_line(tmp_path: Path) -> None:
    write_folder({"sokoban/random": made_up()}, tmp_path)
    path = tmp_path / "panels" / "sokoban.jsonl"
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert len(read_folder(tmp_path)) == 1
    for text in changed(json.loads(second)):
        if text:
            path.write_text(f"{first}\n{text}\n", encoding="utf-8")
            assert refused(lambda: read_folder(tmp_path), f"{path}, line 2: "), text
    for lines in ([first], [first, second, second], []):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        assert refused(lambda: read_folder(tmp_path), f"{path}, which lists {len(lines)}: expected 2")
    path.write_bytes(b"\xff\n")
    assert refused(lambda: read_folder(tmp_path), f"{path}, line 1: not UTF-8")
    path.unlink()
    assert refused(lambda: read_folder(tmp_path), str(path), "download the folder again")


def test_a_journal_is_read_or_refused_with_file_and_line(tmp_path: Path) -> None:
    kept = Lines(tmp_path / JOURNAL, Episode)
    episode = Episode("train/1", 0, "", True, 1.0, 10.5, 2, 0, False, 0.0, 0.0, 0.1, 0.0, ["up", "down"])
    kept.add(episode)
    line, counts = kept.path.read_bytes(), [0, 0]
    for text in changed(dataclasses.asdict(dataclasses.replace(episode, sample=1))):
        kept.path.write_bytes(line + text.encode() + b"\n")
        counts[refused(lambda: Lines(tmp_path / JOURNAL, Episode), f"{kept.path}, line 2: ")] += 1
    assert min(counts) > 20
    kept.path.write_bytes(line + line)
    assert refused(lambda: Lines(tmp_path / JOURNAL, Episode), f"{kept.path}, line 2: sample 0 of 'train/1'")
