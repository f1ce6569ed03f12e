"""A folder in the form of the published data, with one small scene and one task in it."""

import json
from pathlib import Path
from typing import Any

from tests.agentgym.virtualhome.small_houses import EDGES, NODES

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
