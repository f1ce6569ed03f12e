"""The published files: scenes, and each task's difference to its scene, program and goals."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from agentgym.outside.text import DataError, read_file, read_json, read_json_lines
from agentgym.virtualhome.commands import PARAMETERS
from agentgym.virtualhome.goals import Deed, Goal
from agentgym.virtualhome.scene import INSIDE, RELATION_NAMES, STATE_NAMES, WIDTH, Edge, Node, Scene

#: Environment variable with the folder of the published data.
VARIABLE = "VIRTUALHOME_DATA"

#: Titles of "valid_unseen".
UNSEEN_TITLES: Final = frozenset(
    ("Work", "Turn on light", "Drink", "Go to toilet", "Pet cat", "Make coffee", "Listen to music")
)
#: Scenes without tasks in "train"; of the environments of scene 1, one in this many is not in "train".
UNSEEN_SCENES: Final = frozenset((3, 6))
_EVERY: Final = 5
_GRAPH, _DIFFERENCES, _PROGRAMS = "TrimmedTestScene{}_graph.json", "scene1_518_diffs.json", "scene1_518_programs.json"
_GOALS, _SCENE_TASKS = "task_state_LTL_formula_accurate.json", "scene_tasks.jsonl"
#: Subfolders that are searched for files.
PARTS: Final = ("", "traces")
_SCENES: Final = range(1, 8)
_LINE = re.compile(r"\((?:\d{1,9}\.)?(\d{1,9})\)")
HOW = (
    f"expected a folder that holds {_GRAPH.format(1)}, {_DIFFERENCES} and {_PROGRAMS} (each may end in .xz or .gz), "
    f"given as data= or in ${VARIABLE}; without either, generated activities are played"
)


@dataclass(frozen=True)
class Entry:
    """A task before its scene is built; `row` has its differences as JSON, `where` file and row for messages."""

    task_id: str
    title: str
    description: str
    scene: int
    program: tuple[str, ...]
    row: bytes
    where: str

    @property
    def split(self) -> str:
        if self.title in UNSEEN_TITLES:
            return "valid_unseen"
        digest = hashlib.blake2b(self.task_id.encode(), digest_size=4).digest()
        unseen = self.scene in UNSEEN_SCENES if self.scene != 1 else int.from_bytes(digest) % _EVERY == 0
        return "valid_seen" if unseen else "train"


class Folder:
    """The files of a folder, read once; a `DataError` names file, row and field of an error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._scenes: dict[int, Scene] = {}
        self.entries: dict[str, Entry] = {}
        programs = self._read(_PROGRAMS)
        if not isinstance(programs, dict):
            raise DataError(f"{self._path(_PROGRAMS)}: expected an object, got {programs!r:.100}")
        rows = self._read(_DIFFERENCES)
        for number, row in enumerate(_listed(rows, str(self._path(_DIFFERENCES)))):
            where = f"{self._path(_DIFFERENCES)}, row {number}"
            name = row.get("id") if isinstance(row, dict) else None
            if not isinstance(name, str) or not name:
                raise DataError(f"{where}, field 'id': expected a text, got {name!r:.100}")
            activity = programs.get(name)
            if not isinstance(activity, dict):
                raise DataError(f"{self._path(_PROGRAMS)}: no program {name!r:.100}, required by {where}")
            self._add(f"s1/{name}", activity, activity.get("description"), 1, row, where)
        tasks = self._find(_SCENE_TASKS)
        for number, row in read_json_lines(tasks) if tasks else ():
            where = f"{tasks}, line {number}"
            if not isinstance(row, dict):
                raise DataError(f"{where}: expected an object, got {row!r:.100}")
            if row.get("status") == "ok":
                titles = _listed(row.get("tasks"), f"{where}, field 'tasks'") or [None]
                scene, plan = _whole(row, "scene", where), _whole(row, "plan", where)
                activity = {"task": titles[0], "program": row.get("program")}
                self._add(f"scene{scene}/{plan}", activity, titles[0], scene, row, where)

    def scene(self, number: int) -> Scene:
        """Return a scene without a task's differences."""
        if number not in self._scenes:
            name = _GRAPH.format(number)
            graph = self._read(name)
            try:
                self._scenes[number] = Scene.from_graph(graph)
            except ValueError as error:
                raise DataError(f"{self._path(name)}: {error}") from None
        return self._scenes[number]

    @property
    def eai_file(self) -> Path | None:
        return self._find(_GOALS)

    @cached_property
    def eai(self) -> Mapping[str, Any]:
        """Goals of EmbodiedAgentInterface by task_id, unparsed; empty without their file."""
        path = self.eai_file
        if path is None:
            return {}
        content = self._read(_GOALS)
        titles = content.get("scene_1") if isinstance(content, dict) else None
        if not isinstance(titles, dict) or not all(isinstance(rows, dict) for rows in titles.values()):
            raise DataError(f"{path}, field 'scene_1': expected an object of objects, got {titles!r:.100}")
        found: dict[str, Any] = {}
        for title, rows in titles.items():
            for name, row in rows.items():
                if f"s1/{name}" in found:
                    raise DataError(f"{path}, title {title!r:.100}: the goal of {name!r:.100} is repeated")
                found[f"s1/{name}"] = row.get("vh_goal") if isinstance(row, dict) else row
        return found

    def _add(self, task_id: str, activity: dict[str, Any], description: Any, scene: int, row: Any, where: str) -> None:
        for field, text in (("task", activity.get("task")), ("description", description)):
            if not isinstance(text, str):
                raise DataError(f"{where}, field {field!r}: expected a text, got {text!r:.100}")
        if scene not in _SCENES:
            raise DataError(f"{where}, field 'scene': expected 1 to 7, got {scene}")
        lines = _listed(activity.get("program"), f"{where}, field 'program'")
        if not all(isinstance(line, str) for line in lines):
            raise DataError(f"{where}, field 'program': expected texts, got {lines!r:.100}")
        if task_id in self.entries:
            raise DataError(f"{where}: the task {task_id!r:.100} is repeated")
        program = tuple([_LINE.sub(r"(\1)", line) for line in lines])
        packed = json.dumps(row, separators=(",", ":")).encode()
        self.entries[task_id] = Entry(task_id, activity["task"], description, scene, program, packed, where)

    def _find(self, name: str) -> Path | None:
        places = [self.folder / part / f"{name}{end}" for part in PARTS for end in ("", ".xz", ".gz")]
        return next((path for path in places if path.is_file()), None)

    def _path(self, name: str) -> Path:
        path = self._find(name)
        if path is None:
            raise DataError(f"VirtualHome data: {self.folder} contains no {name}; {HOW}")
        return path

    def _read(self, name: str) -> Any:
        path = self._path(name)
        try:
            return read_json(read_file(path), unique=True)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        except DataError as error:
            raise DataError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None


def build(folder: Folder, entry: Entry, kind: str) -> tuple[Scene, Goal]:
    """Return a task's scene at its start and its goal of a kind (not "eai"); a `DataError` for a malformed row."""
    where, base = entry.where, folder.scene(entry.scene)
    try:
        row = read_json(entry.row)
    except DataError as error:  # nesting that was within the limit where the file was read
        raise DataError(f"{where}: {error}") from None
    if row.get("rem_nodes"):
        raise DataError(f"{where}, field 'rem_nodes': tasks that remove nodes are not supported")
    nodes = []
    for number, node in enumerate(_listed(row.get("add_nodes"), f"{where}, field 'add_nodes'")):
        place = f"{where}, field 'add_nodes', entry {number}"
        if not isinstance(node, dict):
            raise DataError(f"{place}: expected an object, got {node!r:.100}")
        texts = [_texts(node.get(field), f"{place}, field {field!r}") for field in ("properties", "states")]
        nodes.append(Node(_whole(node, "id", place), node.get("class_name", ""), node.get("category", ""), *texts))
    states, goal_states = (_states(row.get(field), f"{where}, field {field!r}") for field in ("states", "goal_states"))
    add, rem, goal_add, goal_rem = (
        _edges(row.get(field), f"{where}, field {field!r}")
        for field in ("add_edges", "rem_edges", "goal_add", "goal_rem")
    )
    try:
        scene = base.changed(nodes, states, add, rem)
        if not scene.cells[scene.character * WIDTH + INSIDE] & scene.rooms:
            raise ValueError("the character is in no room; add an edge [its id, 'INSIDE', id of a room]")
        goal = _difference(kind, goal_states, goal_add, goal_rem, scene.ids[scene.character])
        goal.tests(scene)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    return scene, goal


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{where}: expected a list, got {value!r:.100}")
    return value


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not all(isinstance(text, str) for text in _listed(value, where)):
        raise DataError(f"{where}: expected texts, got {value!r:.100}")
    return tuple(value)


def _states(value: Any, where: str) -> dict[int, tuple[str, ...]]:
    states = {}
    for number, pair in enumerate(_listed(value, where)):
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) is not int:
            raise DataError(f"{where}, entry {number}: expected [id, [states]], got {pair!r:.100}")
        if pair[0] in states:
            raise DataError(f"{where}, entry {number}: the states of {pair[0]} are repeated")
        states[pair[0]] = _texts(pair[1], f"{where}, entry {number}")
    return states


def _edges(value: Any, where: str) -> list[Edge]:
    edges: list[Edge] = []
    for number, edge in enumerate(_listed(value, where)):
        if not isinstance(edge, list) or list(map(type, edge)) != [int, str, int]:
            raise DataError(f"{where}, entry {number}: expected [id, relation, id], got {edge!r:.100}")
        edges.append((edge[0], edge[1], edge[2]))
    return edges


#: The kinds of goals, see `VirtualHomeEnv`.
KINDS: Final = ("strict", "loose", "object", "eai", "either")
DIFFERENCES: Final = KINDS[:3]
_NEAR: Final = ("CLOSE", "FACING")


def _difference(
    kind: str, states: Mapping[int, Sequence[str]], add: Sequence[Edge], rem: Sequence[Edge], who: int
) -> Goal:
    def counts(edge: Edge) -> bool:
        source, relation, target = edge
        return (kind == "strict" or relation not in _NEAR) and (kind != "object" or who not in (source, target))

    return Goal(
        exact=tuple([(node, frozenset(names)) for node, names in states.items() if kind != "object" or node != who]),
        edges=tuple(filter(counts, add)),
        without=tuple(filter(counts, rem)),
    )


def read_eai(goal: Any, where: str) -> Goal:
    """Return a goal of EmbodiedAgentInterface; `where` (file and task) is for the messages of a `DataError`.

    `goal`: {"actions": ["GRAB", "WASH|RINSE"], "goal": [{"id", "class_name", "state"} or {"from_id", "relation_type",
    "to_id"}]}; the actions are ordered.
    """
    if not isinstance(goal, dict) or not all(isinstance(goal.get(field), list) for field in ("actions", "goal")):
        raise DataError(f"{where}: expected {{'actions': [...], 'goal': [...]}}, got {goal!r:.200}")
    deeds, states, edges = [], [], []
    for number, action in enumerate(goal["actions"]):
        if not isinstance(action, str) or not action:
            raise DataError(f"{where}, field 'actions', entry {number}: expected a text, got {action!r:.100}")
        names = tuple(action.upper().split("|"))
        for name in names:
            if name not in PARAMETERS:
                raise DataError(f"{where}, field 'actions', entry {number}: unknown action {name!r:.100}")
        deeds.append(Deed(names))
    for number, row in enumerate(goal["goal"]):
        place = f"{where}, field 'goal', entry {number}"
        if not isinstance(row, dict):
            raise DataError(f"{place}: expected an object, got {row!r:.100}")
        if "state" in row:
            states.append((_whole(row, "id", place), _one_of(row, "state", STATE_NAMES, place)))
        else:
            relation = _one_of(row, "relation_type", RELATION_NAMES, place)
            edges.append((_whole(row, "from_id", place), relation, _whole(row, "to_id", place)))
    return Goal(states=tuple(states), edges=tuple(edges), deeds=tuple(deeds))


def flaw(goal: Goal, scene: Scene) -> str:
    """Return why a goal cannot be played: "empty" or "true at the start"; "" when it can."""
    if not goal.size:
        return "empty"
    return "" if goal.tests(scene).missing(scene.cells, 0) else "true at the start"


def _whole(row: Mapping[str, Any], field: str, where: str) -> int:
    value = row.get(field)
    if type(value) is not int:
        raise DataError(f"{where}, field {field!r}: expected an id, got {value!r:.100}")
    return value


def _one_of(row: Mapping[str, Any], field: str, known: Sequence[str], where: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or value not in known:
        raise DataError(f"{where}, field {field!r}: expected one of {', '.join(known)}, got {value!r:.100}")
    return value
