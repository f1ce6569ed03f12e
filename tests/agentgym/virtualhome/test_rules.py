"""An episode as a whole: wrong names, and going on from a snapshot."""

import pickle

import pytest

from agentgym.virtualhome.rules import REPAIRS, World
from tests.agentgym.virtualhome.micro_house import (
    CUP,
    FRIDGE,
    SOFA,
    TABLE,
    TV,
    house,
    line,
    played,
)  # fmt: skip


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match="did you mean 'head'"):
        World(house(), "haed")
    with pytest.raises(ValueError, match="did you mean 'carry_room'"):
        World(house(), repairs=("carry_rom",))
    assert all(REPAIRS.values())


@pytest.mark.parametrize("repairs", [(), ("grab_place",)])
@pytest.mark.parametrize("dialect", ["v1", "head"])
def test_an_episode_goes_on_from_a_snapshot(dialect: str, repairs: tuple[str, ...]) -> None:
    lines = [line("WALK", TABLE), line("FIND", CUP), line("GRAB", CUP), line("WALK", FRIDGE), line("OPEN", FRIDGE)]
    rest = [line("PUTIN", CUP, FRIDGE), line("GRAB", CUP), line("PUTOBJBACK", CUP), line("WALK", SOFA)]
    one, other = World(house(), dialect, repairs), World(house(), dialect, repairs)
    played(one, *lines)
    played(other, line("WALK", TV))
    other.set_state(pickle.loads(pickle.dumps(one.get_state())))
    for each in rest:
        assert one.step(each) == other.step(each)
        assert one.changes() == other.changes()
    assert one.get_state() == other.get_state()
    assert one.canonical_hash() == other.canonical_hash()
