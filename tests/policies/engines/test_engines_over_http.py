"""Engines and models behind HTTP, against servers on the loopback: samplers of token ids, and policies of chat APIs."""

import base64
import io
import json
import shutil
import threading
import traceback
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import Budget, BudgetSpentError
from agentgym.rollout import collect
from agentgym.rollout.lanes import collect_lanes
from policies.decode.sampler import Decoding
from policies.engines.chat_api import ChatPolicy, EndpointError
from policies.engines.engine import EngineError
from policies.engines.server import ServerSampler
from policies.tiny import tiny_policy
from policies.vision import data_url
from tests.agentgym.outside.chat.chat_server import Handler, chat_server, completion, echo, raw, say
from tests.agentgym.rollout.test_groups import disabled
from tests.cases import cases
from tests.policies.agreement import answers, check_scores
from tests.policies.engines.test_engine import act, adapted, move, over, written
from tests.refusals import refuses
from wrappers.prompt import VectorPromptWindow
from wrappers.reply import VectorReplyParser

pytest.importorskip("aiohttp")


class Completions:
    """Completes token ids with a model; `change` edits the answer's choice before it is sent."""

    def __init__(self, policy):
        self.policy, self.change, self.bodies, self.loaded, self.unloaded = policy, dict, [], [], []
        self.raw, self.lock = None, threading.Lock()

    def play(self, handler):
        answer, said = self.answer(handler.path, handler.asked), handler.headers.get("Authorization", "OK")
        status, content = self.raw or (200, json.dumps(answer).encode())
        names = ("Location", "Retry_After", "X_Request_Id", "Set_Cookie", "WWW_Authenticate")
        handler.responses = {status: (said, said)}  # the reason beside the status
        handler.send(content, status, **dict.fromkeys(names, said))

    def complete(self, body, ends):
        decoding = Decoding(body["temperature"], body["max_tokens"], lambda ids: ids[-1] in ends, 0, 8)
        return written(self.policy.model, [tuple(body["prompt"])], [body["seed"]], decoding)[0]

    def answer(self, path, body):
        if path == "/v1/load_lora_adapter":
            self.loaded.append(body)
            return {}
        if path == "/v1/unload_lora_adapter":
            self.unloaded.append(body["lora_name"])
            return {}
        assert path == "/v1/completions"
        self.bodies.append(body)
        ends = set(body["stop_token_ids"])
        with self.lock:  # a forward pass here hangs hooks into the model
            one = self.complete(body, ends)
        choice = {
            "text": "not looked at", "token_ids": one.token_ids, "prompt_token_ids": body["prompt"],
            "logprobs": {"token_logprobs": one.logprobs}, "finish_reason": one.finish,
        }  # fmt: skip
        return {"choices": [self.change(choice)]}


@pytest.fixture
def policy():
    return tiny_policy(["look up down"], seed=0, layers=1)


@pytest.fixture
def server(policy):
    made = Completions(policy)
    with chat_server(made.play) as http:
        made.url = http.url.removesuffix("/v1")
        yield made


def player_of(policy, server, **options):
    return over(policy, ServerSampler(server.url, "mine", retries=0, timeout=30.0, **options))


def test_a_server_that_returns_token_ids_is_a_sampler(policy, server):
    player = player_of(policy, server)
    replies = act(player)
    check_scores(player, replies)
    assert {one.finish for one in replies} <= {"stop", "length"}
    body = server.bodies[0]
    assert body["return_token_ids"] is True
    assert (body["model"], body["logprobs"], body["temperature"], body["max_tokens"]) == ("mine", 0, 0.7, 4)
    assert body["include_stop_str_in_output"] is True
    assert sorted(tuple(each["prompt"]) for each in server.bodies) == sorted(one.prompt_ids for one in replies)
    assert act(player) == replies  # the same draws, the same seeds
    server.url = "http://127.0.0.1:9"  # nobody is there
    refuses(EngineError, r"/v1/completions gave no answer", act, player_of(policy, server))


@cases(
    "change, said",
    (lambda choice: {**choice, "token_ids": None}, "returns no token ids"),
    (lambda choice: {**choice, "logprobs": None}, "returns no log-probabilities"),
    (lambda choice: {**choice, "prompt_token_ids": [1]}, "read another prompt"),
    (lambda choice: {**choice, "prompt_token_ids": 5}, r"a list of token ids in 'prompt_token_ids', got 5"),
    (lambda choice: {**choice, "token_ids": [-1]}, r"completion 0 has the token id -1, and .* knows 0 to \d+"),
    (lambda choice: {**choice, "token_ids": [10**9]}, "the token id 1000000000, and .*another model"),
    (lambda choice: {**choice, "logprobs": {"token_logprobs": ["-0.5"]}}, "must be a number, got '-0.5'"),
    (lambda choice: [], "no completion"),
    (lambda choice: {**choice, "logprobs": {"token_logprobs": [-9.0] * len(choice["token_ids"])}}, "does not sample"),
)
def test_answers_that_cannot_be_trained_on_are_refused(policy, server, change, said):
    server.change = change
    refuses(EngineError, said, lambda: act(player_of(policy, server)))


def test_adapters_follow_under_a_fresh_name_and_whole_weights_do_not(policy, server, tmp_path):
    server.policy = trained = adapted(policy)
    refuses(EngineError, "name a folder", lambda: act(player_of(trained, server)))
    player = player_of(trained, server, work=tmp_path)
    act(player)
    move(trained, "lora_B")
    act(player)
    names = [each["lora_name"] for each in server.loaded]
    assert [name.rpartition("-")[0] for name in names] == ["version-0", "version-1"]
    assert (server.bodies[-1]["model"], server.unloaded) == (names[1], names[:1])
    act(player_of(trained, server, work=tmp_path / "resumed"))
    assert server.loaded[-1]["lora_name"] not in names  # another run with the same server
    shutil.rmtree(tmp_path / "resumed")
    (own,) = tmp_path.iterdir()
    assert [path.name for path in own.iterdir()] == ["1"]
    assert (own / "1" / "adapter_config.json").is_file()
    server.policy = plain = tiny_policy(["look up down"], seed=0, layers=1)
    whole = player_of(plain, server, work=tmp_path / "whole")
    act(whole)
    move(plain)
    refuses(EngineError, "takes no whole weights", act, whole)


def test_single_replies_come_as_the_server_finishes_them(policy, server):
    player = player_of(policy, server)
    observations, rngs = ["look", "up down", "look up"], [np.random.default_rng(seed) for seed in range(3)]
    whole = player.act_each(observations, {}, [np.random.default_rng(seed) for seed in range(3)])
    held, complete_one = threading.Event(), server.complete

    def hold(body, ends):
        if tuple(body["prompt"]) == whole[1].prompt_ids:
            server.lock.release()
            held.wait(60)
            server.lock.acquire()
        return complete_one(body, ends)

    server.complete = hold
    queue = player.reply_queue()
    queue.put([4, 5, 6], observations, {}, rngs)
    found = answers(queue, 2)  # the second one is held back, and holds nobody
    assert found.keys() == {4, 6}
    held.set()
    found = answers(queue, 3, found)
    assert [found[name] for name in (4, 5, 6)] == whole
    server.change = lambda choice: {**choice, "token_ids": None}
    queue.put([7], observations[:1], {}, rngs[:1])
    ((name, error),) = queue.get()
    assert (name, isinstance(error, EngineError)) == (7, True)
    queue.close()
    server.change = lambda choice: {**choice, "logprobs": {"token_logprobs": [-9.0] * len(choice["token_ids"])}}
    queue = player_of(policy, server).reply_queue()  # the first ones prove the weights
    queue.put([0], observations[:1], {}, rngs[:1])
    refuses(EngineError, "does not sample", queue.get)


def test_nothing_of_others_in_the_folder_for_adapters_is_touched(policy, server, tmp_path):
    thesis, trained = tmp_path / "0" / "thesis.txt", adapted(policy)
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    sampler = ServerSampler(server.url, "mine", retries=0, work=tmp_path)
    for version in (0, 1, 1, 0):  # a version may come again
        sampler.send(trained.model, version)
    assert thesis.read_text() == "years of work"
    (own,) = tmp_path.glob("weights-*")
    assert [path.name for path in own.iterdir()] == ["0"]
    assert len({each["lora_name"] for each in server.loaded}) == 4
    assert server.unloaded == [each["lora_name"] for each in server.loaded[:3]]
    refuses(ValueError, r"work must be a folder.*txt is a file", ServerSampler, server.url, "mine", work=thesis)


KEY = "sk-Zq9abcdefgh_7"
CODED = base64.b64encode(f"Authorization: Bearer {KEY}".encode()).decode()
ESCAPED = "".join(f"%{ord(letter):02x}" for letter in KEY)
FIELDS = ["text", "finish_reason", "stop_reason", "role", "index", "token_ids", "prompt_token_ids", "logprobs"]


@pytest.mark.parametrize("secret", [KEY, CODED, ESCAPED, f"Bearer {KEY}"])
@pytest.mark.parametrize("field", [*FIELDS, "names", "tokens", "broken", "error", "head"])
def test_a_server_that_echoes_the_key_does_not_get_it_shown(policy, server, field, secret):
    def change(choice):
        if field in FIELDS:
            return {**choice, field: secret if field != "prompt_token_ids" else [secret]}
        if field == "names":
            return {secret: secret}
        if field == "tokens":
            return {**choice, "logprobs": {"token_logprobs": [secret], "tokens": [KEY[:5], KEY[5:]]}}
        if field == "broken":
            server.raw = (200, json.dumps({"choices": secret}).encode()[:-2])
        elif field == "error":
            content = {"error": {"message": secret, "type": secret, "code": secret, "param": [KEY[:5], KEY[5:]]}}
            server.raw = (401, json.dumps(content).encode())
        else:
            server.raw = (302, secret.encode())
        return choice

    server.change = change
    player = player_of(policy, server, headers={"Authorization": f"Bearer {KEY}"})
    try:
        shown = repr(act(player))
    except EngineError as error:
        shown = "".join(traceback.format_exception(error))
        assert "***" in shown or field in ("token_ids", "names")  # of which nothing is shown
    for piece in ("Zq9", "cdefgh", CODED[24:36], "%63%64", "%5a%71"):
        assert piece not in shown


def test_adapters_that_a_server_refuses_do_not_show_the_key(policy, server, tmp_path):
    server.raw = (400, json.dumps({"detail": KEY, "seen": {"authorization": f"Bearer {KEY}"}}).encode())
    sampler = ServerSampler(server.url, "mine", retries=0, work=tmp_path, headers={"Authorization": f"Bearer {KEY}"})
    with pytest.raises(EngineError, match="does not load the adapter: status 400") as caught:
        sampler.send(adapted(policy).model, 0)
    assert "Zq9" not in str(caught.value)


def chat_policy(url: str, **options: Any) -> ChatPolicy:
    return ChatPolicy(ChatEndpoint("m", url, **({"retries": 0, "timeout": 20.0} | options)))


def said(policy: ChatPolicy, observations: list[Any], seed: int = 0) -> list[str]:
    return [reply.text for reply in policy.act(observations, {}, np.random.default_rng(seed))]


def test_texts_pictures_and_seeds_are_sent() -> None:
    with chat_server(echo) as server:
        messages = ({"role": "system", "content": "Play."}, {"role": "user", "content": "é"})
        assert said(chat_policy(server.url), ["a", messages, "a"]) == ["a", "é", "a"]
        asked = sorted((each["messages"] for each in server.requests), key=str)
        assert asked == sorted([[{"role": "user", "content": "a"}]] * 2 + [list(messages)], key=str)
        seeds = {each["seed"] for each in server.requests}
        assert seeds == set(np.random.default_rng(0).integers(2**31, size=3).tolist())
        assert said(chat_policy(server.url), []) == []
        for wrong in (5, [{"role": "user"}], [5], {"text": "a"}):
            refuses(TypeError, "VectorPromptWindow", said, chat_policy(server.url), [wrong])
    with chat_server(echo) as server:
        rngs = [np.random.default_rng(seed) for seed in (5, 6)]
        chat_policy(server.url).act_each(["a", "b"], {}, rngs)
        found = {each["messages"][0]["content"]: each["seed"] for each in server.requests}
    assert found == {name: int(np.random.default_rng(k).integers(2**31)) for name, k in (("a", 5), ("b", 6))}
    image = pytest.importorskip("PIL.Image")
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    with chat_server(say("up")) as server:
        content = [{"type": "image", "image": picture}, {"type": "text", "text": "Where?"}]
        assert said(chat_policy(server.url), [[{"role": "user", "content": content}]]) == ["up"]
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
        model = chat_policy(server.url, cache=tmp_path)
        with pytest.raises(
            EndpointError, match=r"no answer for 1 of 3 sub-environments; m at http.*status 500.*tries: 1"
        ) as caught:
            said(model, ["a", "b", "c"])
        assert len(caught.value.failures) == 1
        # What came is kept: the same call asks for the missing answer alone.
        assert said(model, ["a", "b", "c"]) == ["<action>up</action>"] * 3
        assert len(server.requests) == 4


def test_episodes_are_collected_and_failed_places_named() -> None:
    with chat_server(say("<action>up</action>")) as server:
        envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=4, autoreset_mode="Disabled", max_episode_steps=3)
        envs = VectorPromptWindow(VectorReplyParser(envs))
        table = collect(envs, chat_policy(server.url), tasks=[{"split": "test", "index": 0}], group_size=4, seed=0)
        assert table.n_trajectories == 4
        assert len(table) == len(server.requests) == 12
    with chat_server(raw(b"{}", 400)) as server, pytest.raises(EndpointError, match="2 of 2 sub-environments"):
        said(chat_policy(server.url), ["a", "b"])


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
        model = chat_policy(server.url, cache=tmp_path)
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
            refuses(EndpointError, r"2 of 2 sub-environments.*maximum context length", said, model, ["long", "long"])
        model = chat_policy(server.url)
        assert isinstance(queued(model), EndpointError)
        assert said(model, ["short"]) == ["up"]
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
        model = chat_policy(server.url, cache=tmp_path, budget=Budget(requests=2))
        queue: Any = model.reply_queue()
        with pytest.raises(BudgetSpentError):
            queue.put(range(3), ["a", "b", "c"], {}, [np.random.default_rng(seed) for seed in range(3)])
        queue.close()
        assert (len(server.requests), model.endpoint.usage.answered) == (2, 2)
        assert chat_policy(server.url, cache=tmp_path).endpoint.spent().answered == 2
