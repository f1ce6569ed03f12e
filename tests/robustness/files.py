"""Trials of everything that reads a file; see `damage` for what happens to one, and what must hold then."""

import contextlib
import io
import itertools
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from hypothesis import strategies as st

from agentgym.trajectory import Reply, StepTable
from agentgym.virtualhome.official.files import KINDS
from agentgym.webshop.generated.generator import generate
from tests.agentgym.alfworld.support import write_trial
from tests.agentgym.sotopia.support import PAIRING, PEOPLE, SCENARIO
from tests.agentgym.sotopia.support import write_files as write_profiles
from tests.agentgym.virtualhome.official.small_folder import write
from tests.agentgym.webshop.official_files import write_files
from tests.robustness.damage import Files, Format, put, taken
from tests.robustness.trial import Trial


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


@cache
def game_folder() -> Files:
    with tempfile.TemporaryDirectory() as name:
        split = Path(name) / "json_2.1.1" / "train"
        for task in (
            "pick_and_place_simple-Mug-None-Drawer-1/trial_1",
            "pick_and_place_simple-Mug-None-Drawer-1/trial_2",
        ):
            write_trial(split, task)
        return {
            str(path.relative_to(name)): path.read_bytes() for path in sorted(Path(name).rglob("*")) if path.is_file()
        }


def load_games(folder: Path) -> None:
    play(gym.make("AgentRL/ALFWorld-v0", data=folder, cache="off", split="train", disable_env_checker=True))


# VirtualHome's scenes and tasks


def home_folder() -> Files:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        return {path.name: path.read_bytes() for path in sorted(Path(name).iterdir())}


def load_homes(folder: Path) -> None:
    """Every goal of it can be played, planned, saved and looked back on."""
    for goal, protocol in itertools.product(KINDS, ("numbered", "spa")):
        play_homes(folder, goal, protocol)


def play_homes(folder: Path, goal: str, protocol: str) -> None:
    """Ten commands of the first tasks, some of them the expert's."""
    rng = np.random.default_rng(0)
    env: Any = gym.make(
        "AgentRL/VirtualHome-v0", data=folder, goal=goal, protocol=protocol, split="all", expert=True,
        disable_env_checker=True,
    )  # fmt: skip
    whole = env.unwrapped
    for index in range(whole.tasks.count("all")):
        _, info = env.reset(seed=0, options={"index": index})
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


# WebShop's files


def shop_folder() -> Files:
    with tempfile.TemporaryDirectory() as name:
        products = list(generate(4))
        human = {
            product.asin: [{"instruction": "red one", "instruction_attributes": ["red"], "instruction_options": []}]
            for product in products[:2]
        }
        write_files(products, Path(name), human)
        files = {path.name: path.read_bytes() for path in sorted(Path(name).iterdir())}
    files["prices.json"] = json.dumps({"prices": {product.asin: 9.5 for product in products}}).encode()
    return files


def load_shop(folder: Path) -> None:
    for goals in ("synthetic", "human"):
        env = gym.make(
            "AgentRL/WebShop-v0", data=folder, goals=goals, prices=taken(folder, "prices.json"), cache=False,
            split="all", disable_env_checker=True,
        )  # fmt: skip
        play(env, 2)


# Search-QA's files


def search_folder() -> Files:
    passages = [{"id": f"p{i}", "contents": f'"Ada {i}"\nAda {i} was born in Ulm.'} for i in range(4)]
    questions = [
        {"id": f"q{i}", "question": "Where?", "golden_answers": ["Ulm"], "metadata": {"split": "test", "type": "x"}}
        for i in range(3)
    ]
    asked = {
        "data_source": "nq", "prompt": [{"role": "user", "content": "Question: Where?"}], "ability": "fact",
        "reward_model": {"style": "rule", "ground_truth": {"target": ["Ulm"]}},
        "extra_info": {"split": "test", "index": 0},
    }  # fmt: skip
    return {
        "corpus.jsonl": "".join(json.dumps(row) + "\n" for row in passages).encode(),
        "test.jsonl": "".join(json.dumps(row) + "\n" for row in questions).encode(),
        "verl.jsonl": (json.dumps(asked) + "\n").encode() * 1,
    }


def load_search(folder: Path) -> None:
    for name in ("test.jsonl", "verl.jsonl"):
        corpus, questions = taken(folder, "corpus.jsonl"), taken(folder, name)
        play(gym.make("AgentRL/SearchQA-v0", corpus=corpus, questions=questions, disable_env_checker=True))


# SOTOPIA's profiles


def profile_folder() -> Files:
    sale = {
        "env_id": "e2", "codename": "craigslist_bargains", "source": "craigslist_bargains",
        "scenario": "One person is selling a lamp for $50, another person is trying to buy it.",
        "agent_goals": [
            "You are the buyer for this item and your target price is $40. You should get a penalty.",
            "You are the seller for this item and your target price is $50. You should get a penalty.",
        ],
        "relationship": 0,
    }  # fmt: skip
    rows = ([SCENARIO, sale], PEOPLE, [PAIRING, {**PAIRING, "combo_id": "c2", "env_id": "e2"}])
    with tempfile.TemporaryDirectory() as name:
        write_profiles(Path(name), rows)
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def load_profiles(folder: Path) -> None:
    try:
        play(gym.make("AgentRL/SOTOPIA-v0", data=folder, split="all", disable_env_checker=True))
    except ValueError as error:
        # a task without a game that can be computed needs models; that is no damage
        if "has no computable goals" not in str(error) and "holds no task" not in str(error):
            raise


# Tables, logs, results, checkpoints


def table_file() -> Files:
    reply = Reply("<action>up</action>", (1, 2), (3,), (-0.5,))
    table = StepTable.from_arrays(
        group=["g", "g", "g"], trajectory=[0, 0, "b"], t=[0, 1, 1], state=["s", "u", "u"], action=["up", "down", "up"],
        next_state=["u", "goal", "pit"], reward=[0.0, 1.0, -0.5], won=[True, True, False], replies=[reply, None, reply],
        parent={"b": (0, 0)},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        table.to_jsonl(Path(name) / "x.jsonl")
        return {"x.jsonl": (Path(name) / "x.jsonl").read_bytes()}


def load_table(folder: Path) -> None:
    table = StepTable.from_jsonl(taken(folder, "x.jsonl"))
    assert len(table.endings) == table.n_trajectories
    table.to_jsonl(folder / "again.jsonl")
    assert len(StepTable.from_jsonl(folder / "again.jsonl")) == len(table)


def load_log(folder: Path) -> None:
    from baselines.records.metrics import read_log

    assert all(isinstance(row["iteration"], int) for row in read_log(folder / "log.jsonl"))


def checkpoint_file() -> Files:
    import torch

    from baselines.records.checkpoint import Checkpoint, save_checkpoint

    weights = {"w": torch.arange(64, dtype=torch.float32)}
    with tempfile.TemporaryDirectory() as name:
        save_checkpoint(Path(name), Checkpoint({"a": 1}, 3, 1.5, weights, {"state": {}}))
        files = sorted((Path(name) / "checkpoint-000003").iterdir())
        return {f"checkpoint-000003/{file.name}": file.read_bytes() for file in files}


def load_checkpoint(folder: Path) -> None:
    import torch

    from baselines.records import checkpoint

    with contextlib.redirect_stderr(io.StringIO()):
        found = checkpoint.load_checkpoint(folder, {"a": 1})
    assert found.iteration == 3
    assert torch.equal(found.model["w"], torch.arange(64, dtype=torch.float32)), "damage went unnoticed"


def log_file() -> Files:
    rows = [{"iteration": i, "loss": 0.5 / (i + 1), "success": None if i % 2 else 1.0} for i in range(4)]
    return {"log.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}


FORMATS = {
    "levels": Format(lambda: {"x.txt": LEVELS}, load_levels, ("x.txt",)),
    "games": Format(game_folder, load_games),
    "homes": Format(home_folder, load_homes),
    "shop": Format(shop_folder, load_shop, ("prices.json",)),
    "search": Format(search_folder, load_search, ("corpus.jsonl", "test.jsonl", "verl.jsonl")),
    "profiles": Format(profile_folder, load_profiles),
    "table": Format(table_file, load_table, ("x.jsonl",)),
    "log": Format(log_file, load_log),
    "checkpoint": Format(checkpoint_file, load_checkpoint),
}
NEEDS = {"log": ("torch",), "checkpoint": ("torch",)}


def whole(name: str) -> Callable[[Any], None]:
    """Check that the files to begin with are read: a trial of damage says nothing otherwise."""

    def check(_: Any) -> None:
        form = FORMATS[name]
        with tempfile.TemporaryDirectory() as folder:
            for path, content in form.make().items():
                put(Path(folder) / path, content)
            form.load(Path(folder))

    return check


TRIALS = [
    trial
    for name, form in FORMATS.items()
    for trial in (
        Trial(f"files/{name} whole", st.none(), whole(name), 1, needs=NEEDS.get(name, ())),
        Trial(f"files/{name}", st.deferred(lambda form=form: form.inputs()), form.check, 60, needs=NEEDS.get(name, ())),
    )
]
