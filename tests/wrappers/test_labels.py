import pytest

from wrappers.reply import ParsedReply, ReplyError, parse_reply, read_labels

SPOKEN = '{"action_type": "speak",\n "argument": "Hi: {you}"}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Thought: a wall.\nAction: up", ("a wall.", "up")),
        ("thought 2: a\nb\nACTION 2 : go to desk 1 \nObservation 2: made up\nAction: down", ("a\nb", "go to desk 1")),
        ("**Thought:** a\n**Action:** up", ("a", "up")),
        ("Action:\n\n up\n because", ("", "up")),
        ("Action: up\nThat opens the door.", ("", "up")),
        ("I think Action: up", ("", None)),
        ("Thought: nothing", ("nothing", None)),
        ("<think>Action: left</think>\nThought: b\nAction: right", ("b", "right")),
        (f"Action: {SPOKEN}\nDone.", ("", SPOKEN)),
        ("**Thought**: a\n**Action 1**: up", ("a", "up")),
        ("**Action: go left**", ("", "go left")),
        ("**Action:** **go left**\nDone.", ("", "go left")),
        ("Action: search **", ("", "search **")),  # no emphasis opened
        ("Action: `go left`", ("", "go left")),
        ("**Action: ``go left`` **", ("", "go left")),
        ("Action: `a` or `b`", ("", "`a` or `b`")),
        ("Action: `go", ("", "`go")),
        ("", ("", None)),
    ],
)  # fmt: skip
def test_the_first_action_counts_and_what_follows_it_does_not(text, found):
    assert read_labels(text) == found


def test_a_reply_in_labels_has_the_errors_of_any_reply():
    def read(text, **options):
        return parse_reply(text, form="labels", **options)

    assert read("Thought: a\nAction: <search>Ada</search>", command_tags=("search",)) == ParsedReply(
        "<search>Ada</search>", ReplyError.OK, "a"
    )
    assert read("<action>up</action>").error is ReplyError.NO_ACTION
    assert read("Action:").error is ReplyError.EMPTY_ACTION
    assert read("Action: up", require_think=True).error is ReplyError.NO_THINK
    assert read("Action: upwards", max_length=3).error is ReplyError.TOO_LONG
    with pytest.raises(ValueError, match="form must be 'tags' or 'labels', got 'lines'"):
        parse_reply("Action: up", form="lines")
