"""Credentials do not survive, whatever writes them down; ordinary text does."""

import base64
import json
import pickle
from urllib.parse import quote, urlencode

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.outside.redaction import HIDDEN, hide, hide_all, redact, refuse_credential
from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.sotopia.models import ModelJudge, ModelPlayer
from tests.cases import cases
from tests.refusals import refuses

KEY = "sk-Zq9/+='\"<&ü7"


@cases(
    "text",
    f"got {KEY}!",
    json.dumps({"message": f"Incorrect API key provided: {KEY}."}),
    f"http://host/v1?{urlencode({'x': KEY})}",
    f"http://host/{quote(KEY, safe='')}/v1",
    "<p>Incorrect key sk-Zq9/+=&#x27;&quot;&lt;&amp;ü7</p>",
    f"{KEY}{KEY}",
)
def test_a_known_key_is_taken_out_however_it_is_written(text: str) -> None:
    assert "Zq9" not in redact(text, [KEY])
    assert "Zq9" not in hide(text, [KEY])


@cases(
    "text",
    "http://user:hunter22@host:80/v1",
    "socks5://:hunter22@host",
    "http://host/v1?api_key=hunter22&k=3",
    "http://host/?X-Amz-Signature=hunter22",
    '{"api_key": "hunter22"}',
    "authorization: Bearer hunter22",
    "Proxy-Authorization: Basic aHVudGVyMjI=hunter22",
    "'Authorization': 'Bearer hunter22'",
)
def test_credentials_are_found_by_their_form(text: str) -> None:
    assert "hunter22" not in redact(text)
    assert "er22" not in redact(text)
    assert HIDDEN in redact(text)


@cases(
    "text",
    "",
    "HTTP 500 from http://host:8000/v1/chat/completions: out of memory",
    "write to me@example.org about the keyboard: it is a basic rule",
    "the key to the garden is under the mat; tokens: 3",
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert (redact(text, ["sk-123456"]), redact(text, [""])) == (text, text)


def test_keys_that_hold_another_in_base64_in_json_and_cut_short() -> None:
    assert redact("abcdef abc", ["abc", "abcdef"]) == f"{HIDDEN} {HIDDEN}"
    for n in range(4):
        whole = base64.b64encode(b"x" * n + PLAIN.encode() + b"tail!").decode()
        assert len("".join(hide(whole, [PLAIN]).split(HIDDEN))) < len(whole) - len(PLAIN)
    value = {PLAIN: [{"id": f"by {PLAIN}"}, 5, None, True, 1.5], "logprobs": [{"token": PLAIN}]}
    assert hide_all(value, [PLAIN]) == {"***": [{"id": "by ***"}, 5, None, True, 1.5], "logprobs": [{"token": "***"}]}
    text = 'a %41 \\u0042 "x", "y" &amp; \\\\" %zz &#12 sk%2DZq9'
    assert hide(text, [PLAIN]) == text
    assert hide(f"it is {PLAIN[:-1]}", [PLAIN]) == hide(f"it is {PLAIN[:8]}", [PLAIN]) == "it is ***"
    assert hide(f"it is {PLAIN[:7]}", [PLAIN]) == f"it is {PLAIN[:7]}"
    assert hide(f"{PLAIN[:8]}, it is", [PLAIN]) == f"{PLAIN[:8]}, it is"


@given(st.text(st.characters()), st.lists(st.text(st.characters(), min_size=3)))
def test_nothing_raises_and_no_secret_stays(text: str, secrets: list[str]) -> None:
    found = redact(text.join(secrets), secrets)
    for secret in secrets:
        assert secret in HIDDEN * 3 or secret not in found.replace(HIDDEN, "")


@pytest.mark.parametrize("url", ["http://me:hush@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key=hush"])
@cases(
    "env_id, option, form, made",
    ("AgentRL/SOTOPIA-v0", "partner", "m@{}", ModelPlayer.at),
    ("AgentRL/SOTOPIA-v0", "judge", "m@{}", ModelJudge.at),
    ("AgentRL/SearchQA-v0", "retriever", "{}", HttpRetriever),
)
def test_an_argument_with_a_credential_is_refused_where_it_would_stay_in_a_spec(
    env_id, option, form, made, url
) -> None:
    pytest.importorskip("aiohttp")
    more = {"questions": [Question("1", "Who?", ("Ada",), "nq", "test")]} if option == "retriever" else {}
    for make in (gym.make, gym.make_vec):
        words = rf"{option}=.*holds a credential.*{made.__qualname__}"
        assert "hush" not in refuses(ValueError, words, make, env_id, **{option: form.format(url)}, **more)
    env = gym.make(env_id, **{option: made(form.format(url))}, **more)
    assert env.spec is not None
    assert b"hush" not in pickle.dumps(env.spec)
    assert "hush" not in repr(env.spec)
    refuse_credential(option, "m@http://host:80/v1", "it")


def every(form, text):
    """Write each character in a form."""
    return "".join(form(ord(letter)) for letter in text)


PLAIN = "sk-Zq9abcdefgh_7"


@cases(
    "text",
    every("\\u{:04x}".format, PLAIN),
    every("\\x{:02x}".format, PLAIN),
    every("%{:02X}".format, PLAIN),
    every("%25{:02x}".format, PLAIN),
    every("&#{};".format, PLAIN),
    "%73k-Z\\u00719abc&#100;efgh_7",
    json.dumps(["sk-", "Zq9abc", "defgh_7"]),
    repr(["sk-Zq9", "abcdefgh_7"]),
    json.dumps(json.dumps(list(PLAIN))),
    PLAIN.encode().hex(),
    base64.b64encode(PLAIN.encode()).decode(),
    *(base64.b64encode(b"x" * n + PLAIN.encode() + b"tail").decode() for n in range(4)),
    base64.urlsafe_b64encode(b"Authorization: Bearer " + PLAIN.encode()).decode(),
)
def test_a_known_key_is_taken_out_however_it_is_escaped_or_encoded(text: str) -> None:
    found = hide(f"before {text} after, \\u0041 %41", [PLAIN])
    assert found.startswith("before ")
    assert found.endswith(" after, \\u0041 %41")
    assert HIDDEN in found
    kept = found.removeprefix("before ").removesuffix(" after, \\u0041 %41").replace(HIDDEN, "")
    assert len(kept) <= 32  # of base64, the text beside the key; else quotation marks
    for piece in ("Zq9", "cdef", "5a7139", "5A7139", "u005a", "u005A", "x5a", "%5A", "%5a", "#90;"):
        assert piece not in kept
