"""Keys and credentials are nowhere but in the requests."""

import base64
import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from agentgym.outside.chat.endpoint import ChatEndpoint
from tests.agentgym.outside.chat.chat_server import Handler, Play, chat_server, completion, echo, raw, say
from tests.agentgym.outside.chat.test_endpoint import endpoint, failure, request, texts
from tests.refusals import refuses

pytest.importorskip("aiohttp")

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize("before", [0, 190, 195, 280, 295, 5_000])
@pytest.mark.parametrize("status", [200, 400])
def test_an_echoed_key_is_hidden_before_anything_is_cut(before: int, status: int) -> None:
    body = b"x" * before + f" Bearer {KEY} {json.dumps(KEY)} api_key={KEY}&user=you {KEY}".encode()
    with chat_server(raw(body, status)) as server:
        reason = failure(endpoint(server.url, api_key=KEY).ask([request("q")])[0]).reason
        assert "sk-0" not in reason
        assert "cdef" not in reason


def test_credentials_within_the_url_are_used_and_not_shown() -> None:
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
            assert "hunter2" not in text
            assert "topsecret" not in text
    words = refuses(ValueError, "base_url must be like", ChatEndpoint, "m", "ftp://me:hunter2@h/?api_key=topsecret")
    assert not [secret for secret in ("hunter2", "topsecret") if secret in words]


def test_a_cache_that_cannot_be_written_costs_no_answer_and_its_warning_tells_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, values: object) -> None:
        raise OSError(f"no space left for {KEY}")

    with chat_server(echo) as server:
        model = endpoint(server.url, api_key=KEY, cache=tmp_path)
        monkeypatch.setattr("agentgym.outside.chat.answer_cache.AnswerCache.store", full)
        with pytest.warns(UserWarning, match=r"1 answers were not cached \(no space left for \*\*\*\)"):
            assert texts(model.ask([request("a")])) == ["a"]


def test_a_pickle_has_no_key_and_says_so_when_it_is_asked() -> None:
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


def test_a_key_from_a_variable_is_read_again_where_the_pickle_comes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with chat_server(echo) as server:
        pickled = pickle.dumps(endpoint(server.url, key_variable="MY_KEY"))
        assert KEY.encode() not in pickled
        assert texts(pickle.loads(pickled).ask([request("q")])) == ["q"]
        assert server.headers[-1]["authorization"] == f"Bearer {KEY}"
        monkeypatch.delenv("MY_KEY")
        refuses(ValueError, "was unpickled without", lambda: pickle.loads(pickled).ask([request("q")]))
        refuses(ValueError, "the variable MY_KEY is not set", endpoint, server.url, key_variable="MY_KEY")


def test_copies_keep_their_key_and_credentials_of_a_proxy_are_not_pickled() -> None:
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
    "the key": KEY,
    "its header": f"Bearer {KEY}",
    "escaped as in JSON": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "escaped as in a URL": "".join(f"%{ord(letter):02X}" for letter in KEY),
    "in base64": base64.b64encode(f"Authorization: Bearer {KEY}".encode()).decode(),
}
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


def test_user_and_password_are_hidden_and_an_old_cache_with_a_key_is_read_without_it(tmp_path: Path) -> None:
    written = base64.b64encode(b"me:hunter2").decode()
    with chat_server(say("fine", f"Basic {written}"), say(f"{{{written}}}")) as server:
        model = ChatEndpoint("m", server.url.replace("://", "://me:hunter2@"), retries=0)
        answers = model.ask([request("a")]) + model.ask([request("b")])
    assert [(each.finish, each.text) for each in answers] == [("Basic ***", "fine"), ("stop", "{***}")]  # type: ignore[union-attr]
    with chat_server(say("fine", f"stop {KEY}")) as server:
        endpoint(server.url, cache=tmp_path).ask([request("q")])  # knows no key: what it is told stays
        (found,) = endpoint(server.url, api_key=KEY, cache=tmp_path).ask([request("q")])
    assert found.finish == "stop ***"  # type: ignore[union-attr]
