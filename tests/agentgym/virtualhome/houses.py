"""A house that is worked out by hand, something to be done in it, and both as a folder in the published form; and the
published houses and programs: tests skip where these are absent."""

import json
import lzma
import re
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.virtualhome.activity import Activity, Lexicon
from agentgym.virtualhome.commands import Line
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.rules import World
from agentgym.virtualhome.scene import Node, Scene
from tests import oracles
from tests.oracles import oracle

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
GRAPH: dict[str, Any] = {
    "nodes": [{**node._asdict(), "properties": [*node.properties], "states": [*node.states]} for node in NODES],
    "edges": [{"from_id": a, "relation_type": relation, "to_id": b} for a, relation, b in EDGES],
}
PROGRAM: dict[str, Any] = {
    "task": "Serve",
    "description": "put the apple on the table",
    "program": [
        "[WALK] <apple> (1.30)",
        "[GRAB] <apple> (1.30)",
        "[WALK] <kitchen_table> (1.10)",
        "[PUTBACK] <apple> (1.30) <kitchen_table> (1.10)",
    ],
}
DIFFERENCE: dict[str, Any] = {
    "id": "1_1",
    "add_nodes": [{"id": 30, "class_name": "apple", "category": "Food", "properties": ["GRABBABLE"], "states": []}],
    "rem_nodes": [],
    "states": [[12, ["DIRTY"]]],
    "add_edges": [[30, "ON", 12], [30, "INSIDE", 2]],
    "rem_edges": [[20, "CLOSE", 21]],
    "goal_states": [],
    "goal_add": [[30, "ON", 10], [4, "INSIDE", 1]],
    "goal_rem": [[30, "ON", 12]],
}
_EAI: dict[str, Any] = {
    "actions": ["GRAB"],
    "goal": [{"from_id": 30, "relation_type": "ON", "to_id": 10}, {"id": 12, "class_name": "bed", "state": "DIRTY"}],
}
GOALS: dict[str, Any] = {"scene_1": {"Serve": {"1_1": {"vh_goal": _EAI, "tl_goal": None}}}}


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


def write(
    folder: Path, *, graph: Any = GRAPH, programs: Any = None, differences: Any = None, goals: Any = GOALS
) -> Path:
    """Write the files; arguments take the place of what they hold."""
    content = {
        "TrimmedTestScene1_graph.json": graph,
        "scene1_518_programs.json": {"1_1": PROGRAM} if programs is None else programs,
        "scene1_518_diffs.json": [DIFFERENCE] if differences is None else differences,
        "task_state_LTL_formula_accurate.json": goals,
    }
    for name, value in content.items():
        (folder / name).write_text(json.dumps(value))
    return folder


FOLDER = oracles.FOLDER / "virtualhome"


def find(name: str) -> Path:
    """Path of a file of the folder, such as "traces/wrapper.jsonl.xz"."""
    return oracle("virtualhome", name)


@cache
def read(name: str) -> Any:
    """Content of a JSON file, packed or not."""
    path = find(name)
    data = path.read_bytes()
    return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)


@cache
def house(number: int) -> Scene:
    """One of the seven houses."""
    return Scene.from_graph(read(f"TrimmedTestScene{number}_graph.json.xz"))


@cache
def differences() -> dict[str, dict[str, Any]]:
    """Program -> how its house differs from the first one, and how the house is in the end."""
    return {row["id"]: row for row in read("scene1_518_diffs.json.xz")}


def scene_of(program: str) -> Scene:
    """The house in which a program begins."""
    row = differences()[program]
    assert not row["rem_nodes"]
    nodes = [
        Node(each["id"], each["class_name"], each["category"], tuple(each["properties"]), tuple(each["states"]))
        for each in row["add_nodes"]
    ]
    return house(1).changed(nodes, dict(row["states"]), map(tuple, row["add_edges"]), map(tuple, row["rem_edges"]))


def lines_of(program: str) -> list[str]:
    """The lines of a program, with ids as the simulators take them."""
    return [re.sub(r"\(\d+\.(\d+)\)", r"(\1)", line) for line in read("scene1_518_programs.json")[program]["program"]]
