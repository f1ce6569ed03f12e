"""Opening, switching, watching, cleaning and eating in a house written by hand."""

from agentgym.virtualhome.rules import Result, World
from agentgym.virtualhome.scene import Node, Scene
from tests.agentgym.virtualhome.micro_house import (
    BEDROOM,
    CHAIR,
    CHARACTER,
    CUP,
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
    effects,
    house,
    line,
    played,
)  # fmt: skip


def test_opening_and_closing() -> None:
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


def test_switches_and_plugs() -> None:
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


def test_looking_and_watching() -> None:
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


def test_cleaning() -> None:
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


def test_eating_drinking_and_cutting() -> None:
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


def test_the_rest() -> None:
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
