"""The HTTP client, which hosts a server answers for, and budgets, reasons and objects of answers."""

import copy
import email.utils
import json
import math
import pickle
import re
import socket
import threading
import time
from concurrent.futures import Future

import pytest

from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import Budget, BudgetSpentError, ChatFailure, ChatRequest, Usage, only_object
from agentgym.outside.http import HttpAnswer, HttpClient, HttpFailure, OwnHosts, _retry_after
from agentgym.outside.text import DataError
from tests.agentgym.outside.chat.chat_server import chat_server, hang_up, raw, say, slow
from tests.cases import cases
from tests.refusals import refuses

pytest.importorskip("aiohttp")


def client(url: str, **options: object) -> HttpClient:
    given = {"timeout": 20.0, "retries": 0, "backoff": 0.0, "concurrency": 4, "most_bytes": 1_000}
    return HttpClient(url, **(given | options))  # type: ignore[arg-type]


def test_requests_go_out_together_and_are_tried_again() -> None:
    with chat_server(raw(b"{}", 503), raw(b"yes")) as server:
        assert client(server.url, retries=1).get() == HttpAnswer(b"yes", 2)
        assert server.requests == [None, None]
    with chat_server(raw(b"no", 404)) as server:
        assert client(server.url, retries=1).get() == HttpFailure("status 404 (no)", 1)
    with chat_server(hang_up) as server:
        found: dict[int, HttpAnswer | HttpFailure] = {}
        client(server.url, retries=2).post({0: b"1"}, found)
        assert len(server.requests) == 3
    assert found == {0: HttpFailure("no connection (Server disconnected)", 3)}
    assert client(f"http://{'a' * 80}.example").get().reason.startswith("UnicodeError")
    with chat_server(slow(0.02, raw(b"x"))) as server:
        client(server.url, concurrency=3).post(dict.fromkeys(range(12), b"1"), found)
        assert len(found) == 12
        assert server.most_busy <= 3


def test_a_get_is_given_up_when_waiting_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Future[HttpAnswer]):
        def result(self, timeout: float | None = None) -> HttpAnswer:
            raise KeyboardInterrupt

    one, task = client("http://127.0.0.1:9"), Interrupted()
    monkeypatch.setattr(one, "start", lambda body: task)
    with pytest.raises(KeyboardInterrupt):
        one.get()
    assert task.cancelled()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1.5", 1.5), ("120", 120.0), ("121", None), ("0", None), ("-3", None), ("nan", None), ("1e400", None), ("", None),
     ("soon", None), ("9" * 5_000, None), ("Fri, 31 Dec 99999 23:59:59 GMT", None)],
)  # fmt: skip
def test_what_a_server_asks_to_wait_is_followed_within_reason(value: str, seconds: float | None) -> None:
    assert _retry_after(value) == seconds
    assert 25.0 < (_retry_after(email.utils.formatdate(time.time() + 30)) or 0.0) <= 30.0


def test_reasons_are_redacted_and_a_pickle_leaves_credentials_out() -> None:
    key = "k" * 40
    found = client("http://h", headers={"X-Key": key}).shown("x" * 280 + f"\n{key}")
    assert found == "x" * 280 + r"\n***"
    assert len(client("http://h").shown("y" * 10_000)) == 300
    made = client("http://me:hunter2@h/p?k=1&token=abcdef", headers={"X-Key": "secret!"}, proxy="http://u:pw77@q")
    pickled = pickle.dumps(made)
    for secret in (b"hunter2", b"abcdef", b"secret!", b"pw77", b"me:"):
        assert secret not in pickled
    found = pickle.loads(pickled)
    assert (found.url, found._url, found._proxy) == ("http://***@h/p?k=1&token=***", "http://h/p?k=1", "http://q")


OWN = OwnHosts(["Node7", ""])


@cases(
    "host, answered",
    ("localhost", True), ("LOCALHOST:80", True), ("127.0.0.1", True), ("[::1]:8000", True), ("10.1.2.3:80", True),
    ("node7", True), ("NODE7:1", True), (" node7 ", True), (socket.gethostname(), True),
    ("", False), ("*", False), (":80", False), ("evil.example", False), ("localhost.evil.example", False),
    ("127.0.0.1.evil.example", False), ("node7.evil.example:80", False), ("[node8]", False), ("0x7f.1", False),
    ("node7@evil.example", False), ("\u00e9", False), ("x" * 9_000, False),
)  # fmt: skip
def test_a_request_is_for_a_host_that_is_known_or_for_an_address(host: str, answered: bool) -> None:
    words = OWN.refusal([host], [])
    assert (words == "") == answered
    assert OWN.refusal(["localhost", host], []) == OWN.refusal([host, "localhost"], []) == words
    assert len(words) < 300


@cases(
    "origin, answered",
    ("http://localhost:3000", True), ("https://Node7", True), ("http://127.0.0.1:8888", True),
    ("http://[::1]", True), ("http://10.1.2.3:8000", True), ("HTTP://10.1.2.3:8000", True),
    ("http://10.1.2.3", False), ("http://10.1.2.3:80", False), ("http://10.1.2.4:8000", False),
    ("http://evil.example", False), ("https://node7.evil.example", False), ("null", False), ("", False),
    ("localhost", False), ("http://", False), ("file://", False), ("://", False),
)  # fmt: skip
def test_a_page_is_of_a_known_host_of_this_machine_or_of_the_server_itself(origin: str, answered: bool) -> None:
    words = OWN.refusal(["10.1.2.3:8000"], [origin])
    assert (words == "") == answered
    assert (OWN.refusal(["10.1.2.3:8000"], ["http://localhost", origin]) == "") == answered
    assert repr(origin) in words or answered
    assert OWN.refusal([], []) == ""  # who names nobody, and who permits all
    assert OWN.refusal([], [""]) != ""
    assert OWN.refusal([], ["http://evil.example"]) != ""
    assert OwnHosts(["*"]).refusal(["evil.example"], ["http://worse.example"]) == ""


VLLM = "is too large: {0}. This model's maximum context length is 4096 tokens and your request has {1} input tokens"
HOSTED = "maximum context length is 4096 tokens. However, you requested more ({} in the messages, {} in the completion)"


def asked(*numbers):
    return [ChatRequest([{"role": "user", "content": "a"}], number) for number in numbers]


def test_room_is_what_the_tightest_limit_leaves_and_what_fits_is_asked_and_kept(tmp_path):
    spent = Usage(answered=7, prompt_tokens=80, completion_tokens=20, cost=0.5)
    for limits, room in (
        ({}, 5), ({"requests": 10}, 3), ({"requests": 7}, 0), ({"tokens": 101}, 5), ({"tokens": 100}, 0),
        ({"cost": 0.6}, 5), ({"requests": 10, "cost": 0.5}, 0),
    ):  # fmt: skip
        assert Budget(**limits).room(spent, 5) == room
    refuses(ValueError, "a budget's tokens must be at least 0", Budget, tokens=-1)
    with chat_server(say("up", tokens=(100, 4))) as server:

        def endpoint(budget):
            return ChatEndpoint("m", server.url, cache=tmp_path, retries=0, prices=(10.0, 100.0), budget=budget)

        first = endpoint(Budget(requests=3))
        with pytest.raises(BudgetSpentError, match=re.escape("the budget of 3 requests is spent: 3 answers")):
            first.ask(asked(0, 1, 2, 3, 4))
        assert len(server.requests) == 3
        second = endpoint(Budget(requests=4))
        assert len(second.ask(asked(0, 1, 2, 3))) == 4  # three of them are kept
        spent = second.spent()
        assert (spent.answered, spent.prompt_tokens, spent.completion_tokens) == (4, 400, 16)
        assert spent.cost == pytest.approx(4 * (100 * 10 + 4 * 100) / 1e6)
        assert (second.usage.answered, second.usage.remembered) == (1, 3)
        refuses(BudgetSpentError, "is spent", second.ask, asked(9))
        assert len(server.requests) == 4
        assert endpoint(None).spent().answered == 4


def test_what_is_under_way_counts_until_it_is_answered_or_cancelled():
    gate = threading.Event()
    lost, given = asked(3)[0], say("up")

    def play(handler):
        gate.wait(60)
        if handler.asked["seed"] == 3:
            handler.send(b"", 500)
        else:
            given(handler)

    with chat_server(play) as server:
        endpoint = ChatEndpoint("m", server.url, retries=0, budget=Budget(requests=2))
        first, second = (endpoint.begin(each) for each in asked(0, 1))
        refuses(BudgetSpentError, r"2 requests is spent: 0 answers.*, 2 under way", endpoint.begin, asked(2)[0])
        refuses(BudgetSpentError, "is spent", endpoint.ask, asked(2))
        for other in (pickle.loads(pickle.dumps(endpoint)), copy.deepcopy(endpoint)):
            other.begin(asked(2)[0]).came.cancel()  # what is under way is not theirs
        assert first.came.cancel()
        failing = endpoint.begin(lost)  # in the place of the cancelled one
        gate.set()
        assert isinstance(failing.answer(), ChatFailure)
        third = endpoint.begin(asked(2)[0])  # in the place of the failed one
        assert [each.answer().text for each in (second, third)] == ["up", "up"]
        refuses(BudgetSpentError, r"spent: 2 answers[^w]*$", endpoint.begin, asked(4)[0])
        assert {each["seed"] for each in server.requests} <= {0, 1, 2, 3}


@cases(
    "reason, too_long",
    ("status 400 (This model's maximum context length is 2048 tokens. However, you requested 3000)", True),
    ("status 400 (Requested tokens (2103) exceed context window of 2048)", True),
    ("status 413 (prompt is too long: 210000 tokens)", True), ("status 400 (unknown argument seed)", False),
    # vLLM, of an answer that alone fills the context, and of a prompt that leaves too little of it
    (f"status 400 ('max_tokens' or 'max_completion_tokens' {VLLM.format(5000, 16)})", False),
    (f"status 400 (max_tokens {VLLM.format(4096, 16)})", False),
    (f"status 400 ('max_tokens' or 'max_completion_tokens' {VLLM.format(512, 3900)})", True),
    (f"status 400 ({HOSTED.format(1000, 2000)})", True), (f"status 400 ({HOSTED.format(10, 4096)})", False),
)  # fmt: skip
def test_a_prompt_that_does_not_fit_is_told_from_other_failures(reason, too_long):
    assert ChatFailure(f"m at http://h/v1: {reason}", 1).too_long is too_long


@pytest.mark.parametrize(
    "form", ["%s", "```json\n%s\n```", "So:\n```\n%s\n```\nDone {1}.", "It is %s.", "<think>{}{</think>%s"]
)
def test_the_object_is_found_bare_in_a_fence_within_prose_and_behind_thoughts(form: str) -> None:
    given = {"1": 2, "a": {"b": [1.5, None]}}
    assert only_object(form % json.dumps(given)) == given
    read = {"parse_constant": lambda _: math.inf, "parse_int": len}  # the caller says how numbers are read
    assert only_object(form % '{"a": NaN, "b": 1234}', read) == {"a": math.inf, "b": 4}


@cases(
    "text, words",
    ("[1, 2]", "got 0"), ('{"a": 1} {"a": 1}', "got 2"), ('{"a": 1', "no JSON"), ('{"a": ' * 100_000, "no JSON"),
    ('{"a": 1, "a": 2}', "is repeated in one object"), ('{"a": NaN}', "NaN is not a JSON number"),
)  # fmt: skip
def test_anything_else_is_refused_with_the_reason(text: str, words: str) -> None:
    assert len(refuses(DataError, words, only_object, text)) < 400
