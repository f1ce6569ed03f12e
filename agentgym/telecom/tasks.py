"""Tasks, generated or published: what is broken at the start, what the ticket says, what must hold at the end."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from agentgym.outside.text import tables_beside
from agentgym.outside.tool_calls import ToolCall
from agentgym.tasks import Draws, NumberedTasks
from agentgym.telecom.rules import CASES, TEXTS, begin, solved
from agentgym.telecom.state import PHONE, TABLES, World, make_table, make_world

#: Data that a customer accepts to pay for, in GB.
REFUEL = 2.0


class Task(NamedTuple):
    """A case; `id` is accepted back by `reset(options={"task_id": ...})`.

    `kind`: "service", "mobile_data" or "mms"; `faults`: names of what is broken; `start`: the world with its faults, as
    `World.snapshot` returns it; `assertions`: what must hold at the end, and `held` how many of them do at the start;
    `actions`: calls that must have been made besides.
    """

    id: str
    kind: str
    faults: tuple[str, ...]
    ticket: str
    start: tuple[Any, ...]
    assertions: tuple[ToolCall, ...]
    actions: tuple[ToolCall, ...]
    held: int


class _Person(NamedTuple):
    """Whose phone is broken."""

    customer: str
    line: str
    name: str
    number: str


#: Groups of faults, with the calls that bring each about, see `cases.toml`.
GROUPS: Mapping[str, Mapping[str, Any]] = CASES["faults"]
#: Which groups belong to which kind of task.
KINDS: Mapping[str, tuple[str, ...]] = {
    "service": ("airplane", "sim", "apn", "bill"),
    "mobile_data": ("airplane", "network", "data", "saver", "vpn", "usage", "roaming"),
    "mms": ("airplane", "sim", "network", "data", "usage", "roaming", "calling", "mms", "app"),
}
#: Faults that no tool mends: the case belongs to a person.
HOPELESS = ("lock_sim_card_pin", "contract_end_suspension")
#: Faults that change more than the phone: the account, the place, or what is asked for.
_BEYOND = frozenset({*GROUPS["bill"], *GROUPS["usage"], *GROUPS["roaming"], *HOPELESS})
_BREAK = {name: calls for group in GROUPS.values() for name, calls in group.items()}


@cache
def company() -> World:
    """Return a company of our own with an ordinary phone beside it, before any fault."""
    rows = tables_beside(__file__, "company.json")
    return make_world({kind: make_table(kind, rows[kind]) for kind in TABLES}, {}, {})


def _calls(written: Sequence[tuple[str, Mapping[str, Any]]], person: _Person) -> tuple[ToolCall, ...]:
    """Return calls of `cases.toml` about a person."""
    world = company()
    limit = world.plans[world.lines[person.line]["plan_id"]]["data_limit_gb"]
    known = {"$bill": f"B9{person.line[1:]}", "$used": round(limit + 0.1, 1)}
    ids, found = {"customer_id": person.customer, "line_id": person.line}, []
    for name, given in written:
        arguments = {key: known.get(value, value) for key, value in given.items()}
        found.append(ToolCall(name.removeprefix("line/"), {**ids, **arguments} if "/" in name else arguments))
    return tuple(found)


def calls_of_fault(fault: str, person: _Person) -> tuple[ToolCall, ...]:
    """Return the calls that bring a fault about."""
    return _calls(_BREAK[fault], person)


#: Splits, with the eighths of a digest that belong to them; "test_hard" has more faults than the others.
_SPLITS = {"train": range(6), "valid": range(6, 7), "test": range(7, 8), "test_hard": range(8)}
_NUMBERS = {split: number for number, split in enumerate(_SPLITS)}
#: Sets of faults that are drawn for a case at most; an eighth of all sets fits where many are possible.
_DRAWS = 10_000


class GeneratedDesk(NumberedTasks[Task]):
    """Tasks of our own company, without end; no two splits share a set of faults. Arguments are `TelecomEnv`'s."""

    name = "the generated cases"
    splits = tuple(_SPLITS)
    kind = "case"

    def __init__(self, faults: tuple[int, int], kinds: tuple[str, ...], num_tasks: int, hopeless: bool) -> None:
        self.faults, self.kinds, self.num_tasks, self.hopeless = faults, kinds, num_tasks, hopeless

    def make(self, split: str, index: int) -> Task:
        return _generated(self.faults, self.kinds, self.hopeless, split, index)


@lru_cache(maxsize=4096)
def _generated(faults: tuple[int, int], kinds: tuple[str, ...], hopeless: bool, split: str, index: int) -> Task:
    draws = Draws.seeded(7, _NUMBERS[split], index)
    least, most = faults if split != "test_hard" else (faults[1] + 1, faults[1] + 4)
    large = _large(kinds, least)
    for _ in range(_DRAWS):
        kind = draws.pick(large)
        rows = _rows(kind, hopeless)
        drawn = draws.sample(range(len(rows)), min(least + draws.below(most - least + 1), len(rows)))
        names = tuple([draws.pick(rows[place]) for place in sorted(drawn)])
        eighth, phone, beyond, held = _set_of_faults(kind, names)
        if eighth in _SPLITS[split]:
            person = draws.pick(draws.pick(_people()))
            ticket, rest, assertions, actions = _beside(kind, person, beyond)
            return Task(f"{split}/{index}", kind, names, ticket, phone + rest, assertions, actions, held)
    raise ValueError(
        f"no set of {least} to {most} faults of the kinds {', '.join(kinds)} belongs to the split {split!r}: allow "
        "other numbers of faults, more kinds, or take another split"
    )


@cache
def _large(kinds: tuple[str, ...], least: int) -> list[str]:
    """Return the kinds of which a case can have so many faults."""
    return [kind for kind in kinds if len(KINDS[kind]) >= least] or ["mms"]


@cache
def _rows(kind: str, hopeless: bool) -> list[list[str]]:
    """Return the faults of each row of a kind; those that no tool mends are in cases of no service alone."""
    left_out = () if hopeless and kind == "service" else HOPELESS
    return [[name for name in GROUPS[row] if name not in left_out] for row in KINDS[kind]]


@cache
def _people() -> list[list[_Person]]:
    """Return who may call, by customer and line."""
    found = company()
    return [
        [_Person(each["customer_id"], line, each["full_name"], found.lines[line]["phone_number"])
         for line in each["line_ids"]]
        for each in found.customers.values()
    ]  # fmt: skip


@cache
def _set_of_faults(kind: str, names: tuple[str, ...]) -> tuple[int, tuple[Any, ...], tuple[str, ...], int]:
    """Return what the faults of a case decide, whoever calls: all lines are alike before a fault.

    These are the eighth of all sets of faults to which they belong, the values of a phone with them, those of them in
    `_BEYOND`, and how many assertions hold.
    """
    digest = hashlib.blake2b(" ".join((kind, *names)).encode(), digest_size=1).digest()
    beyond, anybody = tuple([name for name in names if name in _BEYOND]), _people()[0][0]
    start = _broken(anybody, names)
    _, _, assertions, _ = _beside(kind, anybody, beyond)
    return digest[0] % 8, start[: len(PHONE)], beyond, sum(solved(World(start), assertions))


@cache
def _beside(
    kind: str, person: _Person, names: tuple[str, ...]
) -> tuple[str, tuple[Any, ...], tuple[ToolCall, ...], tuple[ToolCall, ...]]:
    """Return ticket, all values of the start but those of the phone, assertions and actions of a case.

    `names` are its faults in `_BEYOND`: nothing here depends on the others.
    """
    hopeless = any(name in HOPELESS for name in names)
    wanted = list(CASES["wanted"]["hopeless" if hopeless else kind])
    if not hopeless:
        wanted += [call for name in names for call in CASES["wanted_too"].get(name, ())]
    actions = (ToolCall("transfer_to_human_agents", {"summary": "I cannot fix the issue."}),) if hopeless else ()
    place = "abroad" if any(name in GROUPS["roaming"] for name in names) else "at home"
    ticket = TEXTS["tickets"][kind].format(name=person.name, number=person.number, place=place, refuel=REFUEL)
    return ticket, _broken(person, names)[len(PHONE) :], _calls(wanted, person), actions


def _broken(person: _Person, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the world with faults, brought about one after the other."""
    world = World(company().snapshot())
    begin(world, [ToolCall("set_user_info", {"name": person.name, "phone_number": person.number})])
    for name in names:
        begin(world, calls_of_fault(name, person))
    return world.snapshot()


class OfficialDesk:
    """The published tasks of a folder or wheel; errors are those of `agentgym.telecom.official.files.Files`."""

    def __init__(self, path: str) -> None:
        from agentgym.telecom.official.files import Files

        files = Files(path)
        self.name, self.files = f"the cases of {path}", files
        self._tasks, self._world = files.tasks(), files.world()
        self._splits = files.splits()
        self.splits = tuple(self._splits)

    def count(self, split: str) -> int:
        return len(self._splits[split])

    def by_index(self, split: str, index: int) -> Task:
        return self._task(self._splits[split][index])

    def by_id(self, task_id: str, split: str | None) -> Task:
        if task_id not in self._tasks or (split is not None and task_id not in self._splits[split]):
            where = self.name if split is None else f"split {split!r} of {self.name}"
            raise ValueError(f"unknown task_id {task_id!r} of {where}; one is {next(iter(self._tasks))!r}")
        return self._task(task_id)

    def ids(self, split: str) -> Iterator[str]:
        return iter(self._splits[split])

    @lru_cache(maxsize=4096)  # noqa: B019  # desks are made once a process, see `open_desk`
    def _task(self, task_id: str) -> Task:
        found = self._tasks[task_id]
        world = World(self._world.snapshot())
        begin(world, found.faults)
        kind, _, rest = task_id.removeprefix("[").partition("_issue]")
        return Task(
            task_id, kind, tuple(rest.partition("[")[0].split("|")), found.ticket, world.snapshot(), found.assertions,
            found.actions if found.needs_actions else (), sum(solved(world, found.assertions)),
        )  # fmt: skip


#: The published tasks of a path, read once a process.
open_desk = lru_cache(maxsize=8)(OfficialDesk)
