"""The actions in a house written by hand, where every effect and every refusal can be worked out."""

from __future__ import annotations

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
    SHIRT,
    SOFA,
    TABLE,
    TV,
    WATER,
    both,
    effects,
    house,
    line,
    played,
)


def test_walking_in_both_dialects() -> None:
    world = World(house())
    assert played(world, line("WALK", TABLE)) == Result(True)
    near = both(CHARACTER, TABLE) | both(CHARACTER, HAIR) | both(CHARACTER, CUP) | both(CHARACTER, KNIFE)
    assert effects(world) == (near, set(), {})
    world = World(house(), "head")
    played(world, line("WALK", TABLE))
    assert effects(world) == (both(CHARACTER, TABLE) | both(CHARACTER, HAIR), set(), {})
    played(world, line("RUN", CUP))  # comes close to what the cup is on
    assert effects(world) == (both(CHARACTER, CUP), set(), {})
    world = World(house())
    played(world, line("WALK", MILK))
    assert effects(world)[0] == both(CHARACTER, MILK) | both(CHARACTER, FRIDGE) | both(CHARACTER, HAIR)
    played(world, line("WALK", FRIDGE))
    assert effects(world) == (set(), both(CHARACTER, MILK), {})
    world = World(house(), "head")
    played(world, line("WALK", FRIDGE))
    assert effects(world)[0] == both(CHARACTER, FRIDGE) | both(CHARACTER, MILK) | both(CHARACTER, HAIR)
    moved = {(CHARACTER, "INSIDE", BEDROOM)}
    left = {(CHARACTER, "INSIDE", KITCHEN), (CHARACTER, "FACING", TABLE)}
    for dialect, near in (("v1", both(CHARACTER, BEDROOM)), ("head", set())):
        world = World(house(), dialect)
        played(world, line("WALK", TABLE), line("TURNTO", TABLE), line("WALK", BEDROOM))
        gone = both(CHARACTER, TABLE) | (both(CHARACTER, CUP) | both(CHARACTER, KNIFE) if dialect == "v1" else set())
        gone |= both(CHARACTER, HAIR) if dialect == "head" else set()
        assert effects(world) == (moved | near, left | gone, {})
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
    for repairs, room in (((), KITCHEN), (("carry_room",), BEDROOM)):
        world = World(house(), repairs=repairs)
        played(world, line("WALK", TABLE), line("FIND", CUP), line("GRAB", CUP), line("WALK", TV))
        assert (CUP, "INSIDE", room) in world.edges()
        assert both(CHARACTER, CUP) <= set(world.edges())


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
    nodes = [*NODES, Node(50, "door", "", (), ("CLOSED",)), Node(51, "attic", "Rooms"), Node(52, "doorjamb", "")]
    more = [(50, "BETWEEN", BEDROOM), (50, "BETWEEN", 51), (50, "INSIDE", BEDROOM), (52, "INSIDE", 51)]
    world = World(Scene(nodes, [*EDGES, *more]).changed(states={DOOR: ["CLOSED"]}))
    said = f"Door(s) <door> (50), {NAMES[DOOR]} between {NAMES[KITCHEN]} and <attic> (51) is (are) closed"
    assert world.step("[WALK] <doorjamb> (52)") == Result(False, (said,))
    assert world.step("[WALK] <door> (3)").ok


def test_postures_and_seats() -> None:
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


def test_grabbing_and_putting() -> None:
    world = World(house())
    assert world.step(line("GRAB", CUP)) == Result(False, (f"{NAMES[CUP]} cannot be found",))
    assert world.step("[GRAB] <mug> (99)") == Result(False, ("<mug> (99) cannot be found",))
    played(world, line("WALK", TABLE), line("FIND", CUP), line("GRAB", CUP))
    held = {(CHARACTER, "HOLDS_RH", CUP)}
    assert effects(world) == (held, {(CUP, "ON", TABLE)} | both(CUP, TABLE), {})
    assert world.step("[DROP] <mug> (6)") == Result(False, ("<mug> (6) cannot be found",))
    played(world, line("PUTOBJBACK", CUP))
    assert effects(world) == ({(CUP, "ON", TABLE)} | both(CUP, TABLE), held, {})
    assert world.step(line("PUTOBJBACK", CUP)) == Result(False, (f"{NAMES[CUP]} not grabbed",))
    assert world.step(line("PUTBACK", CUP, TABLE)) == Result(False, (f"{ME} is not holding {NAMES[CUP]}",))
    played(world, line("GRAB", CUP), line("DROP", CUP))
    assert effects(world) == (set(), held, {})
    assert world.step(line("RELEASE", CUP)) == Result(False, (f"{ME} is not holding {NAMES[CUP]}",))
    world = World(house(), "head")
    played(world, line("WALK", CUP), line("GRAB", CUP), line("WALK", FRIDGE))
    closed = Result(False, (f"{NAMES[FRIDGE]} is not open or is not openable",))
    assert world.step(line("PUTIN", CUP, FRIDGE)) == closed
    played(world, line("OPEN", FRIDGE), line("PUTIN", CUP, FRIDGE))
    added = {(CUP, "INSIDE", FRIDGE)} | both(CUP, FRIDGE)
    assert effects(world) == (added, {(CHARACTER, "HOLDS_RH", CUP)}, {})
    assert world.step(line("PUTIN", CUP, TV)) == Result(False, (f"{ME} is not holding {NAMES[CUP]}",))
    far = Result(False, (f"{ME} is not close to {NAMES[TV]}",))
    played(world, line("GRAB", CUP))
    assert world.step(line("PUTBACK", CUP, TV)) == far
    world = World(house(), "head")
    assert world.step(line("GRAB", TABLE)) == Result(False, (f"{NAMES[TABLE]} is not grabbable",))
    assert world.step(line("GRAB", CUP)) == Result(False, (f"{ME} is not close to {NAMES[CUP]}",))
    played(world, line("WALK", MILK))
    assert world.step(line("GRAB", MILK)) == Result(False, (f"{NAMES[MILK]} is inside other closed thing",))
    played(world, line("WALK", WATER), line("GRAB", WATER), line("WALK", CUP), line("GRAB", CUP))
    assert (CHARACTER, "HOLDS_LH", CUP) in world.edges()
    played(world, line("WALK", KNIFE))
    full = Result(False, (f"{ME} does not have a free hand",))
    assert world.step(line("GRAB", KNIFE)) == full
    assert world.step(line("PUSH", TABLE)) == full
    world = World(house())
    played(world, line("WALK", CUP), line("GRAB", CUP), line("GRAB", CUP))
    assert {(CHARACTER, "HOLDS_RH", CUP), (CHARACTER, "HOLDS_LH", CUP)} <= set(world.edges())
    world = World(house(), "head")
    played(world, line("WALK", CUP), line("GRAB", CUP))
    assert world.step(line("GRAB", CUP)) == Result(False, (f"{NAMES[CUP]} already grabbed",))
    said = (f"{ME} is not close to {NAMES[TABLE]}",)
    for dialect, repairs, ok in (("head", (), True), ("head", ("put_back",), False), ("v1", (), False)):
        world = World(house(), dialect, repairs)
        played(world, line("WALK", TABLE), line("FIND", CUP), line("GRAB", CUP), line("WALK", FRIDGE))
        assert world.step(line("PUTOBJBACK", CUP)) == Result(ok, said)
        assert effects(world) == (set(), set(), {})


def test_the_place_of_what_lies_nowhere() -> None:
    """Close to the ids 6, 10 and 33, which stand in the slots 6, 2 and 1 of a set's eight: 33 comes first; by id, 6."""
    nodes = [*NODES, Node(18, "mug", "", ("GRABBABLE",)), Node(33, "lamp", "")]
    things = [(18, "CLOSE", each) for each in (CUP, TV, 33)]
    scene = Scene(nodes, [*EDGES, *things, (18, "INSIDE", KITCHEN), (33, "INSIDE", KITCHEN), (CHARACTER, "CLOSE", 18)])
    for repairs, place in (((), 33), (("grab_place",), CUP)):
        world = World(scene, "head", repairs)
        assert world.step("[GRAB] <mug> (18)").ok
        node, relation = world.places[scene.index[18]]
        assert (scene.ids[node], relation) == (place, 3)
    assert next(iter({CUP, TV, 33})) == 33


def test_pouring_and_dressing() -> None:
    world = World(house(), "head")
    assert world.step(line("POUR", TABLE, CUP)) == Result(False, (f"{NAMES[TABLE]} is not pourable or drinkable",))
    assert world.step(line("POUR", WATER, TABLE)) == Result(False, (f"{NAMES[TABLE]} is not recipient",))
    assert world.step(line("POUR", WATER, CUP)) == Result(False, (f"{ME} is not holding {NAMES[WATER]}",))
    played(world, line("WALK", WATER), line("GRAB", WATER))
    assert world.step(line("POUR", WATER, CUP)) == Result(False, (f"{ME} is not close to {NAMES[CUP]}",))
    played(world, line("WALK", CUP), line("POUR", WATER, CUP))
    assert effects(world) == ({(WATER, "INSIDE", CUP)}, {(CHARACTER, "HOLDS_RH", WATER)}, {})
    assert world.step("[POUR] <mug> (98) <jug> (99)") == Result(False, ("<mug> (98) cannot be found",))
    assert world.step("[POUR] <water> (14) <jug> (99)") == Result(False, ("<jug> (99) cannot be found",))
    world = World(house())
    played(world, line("WALK", SOFA), line("FIND", SHIRT))
    assert world.step(line("PUTON", SHIRT)) == Result(False, (f"{ME} is not holding {NAMES[SHIRT]}",))
    assert world.step(line("PUTOFF", SHIRT)) == Result(False, (f"{NAMES[SHIRT]} is not on {ME}",))
    played(world, line("GRAB", SHIRT), line("PUTON", SHIRT))
    worn = (SHIRT, "ON", CHARACTER)
    assert effects(world) == ({worn}, {(CHARACTER, "HOLDS_RH", SHIRT)}, {})
    played(world, line("WALK", TV))
    assert world.step(line("FIND", SHIRT)) == Result(False, (f"{ME} is not close to {NAMES[SHIRT]}",))
    played(world, line("PUTOFF", SHIRT))
    assert effects(world) == (set(), {worn}, {})
    played(world, line("WALK", KNIFE), line("GRAB", KNIFE))
    assert world.step(line("PUTON", KNIFE)) == Result(False, (f"{NAMES[KNIFE]} is not clothes",))
    assert World(house(), "head").step(line("PUTOFF", SHIRT)) == Result(False, (), "TypeError")
    said = Result(False, (f"{NAMES[SHIRT]} is not on {ME}",))
    assert World(house(), "head", ("take_off",)).step(line("PUTOFF", SHIRT)) == said


def test_opening_and_switching() -> None:
    world = World(house(), "head")
    assert world.step(line("OPEN", TABLE)) == Result(False, (f"{NAMES[TABLE]} can not be opened",))
    assert world.step(line("CLOSE", TABLE)) == Result(False, (f"{NAMES[TABLE]} can not be opened",))
    assert world.step(line("OPEN", FRIDGE)) == Result(False, (f"{ME} is not close to {NAMES[FRIDGE]}",))
    played(world, line("WALK", FRIDGE))
    assert world.step(line("CLOSE", FRIDGE)) == Result(False, (f"{NAMES[FRIDGE]} is not open",))
    played(world, line("SWITCHON", FRIDGE))
    assert effects(world)[2] == {FRIDGE: ["CLOSED", "ON"]}
    assert world.step(line("OPEN", FRIDGE)) == Result(False, (f"{NAMES[FRIDGE]} is still on",))
    played(world, line("SWITCHOFF", FRIDGE), line("OPEN", FRIDGE))
    assert effects(world)[2] == {FRIDGE: ["OFF", "OPEN"]}
    assert world.step(line("OPEN", FRIDGE)) == Result(False, (f"{NAMES[FRIDGE]} is not closed",))
    world = World(house(), "head")
    assert world.step(line("SWITCHON", TABLE)) == Result(False, (f"{NAMES[TABLE]} does not have a switch",))
    assert world.step(line("PLUGIN", TABLE)) == Result(False, (f"{NAMES[TABLE]} does not have a plug",))
    played(world, line("WALK", TV))
    assert world.step(line("SWITCHON", TV)) == Result(False, (f"{NAMES[TV]} is unplugged",))
    assert world.step(line("SWITCHOFF", TV)) == Result(False, (f"{NAMES[TV]} is not on",))
    assert world.step(line("PLUGOUT", TV)) == Result(False, (f"{NAMES[TV]} is not plugged_in",))
    played(world, line("PLUGIN", TV))
    assert effects(world)[2] == {TV: ["OFF", "PLUGGED_IN"]}
    assert world.step(line("PLUGIN", TV)) == Result(False, (f"{NAMES[TV]} is not plugged_out",))
    played(world, line("SWITCHON", TV))
    assert world.step(line("SWITCHON", TV)) == Result(False, (f"{NAMES[TV]} is not off",))
    assert world.step(line("PLUGOUT", TV)) == Result(True, (f"{NAMES[TV]} is still on",))
    assert effects(world)[2] == {TV: ["ON", "PLUGGED_OUT"]}


def test_looking_cleaning_and_the_rest() -> None:
    world = World(house(), "head")
    for action in ("LOOKAT", "POINTAT"):
        assert world.step(line(action, TV)) == Result(False, (f"{ME} does not face {NAMES[TV]}",))
    assert world.step(line("WATCH", TABLE)) == Result(False, (f"{NAMES[TABLE]} not lookable",))
    rooms = f"char room {NAMES[KITCHEN]} is not node room {NAMES[BEDROOM]}"
    assert world.step(line("WATCH", TV)) == Result(False, (rooms,))
    played(world, line("WALK", BEDROOM), line("TURNTO", SOFA), line("LOOKAT", TV), line("WATCH", TV))
    world = World(house())
    played(world, line("WALK", SOFA), line("WALK", TV), line("WALK", SOFA), line("SIT", SOFA), line("WATCH", TV))
    played(world, line("TURNTO", SOFA), line("LOOKAT", TV))
    said = f"{ME} is not facing {NAMES[TV]} while sitting"
    assert world.step(line("WATCH", TV)) == Result(False, (said,))
    nowhere = Scene(NODES, [edge for edge in EDGES if edge[0] != TV])
    assert World(nowhere, "head").step(line("WATCH", TV)) == Result(False, (), "AttributeError")
    boxed = house((TV, "INSIDE", FRIDGE), (CHARACTER, "FACING", TV)).changed(remove=[(TV, "INSIDE", BEDROOM)])
    shut = Result(True, (f"{NAMES[TV]} is inside other closed thing",))
    assert World(boxed, "head").step(line("WATCH", TV)) == shut
    for action in ("WASH", "RINSE", "SCRUB"):
        world = World(house(), "head")
        assert world.step(line(action, TABLE)) == Result(False, (f"{ME} is not close to {NAMES[TABLE]}",))
        played(world, line("WALK", TABLE), line(action, TABLE))
        assert effects(world) == (set(), set(), {TABLE: ["CLEAN"]})
    world = World(house(), "head")
    played(world, line("WALK", TABLE))
    assert world.step(line("WIPE", TABLE)) == Result(False, (f"{ME} does not hold anything in hands",))
    played(world, line("FIND", CUP), line("GRAB", CUP), line("WIPE", TABLE))
    assert effects(world)[2] == {TABLE: ["CLEAN"]}
    meal = [Node(50, "bread", "", ("EATABLE", "CUTTABLE")), Node(51, "soup", "", ("EATABLE",))]
    scene = Scene([*NODES, *meal], [*EDGES, (50, "ON", TABLE), (50, "INSIDE", KITCHEN), (51, "INSIDE", KITCHEN)])
    world = World(scene, "head")
    played(world, line("WALK", SOFA))
    assert world.step(line("EAT", SOFA)) == Result(False, (f"none of object on {NAMES[SOFA]} is eatable",))
    played(world, line("WALK", TABLE), line("EAT", TABLE), "[EAT] <bread> (50)")
    assert world.step(line("EAT", HAIR)) == Result(False, (f"{NAMES[HAIR]} is not eatable",))
    assert world.step("[CUT] <bread> (50)") == Result(False, (f"{ME} is not holding a knife",))
    assert world.step(line("CUT", TABLE)) == Result(False, (f"{NAMES[TABLE]} is not eatable",))
    played(world, "[WALK] <soup> (51)")
    assert world.step("[CUT] <soup> (51)") == Result(False, ("<soup> (51) is not cuttable",))
    played(world, line("WALK", TABLE), line("GRAB", KNIFE), "[CUT] <bread> (50)")
    assert world.step(line("DRINK", KNIFE)) == Result(False, (f"{NAMES[KNIFE]} is not drinkable or not recipient",))
    assert world.step(line("DRINK", CUP)) == Result(False, (f"{ME} is not holding {NAMES[CUP]}",))
    played(world, line("GRAB", CUP), line("DRINK", CUP))
    world = World(house(), "head")
    assert world.step(line("GREET", TABLE)) == Result(False, (f"{NAMES[TABLE]} is not person",))
    assert world.step(line("READ", TABLE)) == Result(False, (f"{NAMES[TABLE]} is not readable",))
    assert world.step(line("MOVE", TABLE)) == Result(False, (f"{NAMES[TABLE]} is not movable",))
    assert world.step(line("TYPE", TABLE)) == Result(False, (f"{ME} is not close to {NAMES[TABLE]}",))
    played(world, line("WALK", MILK))
    for action in ("TOUCH", "PUSH"):
        assert world.step(line(action, MILK)) == Result(False, (f"{NAMES[MILK]} is inside other closed thing",))
    played(world, line("WALK", TABLE), line("TOUCH", TABLE), line("PUSH", TABLE))
    assert world.step(line("TYPE", TABLE)) == Result(False, (f"{NAMES[TABLE]} does not have switch",))
    assert world.step(line("SQUEEZE", TABLE)) == Result(False, (f"{NAMES[TABLE]} is not clothes",))
    played(world, line("WALK", CHAIR), line("PULL", CHAIR), line("MOVE", CHAIR))
    played(world, line("WALK", SHIRT), line("SQUEEZE", SHIRT), line("WALK", TV), line("TYPE", TV))
    unknown = "ExecutionException: Execution of Action.LOOKAT_SHORT is not supported"
    assert World(house()).step(line("LOOKAT_SHORT", TV)) == Result(False, (), unknown)
    assert world.step(line("LOOKAT_LONG", TV)) == Result(False, (), "TypeError")
    assert world.step("[FLY]") == Result(False, (), 'ScriptParseException: Unknown action "FLY"')
