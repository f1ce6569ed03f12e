"""The command `prompt`, as a user calls it, with a stub in the endpoint's place."""

import json
import os
import re
import signal

import pytest

from benchmarks.json_files import read_json
from benchmarks.play.results import load
from tests.agentgym.outside.chat.chat_server import chat_server, completion, raw
from tests.benchmarks.command import run
from tests.cases import cases

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
def test_wrong_use_is_explained(options, words, tmp_path):
    output = run(
        "prompt", "sokoban/generated@1", "--tasks", 1, "--model", "random", *options, "--out", tmp_path, status=2
    )
    assert words in output
