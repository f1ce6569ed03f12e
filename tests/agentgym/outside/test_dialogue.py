"""Acts as JSON commands and as lines."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.outside.dialogue import KINDS, LONGEST, NONE, Act, act_line, parse, write
from agentgym.sotopia.models import read_act
from tests.cases import cases
from tests.refusals import refuses

#: Control characters do not pass, see `agentgym.outside.text`.
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t\n\r\x85"), max_size=60)
VALUES = st.recursive(st.none() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))


@settings(derandomize=True, max_examples=200)
@given(kind=st.sampled_from(KINDS[1:4]), text=TEXTS)
def test_what_is_written_is_read_back_whatever_is_said(kind: str, text: str) -> None:
    act = Act(kind, text)
    assert (parse(write(act)), parse(f"```json\n{write(act)}\n```")) == ((act, True), (act, True))


@settings(derandomize=True, max_examples=200)
@given(TEXTS | VALUES.map(json.dumps))
def test_no_command_raises(command: str) -> None:
    act, valid = parse(command)
    assert act.kind in KINDS
    assert valid or act == NONE


@cases(
    "command",
    "", "Hello", "null", "[]", "3", "{", '"speak"', "{}", '{"action_type": "speak"}',
    '{"action_type": "speak", "argument": null}', '{"action_type": "speak", "argument": 5}',
    '{"action_type": "shout", "argument": "x"}', '{"action_type": ["speak"], "argument": "x"}',
    '{"action_type": null, "argument": "x"}', '{"action_type": "Speak", "argument": "x"}',
    '{"action_type": "speak", "argument": "x"} and more', "```json\nHello\n```", "```", "``````",
    '{"a":' * 100_000, "[" * 100_000, '{"action_type": "speak", "argument": ' + "9" * 5000 + "}",
    "I say {\"action_type\": \"leave\"}", "[" * 200_000, '{"action_type": ' + "[" * 200_000,
    '{"action_type": "speak", "argument": "\\u0041", "x": ' + "[" * 900 + "]" * 900 + "}",
    '{"action_type": "speak", "argument": "a", "score": 1' + "0" * 400 + "}",
    '{"action_type": "speak", "argument": "a", "score": NaN}', '{"action_type": "speak", "argument": 1e400}',
    '{"action_type": {}, "argument": "a"}', '{"action_type": "speak"' * 50_000,
    ids=lambda command: command[:40],
)  # fmt: skip
def test_anything_else_is_doing_nothing_and_for_a_model_no_answer(command: str) -> None:
    assert parse(command) == parse(f"```json\n{command}\n```") == (NONE, False)
    refuses(ValueError, "no JSON object", read_act, command, ("speak",))


@cases(
    "command, act",
    ('{"action_type": "none", "argument": ""}', Act("none")),
    ('{"action_type": "leave", "argument": "Bye!"}', Act("leave")),
    ('{"action_type": "leave", "argument": null}', Act("leave")),
    (' \n{"argument": "a\\nb", "action_type": "speak", "to": ["Ben"]}\n', Act("speak", "a\nb")),
    ('```json\n{"action_type": "action", "argument": "```"}\n```', Act("action", "```")),
    ('```json {"action_type": "speak", "argument": "```"}```', Act("speak", "```")),
    ('```JSON \n{\n"action_type": "speak",\n"argument": "</answer> & <b>"}```', Act("speak", "</answer> & <b>")),
)
def test_commands(command: str, act: Act) -> None:
    assert parse(command) == (act, True)


def test_lines_are_those_of_sotopia_and_texts_are_cleaned() -> None:
    assert [act_line("Ada", Act(kind, "x")) for kind in KINDS] == [
        "Ada did nothing", 'Ada said: "x"', "Ada [non-verbal communication] x", "Ada [action] x",
        "Ada left the conversation",
    ]  # fmt: skip
    assert act_line("Ada", Act("speak", '"<p viewer="agent_1">&amp;')) == 'Ada said: ""<p viewer="agent_1">&amp;"'
    assert act_line("Ada", Act("speak", "a\nb")) == 'Ada said: "a\\nb"'
    assert act_line("Ada", Act("action", "a\u2028b")) == "Ada [action] a\\nb"
    assert act_line("Ada", Act("speak", "a\tb \\n")) == 'Ada said: "a\tb \\n"'
    command = '{"action_type": "speak", "argument": "a\\ud800\\u0000\\u001b[31mb"}'
    assert parse(command) == (Act("speak", "a\ufffd\ufffd\ufffd[31mb"), True)
    act, valid = parse(write(Act("speak", "x" * (LONGEST + 1))))
    assert (len(act.text), valid) == (LONGEST, True)
    assert type(parse(np.str_(write(Act("speak", "Hi."))))[0].text) is str
