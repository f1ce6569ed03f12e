import numpy as np

from policies.search.reflexion import reflection_prompt, story_of, with_notes


def said(*words):
    return tuple({"role": role, "content": text} for role, text in zip(words[::2], words[1::2], strict=True))


def test_notes_stand_before_what_is_seen() -> None:
    messages = (
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    )
    shown = with_notes(messages, ["one", "two", " ", "three\nlines", "four"])
    assert shown[0] == messages[0]
    assert shown[2] == messages[2]
    assert shown[1]["content"].splitlines()[1:] == ["- two", "- three lines", "- four", "", "a"]
    assert with_notes(messages, [""]) == messages
    assert messages[1]["content"] == "a"
    content = [{"type": "image", "image": np.zeros((1, 1, 3), np.uint8)}, {"type": "text", "text": "a"}]
    shown = with_notes(({"role": "user", "content": content},), ["one"])[0]["content"]
    assert [part["type"] for part in shown] == ["text", "image", "text"]
    assert story_of(({"role": "user", "content": content},)) == "Observation: a"


def test_a_note_is_asked_for_with_the_attempt_its_end_and_the_notes_before_it():
    story = story_of(said("system", "rules", "user", "a", "assistant", "b"))
    assert story == "Observation: a\nReply: b"
    system, user = reflection_prompt(story, ["one", "two", "three", "four"])
    assert (system["role"], user["role"]) == ("system", "user")
    places = [user["content"].index(part) for part in (story, "- two", "- four", "FAILED")]
    assert places == sorted(places)
    assert "- one" not in user["content"]
    assert "- " not in reflection_prompt(story, [])[1]["content"]
