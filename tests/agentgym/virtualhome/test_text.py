from agentgym.virtualhome.activity import Episode
from agentgym.virtualhome.goals import Goal
from tests.agentgym.virtualhome.small_houses import activity


def told(*commands: str) -> str:
    """What is shown after some commands, each of which succeeds."""
    episode = Episode(activity(Goal(states=((20, "DIRTY"),))))
    for command in commands:
        assert episode.act(command), command
    return episode.observe()


def test_what_is_shown_by_hand() -> None:
    assert told() == (
        "Your task is to: Small: do it\n\nYou are in kitchen 1.\nNear you: nothing.\nYou hold nothing."
    )  # fmt: skip
    # the table is a surface: what is on it is near as well
    assert told("walk to kitchen table 1") == (
        "You are in kitchen 1.\n"
        "Near you: kitchen table 1; mug 1 on kitchen table 1; mug 2 (dirty) on kitchen table 1.\n"
        "You hold nothing."
    )
    assert "Near you: fridge 1 (closed)." in told("walk to fridge 1")
    assert "Near you: fridge 1 (open) with milk 1 in it." in told("walk to fridge 1", "open fridge 1")
    assert "fridge 1 (closed); milk 1 in fridge 1." in told("walk to milk 1")
    shown = told("walk to jacket 1", "grab jacket 1", "find lamp 1", "grab lamp 1")
    assert shown.endswith("You hold jacket 1, lamp 1 (off, unplugged).")
    assert told("walk to jacket 1", "grab jacket 1", "put on jacket 1").endswith("You hold nothing. You wear jacket 1.")
    assert told("walk to bed 1", "lie on bed 1").startswith("You are in bedroom 1, lying on bed 1.\n")


def test_why_a_command_failed() -> None:
    episode = Episode(activity(Goal(states=((20, "DIRTY"),))))
    for command, words in (
        ("grab mug 1", "mug 1 cannot be found"),
        ("fly", "that is no command for a thing of this house"),
        ("open fridge 1", "fridge 1 cannot be found"),
    ):
        assert not episode.act(command)
        assert episode.observe().startswith(f"Nothing happens: {words}.\nYou are in kitchen 1.")
    assert episode.act("walk to milk 1")
    assert not episode.act("grab milk 1")
    assert episode.observe().startswith("Nothing happens: milk 1 is inside other closed thing.\n")
    assert episode.act("walk to bed 1")
    assert not episode.act("grab milk 1")
    assert episode.observe().startswith("Nothing happens: you are not close to milk 1.\n")
