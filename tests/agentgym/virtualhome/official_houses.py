"""The published houses and the episodes recorded on the original simulators; tests skip where these are absent."""

import json
import lzma
import re
from functools import cache
from pathlib import Path
from typing import Any

from agentgym.virtualhome.scene import Node, Scene
from tests import oracles
from tests.oracles import oracle

FOLDER = oracles.FOLDER / "virtualhome"


def find(name: str) -> Path:
    """Path of a file of the folder, such as "traces/wrapper.jsonl.xz"."""
    return oracle("virtualhome", name)


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
    return [re.sub(r"\(\d+\.(\d+)\)", r"(\1)", line) for line in read_programs()[program]["program"]]


@cache
def read_programs() -> dict[str, Any]:
    """Program -> its title, description and lines."""
    return read("scene1_518_programs.json")
