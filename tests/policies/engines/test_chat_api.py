import base64
import io
import threading
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import Budget, BudgetSpentError
from agentgym.rollout import collect
from agentgym.rollout.lanes import collect_lanes
from policies.engines.chat_api import ChatPolicy, EndpointError
from policies.vision import data_url
from tests.agentgym.outside.chat.chat_server import Handler, chat_server, completion, echo, raw, say
from tests.agentgym.rollout.test_groups import disabled
from tests.policies.agreement import answers
from tests.refusals import refuses
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser

pytest.importorskip("aiohttp")


def policy(url: str, **options: Any) -> ChatPolicy:
    return ChatPolicy(ChatEndpoint("m", url, **({"retries": 0, "timeout": 20.0} | options)))


def act(policy: ChatPolicy, observations: list[Any], seed: int = 0) -> list[str]:
    return [reply.text for reply in policy.act(observations, {}, np.random.default_rng(seed))]


def test_texts_pictures_and_seeds_are_sent() -> None:
    with chat_server(echo) as server:
        messages = ({"role": "system", "content": "Play."}, {"role": "user", "content": "é"})
        assert act(policy(server.url), ["a", messages, "a"]) == ["a", "é", "a"]
        asked = sorted((each["messages"] for each in server.requests), key=str)
        assert asked == sorted([[{"role": "user", "content": "a"}]] * 2 + [list(messages)], key=str)
        seeds = {each["seed"] for each in server.requests}
        assert seeds == set(np.random.default_rng(0).integers(2**31, size=3).tolist())
        assert act(policy(server.url), []) == []
    with chat_server(echo) as server:
        rngs = [np.random.default_rng(seed) for seed in (5, 6)]
        policy(server.url).act_each(["a", "b"], {}, rngs)
        found = {each["messages"][0]["content"]: each["seed"] for each in server.requests}
    assert found == {name: int(np.random.default_rng(k).integers(2**31)) for name, k in (("a", 5), ("b", 6))}
    image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    with chat_server(say("up")) as server:
        content = [{"type": "image", "image": picture}, {"type": "text", "text": "Where?"}]
        assert act(policy(server.url), [[{"role": "user", "content": content}]]) == ["up"]
        sent, text = server.requests[0]["messages"][0]["content"]
    assert text == {"type": "text", "text": "Where?"}
    assert sent["image_url"]["url"] == data_url(picture)
    png = base64.b64decode(data_url(picture).removeprefix("data:image/png;base64,"))
    assert np.array_equal(np.asarray(image.open(io.BytesIO(png))), picture)


def test_an_outage_is_no_action(tmp_path: Path) -> None:
    def play(handler: Handler) -> None:
        broken = handler.asked["messages"][0]["content"] == "b" and len(server.requests) <= 3
        handler.send(b"" if broken else completion("<action>up</action>"), 500 if broken else 200)

    with chat_server(play) as server:
        model = policy(server.url, cache=tmp_path)
        with pytest.raises(
            EndpointError, match=r"no answer for 1 of 3 sub-environments; m at http.*status 500.*tries: 1"
        ) as caught:
            act(model, ["a", "b", "c"])
        assert len(caught.value.failures) == 1
        # What came is kept: the same call asks for the missing answer alone.
        assert act(model, ["a", "b", "c"]) == ["<action>up</action>"] * 3
        assert len(server.requests) == 4


@pytest.mark.parametrize("observation", [5, [{"role": "user"}], [5], {"text": "a"}])
def test_other_observations_are_refused(observation: Any) -> None:
    refuses(TypeError, "VectorPromptWindow", lambda: act(policy("http://127.0.0.1:9/v1"), [observation]))


def test_episodes_are_collected_and_failed_places_named() -> None:
    with chat_server(say("<action>up</action>")) as server:
        envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=4, autoreset_mode="Disabled", max_episode_steps=3)
        envs = VectorPromptWindow(VectorReplyParser(envs))
        table = collect(envs, policy(server.url), tasks=[{"split": "test", "index": 0}], group_size=4, seed=0)
        assert table.n_trajectories == 4
        assert len(table) == len(server.requests) == 12
    with chat_server(raw(b"{}", 400)) as server, pytest.raises(EndpointError, match="2 of 2 sub-environments"):
        act(policy(server.url), ["a", "b"])


def test_answers_come_one_by_one_and_lanes_wait_for_nobody_else(tmp_path: Path) -> None:
    released = threading.Event()

    def play(handler: Handler) -> None:
        text = handler.asked["messages"][0]["content"]
        if text == "slow":
            released.wait(60)
        if text == "lost":
            handler.send(b"", 500)
        else:
            handler.send(completion(f"{text} {handler.asked['seed']}"))

    with chat_server(play) as server:
        model = policy(server.url, cache=tmp_path)
        queue: Any = model.reply_queue()
        queue.put([0, 1, 2], ["slow", "a", "lost"], {}, [np.random.default_rng(seed) for seed in range(3)])
        found = answers(queue, 2)
        assert found.keys() == {1, 2}
        assert isinstance(found[2], EndpointError)
        released.set()
        found = answers(queue, 3, found)
        seeds = [int(np.random.default_rng(seed).integers(2**31)) for seed in range(2)]
        assert (found[0].text, found[1].text) == (f"slow {seeds[0]}", f"a {seeds[1]}")
        # What came is kept, as by `ask`: nothing is sent for it again.
        asked = len(server.requests)
        queue.put([3], ["slow"], {}, [np.random.default_rng(0)])
        assert queue.get() == [(3, found[0])]
        assert len(server.requests) == asked
        queue.put([4], ["b"], {}, [np.random.default_rng(0)])
        queue.close()
        usage = model.endpoint.usage
        assert (usage.failed, usage.remembered) == (1, 1)


def test_what_does_not_fit_ends_episodes_only_where_other_prompts_do() -> None:
    refused = raw(b'{"error": "maximum context length is 10 tokens"}', 400)

    def play(handler: Handler) -> None:
        (say("up") if handler.asked["messages"][0]["content"] == "short" else refused)(handler)

    def queued(model: ChatPolicy) -> Any:
        queue: Any = model.reply_queue()
        queue.put([0], ["long"], {}, [np.random.default_rng(0)])
        return queue.get()[0][1]

    with chat_server(play) as server:
        for patient in (False, True):
            model = ChatPolicy(ChatEndpoint("m", server.url, retries=0), patient=patient)
            refuses(EndpointError, r"2 of 2 sub-environments.*maximum context length", act, model, ["long", "long"])
        model = policy(server.url)
        assert isinstance(queued(model), EndpointError)
        assert act(model, ["short"]) == ["up"]
        with pytest.warns(UserWarning, match="prompts do not fit"):
            assert queued(model).finish == "prompt-too-long"
        found = model.act(["long", "short"], {}, np.random.default_rng(1))
        assert [(each.text, each.finish) for each in found] == [("", "prompt-too-long"), ("up", "")]


def test_a_patient_policy_is_patient_in_lanes_too() -> None:
    def play(handler: Handler) -> None:
        broken = len(server.requests) == 2
        handler.send(b"" if broken else completion("left"), 500 if broken else 200)

    with chat_server(play) as server:
        model = ChatPolicy(ChatEndpoint("m", server.url, retries=0), patient=True)
        with pytest.warns(RuntimeWarning, match="ChatPolicy has no reply_queue"):
            table = collect_lanes([disabled(1) for _ in range(2)], model, tasks=[{"index": 1}], group_size=2, seed=0)
    assert model.endpoint.usage.failed == 1
    assert sum(reply.text == "" for reply in table.replies) == 1


def test_a_queue_whose_budget_is_spent_keeps_what_it_has_asked(tmp_path: Path) -> None:
    with chat_server(say("up")) as server:
        model = policy(server.url, cache=tmp_path, budget=Budget(requests=2))
        queue: Any = model.reply_queue()
        with pytest.raises(BudgetSpentError):
            queue.put(range(3), ["a", "b", "c"], {}, [np.random.default_rng(seed) for seed in range(3)])
        queue.close()
        assert (len(server.requests), model.endpoint.usage.answered) == (2, 2)
        assert policy(server.url, cache=tmp_path).endpoint.spent().answered == 2
