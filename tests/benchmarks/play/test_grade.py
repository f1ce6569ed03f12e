"""Logs of other programs: the same episodes in every format, changed ones, the original engine's, and refusals."""

import json
import re

import gymnasium as gym
import pytest

from benchmarks.json_files import write_json
from benchmarks.play.grade import grade_log, line_of, results_of_log
from benchmarks.play.panel import choose_panel
from benchmarks.play.results import load
from tests.agentgym.alfworld.support import episodes, files, task_id_of
from tests.benchmarks.command import played as play
from tests.benchmarks.command import run
from tests.cases import cases
from tests.oracles import oracle

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
            rows.append(
                {
                    "input": prompt,
                    "output": f"<think>So.</think><action>{action.title()}</action>",
                    "score": 10.0,
                    "step": 3,
                }
            )
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
