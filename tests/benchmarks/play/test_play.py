"""The commands `play` and `prompt`, as a user calls them, and the study of search."""

import functools
import json
import os
import re
import signal

import pytest
import typer

from agentgym.outside.files import OtherConfigurationError, fingerprint_of_content
from benchmarks.json_files import read_json
from benchmarks.play import panel
from benchmarks.play.panel import JOURNAL, Episode, Lines
from benchmarks.play.results import load
from benchmarks.play.search_players import METHODS, STUDY
from benchmarks.report.page import html
from tests.agentgym.outside.chat.chat_server import chat_server, completion, raw
from tests.baselines.configs import config_of
from tests.benchmarks import command
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
def test_wrong_use_of_play_is_explained(options, words, tmp_path):
    assert words in run("play", *options, "--out", tmp_path, status=2)


def test_an_environment_without_a_player_is_played_in_the_terminal(monkeypatch):
    asked = []
    monkeypatch.setattr("agentgym.play.main", lambda words: asked.append(words) or 0)
    run("play", "sokoban", "--option", "boxes=1")
    assert asked == [["sokoban", "--set", "boxes=1"]]


UP = completion("Thought: a box.\nAction: up\nObservation: you won", tokens=(100, 4))
#: Levels that one push solves.
LEVELS = ("sokoban/test", "--option", "min_length=1", "--option", "max_length=1", "--steps", 1)


def prompt(server, *options, panel=("sokoban/generated@1", "--tasks", 3), status=0):
    return run("prompt", *panel, "--model", "m", "--endpoint", server.url, *options, status=status)


def distinct(requests):
    return len({json.dumps(each, sort_keys=True) for each in requests})


@pytest.mark.parametrize("env", ["sokoban", "alfworld", "virtualhome", "webshop", "searchqa", "sotopia"])
def test_the_first_prompt_of_every_environment_is_printed_and_nothing_asked(env, tmp_path):
    options = ("--tasks", 1, "--model", "m", "--endpoint", "http://127.0.0.1:9/v1", "--shots", 1, "--dry-run")
    system, user = run("prompt", f"{env}/generated@1", *options, "--out", tmp_path).split("[user]")
    assert "[system]" in system
    assert system.count("Observation: ") == system.count("Action: ") - 1 >= 1  # one says how to answer
    assert len(user) > 20
    assert not any(tmp_path.iterdir())


def test_pictures_are_shown_but_make_no_examples(tmp_path):
    panel = ("AgentRL/VisualSokoban-v0/test", "--tasks", 1, "--out", tmp_path)
    with chat_server(lambda handler: handler.send(UP)) as server:
        assert "(a picture)" in prompt(server, "--dry-run", panel=panel)
        prompt(server, "--steps", 2, panel=panel)
        parts = [part["type"] for part in server.requests[0]["messages"][-1]["content"]]
        assert parts == ["image_url", "text"]
        words = prompt(server, "--shots", 1, panel=panel, status=2)
        assert "examples are texts, and AgentRL/VisualSokoban-v0 shows pictures" in words, words


def test_react_reads_labels_shows_the_whole_episode_and_counts_tokens(tmp_path):
    with chat_server(lambda handler: handler.send(UP)) as server:
        prompt(server, "--shots", 2, "--out", tmp_path)
        requests = server.requests
        prompt(server, "--shots", 2, "--out", tmp_path)
        assert len(server.requests) == len(requests)
    assert requests[0]["stop"] == ["\nObservation:"]
    longest = max((each["messages"] for each in requests), key=len)
    assert [message["role"] for message in longest[:4]] == ["system", "user", "assistant", "user"]
    assert longest[2]["content"].startswith("Thought: a box.")
    folder = next((tmp_path / "sokoban-generated@1-3").iterdir())
    assert folder.name.endswith("-react-2-shot")
    results = load(folder)
    examples = read_json(folder / "examples.json")
    assert len(examples["episodes"]) == 2
    assert not {each["task"] for each in examples["episodes"]} & {task.id for task in results.tasks}
    assert results.policy.settings["method"] == "react"
    # one request a step, 100 + 4 tokens each
    steps = sum(sum(task.steps) for task in results.tasks)
    assert steps == len(requests)
    assert (results.summary.prompt_tokens, results.summary.reply_tokens) == (100 * steps, 4 * steps)


def test_reflexion_plays_lost_tasks_again_with_the_latest_three_notes(tmp_path):
    """With k notes the stub pushes in direction k: what `up` solves is won in trial 1, `down` in 2, and so on.

    A level that `right` solves is lost in trials 1 to 3 and won in trial 4; with 5 trials, what no direction of the
    first three solves shows notes 1 to 3 in trial 4. Trials 4 and 5 both show three notes, so both push to the right.
    """
    directions = ("up", "down", "left", "right")

    def play(handler):
        system, *_, last = handler.asked["messages"]
        if system["content"].startswith("You look back"):
            earlier = re.findall(r"^- note (\d)", last["content"], re.MULTILINE)
            handler.send(completion(f"note {max(map(int, earlier), default=0) + 1}", tokens=(50, 5)))
        else:
            notes = re.findall(r"^- note (\d)", last["content"], re.MULTILINE)
            handler.send(completion(f"Thought: t\nAction: {directions[len(notes)]}", tokens=(100, 4)))

    with chat_server(play) as server:
        options = ("--method", "reflexion", "--trials", 4, "--out", tmp_path, "--tasks", 8, "--places", 3)
        prompt(server, *options, panel=LEVELS)
        requests = server.requests
    folder = next((tmp_path / "sokoban-test").iterdir())
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text("utf-8").splitlines()]
    notes = [json.loads(line) for line in (folder / "notes.jsonl").read_text("utf-8").splitlines()]
    won_in = {each["episode"]["task"]: each["trial"] for each in trials if each["episode"]["won"]}
    results = load(folder)
    assert len(won_in) == 8 == sum(task.won[0] for task in results.tasks)  # four trials are four directions
    assert len(set(won_in.values())) > 1
    # trial after trial, and never one more than it took; a note between two trials of a task
    assert [each["trial"] for each in trials] == sorted(each["trial"] for each in trials)
    assert len(trials) == sum(trial + 1 for trial in won_in.values())
    assert sorted((each["task"], each["trial"]) for each in notes) == sorted(
        (task, trial) for task, last in won_in.items() for trial in range(last)
    )
    assert all(each["text"] == f"note {each['trial'] + 1}" for each in notes)
    assert len(requests) == len(trials) + len(notes) == distinct(requests)
    shown = [each for each in requests if not each["messages"][0]["content"].startswith("You look back")]
    assert max(each["messages"][-1]["content"].count("- note") for each in shown) == 3
    assert results.summary.prompt_tokens == 100 * len(trials) + 50 * len(notes)


def test_a_spent_budget_and_a_stop_repeat_no_request(tmp_path):
    options = ("--method", "reflexion", "--trials", 2, "--places", 2)
    panel = ("sokoban/test", "--tasks", 3, "--steps", 3)

    def play(handler):
        if len(server.requests) == stops_at:
            os.kill(os.getpid(), signal.SIGINT)
        handler.send(UP)

    stops_at = 0
    with chat_server(play) as server:
        prompt(server, *options, "--out", tmp_path / "whole", panel=panel)
        whole = len(server.requests)
    with chat_server(play) as server:
        words = prompt(server, *options, "--most-requests", 5, "--out", tmp_path / "parts", panel=panel, status=1)
        assert len(server.requests) == 5, words
        assert "the budget of 5 requests is spent: 5 answers" in words
        assert "raise --most-requests and run the command again" in words
        words = prompt(server, *options, "--most-requests", 5, "--out", tmp_path / "parts", panel=panel, status=1)
        assert len(server.requests) == 5, words  # as it was it goes no further
        options = (*options, "--most-requests", whole)
        stops_at = 11
        words = prompt(server, *options, "--out", tmp_path / "parts", panel=panel, status=130)
        assert "Ctrl-C again stops at once" in words, words
        assert 11 <= len(server.requests) <= 12 < whole  # two places: what was under way was awaited
        prompt(server, *options, "--out", tmp_path / "parts", panel=panel)
        assert len(server.requests) == whole == distinct(server.requests)
    one, two = (load(next((tmp_path / name / "sokoban-test").iterdir())) for name in ("whole", "parts"))
    assert (one.tasks, one.summary.prompt_tokens) == (two.tasks, two.summary.prompt_tokens)


def test_a_hosted_model_is_sent_what_it_takes_and_compared_with_others(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    reply = completion("<think>a box</think><action>up</action>")
    body = ("temperature=null", "max_tokens=null", "max_completion_tokens=50", "reasoning_effort=low")
    options = [word for each in body for word in ("--body", each)]
    with chat_server(lambda handler: handler.send(reply)) as server:
        more = ("--method", "cot", "--key-variable", "MY_KEY", "--no-send-seed", "--out", tmp_path)
        prompt(server, *more, *options)
        assert server.headers[0]["authorization"] == "Bearer sk-very-secret"
        assert server.requests[0].keys() == {"model", "messages", "max_completion_tokens", "reasoning_effort"}
        words = prompt(server, *more, "--body", "api_key=sk-other", status=2)
        assert ("see --key-variable" in words, "sk-other" in words) == (True, False)
    folder = next((tmp_path / "sokoban-generated@1-3").iterdir())
    assert not any(b"secret" in file.read_bytes() for file in folder.iterdir())
    assert load(folder).summary.invalid_rate < 1
    panel = ("play", "sokoban/generated@1", "--tasks", 3, "--player", "random", "--out", tmp_path)
    run(*panel)
    run("compare", folder, folder.parent / "random")


def test_bad_answers_are_values_and_the_others_are_played(tmp_path):
    def play(handler):
        broken = len(server.requests) == 2
        handler.send(b"<html>no</html>" if broken else UP)

    panel = ("sokoban/test", "--tasks", 3, "--steps", 2)
    options = ("--retries", 0, "--places", 1, "--out", tmp_path)
    with chat_server(play) as server:
        words = prompt(server, *options, panel=panel, status=1)
        assert ("1 of 3 episodes could not be scored" in words, "the same command" in words) == (True, True)
        assert len(server.requests) == 2 + 2 * 2
        words = prompt(server, *options, panel=panel)
        assert len(server.requests) == 7, words  # the one that failed is asked again, and nothing else
    refused = raw(b'{"error": "maximum context length is 10 tokens"}', 400)
    with chat_server(refused) as server:
        words = prompt(server, *options[:-1], tmp_path / "none", panel=panel, status=1)
        assert ("maximum context length" in words, len(server.requests)) == (True, 1), words
    answers = chat_server(lambda handler: handler.send(UP), refused)
    with answers as server, pytest.warns(UserWarning, match="prompts do not fit"):
        prompt(server, *options[:-1], tmp_path / "long", panel=panel)
    found = load(next((tmp_path / "long" / "sokoban-test").iterdir()))
    # Only the first request is answered: episodes of 2, 1 and 1 steps, each ended by a prompt without a reply.
    assert (found.summary.success.mean, [task.steps for task in found.tasks]) == (0.0, [[2], [1], [1]])
    assert all(task.invalid[0] >= 1 for task in found.tasks)


def test_a_model_here_is_prompted_too(tmp_path):
    from policies.tiny import tiny_policy

    policy = tiny_policy(["#_OX√PS up down left right Thought Action: . ,"], seed=0, layers=1, max_new_tokens=3)
    policy.model.save_pretrained(tmp_path / "model")
    policy.tokenizer.save_pretrained(tmp_path / "model")
    options = ("--model", tmp_path / "model", "--method", "reflexion", "--trials", 2, "--max-tokens", 4)
    run("prompt", "sokoban/test", "--tasks", 2, "--steps", 2, *options, "--out", tmp_path / "out")
    folder = tmp_path / "out" / "sokoban-test" / "model-reflexion"
    found = load(folder)
    assert (found.policy.settings["prefix"], found.policy.settings["max_new_tokens"]) == ("Thought:", 4)
    assert found.summary.prompt_tokens > found.summary.reply_tokens > 0
    assert len((folder / "trials.jsonl").read_text("utf-8").splitlines()) >= 2


@cases(
    "options, words",
    (["--method", "tree"], "expected one of vanilla, cot, react, reflexion, got 'tree'"),
    (["--method", "react", "--trials", 2], "react has one trial"),
    (["--most-tokens", 5], "are for an --endpoint"),
    (["--examples", "/nowhere.json"], "/nowhere.json: no such file"),
    ([], "random reads no prompts"),
)
def test_wrong_use_of_prompt_is_explained(options, words, tmp_path):
    output = run(
        "prompt", "sokoban/generated@1", "--tasks", 1, "--model", "random", *options, "--out", tmp_path, status=2
    )
    assert words in output


APP = typer.Typer()
APP.command()(STUDY.command)


search = functools.partial(command.run, of=APP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("search") / "study"
    assert "mcts" in search("--quick", "--tasks", 12, "--show", 3, "--out", place)
    return place


@pytest.fixture
def study(folder):
    return STUDY.load(folder / "search.json")


def test_the_page_holds_the_table_and_the_graphs(study, folder):
    page = (folder / "report.html").read_text("utf-8")
    assert page == html(STUDY.shown(study), {})
    for row in STUDY.shown(study).tables[0].texts:
        assert row[2] in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert {graph["method"] for graph in data["graphs"]} == set(METHODS)
    assert data["graphs"][0]["stage"] == "200 steps"
    assert data["tiles"]


@cases(
    "options, words",
    (["--methods", "mtcs"], "did you mean 'mcts'?"),
    (["--outcome", "scores"], "did you mean 'score'?"),
    (["--env", "sokobann"], "did you mean 'sokoban'?"),
    (["--quick", "--show", "32"], "there is no task 32 among 32"),
    (["--budgets", "10,x"], "distinct numbers"),
    (["--policy", "/nowhere"], "expected a job folder"),
)
def test_wrong_options_say_what_was_expected(options, words, tmp_path):
    assert words in search(*options, "--out", tmp_path / "out", status=2)


def test_a_cloned_policy_searches_with_its_own_probabilities(finished_run, tmp_path):
    search(
        "--policy", finished_run / "clone-seed0", "--listed", "--rollout", 0, "--tasks", 6, "--budgets", 20,
        "--methods", "mcts", "--out", tmp_path / "out",
    )  # fmt: skip
    study = STUDY.load(tmp_path / "out" / "search.json")
    assert [score.player for score in study.scores] == ["alone", "greedy", "mcts"]
    assert study.scores[-1].scored > 0
    assert study.scores[-1].tokens == 0
