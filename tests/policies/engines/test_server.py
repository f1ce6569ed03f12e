"""The sampler over an HTTP server, against one on the loopback that answers as vLLM's does."""

import base64
import json
import shutil
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from policies.decode.sampler import Decoding
from policies.engines.engine import EngineError
from policies.engines.server import ServerSampler
from policies.tiny import tiny_policy
from tests.cases import cases
from tests.policies.agreement import answers, check_scores
from tests.policies.engines.fakes import act, adapted, move, over, written
from tests.refusals import refuses

pytest.importorskip("aiohttp")


class Server:
    """Completes token ids with a model; `change` edits the answer's choice before it is sent."""

    def __init__(self, policy):
        self.policy, self.change, self.bodies, self.loaded, self.unloaded = policy, dict, [], [], []
        self.raw, self.lock, outer = None, threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                answer = outer.answer(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                status, content = outer.raw or (200, json.dumps(answer).encode())
                said = self.headers.get("Authorization", "OK")
                self.send_response(status, said)
                for name in ("Location", "Retry-After", "X-Request-Id", "Set-Cookie", "WWW-Authenticate"):
                    self.send_header(name, said)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"

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
    made = Server(policy)
    yield made
    made.http.shutdown()
    made.http.server_close()


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


@cases(
    "change, said",
    (lambda choice: {**choice, "token_ids": None}, "returns no token ids"),
    (lambda choice: {name: choice[name] for name in ("text", "logprobs")}, "returns no token ids"),
    (lambda choice: {**choice, "logprobs": None}, "returns no log-probabilities"),
    (lambda choice: {**choice, "prompt_token_ids": [1]}, "read another prompt"),
    (lambda choice: {**choice, "prompt_token_ids": 5}, r"a list of token ids in 'prompt_token_ids', got 5"),
    (lambda choice: {**choice, "prompt_token_ids": [[1]]}, r"'prompt_token_ids', got \[\[1\]\]"),
    (lambda choice: {**choice, "token_ids": [-1]}, r"completion 0 has the token id -1, and .* knows 0 to \d+"),
    (lambda choice: {**choice, "token_ids": [10**9]}, "the token id 1000000000, and .*another model"),
    (lambda choice: {**choice, "logprobs": {"token_logprobs": ["-0.5"]}}, "must be a number, got '-0.5'"),
    (lambda choice: {**choice, "logprobs": 5}, "no completion"),
    (lambda choice: [], "no completion"),
    (lambda choice: {**choice, "logprobs": {"token_logprobs": [-9.0] * len(choice["token_ids"])}}, "does not sample"),
)
def test_answers_that_cannot_be_trained_on_are_refused(policy, server, change, said):
    server.change = change
    refuses(EngineError, said, lambda: act(player_of(policy, server)))


def test_a_server_that_is_down_is_named(policy, server):
    player = player_of(policy, server)
    server.http.shutdown()
    server.http.server_close()
    refuses(EngineError, r"/v1/completions gave no answer", act, player)


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


def test_the_first_single_replies_prove_the_weights(policy, server):
    server.change = lambda choice: {**choice, "logprobs": {"token_logprobs": [-9.0] * len(choice["token_ids"])}}
    queue = player_of(policy, server).reply_queue()
    queue.put([0], ["look"], {}, [np.random.default_rng(0)])
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
