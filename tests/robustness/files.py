"""Trials of everything that reads a file; see `damage` for what happens to one, and what must hold then.

"homes" are published files of VirtualHome of the right form, whose content is drawn.
"""

import contextlib
import copy
import io
import json
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from hypothesis import strategies as st

from agentgym.trajectory import Reply, StepTable
from agentgym.virtualhome.commands import PARAMETERS
from agentgym.virtualhome.official.files import KINDS
from agentgym.virtualhome.scene import PROPERTY_NAMES, RELATION_NAMES, STATE_NAMES
from agentgym.webshop.generated.generator import generate
from tests.agentgym.alfworld.support import write_trial
from tests.agentgym.searchqa.test_tasks import FLASHRAG, VERL
from tests.agentgym.sotopia import support as profiles
from tests.agentgym.virtualhome import houses
from tests.agentgym.webshop.support import write_files
from tests.playing import walks
from tests.robustness.damage import Files, Format, check_words, put, taken
from tests.robustness.pages import small_run
from tests.robustness.trial import Trial, fragments, json_values, record


def files_of(write: Callable[[Path], object]) -> Files:
    """What a function writes into a folder."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        paths = sorted(path for path in Path(name).rglob("*") if path.is_file())
        return {str(path.relative_to(name)): path.read_bytes() for path in paths}


def play(env: Any, tasks: int = 3) -> None:
    """Begin the first tasks of the environment's split and play a few commands."""
    for index in range(tasks):
        try:
            _, info = env.reset(seed=0, options={"index": index})
        except ValueError as error:
            if "out of range" in str(error):
                return
            raise
        for k in range(3):
            actions = info["admissible_actions"]
            *_, over, cut, info = env.step(actions[k % len(actions)] if actions else "")
            if over or cut:
                break


# Sokoban's levels

LEVELS = b"""; 0
########
#  .   #
# $@   #
#      #
########

; 1
#####
#@$.#
#####
Title: x
#######
#@ $ .#
#######
"""


def load_levels(folder: Path) -> None:
    play(gym.make("AgentRL/Sokoban-v0", levels=taken(folder, "x.txt"), split="all", disable_env_checker=True))


# ALFWorld's games


def write_games(folder: Path) -> None:
    for number in (1, 2):
        trial = f"pick_and_place_simple-Mug-None-Drawer-1/trial_{number}"
        write_trial(folder / "json_2.1.1" / "train", trial)


def load_games(folder: Path) -> None:
    play(gym.make("AgentRL/ALFWorld-v0", data=folder, cache="off", split="train", disable_env_checker=True))


# VirtualHome's scenes and tasks


def load_homes(folder: Path) -> None:
    try:
        for goal in ("strict", "eai"):
            play(gym.make("AgentRL/VirtualHome-v0", data=folder, goal=goal, split="all", disable_env_checker=True))
    except ValueError as error:
        if "holds no task" not in str(error):  # a goal that is true at the start is no damage
            raise


# WebShop's files


def write_shop(folder: Path) -> None:
    products = list(generate(4))
    wish = {"instruction": "red one", "instruction_attributes": ["red"], "instruction_options": []}
    write_files(products, folder, {product.asin: [wish] for product in products[:2]})
    put(folder / "prices.json", json.dumps({"prices": {product.asin: 9.5 for product in products}}).encode())


def load_shop(folder: Path) -> None:
    for goals in ("synthetic", "human"):
        env = gym.make(
            "AgentRL/WebShop-v0", data=folder, goals=goals, prices=taken(folder, "prices.json"), cache=False,
            split="all", disable_env_checker=True,
        )  # fmt: skip
        play(env, 2)


# Search-QA's files


def write_search(folder: Path) -> None:
    passages = [{"id": f"p{i}", "contents": f'"Ada {i}"\nAda {i} was born in Ulm.'} for i in range(4)]
    for name, rows in (("corpus", passages), ("test", [FLASHRAG]), ("verl", [VERL])):
        put(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


def load_search(folder: Path) -> None:
    for name in ("test.jsonl", "verl.jsonl"):
        corpus, questions = taken(folder, "corpus.jsonl"), taken(folder, name)
        play(gym.make("AgentRL/SearchQA-v0", corpus=corpus, questions=questions, disable_env_checker=True))


# SOTOPIA's profiles


def write_profiles(folder: Path) -> None:
    sale = {
        "env_id": "e2", "codename": "craigslist_bargains", "source": "craigslist_bargains",
        "scenario": "One person is selling a lamp for $50, another person is trying to buy it.",
        "agent_goals": [
            f"You are the {role} for this item and your target price is ${price}. You should get a penalty."
            for role, price in (("buyer", 40), ("seller", 50))
        ],
        "relationship": 0,
    }  # fmt: skip
    profiles.write_files(folder, ([profiles.SCENARIO, sale], profiles.ROWS[1], [
        {**profiles.PAIRING, "combo_id": f"c{i}", "env_id": f"e{i}"} for i in (1, 2)
    ]))  # fmt: skip


def load_profiles(folder: Path) -> None:
    try:
        play(gym.make("AgentRL/SOTOPIA-v0", data=folder, split="all", disable_env_checker=True))
    except ValueError as error:
        # a task without a game that can be computed needs models; that is no damage
        if "has no computable goals" not in str(error) and "holds no task" not in str(error):
            raise


# Tables, logs, results, checkpoints


def write_table(folder: Path) -> None:
    reply = Reply("<action>up</action>", (1, 2), (3,), (-0.5,))
    ways = {"a": "s up u down goal", "b": "u up pit"}
    table = walks(
        ways, won="a", t=[0, 1, 1], reward=[0.0, 1.0, -0.5], replies=[reply, None, reply], parent={"b": ("a", 0)}
    )
    table.to_jsonl(folder / "x.jsonl")


def load_table(folder: Path) -> None:
    table = StepTable.from_jsonl(taken(folder, "x.jsonl"))
    assert len(table.endings) == table.n_trajectories
    table.to_jsonl(folder / "again.jsonl")
    assert len(StepTable.from_jsonl(folder / "again.jsonl")) == len(table)


def load_log(folder: Path) -> None:
    from baselines.records.metrics import read_log

    assert all(isinstance(row["iteration"], int) for row in read_log(folder / "log.jsonl"))


def load_results(folder: Path) -> None:
    from benchmarks.training.learning import STUDY

    STUDY.load(folder / "results.json")


def write_checkpoint(folder: Path) -> None:
    import torch

    from baselines.records.checkpoint import Checkpoint, save_checkpoint

    weights = {"w": torch.arange(64, dtype=torch.float32)}
    save_checkpoint(folder, Checkpoint({"a": 1}, 3, 1.5, weights, {"state": {}}))


def load_checkpoint(folder: Path) -> None:
    import torch

    from baselines.records import checkpoint

    with contextlib.redirect_stderr(io.StringIO()):
        found = checkpoint.load_checkpoint(folder, {"a": 1})
    assert found.iteration == 3
    assert torch.equal(found.model["w"], torch.arange(64, dtype=torch.float32)), "damage went unnoticed"


ROWS = [{"iteration": i, "loss": 0.5 / (i + 1), "success": None if i % 2 else 1.0} for i in range(4)]
FORMATS = {
    "levels": Format(lambda: {"x.txt": LEVELS}, load_levels, ("x.txt",)),
    "games": Format(lambda: files_of(write_games), load_games),
    "homes": Format(lambda: files_of(houses.write), load_homes),
    "shop": Format(lambda: files_of(write_shop), load_shop, ("prices.json",)),
    "search": Format(lambda: files_of(write_search), load_search, ("corpus.jsonl", "test.jsonl", "verl.jsonl")),
    "profiles": Format(lambda: files_of(write_profiles), load_profiles),
    "table": Format(lambda: files_of(write_table), load_table, ("x.jsonl",)),
    "log": Format(lambda: {"log.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode()}, load_log),
    "results": Format(lambda: {"results.json": (small_run() / "results.json").read_bytes()}, load_results),
    "checkpoint": Format(lambda: files_of(write_checkpoint), load_checkpoint),
}
NEEDS = {"log": ("torch",), "checkpoint": ("torch",), "results": ("torch", "typer")}


TRIALS = [
    Trial(f"files/{name}", st.deferred(lambda form=form: form.inputs()), form.check, 60, needs=NEEDS.get(name, ()))
    for name, form in FORMATS.items()
]

CLASSES = (
    "mug", "mug 1", "mug_1", "Mug", "kitchen", "bathroom", "door", "doorjamb", "character", "you", "a\nb", "x> (1", "<",
    "(", ")", "{}", "%s", " ", "table on desk", "fridge", "sink", "faucet", "desk#1", "wash:mug", "mug,cup", "\u2028",
)  # fmt: skip

#: Those of the small folder, and of what is added to it.
IDS = (1, 2, 3, 4, 10, 11, 12, 20, 21, 22, 23, 24, 30, 31, 32, 33)

_id = st.sampled_from(IDS[:-3])
_states = st.lists(st.sampled_from(STATE_NAMES), max_size=4)

_node = record(
    class_name=st.sampled_from(CLASSES) | fragments.filter(bool),
    category=st.sampled_from(["Rooms", "Doors", "Things", ""]),
    properties=st.lists(st.sampled_from(PROPERTY_NAMES), max_size=6),
    states=_states,
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

_eai = record(actions=st.lists(st.sampled_from([*PARAMETERS, "WALK|FIND"]), max_size=3), goal=st.lists(_goal_row))

#: What is added to the small folder; whole rows of "row", "eai" and "scene task" may be anything.
_house = {
    "nodes": st.lists(_node, max_size=3), "edges": st.lists(_old_edge, max_size=12), "states": _changed,
    "add_edges": _edges, "rem_edges": st.lists(st.integers(0, 60), max_size=3), "goal_states": _changed,
    "goal_add": _edges, "goal_rem": _edges, "program": st.lists(_line, max_size=5), "eai": _eai, "title": fragments,
    "packed": st.booleans(),
}  # fmt: skip

_any = {
    "eai": json_values | _eai,
    "row": json_values,
    "field": st.tuples(st.sampled_from(sorted(houses.DIFFERENCE)), json_values).map(list),
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
        copy.deepcopy(each) for each in (houses.GRAPH, houses.DIFFERENCE, houses.PROGRAM, houses.GOALS)
    )
    more = [{"id": number, **node} for number, node in zip(IDS[-3:], drawn.get("nodes", []), strict=False)]
    graph["nodes"] += more
    graph["edges"] += [{"from_id": a, "relation_type": kind, "to_id": b} for a, kind, b in drawn.get("edges", [])]
    for field in ("states", "add_edges", "goal_states", "goal_add", "goal_rem"):
        difference[field] = difference[field] + drawn.get(field, [])
    gone = sorted({number % len(houses.EDGES) for number in drawn.get("rem_edges", [])})
    difference["rem_edges"] = [[*houses.EDGES[number]] for number in gone]
    difference |= dict([drawn["field"]] if "field" in drawn else [])
    program["program"] = drawn.get("program", program["program"])
    program["task"] = drawn.get("title", program["task"])
    goals["scene_1"]["Serve"]["1_1"]["vh_goal"] = drawn.get("eai", goals["scene_1"]["Serve"]["1_1"]["vh_goal"])
    rows = [difference, *([drawn["row"]] if "row" in drawn else [])]
    houses.write(folder, graph=graph, programs={"1_1": program}, differences=rows, goals=goals)
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
                    play_homes(name, goal, protocol, given["seed"])
                except ValueError as error:
                    check_words(error, name)


def play_homes(folder: str, goal: str, protocol: str, seed: int) -> None:
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


TRIALS += [Trial("homes/any", record(folder=_drawn, seed=st.integers(0, 99)), check, 30)]
