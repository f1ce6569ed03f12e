"""Walking, finding and sitting in a house written by hand, where every effect and every refusal can be worked out."""

import pytest

from agentgym.virtualhome.rules import Result, World
from agentgym.virtualhome.scene import Edge, Node, Scene
from tests.agentgym.virtualhome.micro_house import (
    BEDROOM,
    CHAIR,
    CHARACTER,
    CUP,
    DOOR,
    EDGES,
    FRIDGE,
    HAIR,
    KITCHEN,
    KNIFE,
    ME,
    MILK,
    NAMES,
    NODES,
    SOFA,
    TABLE,
    TV,
    both,
    effects,
    house,
    line,
    played,
)  # fmt: skip


def test_walking_to_a_surface_in_both_dialects() -> None:
    world = World(house())
    assert played(world, line("WALK", TABLE)) == Result(True)
    near = both(CHARACTER, TABLE) | both(CHARACTER, HAIR) | both(CHARACTER, CUP) | both(CHARACTER, KNIFE)
    assert effects(world) == (near, set(), {})
    world = World(house(), "head")
    played(world, line("WALK", TABLE))
    assert effects(world) == (both(CHARACTER, TABLE) | both(CHARACTER, HAIR), set(), {})
    played(world, line("RUN", CUP))  # comes close to what the cup is on
    assert effects(world) == (both(CHARACTER, CUP), set(), {})


def test_walking_to_a_container_in_both_dialects() -> None:
    world = World(house())
    played(world, line("WALK", MILK))
    assert effects(world)[0] == both(CHARACTER, MILK) | both(CHARACTER, FRIDGE) | both(CHARACTER, HAIR)
    played(world, line("WALK", FRIDGE))
    assert effects(world) == (set(), both(CHARACTER, MILK), {})
    world = World(house(), "head")
    played(world, line("WALK", FRIDGE))
    assert effects(world)[0] == both(CHARACTER, FRIDGE) | both(CHARACTER, MILK) | both(CHARACTER, HAIR)


def test_walking_to_another_room_leaves_what_is_near_and_faced() -> None:
    moved = {(CHARACTER, "INSIDE", BEDROOM)}
    left = {(CHARACTER, "INSIDE", KITCHEN), (CHARACTER, "FACING", TABLE)}
    for dialect, near in (("v1", both(CHARACTER, BEDROOM)), ("head", set())):
        world = World(house(), dialect)
        played(world, line("WALK", TABLE), line("TURNTO", TABLE), line("WALK", BEDROOM))
        gone = both(CHARACTER, TABLE) | (both(CHARACTER, CUP) | both(CHARACTER, KNIFE) if dialect == "v1" else set())
        gone |= both(CHARACTER, HAIR) if dialect == "head" else set()
        assert effects(world) == (moved | near, left | gone, {})


def test_doors() -> None:
    world = World(house())
    played(world, line("WALK", DOOR), line("CLOSE", DOOR))
    assert effects(world) == (set(), set(), {DOOR: ["CLOSED"]})
    said = f"Door(s) {NAMES[DOOR]} between {NAMES[KITCHEN]} and {NAMES[BEDROOM]} is (are) closed"
    assert world.step(line("WALK", TV)) == Result(False, (said,))
    not_near = f"{ME} is not close to {NAMES[TV]}"
    assert world.step(line("FIND", TV)) == Result(False, (said, not_near))
    assert played(world, line("WALK", TABLE), line("WALK", DOOR), line("OPEN", DOOR), line("WALK", TV)).ok
    island = Scene([*NODES, Node(50, "island", "Rooms"), Node(51, "palm", "")], [*EDGES, (51, "INSIDE", 50)])
    said = f"No path between between {NAMES[KITCHEN]} and <island> (50)"
    assert World(island).step("[WALK] <palm> (51)") == Result(False, (said,))
    assert World(island, "head").step("[WALK] <palm> (51)") == Result(True)


def test_the_door_farthest_from_the_end_may_be_walked_to() -> None:
    """Two closed doors in a row: the nearer one is named last, and is the only thing that can be reached."""
    nodes = [*NODES, Node(50, "door", "", (), ("CLOSED",)), Node(51, "attic", "Rooms"), Node(52, "doorjamb", "")]
    more = [(50, "BETWEEN", BEDROOM), (50, "BETWEEN", 51), (50, "INSIDE", BEDROOM), (52, "INSIDE", 51)]
    world = World(Scene(nodes, [*EDGES, *more]).changed(states={DOOR: ["CLOSED"]}))
    said = f"Door(s) <door> (50), {NAMES[DOOR]} between {NAMES[KITCHEN]} and <attic> (51) is (are) closed"
    assert world.step("[WALK] <doorjamb> (52)") == Result(False, (said,))
    assert world.step("[WALK] <door> (3)").ok


def test_walking_errors() -> None:
    nowhere = [edge for edge in EDGES if edge[0] != CHARACTER]
    lost = [edge for edge in EDGES if edge[0] != TV]
    no_door = [edge for edge in EDGES if edge[0] != DOOR]
    for edges, v1, head in (
        (nowhere, Result(False, (), "AttributeError"), Result(False, (), "AssertionError")),
        (lost, Result(False, (), "AttributeError"), Result(False)),
        (no_door, Result(False, (), "KeyError"), Result(True)),
    ):
        assert World(Scene(NODES, edges)).step(line("WALK", TV)) == v1
        assert World(Scene(NODES, edges), "head").step(line("WALK", TV)) == head
    assert World(house()).step("[WALK] <tv> (99)") == Result(False, (), "AttributeError")


def test_what_is_held_stays_in_the_old_room() -> None:
    for repairs, room in (((), KITCHEN), (("carry_room",), BEDROOM)):
        world = World(house(), repairs=repairs)
        played(world, line("WALK", TABLE), line("FIND", CUP), line("GRAB", CUP), line("WALK", TV))
        assert (CUP, "INSIDE", room) in world.edges()
        assert both(CHARACTER, CUP) <= set(world.edges())


def test_sitting_lying_and_standing_up() -> None:
    world = World(house())
    assert world.step("[STANDUP]") == Result(False, (f"{ME} is not sitting",))
    assert world.step("[SLEEP]") == Result(False, (f"{ME} is not lying or sitting",))
    played(world, line("WALK", SOFA))
    assert world.step(line("LIE", SOFA)) == Result(True)
    assert effects(world) == ({(CHARACTER, "ON", SOFA)}, set(), {CHARACTER: ["LYING"]})
    assert world.step(line("LIE", SOFA)) == Result(False, (f"{ME} is lying",))
    assert world.step(line("SIT", SOFA)) == Result(True)
    assert effects(world) == ({(CHARACTER, "FACING", TV)}, set(), {CHARACTER: ["SITTING"]})
    assert world.step(line("SIT", SOFA)) == Result(False, (f"{ME} is sitting",))
    assert world.step(line("WALK", TV)) == Result(False, (f"{ME} is sitting",))
    played(world, "[SLEEP]", "[WAKEUP]", "[STANDUP]")
    assert effects(world) == (set(), set(), {CHARACTER: []})
    assert (CHARACTER, "ON", SOFA) in world.edges()


def test_seats_fill_up() -> None:
    world = World(house())
    played(world, line("WALK", CHAIR), line("SIT", CHAIR), "[STANDUP]")
    assert world.step(line("SIT", CHAIR)) == Result(False, (f"Too many things on {NAMES[CHAIR]}",))
    assert world.step(line("LIE", CHAIR)) == Result(False, (f"{NAMES[CHAIR]} is not lieable",))
    world = World(house(), repairs=("leave_seat",))
    assert played(world, *[line("WALK", CHAIR), line("SIT", CHAIR), "[STANDUP]"] * 3).ok
    assert world.step(line("SIT", CHAIR)).ok
    # The shirt and the character on the sofa are two, the most that may be there before one lies down.
    world = World(house())
    played(world, line("WALK", SOFA), line("SIT", SOFA))
    assert world.step(line("LIE", SOFA)) == Result(False, (f"Too many things on {NAMES[SOFA]}",))


def test_postures_of_head_are_those_of_the_beginning() -> None:
    world = World(house(), "head")
    played(world, line("WALK", SOFA), line("SIT", SOFA), line("WALK", TV))
    assert world.step("[STANDUP]") == Result(False, (f"{ME} is not sitting",))
    world = World(house(), "head", ("posture",))
    played(world, line("WALK", SOFA), line("SIT", SOFA))
    assert world.step(line("WALK", TV)) == Result(False, (f"{ME} is sitting",))
    assert world.step("[STANDUP]").ok


def test_finding_what_is_far() -> None:
    assert World(house(), "head").step(line("FIND", TV)) == Result(False, (), "TypeError")
    for world in (World(house()), World(house(), "head", ("find",))):
        assert world.step(line("FIND", TV)).ok
        assert (CHARACTER, "INSIDE", BEDROOM) in world.edges()
    world = World(house(), "head")
    said = Result(False, (f"{ME} is not close to {NAMES[HAIR]}",))
    assert world.step(line("FIND", HAIR)) == said  # a part of the body is looked for where one is
    played(world, line("WALK", TABLE), line("TURNTO", TV), line("FIND", CUP))
    assert effects(world) == (both(CHARACTER, CUP), {(CHARACTER, "FACING", TV)}, {})


@pytest.mark.parametrize("ring", [[(MILK, "INSIDE", MILK)], [(MILK, "INSIDE", CUP), (CUP, "INSIDE", MILK)]])
def test_things_inside_each_other_end_no_program_in_a_loop(ring: list[Edge]) -> None:
    edges = [edge for edge in EDGES if edge[:2] not in ((MILK, "INSIDE"), (CUP, "INSIDE"))] + ring
    scene = Scene(NODES, edges)
    for action in ("WALK", "WATCH"):
        assert World(scene, "head").step(line(action, MILK)) == Result(False, (), "endless loop")
    assert World(scene, "head", ("cycles",)).step(line("WALK", MILK)) == Result(False)
    assert World(scene).step(line("WALK", MILK)) == Result(False, (), "AttributeError")
