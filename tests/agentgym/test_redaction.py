"""Credentials do not survive, whatever writes them down; ordinary text does."""

import json
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.redaction import HIDDEN, hide, redact, refuse_credential

KEY = "sk-Zq9/+='\"<&ü7"


@pytest.mark.parametrize(
    "text",
    [
        f"got {KEY}!",
        json.dumps({"message": f"Incorrect API key provided: {KEY}."}),
        f"http://host/v1?{urlencode({'x': KEY})}",
        f"http://host/{quote(KEY, safe='')}/v1",
        "<p>Incorrect key sk-Zq9/+=&#x27;&quot;&lt;&amp;ü7</p>",
        f"{KEY}{KEY}",
    ],
)
def test_a_known_key_is_taken_out_however_it_is_written(text: str) -> None:
    assert "Zq9" not in redact(text, [KEY])
    assert "Zq9" not in hide(text, [KEY])


@pytest.mark.parametrize(
    "text",
    [
        "http://user:hunter22@host:80/v1",
        "https://user:hunt@er22@host/v1",
        "socks5://:hunter22@host",
        "http://host/v1?api_key=hunter22&k=3",
        "http://host/?a=1&access_token=hunter22#x",
        "http://host/?X-Amz-Signature=hunter22",
        "password=hunter22",
        '{"api_key": "hunter22"}',
        "{'password': 'hunter22'}",
        "X-Api-Key: hunter22",
        "Authorization: hunter22",
        "authorization: Bearer hunter22",
        "Proxy-Authorization: Basic aHVudGVyMjI=hunter22",
        "'Authorization': 'Bearer hunter22'",
    ],
)
def test_credentials_are_found_by_their_form(text: str) -> None:
    assert "hunter22" not in redact(text)
    assert "er22" not in redact(text)
    assert HIDDEN in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HTTP 500 from http://host:8000/v1/chat/completions: out of memory",
        "write to me@example.org about the keyboard: it is a basic rule",
        "the key to the garden is under the mat; tokens: 3",
        "a == b, 1 @ 2, x=3",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text, ["sk-123456"]) == text
    assert redact(text, [""]) == text


def test_a_key_that_holds_another_leaves_nothing() -> None:
    assert redact("abcdef abc", ["abc", "abcdef"]) == f"{HIDDEN} {HIDDEN}"


@given(st.text(st.characters()), st.lists(st.text(st.characters(), min_size=3)))
def test_nothing_raises_and_no_secret_stays(text: str, secrets: list[str]) -> None:
    found = redact(text.join(secrets), secrets)
    for secret in secrets:
        assert secret in HIDDEN * 3 or secret not in found.replace(HIDDEN, "")


def test_an_argument_with_a_credential_is_refused_without_showing_it() -> None:
    refuse_credential("judge", "m@http://host:80/v1", "it")
    with pytest.raises(ValueError, match=r"^judge='m@http://\*\*\*@host/v1' holds a credential.* instead, it, "):
        refuse_credential("judge", "m@http://me:pw@host/v1", "it")
