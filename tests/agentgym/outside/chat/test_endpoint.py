"""The endpoint against a server on loopback: an answer costs itself alone, and credentials are in requests alone."""

import asyncio
import base64
import copy
import gzip
import json
import multiprocessing
import os
import pickle
import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import ChatAnswer, ChatFailure, ChatRequest, key_of
from tests.agentgym.outside.chat import chat_server as plays
from tests.agentgym.outside.chat.chat_server import Handler, Play, chat_server, completion, echo, raw, say
from tests.cases import cases
from tests.refusals import refuses

pytest.importorskip("aiohttp")


def request(text: str, seed: int | None = None, **more: Any) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], seed, **more)


def endpoint(url: str, **options: Any) -> ChatEndpoint:
    return ChatEndpoint("m", url, **({"timeout": 20.0, "retries": 0} | options))


def texts(answers: list[ChatAnswer | ChatFailure]) -> list[str]:
    assert all(isinstance(answer, ChatAnswer) for answer in answers), answers
    return [answer.text for answer in answers if isinstance(answer, ChatAnswer)]


def failure(answer: ChatAnswer | ChatFailure) -> ChatFailure:
    assert isinstance(answer, ChatFailure)
    return answer


def test_requests_have_openais_form_equal_ones_are_sent_once_and_answers_come_in_order() -> None:
    with chat_server(echo) as server:
        model = endpoint(server.url, api_key="secret", temperature=0.5, max_tokens=9, extra={"top_p": 0.9})
        said = [f"{i} é\u2028" for i in range(40)]
        assert texts(model.ask([request(text, seed=i) for i, text in enumerate(said)])) == said
        (asked,) = (each for each in server.requests if each["seed"] == 7)
        assert asked.pop("messages") == [{"role": "user", "content": "7 é\u2028"}]
        assert asked == {"model": "m", "temperature": 0.5, "max_tokens": 9, "top_p": 0.9, "seed": 7}
        assert set(server.paths) == {"/v1/chat/completions"}
        assert {head["authorization"] for head in server.headers} == {"Bearer secret"}
        assert model.ask([]) == []
    with chat_server(echo) as server:
        asked = [request("a"), request("b"), request("a"), request("a", 1), request("a", 2)]
        assert texts(endpoint(server.url).ask(asked)) == [*"abaaa"]
        assert len(server.requests) == 4
        assert texts(endpoint(server.url, send_seed=False).ask([request("a", 1), request("a", 2)])) == ["a", "a"]
        assert [each.get("seed") for each in server.requests[4:]] == [None, None]


def test_text_is_cleaned_on_the_way_out_and_in_and_structured_output_is_asked_for(tmp_path: Path) -> None:
    with chat_server(echo, say("a\ud800\x1b[2J\tb\n")) as server:
        assert texts(endpoint(server.url).ask([request("a\udfffb\x00")])) == ["a\ufffdb\ufffd"]
        for _ in range(2):
            assert texts(endpoint(server.url, cache=tmp_path).ask([request("q")])) == ["a\ufffd\ufffd[2J\tb\n"]
    schema = {"type": "object"}
    named = {"name": "answer", "strict": True, "schema": schema}
    for structured, expected in (
        ("", None), ("json_object", {"type": "json_object"}),
        ("json_schema", {"type": "json_schema", "json_schema": named}),
    ):  # fmt: skip
        with chat_server(echo) as server:
            for asked in (request("a", schema=schema), request("b")):
                endpoint(server.url, structured=structured).ask([asked])
            assert [each.get("response_format") for each in server.requests] == [expected, None]


@cases(
    "play",
    raw(b"busy", 503), raw(b"{}", 500), raw(b"{}", 429, Retry_After="0.01"), plays.hang_up,
    raw(b'{"choices": [', length=500), raw(b"", length=500),
)  # fmt: skip
def test_what_may_pass_is_tried_again(play: Play) -> None:
    with chat_server(play, echo) as server:
        model = endpoint(server.url, retries=1)
        (answer,) = model.ask([request("q")])
        assert texts([answer]) == ["q"]
        assert (answer.attempts, len(server.requests), model.usage.retries) == (2, 2, 1)
    with chat_server(echo, play, echo) as server:  # the first request goes through the package, later ones past it
        model = endpoint(server.url, retries=1, api_key="k")
        assert [texts(model.ask([request(text)])) for text in "ab"] == [["a"], ["b"]]
        # A kept connection that hangs up is opened again at once: that is no try that failed.
        assert (len(server.requests), model.usage.retries) == (3, 0 if play is plays.hang_up else 1)
        assert [each["messages"][0]["content"] for each in server.requests] == ["a", "b", "b"]
        for head in server.headers:
            del head["content-length"]
        assert (server.headers[0], server.headers[2]["authorization"]) == (server.headers[1], "Bearer k")


def test_retry_after_is_respected_and_no_server_is_a_failure() -> None:
    busy = raw(b"{}", 429, Retry_After="1.5")
    with chat_server(busy, echo) as server:
        assert texts(endpoint(server.url, retries=1).ask([request("q")])) == ["q"]
        assert server.times[1] - server.times[0] > 1.2  # half a second at most without the header
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = failure(endpoint(f"http://127.0.0.1:{port}/v1").ask([request("q")])[0])
    assert "no connection (" in found.reason
    assert "refused" in found.reason


def test_requests_wait_at_the_same_time_from_many_threads_and_where_an_event_loop_runs() -> None:
    together = threading.Barrier(24)

    def play(handler: Handler) -> None:
        together.wait(30)
        echo(handler)

    with chat_server(play) as server:
        model = endpoint(server.url, concurrency=24)
        for round_ in range(3):
            assert len(texts(model.ask([request(f"{round_} {i}") for i in range(24)]))) == 24
        assert server.connections == 24

    async def ask(model: ChatEndpoint) -> list[str]:
        return texts(model.ask([request("q")]))

    with chat_server(echo) as server:
        model = endpoint(server.url)
        assert asyncio.run(ask(model)) == ["q"]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda i: texts(model.ask([request(str(i))])), range(32)))
        assert found == [[str(i)] for i in range(32)]


def test_tokens_and_cost_are_counted_and_the_cache_costs_nothing_and_knows_requests_apart(tmp_path: Path) -> None:
    with chat_server(raw(b"{}", 400), say("a", "length", (1_000, 20))) as server:
        options: dict[str, Any] = {"cache": tmp_path, "prices": (2.0, 8.0)}
        failure(endpoint(server.url, **options).ask([request("q")])[0])  # which is not remembered
        model = endpoint(server.url, **options)
        (answer,) = model.ask([request("q")])
        assert answer == ChatAnswer("a", "length", 1_000, 20, 1)
        usage = model.usage
        assert (usage.answered, usage.prompt_tokens, usage.completion_tokens) == (1, 1_000, 20)
        assert usage.cost == pytest.approx(0.00216)  # 1,000 * 2 / 10**6 + 20 * 8 / 10**6
        again = endpoint(server.url, **options)
        assert again.ask([request("q"), request("q")]) == [ChatAnswer("a", "length", 1_000, 20, 0)] * 2
        assert (again.usage.answered, again.usage.remembered, again.usage.cost) == (0, 2, 0.0)
        assert len(server.requests) == 2
    with chat_server(echo) as server:
        base: dict[str, Any] = {"model": "m", "base_url": server.url, "cache": tmp_path / "apart", "retries": 0}
        changes = {}, {"temperature": 0.1}, {"max_tokens": 3}, {"model": "other"}, {"extra": {"top_p": 0.5}}
        for n, changed in enumerate(changes):
            for _ in range(2):
                ChatEndpoint(**(base | changed)).ask([request("q", 1)])
            assert len(server.requests) == n + 1
        ChatEndpoint(**base).ask([request("q", 2), request("q ", 1)])
        assert len(server.requests) == n + 3


def test_answers_that_came_are_kept_when_waiting_is_interrupted(tmp_path: Path) -> None:
    def play(handler: Handler) -> None:
        if handler.asked["messages"][0]["content"] == "b" and len(server.requests) <= 3:
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        echo(handler)

    with chat_server(play) as server:
        model = endpoint(server.url, cache=tmp_path)
        with pytest.raises(KeyboardInterrupt):
            model.ask([request("a"), request("b"), request("c")])
        assert texts(endpoint(server.url, cache=tmp_path).ask([request("a"), request("b"), request("c")])) == [*"abc"]
        assert sorted(each["messages"][0]["content"] for each in server.requests) == [*"abbc"]


def _ask_elsewhere(given: ChatEndpoint | bytes, queue: Any) -> None:
    model = pickle.loads(given) if isinstance(given, bytes) else given
    queue.put(texts(model.ask([request("from elsewhere")])))


@pytest.mark.parametrize(("method", "pickled"), [("spawn", True), ("fork", True), ("fork", False)])
def test_an_endpoint_goes_into_other_processes_without_its_connections(method, pickled, monkeypatch) -> None:
    monkeypatch.setenv("MY_KEY", "k3y")
    context: Any = multiprocessing.get_context(method)
    with chat_server(echo) as server:
        model = endpoint(server.url, key_variable="MY_KEY")
        model.ask([request("here")])
        queue = context.Queue()
        process = context.Process(target=_ask_elsewhere, args=(pickle.dumps(model) if pickled else model, queue))
        process.start()
        assert queue.get(timeout=60) == ["from elsewhere"]
        process.join()
        assert [head["authorization"] for head in server.headers] == ["Bearer k3y"] * 2


def test_keys_go_only_where_they_belong_and_copies_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-real-key")
    with chat_server(echo) as server:
        endpoint(server.url).ask([request("q")])
        assert "the-real-key" not in json.dumps(server.headers)
    monkeypatch.delenv("OPENAI_API_KEY")
    refuses(ValueError, "OPENAI_API_KEY is not set", ChatEndpoint, "m")
    with chat_server(echo) as proxy:
        assert texts(endpoint("http://elsewhere.invalid/v1", proxy=proxy.url).ask([request("q")])) == ["q"]
        assert proxy.paths == ["http://elsewhere.invalid/v1/chat/completions"]
    with chat_server(echo) as server:
        model = endpoint(server.url, api_key=KEY)
        for made in (copy.deepcopy(model), copy.deepcopy({"partner": model})["partner"]):
            assert texts(made.ask([request("q")])) == ["q"]
        assert {head["authorization"] for head in server.headers} == {f"Bearer {KEY}"}
    model = endpoint("http://127.0.0.1:1/v1", proxy="http://me:hunter2@127.0.0.1:2")
    refuses(TypeError, "its proxy's URL holds credentials", pickle.dumps, model)
    copy.deepcopy(model)
    with chat_server(echo) as elsewhere, chat_server(raw(b"{}", 307, Location=elsewhere.url)) as server:
        assert "status 307" in failure(endpoint(server.url, api_key=KEY).ask([request("q")])[0]).reason
        assert elsewhere.requests == []


@cases(
    "arguments, words",
    ({"model": ""}, "name of a model"), ({"base_url": "127.0.0.1:8000"}, "base_url must be like"),
    ({"timeout": 0}, "timeout must be above 0, got 0"), ({"structured": "yes"}, "unknown structured 'yes'; known: "),
    ({"retries": -1}, "retries must be an integer of at least 0, got -1"), ({"cache": 5}, "cache must be a folder"),
    ({"concurrency": 0}, "concurrency must be an integer of at least 1, got 0"),
)  # fmt: skip
def test_arguments_that_cannot_be(arguments: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, ChatEndpoint, **({"model": "m", "base_url": "http://127.0.0.1:1/v1"} | arguments))


def test_names_with_an_at_sign_and_completions_without_text_or_counts() -> None:
    for wrong in ("qwen", "http://host/v1", "@http://host/v1", "qwen@host"):
        refuses(ValueError, r"MODEL@URL|base_url", ChatEndpoint.at, wrong)
    assert repr(ChatEndpoint.at("org/a@b@http://h:1/v1/")) == "ChatEndpoint('org/a@b', 'http://h:1/v1')"
    with_password = ChatEndpoint.at("a@b@http://me:p@w@h:1/v1")
    assert (with_password.model, with_password.base_url) == ("a@b", "http://***@h:1/v1")
    assert key_of("u", {"a": 1, "b": "é"}) == key_of("u", {"b": "é", "a": 1})
    assert key_of("u", {"a": 1}) != key_of("v", {"a": 1})
    with chat_server(say(None), raw(b'{"choices": [{"message": {"content": "x"}}], "usage": null}')) as server:
        model = endpoint(server.url)
        assert model.ask([request("a")]) == [ChatAnswer("", "stop", 10, 5, 1)]
        assert model.ask([request("b")]) == [ChatAnswer("x", "", 0, 0, 1)]
    for count in (b"-4", b"true", b'"7"', b"2.5", b"9" * 18, b"[1]", b"null"):
        with chat_server(raw(completion("x").replace(b"10", count))) as server:
            assert endpoint(server.url).ask([request("q")]) == [ChatAnswer("x", "stop", 0, 5, 1)]


@cases(
    "play, words",
    (raw(b"<html>"), "not JSON"), (raw(b"\xff\xfe\x00"), "not UTF-8"), (plays.garbage, "no connection"),
    (raw(b"x" * 17_000_000), "more than 16,000,000 bytes"), (raw(b"{}"), "no choices[0].message.content"),
    (raw(b"[" * 600 + b'"\\u0041"' + b"]" * 600), "nested too deeply"),
    (raw(completion("x").replace(b"10", b"NaN")), "NaN is not a JSON number"),
    (raw(gzip.compress(b"[" * 50_000_000, 1, mtime=0), Content_Encoding="gzip"), "not UTF-8"),
    (raw(gzip.compress(b"[" * 50_000_000, 1, mtime=0), 400, Content_Encoding="gzip"), "status 400"),
    (raw(b"no", 400, Content_Type="text/plain; charset=zlib"), "status 400 (no)"),
    (raw(b'{"choices": [{"message": {"content": 5}}]}'), "is not text"),
    (raw(b'{"error": "no such model"}', 404), "status 404 ({"),
    (raw(b"{}", 302, Location="http://127.0.0.1:1/"), "status 302"),
    (raw(b'{"error": "key s3cret is wrong"}', 401), "key *** is wrong"),
)  # fmt: skip
def test_what_another_try_would_not_change_is_a_failure_at_once(play: Play, words: str) -> None:
    with chat_server(play, echo) as server:
        model = endpoint(server.url, retries=0 if play is plays.garbage else 3, api_key="s3cret")
        found = failure(model.ask([request("q")])[0])
        assert words in found.reason
        assert found.reason.startswith(f"m at {server.url}: ")
        assert "s3cret" not in found.reason
        assert len(found.reason) < 400
        assert found.reason.isprintable()
        assert (found.attempts, len(server.requests)) == (1, 1)


@pytest.mark.parametrize("play", [plays.slow(30.0, echo), plays.drip_head, plays.drip_body])
def test_a_try_has_a_limit_from_its_first_byte_to_its_last(play: Play) -> None:
    with chat_server(play, echo) as server:
        found = failure(endpoint(server.url, timeout=0.3).ask([request("q")])[0])
        assert found.reason == f"m at {server.url}: no answer within 0.3 s"
        assert texts(endpoint(server.url).ask([request("q")])) == ["q"]
    with chat_server(play, echo) as server:
        assert texts(endpoint(server.url, timeout=0.5, retries=1).ask([request("q")])) == ["q"]


HOSTILE = [
    raw(b"[" * 200_000), raw(completion("x").replace(b"10", b"1" + b"0" * 400)),
    raw(b'{"choices": [{"message": {"content": "x"}, "finish_reason": ' + b"[" * 400 + b"]" * 400 + b"}]}"),
    raw(b"no", 400, Content_Type="text/plain; charset=zlib"), plays.garbage, raw(b"\xff" * 100),
    raw(b'{"choices": {"a": 1}}'), raw(b"{}", length=10**30), plays.hang_up,
]  # fmt: skip


def test_nothing_that_one_answer_holds_loses_the_others() -> None:
    def play(handler: Handler) -> None:
        number = int(handler.asked["messages"][0]["content"])
        HOSTILE[number // 2](handler) if number % 2 else echo(handler)

    with chat_server(play) as server:
        model = endpoint(server.url, concurrency=4, prices=(1e300, 1e300), timeout=5.0)
        answers = model.ask([request(str(i)) for i in range(2 * len(HOSTILE))])
        assert texts(answers[::2]) == [str(2 * i) for i in range(len(HOSTILE))]
        kinds = [type(answer) for answer in answers[1::2]]
        assert kinds == [ChatFailure, ChatFailure, ChatAnswer, *[ChatFailure] * 6]
        assert (model.usage.answered, model.usage.failed) == (len(HOSTILE) + 1, len(HOSTILE) - 1)


def test_a_cache_of_other_things_is_named(tmp_path: Path) -> None:
    with chat_server(echo) as server:
        model = endpoint(server.url, cache=tmp_path)
        model.ask([request("q")])
        base = model._cache._open()  # type: ignore[union-attr]
        malformed, damaged = ('{"text": 5}', "[]"), ("{", "[" * 9_999, b"\x00")
        for value in malformed + damaged:
            with base:
                base.execute("UPDATE answers SET value = ?", (value,))
            words = "holds a malformed answer" if value in malformed else "is damaged"
            refuses(ValueError, rf"answers\.sqlite3.*{words}.*remove it", model.ask, [request("q")])
        with base:
            base.execute("UPDATE answers SET value = ?", ('{"text": "a\\ud800", "finish": [], "prompt_tokens": 1e9}',))
        assert endpoint(server.url, cache=tmp_path).ask([request("q")]) == [ChatAnswer("a\ufffd", "", 0, 0, 0)]


KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize("before", [0, 190, 195, 280, 295, 5_000])
@pytest.mark.parametrize("status", [200, 400])
def test_an_echoed_key_is_hidden_before_anything_is_cut(before: int, status: int) -> None:
    body = b"x" * before + f" Bearer {KEY} {json.dumps(KEY)} api_key={KEY}&user=you {KEY}".encode()
    with chat_server(raw(body, status)) as server:
        reason = failure(endpoint(server.url, api_key=KEY).ask([request("q")])[0]).reason
        assert "sk-0" not in reason
        assert "cdef" not in reason


def test_credentials_within_the_url_are_used_and_not_shown_nor_read_from_an_old_cache(tmp_path: Path) -> None:
    with chat_server(echo, raw(b"hunter2 topsecret", 400)) as server:
        url = server.url.replace("://", "://me:hunter2@") + "?api_key=topsecret&version=7"
        model = ChatEndpoint("m", url, retries=0)
        assert texts(model.ask([request("a"), request("a")])) == ["a", "a"]
        assert server.paths == ["/v1/chat/completions?api_key=topsecret&version=7"]
        assert server.headers[0]["authorization"].startswith("Basic ")
        shown = server.url.replace("://", "://***@") + "?api_key=***&version=7"
        assert (model.base_url, repr(model)) == (shown, f"ChatEndpoint('m', {shown!r})")
        assert failure(model.ask([request("b")])[0]).reason == f"m at {shown}: status 400 (*** ***)"
        for text in (repr(vars(model)["usage"]), str(model), repr(pickle.dumps(model))):
            assert not [secret for secret in ("hunter2", "topsecret") if secret in text]
    words = refuses(ValueError, "base_url must be like", ChatEndpoint, "m", "ftp://me:hunter2@h/?api_key=topsecret")
    assert not [secret for secret in ("hunter2", "topsecret") if secret in words]
    written = base64.b64encode(b"me:hunter2").decode()
    with chat_server(say("fine", f"Basic {written}"), say(f"{{{written}}}")) as server:
        model = ChatEndpoint("m", server.url.replace("://", "://me:hunter2@"), retries=0)
        answers = model.ask([request("a")]) + model.ask([request("b")])
    assert [(each.finish, each.text) for each in answers] == [("Basic ***", "fine"), ("stop", "{***}")]  # type: ignore[union-attr]
    with chat_server(say("fine", f"stop {KEY}")) as server:
        endpoint(server.url, cache=tmp_path).ask([request("q")])  # knows no key: what it is told stays
        (found,) = endpoint(server.url, api_key=KEY, cache=tmp_path).ask([request("q")])
    assert found.finish == "stop ***"  # type: ignore[union-attr]


def test_a_cache_that_cannot_be_written_costs_no_answer_and_tells_no_key(tmp_path: Path, monkeypatch) -> None:
    def full(self: object, values: object) -> None:
        raise OSError(f"no space left for {KEY}")

    with chat_server(echo) as server:
        model = endpoint(server.url, api_key=KEY, cache=tmp_path)
        monkeypatch.setattr("agentgym.outside.chat.answer_cache.AnswerCache.store", full)
        with pytest.warns(UserWarning, match=r"1 answers were not cached \(no space left for \*\*\*\)"):
            assert texts(model.ask([request("a")])) == ["a"]


def test_a_pickle_has_no_key_and_says_so_or_reads_the_variable_where_it_comes_to(monkeypatch) -> None:
    with chat_server(echo) as server:
        pickled = pickle.dumps(endpoint(server.url, api_key=KEY))
        assert KEY.encode() not in pickled
        found = pickle.loads(pickled)
        assert found.base_url == server.url
        refuses(ValueError, r"was unpickled without.*sign_in\(api_key=...\).*key_variable", found.ask, [request("q")])
        again = pickle.loads(pickle.dumps(found))  # it does not forget that it lacks one
        refuses(ValueError, "sign_in", again.ask, [request("q")])
        again.sign_in(KEY)
        assert texts(again.ask([request("q")])) == ["q"]
        assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
        url = server.url.replace("://", "://me:hunter2@")
        found = pickle.loads(pickle.dumps(ChatEndpoint("m", url, retries=0)))
        refuses(ValueError, r"sign_in\(base_url=...\)", found.ask, [request("q")])
        found.sign_in(base_url=url)
        assert texts(found.ask([request("r")])) == ["r"]
    monkeypatch.setenv("MY_KEY", KEY)
    with chat_server(echo) as server:
        pickled = pickle.dumps(endpoint(server.url, key_variable="MY_KEY"))
        assert KEY.encode() not in pickled
        assert texts(pickle.loads(pickled).ask([request("q")])) == ["q"]
        assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
        monkeypatch.delenv("MY_KEY")
        refuses(ValueError, "was unpickled without", lambda: pickle.loads(pickled).ask([request("q")]))
        refuses(ValueError, "the variable MY_KEY is not set", endpoint, server.url, key_variable="MY_KEY")


def _echoes(secret: str) -> list[tuple[str, Play]]:
    """Answers that hold a secret in one place each."""
    whole = json.loads(completion("fine"))
    choice = whole["choices"][0]
    message = choice["message"]
    calls = [{"id": secret, "type": secret, "function": {"name": secret, "arguments": json.dumps({secret: secret})}}]
    logprobs = {"content": [{"token": secret, "bytes": [1], "top_logprobs": [{"token": secret}]}]}
    error = {"error": {"message": secret, "type": secret, "code": secret, "param": [secret[:6], secret[6:]]}}

    def answer(**changed: Any) -> Play:
        return raw(json.dumps({**whole, **changed}).encode())

    def choose(**changed: Any) -> Play:
        return answer(choices=[{**choice, **changed}])

    def everywhere(handler: Handler) -> None:
        handler.send_response(200, secret)
        content = json.dumps(whole).encode()
        for name in ("Retry-After", "Location", "Server", "Set-Cookie", "X-Request-Id", secret.split("=")[0]):
            handler.send_header(name, secret)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def refused(status: int) -> Play:
        return raw(json.dumps(error).encode(), status, Retry_After=secret, Location=secret, X_Error=secret)

    return [
        ("finish_reason", choose(finish_reason=secret)),
        ("content", choose(message={**message, "content": f"key {secret}."})),
        ("content cut into pieces", choose(message={**message, "content": json.dumps([secret[:12], secret[12:]])})),
        ("refusal", choose(message={**message, "refusal": secret, "tool_calls": calls})),
        ("no content", choose(message={"role": secret, "tool_calls": calls})),
        ("logprobs", choose(logprobs=logprobs)),
        ("model", answer(model=secret)),
        ("usage", answer(usage={secret: 5, "prompt_tokens": secret})),
        ("names", raw(json.dumps({secret: {secret: secret}}).encode())),
        ("no JSON", raw(f"<html>{secret}".encode())),
        ("headers", everywhere),
        *((f"status {status}", refused(status)) for status in (302, 400, 401, 429, 503)),
    ]


SECRETS = {
    "the key": KEY, "its header": f"Bearer {KEY}",
    "escaped as in JSON": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "escaped as in a URL": "".join(f"%{ord(letter):02X}" for letter in KEY),
    "in base64": base64.b64encode(f"Authorization: Bearer {KEY}".encode()).decode(),
}  # fmt: skip
PIECES = ("0123456789", "cdef", "u0064", "%64", SECRETS["in base64"][26:40])


@pytest.mark.parametrize("written", list(SECRETS))
def test_an_endpoint_that_echoes_the_key_anywhere_does_not_get_it_shown(written: str, tmp_path: Path) -> None:
    for name, play in _echoes(SECRETS[written]):
        with chat_server(play) as server:
            model = endpoint(server.url, api_key=KEY, cache=tmp_path / name, retries=0)
            answers = model.ask([request("q")])
            again = endpoint(server.url, api_key=KEY, cache=tmp_path / name, retries=0).ask([request("q")])
        shown = f"{answers!r} {again!r} {model!r} {model.usage!r} {pickle.dumps((answers, model))!r}"
        kept = b"".join(path.read_bytes() for path in (tmp_path / name).iterdir())
        kept = re.sub(rb"[0-9a-f]{64}", b"", kept)  # digests that name answers hold any four signs now and then
        for piece in PIECES:
            assert piece not in shown, name
            assert piece.encode() not in kept, name
