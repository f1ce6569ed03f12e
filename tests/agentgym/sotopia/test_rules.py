"""The course of a dialogue: turns, orders, ends."""

import pickle

import numpy as np
import pytest

from agentgym.outside.dialogue import KINDS, LEAVE, NONE, Act, Turn
from agentgym.sotopia.rules import SocialWorld, draw_schedule
from tests.agentgym.sotopia.support import first, make_task, say, second
from tests.refusals import refuses

HI = say("Hi")


def play(world: SocialWorld, *acts: tuple[Act, Act]) -> str:
    for each in acts:
        world.play(each)
    return world.ended


def test_round_robin_begins_with_role_0_and_takes_no_act_out_of_turn() -> None:
    world = SocialWorld(make_task())
    assert (world.speakers, world.kinds(0), world.kinds(1)) == ((0,), KINDS, ("none",))
    assert world.play((say("a"), LEAVE)) == Turn(0, (say("a"), NONE))
    assert (world.speakers, world.kinds(0), world.kinds(1)) == ((1,), ("none",), KINDS)
    assert world.play((LEAVE, say("b"))) == Turn(1, (NONE, say("b")))
    assert world.ended == ""
    assert world.lines(0) == 'Turn #0: Ada Lund said: "a"\nTurn #1: Ben Noor said: "b"\n'


def test_simultaneous_takes_both_acts_and_tells_both() -> None:
    world = SocialWorld(make_task(), "simultaneous")
    assert world.speakers == (0, 1)
    world.play((say("a;b"), Act("action", "waves")))
    world.play((NONE, Act("non-verbal communication", "nods")))
    world.play((NONE, NONE))
    assert world.lines(0) == (
        'Turn #0: Ada Lund said: "a;b";Ben Noor [action] waves\n'
        "Turn #1: Ben Noor [non-verbal communication] nods\n"
        "Turn #2: \n"
    )


def test_random_order_follows_its_schedule_and_orders_are_known() -> None:
    schedule = draw_schedule("random", 20, np.random.default_rng(3))
    assert schedule == draw_schedule("random", 20, np.random.default_rng(3))
    assert set(schedule) == {0, 1}
    world = SocialWorld(make_task(), "random", 20, schedule)
    for role in schedule:
        assert world.speakers == (role,)
        assert world.play((HI, HI)).acts == (first(HI) if role == 0 else second(HI))
    assert (world.ended, world.terminated, world.truncated) == ("turns", False, True)
    refuses(ValueError, "draw_schedule", SocialWorld, make_task(), "random")
    refuses(ValueError, "did you mean 'round-robin'", SocialWorld, make_task(), "roundrobin")


def test_the_limit_cuts_the_dialogue_and_leaving_ends_it() -> None:
    world = SocialWorld(make_task(), max_turns=20)
    assert play(world, *[first(HI), second(HI)] * 9, first(HI)) == ""
    assert play(world, second(HI)) == "turns"
    assert (world.turn, world.speakers, world.kinds(0)) == (20, (), ("none",))
    refuses(RuntimeError, "has ended", world.play, (HI, HI))
    world = SocialWorld(make_task(), max_turns=2)
    assert play(world, first(HI), second(LEAVE)) == "left"
    assert (world.terminated, world.truncated) == (True, False)
    assert world.lines(1) == "Turn #1: Ben Noor left the conversation\n"


@pytest.mark.parametrize(
    ("order", "turns", "at"),
    [
        # The act of the one who waits never counts: "none" once or twice is no end.
        ("round-robin", [(HI, NONE), (NONE, NONE), (HI, NONE), (NONE, NONE), (HI, NONE)], None),
        ("round-robin", [(HI, NONE), (NONE, NONE), (NONE, NONE), (NONE, HI), (NONE, NONE)], None),
        ("round-robin", [(NONE, NONE), (NONE, NONE), (NONE, NONE)], 2),
        ("round-robin", [(HI, NONE), (NONE, HI), (NONE, NONE), (NONE, NONE), (NONE, NONE)], 4),
        # Both at once: acts are counted in the order of the roles.
        ("simultaneous", [(NONE, NONE), (NONE, HI), (NONE, NONE)], None),
        ("simultaneous", [(NONE, NONE), (NONE, NONE)], 1),
        ("simultaneous", [(HI, NONE), (NONE, NONE)], 1),
        ("simultaneous", [(NONE, NONE), (HI, NONE), (HI, NONE)], None),
    ],
)
def test_three_acts_in_turn_that_are_none_end_it(order: str, turns: list, at: int | None) -> None:
    world = SocialWorld(make_task(), order)
    for number, turn in enumerate(turns):
        world.play(turn)
        assert world.ended == ("stale" if number == at else "")
    assert world.terminated == (at is not None)


def test_a_view_holds_what_one_side_may_know() -> None:
    world = SocialWorld(make_task())
    play(world, first(say("<p viewer='agent_1'>psst</p> 3 < 5")))
    view = world.view(1)
    assert (view.name, view.partner_name, view.turn, view.kinds, view.seed) == ("Ben Noor", "Ada Lund", 1, KINDS, 7)
    assert view.text == world.opening(1) + "Turn #0: Ada Lund said: \"<p viewer='agent_1'>psst</p> 3 < 5\"\n"
    assert "Ada cannot swim." not in str(view)
    assert "window" not in str(view)
    assert "window" in world.dialogue.text


def test_a_state_is_small_exact_and_not_changed_later() -> None:
    world = SocialWorld(make_task())
    play(world, first(HI), second(NONE))
    saved = pickle.loads(pickle.dumps(world.get_state()))
    assert play(world, first(NONE), second(NONE)) == "stale"
    world.set_state(saved)
    assert (world.turn, world.ended) == (2, "")
    assert play(world, first(NONE)) == ""
    assert play(world, second(NONE)) == "stale"
