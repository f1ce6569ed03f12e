"""The command `play`, as a user calls it: panels and splits, players, interruptions, files and refusals."""

import json
import re

from agentgym.outside.files import OtherConfigurationError, fingerprint_of_content
from benchmarks.play import panel
from benchmarks.play.panel import JOURNAL, Episode, Lines
from benchmarks.play.results import load
from tests.baselines.configs import config_of
from tests.benchmarks.command import played, run
from tests.cases import cases
from tests.refusals import refuses


def test_all_scripted_players_are_shown_kind_by_kind(tmp_path):
    words = run("play", "alfworld/generated@1", "--tasks", 12, "--out", tmp_path)
    folder = tmp_path / "alfworld-generated@1-12"
    assert sorted(each.name for each in folder.iterdir()) == ["expert", "explorer", "random"]
    expert = load(folder / "expert")
    assert (expert.summary.success.mean, len(expert.tasks), expert.panel.name) == (1.0, 12, "alfworld/generated@1[:12]")
    assert sum(task.kind == kind for task in expert.tasks for kind in expert.summary.kinds) == 12
    assert expert.policy.prompt[-1]["role"] == "user"
    assert "alfworld/generated@1[:12], hash " in words
    assert re.search(r"expert( 100\.0)+ 76-100 0\.0", words)  # Wilson: 12 of 12
    assert "expert: return 1.00, score 100.0" in words


def test_a_split_is_a_panel_of_its_own_with_the_arguments_that_are_given(tmp_path):
    run(
        "play", "alfworld/train", "--player", "expert", "--option", "task_types=[5]", "--option", "num_games=36",
        "--steps", 3, "--out", tmp_path,
    )  # fmt: skip
    found = load(tmp_path / "alfworld-train" / "expert")
    assert [task.kind for task in found.tasks] == ["pick_cool_then_place_in_recep"] * 5
    assert (found.summary.success.mean, found.summary.steps) == (0.0, 3.0)
    assert found.panel.options == {"task_types": [5], "num_games": 36, "max_episode_steps": 3}
    words = run("play", "alfworld/train", "--player", "expert", "--out", tmp_path, "--option", "num_games=36", status=2)
    assert "holds a benchmark with another configuration" in words, words


def test_an_interrupted_panel_goes_on_and_repeats_no_episode(tmp_path, monkeypatch):
    options = (
        "play", "sokoban/generated@1", "--player", "random", "--samples", 3, "--tasks", 6, "--out", tmp_path / "a",
    )  # fmt: skip
    run(*options, "--places", 5)
    plain = panel.play

    def interrupted(*args, **kwargs):
        for number, episode in enumerate(plain(*args, **kwargs)):
            if number == 7:
                raise KeyboardInterrupt
            yield episode

    other = (*options[:-1], tmp_path / "b")
    monkeypatch.setattr(panel, "play", interrupted)
    assert "the same command plays the missing episodes" in run(*other, status=130)
    folder = tmp_path / "b" / "sokoban-generated@1-6" / "random"
    assert len(Lines(folder / JOURNAL, Episode).entries) == 7
    with (folder / JOURNAL).open("ab") as file:
        file.write(b'{"task": "test/0", "sam')  # a kill in the middle of a line

    asked = []

    def watched(envs, policy, todo, **kwargs):
        asked.extend((task.id, sample) for task, sample in todo)
        return plain(envs, policy, todo, **kwargs)

    monkeypatch.setattr(panel, "play", watched)
    run(*other)
    assert len(asked) == len(set(asked)) == 6 * 3 - 7
    one, two = load(tmp_path / "a" / folder.parent.name / "random"), load(folder)
    assert one.tasks == two.tasks  # whatever the number of places and the interruption


def test_more_samples_keep_those_that_are_there(tmp_path):
    folder = tmp_path / "sokoban-generated@1-3" / "random"
    for samples in (1, 2):
        options = ("--player", "random", "--tasks", 3, "--samples", samples, "--out", tmp_path)
        run("play", "sokoban/generated@1", *options)
        assert len((folder / JOURNAL).read_text("utf-8").splitlines()) == 3 * samples
    assert load(folder).summary.success_again is not None


def test_an_endpoint_plays_and_its_tokens_are_counted(tmp_path):
    from tests.agentgym.outside.chat.chat_server import chat_server, say

    with chat_server(say("<action>up</action>", tokens=(100, 4))) as server:
        who = f"stub@{server.url}"
        options = ("--tasks", 2, "--steps", 3, "--temperature", 0.5, "--out", tmp_path)
        run("play", "sokoban/test", "--player", who, *options)
        requests = len(server.requests)
        run("play", "sokoban/test", "--player", who, *options)
        assert len(server.requests) == requests
    results = load(next((tmp_path / "sokoban-test").iterdir()))
    assert (results.summary.prompt_tokens, results.summary.reply_tokens) == (100 * requests, 4 * requests)
    assert results.policy.settings["temperature"] == 0.5
    assert "<action>" in json.dumps(results.policy.prompt)


def test_an_endpoint_that_is_down_ends_the_command_in_a_sentence(tmp_path, monkeypatch):
    from agentgym.outside.chat import endpoint

    plain = endpoint.ChatEndpoint.at.__func__
    monkeypatch.setattr(
        endpoint.ChatEndpoint, "at", classmethod(lambda cls, name, **options: plain(cls, name, **options, retries=0))
    )
    words = run("play", "sokoban", "--tasks", 1, "--player", "stub@http://127.0.0.1:9/v1", "--out", tmp_path, status=1)
    assert ("no answer for 1 of 1" in words, "plays the missing episodes" in words) == (True, True), words


def test_models_from_folders_play_and_say_what_they_are(tmp_path):
    from benchmarks.json_files import write_json
    from policies.tiny import tiny_policy

    policy = tiny_policy(["#_OX√PS up down left right"], seed=0, layers=1, max_new_tokens=3)
    policy.save_pretrained(tmp_path / "job" / "model")
    write_json(config_of("sokoban"), tmp_path / "config.json")
    policy.model.save_pretrained(tmp_path / "plain")
    policy.tokenizer.save_pretrained(tmp_path / "plain")
    players = ("--player", tmp_path / "job", "--player", tmp_path / "plain")
    options = (*players, "--tasks", 3, "--steps", 2, "--temperature", 0.7, "--samples", 2, "--out", tmp_path / "out")
    run("play", "sokoban/test", *options)
    job, plain = (load(tmp_path / "out" / "sokoban-test" / name) for name in ("job", "plain"))
    for one in (job, plain):
        assert one.summary.prompt_tokens > one.summary.reply_tokens > 0
        assert (one.policy.settings["temperature"], one.samples) == (0.7, 2)
        assert 0 < one.summary.generation < one.summary.seconds
    assert (
        job.policy.settings["weights"]
        == fingerprint_of_content(tmp_path / "job" / "model")
        != plain.policy.settings["weights"]
    )
    again = tiny_policy(["#_OX√PS up down left right"], seed=1, layers=1, max_new_tokens=3)
    again.save_pretrained(tmp_path / "job" / "model")  # trained on, in the same folder
    words = run("play", "sokoban/test", *options, status=2)
    assert "holds a benchmark with another configuration: weights: there" in words, words
    assert load(tmp_path / "out" / "sokoban-test" / "job") == job
    words = run("play", "alfworld", "--tasks", 1, "--player", tmp_path / "job", "--out", tmp_path / "out", status=2)
    assert "a policy for AgentRL/Sokoban-v0, not for AgentRL/ALFWorld-v0" in words, words


def test_episodes_on_one_corpus_are_not_those_on_another(tmp_path):
    from agentgym.searchqa.retriever import Passage
    from tests.agentgym.searchqa.support import random_passages, write_corpus

    passages = random_passages(20, seed=0)
    corpora = {
        "one": write_corpus(tmp_path / "one.jsonl", passages),
        "copy": write_corpus(tmp_path / "copy.jsonl", passages),
        "other": write_corpus(tmp_path / "other.jsonl", [*passages, Passage("p20", "ka\nlo")]),
    }
    rows = [{"id": f"q{i}", "question": f"who is {i}?", "golden_answers": [f"ka {i}"]} for i in range(3)]
    questions = {"one": tmp_path / "one-test.jsonl", "copy": tmp_path / "copy-test.jsonl"}
    for name, order in (("one", 1), ("copy", -1)):  # other files with the same tasks
        questions[name].write_text("".join(json.dumps(row) + "\n" for row in rows[::order]), encoding="utf-8")

    def play(corpus, asked):
        given = {"corpus": str(corpora[corpus]), "questions": str(questions[asked])}
        return played(tmp_path / "out", "searchqa/test", **given)

    assert play("one", "one").panel.hash == play("copy", "copy").panel.hash
    refuses(OtherConfigurationError, r"world.corpus: there '\w+', here '", play, "other", "one")


def test_a_fingerprint_is_that_of_the_content_and_all_panels_are_listed(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for file in ("a", "b")[:: 1 if name == "one" else -1]:
            (tmp_path / name / file).write_bytes(bytes(3_000_000))
    assert fingerprint_of_content(tmp_path / "one") == fingerprint_of_content(tmp_path / "two")
    (tmp_path / "two" / "b").write_bytes(bytes(2_999_999) + b"x")
    assert fingerprint_of_content(tmp_path / "one") != fingerprint_of_content(tmp_path / "two")
    assert fingerprint_of_content(tmp_path / "one" / "a") == fingerprint_of_content(tmp_path / "two" / "a")
    words = run("play")
    assert re.search(r"alfworld/valid_seen@1 140 --option data=PATH", words)
    assert re.search(r"sokoban/6x6/9-12@1 256 -", words)


@cases(
    "options, words",
    (["alfworld", "--player", "explora"], "unknown policy 'explora'"),
    (["sokoban", "--player", "explorer"], "unknown policy 'explorer'"),
    (["sokoban/test", "--option", "task_types"], "expected name=value, got 'task_types'"),
    (["alfworld/test"], "unknown split 'test'"),
    (["alfworld/valid_seen", "--option", "task_types=[9]"], "9"),
    (["alfworld/valid_seen", "--option", "tasktypes=[1]"], "tasktypes"),
    (["alfworld/train", "--option", "num_games=3", "--option", "task_types=[5]"], "no task for these"),
    (["alfworld/valid_seen", "--option", "data=/nowhere"], "/nowhere"),
    (["sokoban/generate@1"], "did you mean 'sokoban/generated@1'"),
    (["sokoban/generated@1", "--steps", 4], "belongs to the panel"),
    (["nothing/test"], "nothing"),
)
def test_wrong_use_is_explained(options, words, tmp_path):
    assert words in run("play", *options, "--out", tmp_path, status=2)


def test_an_environment_without_a_player_is_played_in_the_terminal(monkeypatch):
    asked = []
    monkeypatch.setattr("agentgym.play.main", lambda words: asked.append(words) or 0)
    run("play", "sokoban", "--option", "boxes=1")
    assert asked == [["sokoban", "--set", "boxes=1"]]
