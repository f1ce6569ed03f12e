"""OpenEnv's own server and clients, over loopback, play, save and continue our episodes.

Run by `./do engines openenv`, in a separate environment.
"""

import contextlib
import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

import gymnasium as gym
import pytest

pytest.importorskip("openenv", reason="needs OpenEnv in an environment of its own: ./do engines openenv")

import uvicorn
from openenv.core import GenericEnvClient
from openenv.core.env_server import http_server

import agentgym  # noqa: F401
from tests.cases import cases
from tests.refusals import refuses
from wrappers.serving.openenv.__main__ import main
from wrappers.serving.openenv.client import TextAction, TextClient
from wrappers.serving.openenv.environment import GymEnvironment
from wrappers.serving.openenv.server import application

pytestmark = pytest.mark.engines
SOKOBAN, SIX = "AgentRL/Sokoban-v0", {"size": 6, "min_length": 3, "max_length": 5, "max_episode_steps": 6}
TASK = {"split": "test", "index": 3}


@contextlib.contextmanager
def served(**options):
    """The address of a server."""
    most = options.get("most_bytes", 1 << 20)
    config = uvicorn.Config(application(SOKOBAN, **options, **SIX), port=0, log_level="error", ws_max_size=most)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def solution() -> list[str]:
    env = gym.make(SOKOBAN, **SIX, expert=True)
    _, info = env.reset(options=TASK)
    commands, over = [], False
    while not over:
        commands.append(info["expert_action"])
        *_, over, _, info = env.step(commands[-1])
    return commands


def test_an_episode_is_the_one_that_is_played_here() -> None:
    env = gym.make(SOKOBAN, **SIX)
    observation, info = env.reset(seed=1, options=TASK)
    with served() as url, TextClient(url).sync() as client:
        result = client.reset(seed=1, **TASK)
        for number, command in enumerate(["jump", *solution()], 1):
            shown = result.observation
            assert (shown.text, shown.admissible_actions) == (observation, list(info["admissible_actions"]))
            result = client.step(TextAction(command=command))
            observation, reward, terminated, _, info = env.step(command)
            assert (result.reward, result.done) == (float(reward), terminated)
            assert result.observation.is_action_valid == info["is_action_valid"] == (command != "jump")
            state = client.state()
            assert (state.step_count, state.task_id) == (number, info["task_id"])
            assert state.state_key == info["state_key"]
        assert (result.done, result.observation.won, result.observation.truncated) == (True, True, False)
        refuses(RuntimeError, "the episode is over", lambda: client.step(TextAction(command="left")))
        assert client.reset(**TASK).observation.won is False


def test_a_snapshot_continues_in_every_session_and_is_played_nowhere() -> None:
    first, *rest = solution()
    with served() as url, TextClient(url).sync() as client:
        client.reset(**TASK)
        there = client.step(TextAction(command=first)).observation.text
        name = client.snapshot()
        assert client.state().step_count == 1
        for command in rest:
            won = client.step(TextAction(command=command))
        assert won.observation.won
        other = client.new_session()
        for session in (client, other):  # back, and into another session, as often as one likes
            again = session.restore(name, seed=5)
            assert (again.observation.text, again.done, again.reward) == (there, False, None)
            assert session.state().step_count == 1
            for command in rest:
                result = session.step(TextAction(command=command))
            assert result == won
        assert other.restore(client.snapshot()).done


def test_a_reward_is_paid_once_and_the_time_limit_is_part_of_a_snapshot() -> None:
    with served() as url, TextClient(url).sync() as client:
        client.reset(**TASK)
        played = client.step(TextAction(command="jump"))
        saved = client.step(TextAction(command="", snapshot=True))
        assert (played.reward is None, saved.reward, saved.observation.reward) == (False, None, None)
        assert saved.observation.text == played.observation.text
    with served() as url, TextClient(url).sync() as client:
        client.reset(**TASK)
        for _ in range(5):
            client.step(TextAction(command="jump"))
        name = client.snapshot()
        for _ in range(2):
            last = client.step(TextAction(command="jump"))
            assert (last.done, last.observation.truncated) == (True, True)
            client.restore(name)


@cases(
    "option, value, words",
    *(("idle", idle, "a number of seconds above 0, got") for idle in (0, -1.0, float("nan"), float("inf"), True, "1")),
    *((limit, value, f"an integer of at least 1, got {value}")
      for limit in ("sessions", "snapshots", "most_bytes") for value in (0, -1)),
)  # fmt: skip
def test_limits_that_are_none_are_refused(option, value, words) -> None:
    refuses(ValueError, f"{option} must be {words}", application, SOKOBAN, **{option: value}, **SIX)


def test_a_snapshot_that_another_session_drops_meanwhile_is_an_error_that_says_so() -> None:
    class Dropping(dict):
        """Forgets a name as soon as it has been asked for."""

        def __contains__(self, name):
            return super().pop(name, None) is not None

    env = GymEnvironment(gym.make(SOKOBAN, **SIX), Dropping(), 1)
    env.reset(**TASK)
    name = env.step(TextAction(command="", snapshot=True)).snapshot
    assert env.reset(snapshot=name).text
    refuses(ValueError, "no snapshot 'gone'", env.reset, snapshot="gone")


def test_openenv_s_generic_client_has_all_of_it() -> None:
    with served(replies=True) as url, GenericEnvClient(url).sync() as client:
        start = client.reset(**TASK).observation["text"]
        name = client.step({"command": "", "snapshot": True}).observation["snapshot"]
        command = solution()[0]
        moved = client.step({"command": f"<think>so</think><action>{command}</action>"}).observation
        assert moved["text"] != start
        assert moved["is_action_valid"]
        assert not client.step({"command": command}).observation["is_action_valid"]  # a reply without tags
        refuses(RuntimeError, "Invalid message", client.step, {"order": "left"})
        assert client.reset(snapshot=name).observation["text"] == start


def test_wrong_requests_are_told_what_is_wrong() -> None:
    with served(sessions=1, snapshots=1) as url, TextClient(url).sync() as client:
        for message, options in [
            ("unknown option 'lvl'", {"lvl": 3}), ("split", {"split": "tset", "index": 0}),
            ("no snapshot 'gone': the server keeps the last 1", {"snapshot": "gone"}),
            ("a snapshot has its task already: leave out split", {"snapshot": "gone", "split": "test"}),
        ]:  # fmt: skip
            refuses(RuntimeError, message, client.reset, **options)
        client.reset(**TASK)
        dropped, kept = client.snapshot(), client.snapshot()
        assert client.restore(kept).observation.text
        refuses(RuntimeError, "no snapshot", client.restore, dropped)
        refuses((RuntimeError, ConnectionError), r"(?i)capacity|sessions", lambda: client.new_session().reset())


def asked(url: str, body: bytes | None = None, **headers: str):
    """Status and answer of an HTTP request."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_http_lists_tasks_and_refuses_long_bodies() -> None:
    with served(most_bytes=1000) as url:
        inner = gym.make(SOKOBAN, **SIX).unwrapped
        assert [split["name"] for split in asked(f"{url}/Sokoban-v0/splits")[1]] == list(inner.tasks.splits)
        wanted = inner.num_tasks("test")
        assert asked(f"{url}/Sokoban-v0/num_tasks", b'{"split": "test"}') == (200, {"num_tasks": wanted})
        status, answer = asked(f"{url}/Sokoban-v0/num_tasks", b'{"split": "tset"}')
        assert (status, "tset" in answer["detail"]) == (400, True)
        assert asked(f"{url}/step", b'{"action": {"command": "left"}}')[0] == 400
        status, answer = asked(f"{url}/reset", b'{"episode_id": "' + b"x" * 2000 + b'"}')
        assert (status, answer["detail"]) == (413, "a body has a Content-Length of at most 1000 bytes, got 2018")
        assert "Push every box" in asked(f"{url}/metadata")[1]["description"]


@cases(
    "body, words",
    (b"{", "JSON decode error"),
    (b"\xff", "parsing the body"),
    (b"[" * 50_000, "parsing the body"),
    (b"[]", "body: Input should be a valid dictionary"),
    (b'{"seed": -1}', "body.seed: Input should be greater than or equal to 0"),
    (b'{"seed": NaN}', "body.seed: Input should be a finite number"),
    (b'{"seed": [1e400, {"a": NaN}]}', "body.seed: Input should be a valid integer"),
    (b'{"episode_id": 5}', "body.episode_id: Input should be a valid string"),
    (b'{"snapshot": {}}', "snapshot must be the name of a snapshot, got {}"),
    (b'{"snapshot": "gone"}', "no snapshot 'gone'"),
    (b'{"split": "tset", "index": 0}', "unknown split 'tset'"),
    (b'{"split": "\\ud800"}', "unknown split"),
    (b'{"split": "' + b"x" * 100_000 + b'"}', "unknown split"),
    (b'{"split": "test", "index": 1e400}', "index"),
    (b'{"split": "test", "index": ' + b"9" * 4000 + b"}", "index"),
    (b'{"task_id": [[["x"]]]}', "task_id"),
    (b'{"lvl": 3}', "unknown option 'lvl'"),
    (b'{"self": 1}', "multiple values for argument 'self'"),
)
def test_a_bad_reset_is_answered_with_400_and_what_is_wrong(server: str, body: bytes, words: str) -> None:
    status, answer = asked(f"{server}/reset", body)
    assert (status, list(answer)) == (400, ["detail"])
    assert words in answer["detail"]
    assert len(answer["detail"]) <= 1000
    assert asked(f"{server}/reset", b'{"seed": 3, "split": "test", "index": 3}')[0] == 200


@pytest.fixture(scope="module")
def server():
    with served() as url:
        yield url


def test_a_bad_step_is_answered_with_400_and_a_bad_seed_is_told_to_a_session_which_goes_on(server: str) -> None:
    for body in (b'{"action": {"command": NaN}}', b'{"action": 5}', b'{"action": {"order": 1e400}}'):
        assert asked(f"{server}/step", body)[0] == 400
    for seed in (-1, "x", 1.5, True):
        with GenericEnvClient(server).sync() as client:
            refuses(RuntimeError, "seed must be an integer of at least 0", client.reset, seed=seed)
            assert client.reset(seed=1, **TASK).observation["text"]


@cases(
    "headers, status",
    ({}, 200), ({"Host": "localhost"}, 200), ({"Host": "node7:8000"}, 200), ({"Origin": "http://localhost:1"}, 200),
    ({"Host": "evil.example"}, 403), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
    ({"Host": "localhost", "Origin": "https://localhost.evil.example"}, 403),
)  # fmt: skip
def test_other_hosts_and_foreign_pages_are_refused_over_http_and_websocket(headers: dict[str, str], status) -> None:
    with served(hosts=["Node7"]) as url:
        code, answer = asked(f"{url}/health", **headers)
        assert code == status
        assert status == 200 or "--allow-host" in answer["detail"]
        assert asked(f"{url}/reset", b"{}", **headers)[0] == status
        assert handshake(url, **headers) == (101 if status == 200 else 403)
    with served(hosts=["*"]) as url:
        assert asked(f"{url}/health", **headers)[0] == 200
        assert handshake(url, **headers) == 101


def handshake(url: str, **headers: str) -> int:
    """Status of the answer to a WebSocket's first request."""
    host, port = url.removeprefix("http://").split(":")
    given = {"Host": f"{host}:{port}", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", **headers}  # fmt: skip
    return status_of(url, "GET /ws HTTP/1.1", given.items())


def status_of(url: str, line: str, headers, body: str = "") -> int:
    host, port = url.removeprefix("http://").split(":")
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(f"{line}\r\n{head}\r\n{body}".encode())
        return int(raw.recv(100).split()[1])


@pytest.mark.parametrize("lengths", [("2", "2"), ("2", "0"), ("x",), ("-2",)])
def test_a_body_has_one_length(server: str, lengths: tuple[str, ...]) -> None:
    headers = [("Host", "localhost"), *(("Content-Length", length) for length in lengths)]
    assert status_of(server, "POST /reset HTTP/1.1", headers, "{}") == 400


def test_a_session_beyond_the_limit_is_refused_until_another_one_ends() -> None:
    with served(sessions=1) as url:
        create = b'{"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}'
        with TextClient(url).sync() as client:
            client.reset(**TASK)
            with pytest.raises((RuntimeError, ConnectionError), match=r"(?i)at capacity: 1/1 sessions"):
                client.new_session().reset()
            assert "at capacity: 1/1 sessions" in asked(f"{url}/mcp", create)[1]["error"]["message"]
            assert client.step(TextAction(command="jump")).observation.text
        deadline = time.monotonic() + 60
        while "error" in asked(f"{url}/mcp", create)[1]:  # the server hears of the end a moment later
            assert time.monotonic() < deadline


def test_an_idle_session_is_closed_and_told_so_and_its_place_is_free(monkeypatch) -> None:
    # OpenEnv looks for idle sessions every five seconds at most.
    monkeypatch.setattr(http_server, "max", lambda *_: 0.05, raising=False)
    with served(sessions=1, idle=0.2) as url, TextClient(url).sync() as idle:
        idle.reset(**TASK)
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(RuntimeError, ConnectionError), TextClient(url).sync() as client:
                client.reset(**TASK)
                break
            assert time.monotonic() < deadline
        for verb in (lambda: idle.step(TextAction(command="left")), lambda: idle.reset(**TASK), idle.snapshot):
            refuses(RuntimeError, "idle for too long and is closed: connect again", verb)


@pytest.mark.parametrize("given", [["--env_options", "[1]"], ["--env_options", '{"sizes": 6}'], ["--idle", "0"]])
def test_the_command_says_what_is_wrong(given, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["openenv", SOKOBAN, *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_pictures_are_refused() -> None:
    refuses(ValueError, "clients are sent text alone", application, "AgentRL/VisualSokoban-v0")


class Unjudged(gym.Env):
    """One step, of which nobody says how good it was."""

    observation_space = action_space = gym.spaces.Text(10)

    def reset(self, *, seed=None, options=None):
        return "hm", self.info(False)

    def step(self, action):
        return "over", 0.0, True, False, self.info(True)

    def info(self, unscored: bool) -> dict:
        known = {"task_id": "t", "state_key": "s", "is_action_valid": True, "won": False, "score": 0.0}
        return known | {"unscored": unscored}


def test_an_episode_that_nobody_judged_says_so() -> None:
    env = GymEnvironment(Unjudged(), {}, 1)
    assert not env.reset().unscored
    assert env.step(TextAction(command="go")).unscored
