"""Trials of VirtualHome's published files: well-formed ones whose houses, programs and goals nobody would publish.

`files` damages the bytes of a good folder; here every file is JSON of the right form, and its content is drawn.
"""

from __future__ import annotations

import copy
import json
import lzma
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from hypothesis import strategies as st

from agentgym.virtualhome.commands import PARAMETERS
from agentgym.virtualhome.official.files import KINDS
from agentgym.virtualhome.scene import PROPERTY_NAMES, RELATION_NAMES, STATE_NAMES
from tests.agentgym.virtualhome.official import small_folder
from tests.robustness.damage import check_words
from tests.robustness.trial import Trial, fragments, json_values

CLASSES = (
    "mug", "mug 1", "mug_1", "Mug", "kitchen", "bathroom", "door", "doorjamb", "character", "you", "a\nb", "x> (1", "<",
    "(", ")", "{}", "%s", " ", "table on desk", "fridge", "sink", "faucet", "desk#1", "wash:mug", "mug,cup", "\u2028",
)  # fmt: skip
IDS = (1, 2, 3, 4, 10, 11, 12, 20, 21, 22, 23, 24, 30, 31, 32, 33)
"""Those of the small folder, and of what is added to it."""
_id = st.sampled_from(IDS[:-3])
_states = st.lists(st.sampled_from(STATE_NAMES), max_size=4)
_node = st.fixed_dictionaries(
    {
        "class_name": st.sampled_from(CLASSES) | fragments.filter(bool),
        "category": st.sampled_from(["Rooms", "Doors", "Things", ""]),
        "properties": st.lists(st.sampled_from(PROPERTY_NAMES), max_size=6),
        "states": _states,
    }
)
#: What is held comes by the rules alone: a room in somebody's hand can be neither dropped nor put down.
_relation = st.sampled_from(RELATION_NAMES[:5])
_edge = st.tuples(_id, _relation, _id).map(list)
_changed = st.lists(st.tuples(_id, _states).map(list), max_size=3)
_edges = st.lists(_edge, max_size=6)
_old_edge = st.tuples(st.sampled_from(IDS[:-4]), _relation, st.sampled_from(IDS[:-4])).map(list)
_line = st.builds(
    lambda action, things: " ".join([f"[{action}]", *things[: PARAMETERS[action]]]),
    st.sampled_from(sorted(PARAMETERS)),
    st.lists(st.builds(lambda name, number: f"<{name}> ({number})", st.sampled_from(CLASSES), _id), min_size=2),
)
_goal_row = st.builds(lambda node, state: {"id": node, "state": state}, _id, st.sampled_from(STATE_NAMES)) | st.builds(
    lambda edge: {"from_id": edge[0], "relation_type": edge[1], "to_id": edge[2]}, _edge
)
_eai = st.fixed_dictionaries(
    {"actions": st.lists(st.sampled_from([*PARAMETERS, "WALK|FIND"]), max_size=3), "goal": st.lists(_goal_row)}
)
#: What is added to the small folder; whole rows of "row", "eai" and "scene task" may be anything.
_house = {
    "nodes": st.lists(_node, max_size=3),
    "edges": st.lists(_old_edge, max_size=12),
    "states": _changed,
    "add_edges": _edges,
    "rem_edges": st.lists(st.integers(0, 60), max_size=3),
    "goal_states": _changed,
    "goal_add": _edges,
    "goal_rem": _edges,
    "program": st.lists(_line, max_size=5),
    "eai": _eai,
    "title": fragments,
    "packed": st.booleans(),
}
_any = {
    "eai": json_values | _eai,
    "row": json_values,
    "field": st.tuples(st.sampled_from(sorted(small_folder.DIFFERENCE)), json_values).map(list),
    "program": st.lists(_line | fragments, max_size=3) | json_values,
    "scene task": json_values
    | st.fixed_dictionaries(
        {"status": st.just("ok")},
        optional={"scene": st.integers(-1, 9) | json_values, "plan": _id | json_values,
                  "tasks": st.lists(fragments, max_size=2) | json_values, "program": st.lists(_line, max_size=2)},
    ),
}  # fmt: skip
_drawn = st.one_of(st.fixed_dictionaries({}, optional=_house), st.fixed_dictionaries({}, optional=_any))


def written(folder: Path, drawn: dict[str, Any]) -> None:
    """Write the small folder with what was drawn in it."""
    graph, difference, program, goals = (
        copy.deepcopy(each)
        for each in (small_folder.GRAPH, small_folder.DIFFERENCE, small_folder.PROGRAM, small_folder.GOALS)
    )
    more = [{"id": number, **node} for number, node in zip(IDS[-3:], drawn.get("nodes", []), strict=False)]
    graph["nodes"] += more
    graph["edges"] += [{"from_id": a, "relation_type": kind, "to_id": b} for a, kind, b in drawn.get("edges", [])]
    for field in ("states", "add_edges", "goal_states", "goal_add", "goal_rem"):
        difference[field] = difference[field] + drawn.get(field, [])
    gone = sorted({number % len(small_folder.EDGES) for number in drawn.get("rem_edges", [])})
    difference["rem_edges"] = [[*small_folder.EDGES[number]] for number in gone]
    difference |= dict([drawn["field"]] if "field" in drawn else [])
    program["program"] = drawn.get("program", program["program"])
    program["task"] = drawn.get("title", program["task"])
    goals["scene_1"]["Serve"]["1_1"]["vh_goal"] = drawn.get("eai", goals["scene_1"]["Serve"]["1_1"]["vh_goal"])
    rows = [difference, *([drawn["row"]] if "row" in drawn else [])]
    small_folder.write(folder, graph=graph, programs={"1_1": program}, differences=rows, goals=goals)
    if "scene task" in drawn:
        task = drawn["scene task"]
        row = {**difference, **task} if isinstance(task, dict) else task
        (folder / "traces").mkdir()
        (folder / "traces" / "scene_tasks.jsonl").write_text(json.dumps(row) + "\n")
    if drawn.get("packed"):
        for path in [path for path in folder.rglob("*.json*") if path.is_file()]:
            path.with_name(path.name + ".xz").write_bytes(lzma.compress(path.read_bytes(), preset=0))
            path.unlink()


def check(given: dict[str, Any]) -> None:
    """The folder is refused by name, or every goal of it can be played, planned, saved and looked back on."""
    with tempfile.TemporaryDirectory() as name:
        written(Path(name), given["folder"])
        for goal in KINDS:
            for protocol in ("numbered", "spa"):
                try:
                    play(name, goal, protocol, given["seed"])
                except ValueError as error:
                    check_words(error, name)


def play(folder: str, goal: str, protocol: str, seed: int) -> None:
    """Ten commands of the first tasks, some of them the expert's."""
    rng = np.random.default_rng(seed)
    env: Any = gym.make(
        "AgentRL/VirtualHome-v0", data=folder, goal=goal, protocol=protocol, split="all", expert=True,
        disable_env_checker=True,
    )  # fmt: skip
    whole = env.unwrapped
    for index in range(whole.tasks.count("all")):
        _, info = env.reset(seed=seed, options={"index": index})
        saved = whole.snapshot()
        for _ in range(10):
            offered = info["admissible_actions"]
            planned = info["expert_action"]
            action = planned if planned and rng.random() < 0.5 else str(rng.choice(offered)) if offered else "sleep"
            _, _, over, cut, info = env.step(action)
            # The papers' protocol keeps what breaks the original: in a house like these its own look can fail.
            accepted = info["is_action_valid"] or action not in offered or protocol == "spa"
            assert accepted, f"{action!r} was offered and refused"
            assert 0 <= info["score"] <= 1
            lower, upper = whole.distance_bounds()
            assert 0 <= lower <= upper
            if over or cut:
                break
        if protocol == "numbered":
            for task_id in whole.fulfilled():
                whole.tasks.by_id(task_id, None)
        whole.restore(saved)


TRIALS = [
    Trial("homes/any", st.fixed_dictionaries({"folder": _drawn, "seed": st.integers(0, 99)}), check, 30),
]
