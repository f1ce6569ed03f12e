"""Houses that are worked out by hand."""

from agentgym.virtualhome.activity import Activity, Lexicon
from agentgym.virtualhome.commands import Line
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import Node, Scene

#: A kitchen and a bedroom with a door between them; ids are not in the order of the nodes.
NODES = (
    Node(1, "kitchen", "Rooms"),
    Node(2, "bedroom", "Rooms"),
    Node(3, "door", "Doors", ("CAN_OPEN",), ("OPEN",)),
    Node(4, "character", "Characters"),
    Node(10, "kitchen_table", "Furniture", ("SURFACES",)),
    Node(11, "fridge", "Appliances", ("CAN_OPEN", "CONTAINERS", "HAS_PLUG"), ("CLOSED", "PLUGGED_IN")),
    Node(12, "bed", "Furniture", ("LIEABLE", "SITTABLE", "SURFACES")),
    Node(21, "mug", "Things", ("GRABBABLE", "RECIPIENT"), ("DIRTY",)),
    Node(20, "mug", "Things", ("GRABBABLE", "RECIPIENT"), ("CLEAN",)),
    Node(22, "milk", "Things", ("GRABBABLE", "POURABLE", "DRINKABLE")),
    Node(23, "lamp", "Lamps", ("HAS_SWITCH", "HAS_PLUG", "GRABBABLE"), ("OFF", "PLUGGED_OUT")),
    Node(24, "jacket", "Things", ("GRABBABLE", "CLOTHES")),
)
_BOTH = ((20, 10), (21, 10), (20, 21), (22, 11), (23, 12), (24, 12), (23, 24))
EDGES = (
    (3, "BETWEEN", 1), (3, "BETWEEN", 2), (3, "INSIDE", 1),
    *((node, "INSIDE", 1) for node in (4, 10, 11, 20, 21, 22)),
    *((node, "INSIDE", 2) for node in (12, 23, 24)),
    (20, "ON", 10), (21, "ON", 10), (22, "INSIDE", 11), (23, "ON", 12), (24, "ON", 12),
    *((a, "CLOSE", b) for a, b in _BOTH), *((b, "CLOSE", a) for a, b in _BOTH),
)  # fmt: skip


def activity(goal: Goal, program: tuple[str, ...] = (), scene: Scene | None = None) -> Activity:
    """Something to be done in that house."""
    return Activity("small/1", "small", "Small", "do it", Lexicon(scene or Scene(NODES, EDGES)), goal, program)


def do(task: Activity, world: World, command: str) -> Line:
    """Play a command in words, which succeeds; return its line."""
    line = task.lexicon.words.line(command)
    assert line is not None
    assert world.act(line).ok, command
    return line


def replay(task: Activity, commands: tuple[str, ...], world: World | None = None) -> list[float]:
    """Score after each command, in a world of its own if none is given; every command succeeds."""
    world, done, scores = world or task.world(), 0, []
    for command in commands:
        line = do(task, world, command)
        node = task.scene.index[line.things[0][1]] if line.things else -1
        done = task.tests.advance(world.cells, done, line.action, node)
        scores.append(task.tests.share(task.tests.missing(world.cells, done)))
    return scores
