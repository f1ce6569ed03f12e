import email.utils
import pickle
import socket
import time
from concurrent.futures import Future

import pytest

from agentgym.outside.http import HttpAnswer, HttpClient, HttpFailure, OwnHosts, _retry_after
from tests.agentgym.outside.chat.chat_server import chat_server, hang_up, raw, slow
from tests.cases import cases

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


def test_who_names_nobody_and_who_permits_all() -> None:
    assert OWN.refusal([], []) == ""
    assert OWN.refusal([], [""]) != ""
    assert OWN.refusal([], ["http://evil.example"]) != ""
    assert OwnHosts(["*"]).refusal(["evil.example"], ["http://worse.example"]) == ""
