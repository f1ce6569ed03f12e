"""A small house, written by hand: two rooms, a door between them, and what the rules ask about."""

from agentgym.virtualhome.rules import Result, World
from agentgym.virtualhome.scene import Edge, Node, Scene
from agentgym.virtualhome.state import State

KITCHEN, BEDROOM, DOOR, CHARACTER, TABLE, CUP, FRIDGE, MILK, CHAIR, TV, HAIR, SHIRT, KNIFE, WATER, SOFA = range(1, 16)

NODES = (
    Node(KITCHEN, "kitchen", "Rooms"),
    Node(BEDROOM, "bedroom", "Rooms"),
    Node(DOOR, "door", "Doors", ("CAN_OPEN",), ("OPEN",)),
    Node(CHARACTER, "character", "Characters"),
    Node(TABLE, "table", "Furniture", ("SURFACES",), ("DIRTY",)),
    Node(CUP, "cup", "Props", ("GRABBABLE", "RECIPIENT", "POURABLE"), ("CLEAN",)),
    Node(FRIDGE, "fridge", "Appliances", ("CAN_OPEN", "CONTAINERS", "HAS_PLUG", "HAS_SWITCH"), ("CLOSED", "OFF")),
    Node(MILK, "milk", "Food", ("GRABBABLE", "DRINKABLE", "POURABLE")),
    Node(CHAIR, "chair", "Furniture", ("SITTABLE", "MOVABLE")),
    Node(TV, "television", "Electronics", ("LOOKABLE", "HAS_SWITCH", "HAS_PLUG"), ("OFF", "PLUGGED_OUT")),
    Node(HAIR, "hair", "Body", ("BODY_PART",)),
    Node(SHIRT, "clothes_shirt", "Clothes", ("GRABBABLE", "CLOTHES")),
    Node(KNIFE, "knife", "Props", ("GRABBABLE",)),
    Node(WATER, "water", "Props", ("DRINKABLE", "POURABLE")),
    Node(SOFA, "sofa", "Furniture", ("SITTABLE", "LIEABLE")),
)

EDGES = (
    *((thing, "INSIDE", KITCHEN) for thing in (CHARACTER, TABLE, CUP, FRIDGE, MILK, CHAIR, HAIR, KNIFE, WATER, DOOR)),
    *((thing, "INSIDE", BEDROOM) for thing in (TV, SHIRT, SOFA)),
    (DOOR, "BETWEEN", KITCHEN),
    (DOOR, "BETWEEN", BEDROOM),
    (CUP, "ON", TABLE),
    (CUP, "CLOSE", TABLE),
    (TABLE, "CLOSE", CUP),
    (KNIFE, "ON", TABLE),
    (MILK, "INSIDE", FRIDGE),
    (SHIRT, "ON", SOFA),
    (SOFA, "FACING", TV),
    (CHAIR, "FACING", TABLE),
)


def house(*extra: tuple[int, str, int]) -> Scene:
    """Return the house, with further edges."""
    return Scene(NODES, (*EDGES, *extra))


ME = "<character> (4)"
NAMES = {node.id: f"<{node.class_name}> ({node.id})" for node in NODES}


def line(action: str, *things: int) -> str:
    return f"[{action}] " + " ".join(NAMES[thing] for thing in things)


def both(a: int, b: int) -> set[Edge]:
    return {(a, "CLOSE", b), (b, "CLOSE", a)}


def played(world: World, *lines: str) -> Result:
    """Play lines that succeed, and return what came of the last."""
    result = Result(True)
    for each in lines:
        assert result.ok, result
        result = world.step(each)
    return result


def graph(state: State) -> tuple[list[tuple[int, str, list[str]]], list[Edge]]:
    """Return the nodes and edges of a state, sorted."""
    return sorted(state.nodes()), sorted(state.edges())
