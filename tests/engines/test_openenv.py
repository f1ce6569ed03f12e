"""OpenEnv's own server and clients, over loopback, play, save and continue our episodes.

Run by `./do engines openenv`, in a separate environment.
"""

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request

import gymnasium as gym
import pytest

pytest.importorskip("openenv", reason="needs OpenEnv in an environment of its own: ./do engines openenv")

import uvicorn
from openenv.core import GenericEnvClient

import agentgym  # noqa: F401
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
        with pytest.raises(RuntimeError, match="the episode is over"):
            client.step(TextAction(command="left"))
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
        over = client.snapshot()
        assert other.restore(over).done


def test_a_reward_is_paid_once() -> None:
    with served() as url, TextClient(url).sync() as client:
        client.reset(**TASK)
        played = client.step(TextAction(command="jump"))
        saved = client.step(TextAction(command="", snapshot=True))
        assert (played.reward is None, saved.reward, saved.observation.reward) == (False, None, None)
        assert saved.observation.text == played.observation.text


@pytest.mark.parametrize("limit", ["sessions", "snapshots", "most_bytes"])
@pytest.mark.parametrize("value", [0, -1])
def test_limits_below_one_are_refused(limit, value) -> None:
    with pytest.raises(ValueError, match=f"{limit} must be an integer of at least 1, got {value}"):
        application(SOKOBAN, **{limit: value}, **SIX)


def test_a_snapshot_that_another_session_drops_meanwhile_is_an_error_that_says_so() -> None:
    class Dropping(dict):
        """Forgets a name as soon as it has been asked for."""

        def __contains__(self, name):
            return super().pop(name, None) is not None

    env = GymEnvironment(gym.make(SOKOBAN, **SIX), Dropping(), 1)
    env.reset(**TASK)
    name = env.step(TextAction(command="", snapshot=True)).snapshot
    assert env.reset(snapshot=name).text
    with pytest.raises(ValueError, match="no snapshot 'gone'"):
        env.reset(snapshot="gone")


def test_the_time_limit_is_part_of_a_snapshot() -> None:
    with served() as url, TextClient(url).sync() as client:
        client.reset(**TASK)
        for _ in range(5):
            client.step(TextAction(command="jump"))
        name = client.snapshot()
        for _ in range(2):
            last = client.step(TextAction(command="jump"))
            assert (last.done, last.observation.truncated) == (True, True)
            client.restore(name)


def test_openenv_s_generic_client_has_all_of_it() -> None:
    with served(replies=True) as url, GenericEnvClient(url).sync() as client:
        start = client.reset(**TASK).observation["text"]
        name = client.step({"command": "", "snapshot": True}).observation["snapshot"]
        command = solution()[0]
        moved = client.step({"command": f"<think>so</think><action>{command}</action>"}).observation
        assert moved["text"] != start
        assert moved["is_action_valid"]
        assert not client.step({"command": command}).observation["is_action_valid"]  # a reply without tags
        with pytest.raises(RuntimeError, match="Invalid message"):
            client.step({"order": "left"})
        assert client.reset(snapshot=name).observation["text"] == start


def test_wrong_requests_are_told_what_is_wrong() -> None:
    with served(sessions=1, snapshots=1) as url, TextClient(url).sync() as client:
        for message, options in [
            ("unknown option 'lvl'", {"lvl": 3}), ("split", {"split": "tset", "index": 0}),
            ("no snapshot 'gone': the server keeps the last 1", {"snapshot": "gone"}),
            ("a snapshot has its task already: leave out split", {"snapshot": "gone", "split": "test"}),
        ]:  # fmt: skip
            with pytest.raises(RuntimeError, match=message):
                client.reset(**options)
        client.reset(**TASK)
        dropped, kept = client.snapshot(), client.snapshot()
        assert client.restore(kept).observation.text
        with pytest.raises(RuntimeError, match="no snapshot"):
            client.restore(dropped)
        with pytest.raises((RuntimeError, ConnectionError), match=r"(?i)capacity|sessions"):
            client.new_session().reset()


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


def test_pictures_are_refused() -> None:
    with pytest.raises(ValueError, match="clients are sent text alone"):
        application("AgentRL/VisualSokoban-v0")


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
