"""Hostile endpoints: whatever one answers, and however slowly, costs that answer and no other."""

import gzip
from pathlib import Path

import pytest

from agentgym.outside.chat.wire import ChatAnswer, ChatFailure
from tests.agentgym.outside.chat.chat_server import (
    Handler,
    Play,
    chat_server,
    completion,
    drip_body,
    drip_head,
    echo,
    garbage,
    hang_up,
    raw,
    slow,
)
from tests.agentgym.outside.chat.test_endpoint import endpoint, failure, request, texts
from tests.cases import cases

pytest.importorskip("aiohttp")


@cases(
    "play, words",
    (raw(b"<html>"), "not JSON"),
    (raw(b"\xff\xfe\x00"), "not UTF-8"),
    (raw(b"x" * 17_000_000), "more than 16,000,000 bytes"),
    (raw(b"[" * 600 + b'"\\u0041"' + b"]" * 600), "nested too deeply"),
    (raw(completion("x").replace(b"10", b"NaN")), "NaN is not a JSON number"),
    (raw(gzip.compress(b"[" * 50_000_000, 1, mtime=0), Content_Encoding="gzip"), "not UTF-8"),
    (raw(gzip.compress(b"[" * 50_000_000, 1, mtime=0), 400, Content_Encoding="gzip"), "status 400"),
    (raw(b"no", 400, Content_Type="text/plain; charset=zlib"), "status 400 (no)"),
    (garbage, "no connection"),
    (raw(b"{}"), "no choices[0].message.content"),
    (raw(b'{"choices": [{"message": {"content": 5}}]}'), "is not text"),
    (raw(b'{"error": "no such model"}', 404), "status 404 ({"),
    (raw(b"{}", 302, Location="http://127.0.0.1:1/"), "status 302"),
    (raw(b'{"error": "key s3cret is wrong"}', 401), "key *** is wrong"),
)
def test_what_another_try_would_not_change_is_a_failure_at_once(play: Play, words: str) -> None:
    with chat_server(play, echo) as server:
        found = failure(
            endpoint(server.url, retries=0 if play is garbage else 3, api_key="s3cret").ask([request("q")])[0]
        )
        assert words in found.reason
        assert found.reason.startswith(f"m at {server.url}: ")
        assert "s3cret" not in found.reason
        assert len(found.reason) < 400
        assert found.reason.isprintable()
        assert (found.attempts, len(server.requests)) == (1, 1)


@pytest.mark.parametrize("play", [slow(30.0, echo), drip_head, drip_body])
def test_a_try_has_a_limit_from_its_first_byte_to_its_last(play: Play) -> None:
    with chat_server(play, echo) as server:
        found = failure(endpoint(server.url, timeout=0.3).ask([request("q")])[0])
        assert found.reason == f"m at {server.url}: no answer within 0.3 s"
        assert texts(endpoint(server.url).ask([request("q")])) == ["q"]
    with chat_server(play, echo) as server:
        assert texts(endpoint(server.url, timeout=0.5, retries=1).ask([request("q")])) == ["q"]


HOSTILE = [
    raw(b"[" * 200_000),
    raw(completion("x").replace(b"10", b"1" + b"0" * 400)),
    raw(b'{"choices": [{"message": {"content": "x"}, "finish_reason": ' + b"[" * 400 + b"]" * 400 + b"}]}"),
    raw(b"no", 400, Content_Type="text/plain; charset=zlib"),
    garbage,
    raw(b"\xff" * 100),
    raw(b'{"choices": {"a": 1}}'),
    raw(b"{}", length=10**30),
    hang_up,
]


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


def test_counts_that_are_none_are_zero() -> None:
    for count in (b"-4", b"true", b'"7"', b"2.5", b"9" * 18, b"[1]", b"null"):
        with chat_server(raw(completion("x").replace(b"10", count))) as server:
            assert endpoint(server.url).ask([request("q")]) == [ChatAnswer("x", "stop", 0, 5, 1)]


def test_a_cache_of_other_things_is_named(tmp_path: Path) -> None:
    with chat_server(echo) as server:
        model = endpoint(server.url, cache=tmp_path)
        model.ask([request("q")])
        base = model._cache._open()  # type: ignore[union-attr]
        for value, words in (
            ('{"text": 5}', "a malformed answer"),
            ("[]", "a malformed answer"),
            ("{", "is damaged"),
            ("[" * 9_999, "is damaged"),
            (b"\x00", "is damaged"),
        ):
            with base:
                base.execute("UPDATE answers SET value = ?", (value,))
            with pytest.raises(ValueError, match=rf"answers\.sqlite3.*{words}.*remove it"):
                endpoint(server.url, cache=tmp_path).ask([request("q")])
        with base:
            base.execute("UPDATE answers SET value = ?", ('{"text": "a\\ud800", "finish": [], "prompt_tokens": 1e9}',))
        assert endpoint(server.url, cache=tmp_path).ask([request("q")]) == [ChatAnswer("a\ufffd", "", 0, 0, 0)]
