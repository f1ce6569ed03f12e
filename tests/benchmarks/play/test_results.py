"""Results of panels: compared, published, made of other programs' logs; read or refused whatever is in the files."""

import copy
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import gymnasium as gym
import huggingface_hub
import numpy as np
import pytest

from benchmarks.json_files import ResultsError, write_json
from benchmarks.play import hub
from benchmarks.play.compare import check_same, compare_results
from benchmarks.play.grade import Replay, grade_log, line_of, results_of_log
from benchmarks.play.hub import read_folder, write_folder
from benchmarks.play.panel import JOURNAL, Episode, Lines, choose_panel
from benchmarks.play.results import VERSION, PanelInfo, PanelResults, PolicyInfo, Summary, TaskOutcome, load
from benchmarks.play.transcripts import LoggedEpisode, read_log
from benchmarks.statistics import Interval, holm, paired_bootstrap, tasks_needed
from tests.agentgym.alfworld.support import episodes, files, task_id_of
from tests.benchmarks.command import played as play
from tests.benchmarks.command import run
from tests.cases import cases
from tests.oracles import oracle
from tests.refusals import refuses
from tests.robustness.damage import VALUES


@pytest.fixture(scope="module")
def two_players(tmp_path_factory):
    """Folder of two players on 30 levels."""
    folder = tmp_path_factory.mktemp("panels")
    for player in ("random", "expert"):
        play(folder, "sokoban/generated@1", player, 30, samples=2)
    return folder / "sokoban-generated@1-30"


def test_differences_and_holm_by_hand() -> None:
    one, other = np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0, 0.5, 0.0])
    difference, p = paired_bootstrap(one, other)
    assert difference.mean == 0.625  # (1 + 1 + .5 + 0) / 4
    # 16 ways to swap; the sum 2.5 is reached without a swap and with one of the equal task, and so is -2.5: 4 of 16
    assert p == pytest.approx(0.25)
    even, p = paired_bootstrap(np.ones(4), np.ones(4))
    assert (even.mean, p) == (0.0, 1.0)
    assert even.high == pytest.approx(1 - 0.5101, abs=1e-4)  # Wilson: 4 / (4 + 1.96^2)
    even, p = paired_bootstrap(np.ones(4), np.zeros(4))
    assert (even.mean, even.high, p) == (1.0, 1.0, 2 / 16)
    even, p = paired_bootstrap(np.array([0.3, 0.8, 1.0]), np.array([0.2, 0.7, 0.9]))  # alike but for rounding
    assert (even.excludes_zero, p) == (False, 2 / 8)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # .01 x 3; .03 x 2; max(.06, .04 x 1)
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    apart = np.tile([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.5], 20)
    # mean .05, deviation sqrt((20 x 1 + 20 x .25 - 200 x .0025) / 199) = .3508; (2.8016 x .3508 / .05)^2 = 386.4
    needed, least = tasks_needed(apart)
    assert (needed, least) == (387, pytest.approx(2.8016 * 0.3508 / 200**0.5, rel=1e-3))
    assert tasks_needed(np.zeros(5)) == (None, 0.0)


def test_the_command_compares_every_pair(two_players, tmp_path):
    words = run("compare", two_players / "random", two_players / "expert", "--out", tmp_path / "figures.json")
    (found,) = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    apart = load(two_players / "random").success().mean() - 1.0
    assert found["difference"]["mean"] == pytest.approx(apart)
    assert found["holm"] == found["p"] < 0.01
    assert "random - expert" in words
    assert found["needed"] < 30


def test_results_of_other_tasks_or_conditions_and_other_files_are_refused(two_players, tmp_path):
    one = load(two_players / "random")
    other = dataclasses.replace(
        one, panel=dataclasses.replace(one.panel, hash="0" * 16, options={"max_episode_steps": 9})
    )
    with pytest.raises(ResultsError, match=r"different panels.*first difference: max_episode_steps is 20 and 9"):
        compare_results([one, other], ["a", "b"])
    changed = dataclasses.replace(one.tasks[4], digest="1" * 64, id="test/new")
    other = dataclasses.replace(
        one, panel=dataclasses.replace(one.panel, hash="0" * 16), tasks=[*one.tasks[:4], changed, *one.tasks[5:]]
    )
    with pytest.raises(ResultsError, match=f"1 tasks are only in a, the first: '{one.tasks[4].id}'"):
        compare_results([one, other], ["a", "b"])
    other = dataclasses.replace(one, panel=dataclasses.replace(one.panel, added={"symbols": "xsb"}))
    with pytest.raises(ResultsError, match="different conditions: symbols is None in a, 'xsb' in b"):
        compare_results([one, other], ["a", "b"])
    one, other = (dataclasses.replace(one, panel=dataclasses.replace(one.panel, data={"corpus": c})) for c in "xy")
    with pytest.raises(ResultsError, match=r"different conditions: the files of corpus .* 'x' in a, 'y' in b"):
        compare_results([one, other], ["a", "b"])
    one, other = (dataclasses.replace(one, panel=dataclasses.replace(one.panel, data={"levels": c})) for c in "xy")
    assert len(compare_results([one, other], ["a", "b"])) == 1  # other files, the same tasks
    refuses(ResultsError, "at least two", compare_results, [one], ["a"])
    (tmp_path / "results.json").write_text("{}", encoding="utf-8")
    assert "results.json" in run("compare", tmp_path, tmp_path, status=2)


@pytest.fixture(scope="module")
def panels(tmp_path_factory) -> Path:
    """Folder of two players on three levels, and of one on two larger ones."""
    folder = tmp_path_factory.mktemp("panels")
    for name, policies, count in (
        ("sokoban/6x6/3-5@1", ("random", "expert"), 3),
        ("sokoban/7x7/5-15@1", ("random",), 2),
    ):
        for policy in policies:
            play(folder, name, policy, count, samples=2)
    return folder


def test_the_folder_reads_back_and_the_card_says_what_can_be_loaded(panels, tmp_path):
    run("hub", panels, "--out", tmp_path)
    found = hub.read_folder(tmp_path)
    assert len(found) == 3
    assert all(found[name] == load(panels / name) for name in found)
    card = huggingface_hub.DatasetCard.load(tmp_path / "README.md")
    files = {one["config_name"]: one["data_files"] for one in card.data.to_dict()["configs"]}
    lines = {name: [json.loads(line) for path in sorted(tmp_path.glob(pattern)) for line in path.open()]
             for name, pattern in files.items()}  # fmt: skip
    assert {name: len(rows) for name, rows in lines.items()} == {"tasks": 3 + 2, "outcomes": (3 + 3 + 2) * 2}
    assert [len({tuple(row) for row in rows}) for rows in lines.values()] == [1, 1]  # each is one table
    expert = [row for row in lines["outcomes"] if row["player"] == "expert"]
    assert all(row["won"] for row in expert)
    assert {row["digest"] for row in expert} <= {row["digest"] for row in lines["tasks"]}
    assert "| expert | 3 x 2 | 100.0 (" in card.text


def test_what_does_not_belong_together_is_refused(panels, tmp_path):
    results = {path.parent.relative_to(panels).as_posix(): load(path) for path in panels.glob("*/*/results.json")}
    one, other, larger = sorted(results)
    with pytest.raises(ResultsError, match="results of different panels cannot be compared"):
        hub.write_folder({one: results[one], other: results[larger]}, tmp_path)
    refuses(ResultsError, "no results to write", hub.write_folder, {}, tmp_path)
    hub.write_folder(results, tmp_path)
    tasks = [dataclasses.replace(results[one].tasks[0], digest="0" * 64), *results[one].tasks[1:]]
    hub.write_json(dataclasses.replace(results[one], tasks=tasks), tmp_path / "results" / one / "results.json")
    refuses(ResultsError, "not results on the tasks of", hub.read_folder, tmp_path)
    (tmp_path / "panels" / f"{one.partition('/')[0]}.jsonl").write_text("{")
    refuses(ResultsError, "download the folder again", hub.read_folder, tmp_path)


def test_the_folder_is_sent_as_a_private_data_set_under_a_name_that_can_be_one(panels, tmp_path, monkeypatch):
    out = tmp_path / "out"
    said = run("hub", panels, "--out", out, "--upload", "a/b/c", status=2)
    assert ("--upload" in said, "a/b/c" in said, out.exists()) == (True, True, False)
    api = create_autospec(huggingface_hub.HfApi, instance=True)
    api.create_repo.return_value = "https://hub/datasets/me/results"
    monkeypatch.setattr(hub, "HfApi", lambda: api)
    assert "https://hub/datasets/me/results" in run("hub", panels, "--out", tmp_path, "--upload", "me/results")
    assert api.create_repo.call_args.kwargs | {"name": api.create_repo.call_args.args} == {
        "name": ("me/results",), "repo_type": "dataset", "private": True, "exist_ok": True,
    }  # fmt: skip
    sent = api.upload_folder.call_args.kwargs
    assert (sent["folder_path"], sent["repo_id"], sent["repo_type"]) == (tmp_path, "me/results", "dataset")
    allowed = sent["allow_patterns"]
    written = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(huggingface_hub.utils.filter_repo_objects(written, allow_patterns=allowed)) == sorted(written)
    assert not list(huggingface_hub.utils.filter_repo_objects([".env", "panels/key", "x.py"], allow_patterns=allowed))


def test_files_of_something_else_are_neither_written_over_nor_mixed_in(panels, tmp_path):
    results = {path.parent.relative_to(panels).as_posix(): load(path) for path in panels.glob("*/*/results.json")}
    (tmp_path / "README.md").write_text("mine")
    refuses(ResultsError, r"README\.md is of another page: name an empty folder", hub.write_folder, results, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    out = tmp_path / "out"
    hub.write_folder(results, out)
    hub.write_folder(results, out)
    first = min(results)
    with pytest.raises(ResultsError, match=rf"results/{re.escape(first)} is of an earlier data set: remove it"):
        hub.write_folder({name: one for name, one in results.items() if name != first}, out)


ALFWORLD = "alfworld/generated@1"


@pytest.fixture(scope="module")
def panel():
    """Three generated games."""
    return choose_panel(ALFWORLD, {}, 3)[0]


@pytest.fixture(scope="module")
def played(panel):
    """Task, texts (first one included) and actions of each game, by the expert, one refused action first."""
    env = gym.make(panel.panel.env, **panel.arguments, expert=True)
    found = []
    for task in panel.tasks:
        text, info = env.reset(options={"task_id": task.id})
        texts, actions = [text], []
        while not info["won"]:
            actions.append(info["expert_action"] if actions else "dance")
            text, *_, info = env.step(actions[-1])
            texts.append(text)
        found.append((task.id, texts, actions))
    return found


def lines(played):
    rows = [{"task": task, "actions": actions, "observations": texts, "won": True, "score": 1.0}
            for task, texts, actions in played]  # fmt: skip
    return "\n".join(map(json.dumps, rows))


def verl(played):
    rows = []
    for _, texts, actions in played:
        for step, action in enumerate(actions):
            taken = f"Prior to this step, you have already taken {step} step(s). " if step else ""
            now = f"Your current observation is: {texts[step]}"
            prompt = f"user\n{taken}{now}\nYour admissible actions of the current situation are: ['look']."
            said = f"<think>So.</think><action>{action.title()}</action>"
            rows.append({"input": prompt, "output": said, "score": 10.0, "step": 3})
    return "\n".join(map(json.dumps, rows))


@pytest.mark.parametrize("form", [lines, verl])
def test_the_same_episodes_agree_in_every_format(form, panel, played, tmp_path):
    log = tmp_path / "log"
    log.write_text(form(played), encoding="utf-8")
    graded = grade_log(log, panel, "task_type")
    assert [line_of(one) for one in graded.grades if one.differences] == []
    assert sorted(one.task for one in graded.grades) == sorted(task for task, _, _ in played)
    for one, (_, texts, actions) in zip(graded.grades, played, strict=True):
        assert (one.claimed, one.episode.won, one.episode.steps) == (True, True, len(actions))
        assert one.episode.invalid == 1  # "dance"
        # verl-agent's rows show no text after the last action
        assert one.texts == len(texts) - 1 - (form is verl)
    results = results_of_log(panel, graded)
    assert (results.summary.success.mean, results.panel.hash) == (1.0, panel.hash)


@cases(
    "change, words",
    (lambda row: row["observations"].__setitem__(2, "Nothing happens."), r"line 1: after '.*' the log shows 'Nothing"),
    (lambda row: row["actions"].append("look"), "1 actions after the end of the episode"),
    (lambda row: row["actions"].pop(), "the log claims a success, these actions do not win"),
    (lambda row: row.update(won=False), "the log claims a failure, these actions win"),
    (lambda row: row.update(score=0.5), "a success with the score 0.5; a score is at least success"),
    (lambda row: row.update(won=False, actions=[], score=0.5), "claims the score 0.5, these actions bring 0"),
    (lambda row: row.update(actions=["look"] * 51), "1 actions after the end.*at most 50 steps"),
    (lambda row: row.update(task="valid_seen/nothing"), "the task 'valid_seen/nothing' is none of the 3 tasks"),
    (lambda row: row["observations"].__setitem__(0, "Hello"), "the first text is 'Hello', the engine's '-= Welcome"),
)
def test_what_did_not_happen_is_named(change, words, panel, played, tmp_path):
    row = json.loads(lines(played).split("\n")[0])
    change(row)
    if len(row["observations"]) != len(row["actions"]) + 1:
        del row["observations"]
    (tmp_path / "log.jsonl").write_text(json.dumps(row), encoding="utf-8")
    graded = grade_log(tmp_path / "log.jsonl", panel)
    (one,) = graded.grades
    assert graded.differing == 1
    assert any(re.search(words, each) for each in one.differences), one.differences


def test_a_players_own_journal_is_a_log(tmp_path):
    play(tmp_path, "webshop/generated@1", "random", 4)
    (folder,) = (tmp_path / "webshop-generated@1-4").iterdir()
    options = ("--panel", "webshop/generated@1", "--results", tmp_path / "none.json")
    words = run("grade", folder / "episodes.jsonl", *options, status=1)  # four tasks of 500
    assert "4 episodes, 0 differ from the engine" in words
    assert "tasks: 4 of the 500 of webshop/generated@1, 0 of them more than once" in words
    assert not (tmp_path / "none.json").exists()


def test_the_command_writes_what_compare_reads(panel, played, tmp_path):
    (tmp_path / "log.jsonl").write_text(lines(played), encoding="utf-8")
    split = ("--panel", "alfworld/valid_unseen", "--option", "num_games=3", "--option", "data=generated")
    run("grade", tmp_path / "log.jsonl", *split, "--out", tmp_path / "g.json", status=None)
    found = json.loads((tmp_path / "g.json").read_text("utf-8"))
    assert (found["panel"], len(found["grades"])) == ("alfworld/valid_unseen", 3)
    write_json(results_of_log(panel, grade_log(tmp_path / "log.jsonl", panel)), tmp_path / "results.json")
    assert load(tmp_path).policy.name == "log.jsonl"


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """The games of "valid_seen", and the older ones, in a folder each."""
    folders = {}
    for archive in ("valid_seen", "old_put"):
        folders[archive] = tmp_path_factory.mktemp(archive)
        for split, task_id, name, content in files(archive):
            path = folders[archive] / "json_2.1.1" / split / task_id / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folders


def test_episodes_of_the_original_engine_agree(official):
    found = choose_panel("alfworld/valid_seen@1", {"data": official["valid_seen"], "cache": "off"})[0]
    graded = grade_log(oracle("alfworld", "traces", "valid_seen.jsonl.xz"), found)
    assert (len(graded.grades), graded.differing) == (560, 0)
    assert sum(one.texts for one in graded.grades) > 12_000


def test_older_episodes_agree_with_the_older_data_and_not_with_others(official, tmp_path):
    chosen = [episode for episode in episodes("old_put") if episode[0]["game"].startswith("valid_unseen/")][:12]
    played = []
    for episode in chosen:
        until = next((i for i, row in enumerate(episode) if row.get("done")), len(episode)) + 1
        texts = [row["observation"] for row in episode[:until]]
        played.append((task_id_of(episode), texts, [row["action"] for row in episode[1:until]]))
    (tmp_path / "log.jsonl").write_text(lines(played), encoding="utf-8")
    old = choose_panel("alfworld/valid_unseen", {"data": str(official["old_put"]), "cache": "off"})[0]
    graded = grade_log(tmp_path / "log.jsonl", old)
    lost = sum(not episode[-1]["won"] for episode in chosen)
    # The log claims that all were won.
    assert [one for one in graded.grades if one.differences and "do not win" not in one.differences[-1]] == []
    assert graded.differing == lost
    assert sum(one.texts for one in graded.grades) > 200


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


def test_tasks_and_numbers_that_cannot_be_and_other_tasks_are_named(tmp_path: Path) -> None:
    one, path = made_up(), tmp_path / "x"
    for change, words in (
        ({"score": [1.0, 1e308]}, "the task 'test/1' has a score outside 0..1: [1.0, 1e+308]"),
        ({"score": [1.0, -0.5]}, "the task 'test/1' has a score outside 0..1: [1.0, -0.5]"),
        ({"won": [True]}, "the task 'test/1' has not all of 2 samples"),
    ):
        write_json(dataclasses.replace(one, tasks=[one.tasks[0], dataclasses.replace(one.tasks[1], **change)]), path)
        refuses(ResultsError, re.escape(words), load, path)
    write_json(one, path)
    text, number = path.read_text(encoding="utf-8"), "9" * 99
    for old, new in (('"a": 2', '"a": NaN'), ('"weights": null', '"weights": 1e400'), ('"n": [1]', f'"n": [{number}]')):
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        refuses(ResultsError, r"x: .*delete it", load, path)
    # Results whose hash is not that of their tasks are not paired.
    for tasks, words in (
        ([1, 0], "the same tasks are in another order"), ([0], "only in one"), ([0, 1, 1], "occur 2 and 3 times"),
    ):  # fmt: skip
        other = dataclasses.replace(one, tasks=[one.tasks[i] for i in tasks])
        said = refuses(
            ResultsError, "not the same tasks in the same order", compare_results, [one, other], ["one", "other"]
        )
        assert words in said


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
