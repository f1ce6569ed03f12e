"""Grabbing, putting, pouring and dressing in a house written by hand, where every effect can be worked out."""

from agentgym.virtualhome.rules import Result, World
from agentgym.virtualhome.scene import Node, Scene
from tests.agentgym.virtualhome.micro_house import (
    CHARACTER,
    CUP,
    EDGES,
    FRIDGE,
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
)  # fmt: skip


def test_grabbing_and_putting_back() -> None:
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


def test_putting_in() -> None:
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


def test_grabbing_what_cannot_be_grabbed() -> None:
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


def test_grabbing_twice_in_both_dialects() -> None:
    world = World(house())
    played(world, line("WALK", CUP), line("GRAB", CUP), line("GRAB", CUP))
    assert {(CHARACTER, "HOLDS_RH", CUP), (CHARACTER, "HOLDS_LH", CUP)} <= set(world.edges())
    world = World(house(), "head")
    played(world, line("WALK", CUP), line("GRAB", CUP))
    assert world.step(line("GRAB", CUP)) == Result(False, (f"{NAMES[CUP]} already grabbed",))


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


def test_a_failing_put_back_succeeds_in_head_unless_repaired() -> None:
    said = (f"{ME} is not close to {NAMES[TABLE]}",)
    for dialect, repairs, ok in (("head", (), True), ("head", ("put_back",), False), ("v1", (), False)):
        world = World(house(), dialect, repairs)
        played(world, line("WALK", TABLE), line("FIND", CUP), line("GRAB", CUP), line("WALK", FRIDGE))
        assert world.step(line("PUTOBJBACK", CUP)) == Result(ok, said)
        assert effects(world) == (set(), set(), {})


def test_pouring() -> None:
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


def test_dressing_and_undressing() -> None:
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
