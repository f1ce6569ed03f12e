"""Who may ask a server without passwords."""

import socket

import pytest

from agentgym.outside.http import OwnHosts

OWN = OwnHosts(["Node7", ""])


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("localhost", True), ("LOCALHOST:80", True), ("127.0.0.1", True), ("[::1]:8000", True), ("10.1.2.3:80", True),
        ("node7", True), ("NODE7:1", True), (" node7 ", True), (socket.gethostname(), True),
        ("", False), ("*", False), (":80", False), ("evil.example", False), ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False), ("node7.evil.example:80", False), ("[node8]", False), ("0x7f.1", False),
        ("node7@evil.example", False), ("\u00e9", False), ("x" * 9_000, False),
    ],
)  # fmt: skip
def test_a_request_is_for_a_host_that_is_known_or_for_an_address(host: str, answered: bool) -> None:
    words = OWN.refusal([host], [])
    assert (words == "") == answered
    assert OWN.refusal(["localhost", host], []) == OWN.refusal([host, "localhost"], []) == words
    assert len(words) < 300


@pytest.mark.parametrize(
    ("origin", "answered"),
    [
        ("http://localhost:3000", True), ("https://Node7", True), ("http://127.0.0.1:8888", True),
        ("http://[::1]", True), ("http://10.1.2.3:8000", True), ("HTTP://10.1.2.3:8000", True),
        ("http://10.1.2.3", False), ("http://10.1.2.3:80", False), ("http://10.1.2.4:8000", False),
        ("http://evil.example", False), ("https://node7.evil.example", False), ("null", False), ("", False),
        ("localhost", False), ("http://", False), ("file://", False), ("://", False),
    ],
)  # fmt: skip
def test_a_page_is_of_a_known_host_of_this_machine_or_of_the_server_itself(origin: str, answered: bool) -> None:
    words = OWN.refusal(["10.1.2.3:8000"], [origin])
    assert (words == "") == answered
    assert (OWN.refusal(["10.1.2.3:8000"], ["http://localhost", origin]) == "") == answered
    assert repr(origin) in words or answered


def test_a_request_that_names_nobody_is_a_program_s_and_a_page_must_say_where_it_comes_from() -> None:
    assert OWN.refusal([], []) == ""
    assert OWN.refusal([], [""]) != ""
    assert OWN.refusal([], ["http://evil.example"]) != ""


def test_all_hosts_and_all_pages_can_be_permitted() -> None:
    assert OwnHosts(["*"]).refusal(["evil.example"], ["http://worse.example"]) == ""
