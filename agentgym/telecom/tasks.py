"""Tasks, generated or published: what is broken at the start, what the ticket says, what must hold at the end."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from agentgym.outside.tool_calls import ToolCall
from agentgym.tasks import Draws, NumberedTasks
from agentgym.telecom.generated.company import company
from agentgym.telecom.rules import begin, solved
from agentgym.telecom.state import PHONE, World

#: Data that a customer accepts to pay for, in GB.
REFUEL = 2.0
_SUMMARY = {"summary": "I cannot fix the issue."}


class Task(NamedTuple):
    """A task.

    Attributes:
        id: accepted back by `reset(options={"task_id": ...})`.
        kind: "service", "mobile_data" or "mms".
        faults: names of what is broken.
        ticket: the text that the agent gets.
        start: the world with its faults, as `World.snapshot` returns it.
        assertions: what must hold at the end.
        actions: calls that must have been made besides; () for none.
        held: how many of the assertions hold at the start.
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


def _calls(name: str, /, **arguments: Any) -> tuple[ToolCall, ...]:
    return (ToolCall(name, arguments),)


def _on_line(name: str, /, **more: Any) -> Callable[[_Person], tuple[ToolCall, ...]]:
    return lambda person: _calls(name, customer_id=person.customer, line_id=person.line, **more)


def _abroad(phone: str, line: str) -> Callable[[_Person], tuple[ToolCall, ...]]:
    return lambda person: (
        *_calls("set_user_location", abroad=True),
        *_calls(f"turn_roaming_{phone}"),
        *_on_line(f"{line}_roaming")(person),
    )  # fmt: skip


def _permissions(*names: str) -> Callable[[_Person], tuple[ToolCall, ...]]:
    return lambda person: tuple(
        ToolCall("remove_app_permission", {"app_name": "messaging", "permission": name}) for name in names
    )


def _always(*calls: tuple[ToolCall, ...]) -> Callable[[_Person], tuple[ToolCall, ...]]:
    return lambda person: tuple(itertools.chain(*calls))


def _used_up(person: _Person) -> tuple[ToolCall, ...]:
    world = company()
    limit = world.plans[world.lines[person.line]["plan_id"]]["data_limit_gb"]
    return _on_line("set_data_usage", data_used_gb=round(limit + 0.1, 1))(person)


def _overdue(ended: bool) -> Callable[[_Person], tuple[ToolCall, ...]]:
    return lambda person: (
        *_on_line("suspend_line_for_overdue_bill", new_bill_id=_overdue_bill(person), contract_ended=ended)(person),
        *_calls("simulate_network_search"),
    )


def _overdue_bill(person: _Person) -> str:
    return f"B9{person.line[1:]}"


#: How each fault is brought about; names are those of the published tasks. Of a row one at most is in a task.
GROUPS: Mapping[str, Mapping[str, Callable[[_Person], tuple[ToolCall, ...]]]] = {
    "airplane": {"airplane_mode_on": _always(_calls("turn_airplane_mode_on"))},
    "sim": {
        "unseat_sim_card": _always(_calls("unseat_sim_card")),
        "lock_sim_card_pin": _always(_calls("lock_sim_card", mode="pin")),
    },
    "apn": {"break_apn_settings": _always(_calls("break_apn_settings"))},
    "bill": {"overdue_bill_suspension": _overdue(False), "contract_end_suspension": _overdue(True)},
    "network": {
        "bad_network_preference": _always(
            _calls("set_network_mode_preference", mode="2g_only"), _calls("simulate_network_search")
        )
    },
    "data": {"data_mode_off": _always(_calls("turn_data_off"))},
    "saver": {"data_saver_mode_on": _always(_calls("turn_data_saver_mode_on"))},
    "vpn": {"bad_vpn": _always(_calls("break_vpn"))},
    "usage": {"data_usage_exceeded": _used_up},
    "roaming": {
        "user_abroad_roaming_enabled_off": _abroad("off", "enable"),
        "user_abroad_roaming_disabled_on": _abroad("on", "disable"),
        "user_abroad_roaming_disabled_off": _abroad("off", "disable"),
    },
    "calling": {"bad_wifi_calling": _always(_calls("set_wifi_calling", enabled=True, mms_over_wifi=True))},
    "mms": {"break_apn_mms_setting": _always(_calls("break_apn_mms_setting"))},
    "app": {
        "break_app_sms_permission": _permissions("sms"),
        "break_app_storage_permission": _permissions("storage"),
        "break_app_both_permissions": _permissions("sms", "storage"),
    },
}
#: Which rows belong to which kind of task.
KINDS: Mapping[str, tuple[str, ...]] = {
    "service": ("airplane", "sim", "apn", "bill"),
    "mobile_data": ("airplane", "network", "data", "saver", "vpn", "usage", "roaming"),
    "mms": ("airplane", "sim", "network", "data", "usage", "roaming", "calling", "mms", "app"),
}
#: Faults that no tool mends: the case belongs to a person.
HOPELESS = ("lock_sim_card_pin", "contract_end_suspension")
#: Faults that change more than the phone: the account, the place, or what is asked for.
_BEYOND = frozenset({*GROUPS["bill"], *GROUPS["usage"], *GROUPS["roaming"], *HOPELESS})
_BREAK = {name: maker for group in GROUPS.values() for name, maker in group.items()}
_WANTED: Mapping[str, tuple[ToolCall, ...]] = {
    "service": _calls("assert_service_status", expected_status="connected"),
    "mobile_data": (
        *_calls("assert_mobile_data_status", expected_status=True),
        *_calls("assert_internet_speed", expected_speed=200, expected_desc="excellent"),
    ),
    "mms": _calls("assert_can_send_mms", expected_status=True),
}
_TICKETS: Mapping[str, str] = {
    "service": (
        "{name} cannot make calls: the phone shows no service. Phone number: {number}. The customer agrees to pay "
        "bills that are overdue. The case is closed once the phone is connected to a network."
    ),
    "mobile_data": (
        "{name} has no mobile data, or it is very slow. Phone number: {number}. The customer is {place} and agrees to "
        "pay for {refuel} GB of data where data is used up, but keeps the plan. The case is closed once a speed test "
        "says excellent."
    ),
    "mms": (
        "{name} cannot send pictures with the messaging app. Phone number: {number}. The customer is {place} and "
        "agrees to pay for {refuel} GB of data where data is used up, but keeps the plan. The case is closed once "
        "pictures can be sent."
    ),
}
#: Splits, with the eighths of a digest that belong to them; "test_hard" has more faults than the others.
_SPLITS = {"train": range(6), "valid": range(6, 7), "test": range(7, 8), "test_hard": range(8)}
_NUMBERS = {split: number for number, split in enumerate(_SPLITS)}
#: Sets of faults that are drawn for a case at most; an eighth of all sets fits where many are possible.
_DRAWS = 10_000


class GeneratedDesk(NumberedTasks[Task]):
    """Tasks of our own company, without end. No two splits share a set of faults.

    Args:
        faults: least and largest number of faults of a task; those of "test_hard" have up to four more.
        kinds: of tasks.
        num_tasks: of each split.
        hopeless: whether some tasks have a fault that no tool mends.
    """

    name = "the generated cases"
    splits = tuple(_SPLITS)
    kind = "case"

    def __init__(self, faults: tuple[int, int], kinds: tuple[str, ...], num_tasks: int, hopeless: bool) -> None:
        self.faults, self.kinds, self.num_tasks, self.hopeless = faults, kinds, num_tasks, hopeless

    def make(self, split: str, index: int) -> Task:
        """Return a case, or raise a ValueError where the split has none with these settings."""
        return _generated(self.faults, self.kinds, self.hopeless, split, index)


@lru_cache(maxsize=4096)
def _generated(
    faults: tuple[int, int], kinds: tuple[str, ...], hopeless: bool, split: str, index: int
) -> Task:  # fmt: skip
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

    Returns:
        The eighth of all sets of faults to which these belong, the values of a phone with them, those of them that are
        in `_BEYOND`, and how many assertions hold.
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

    Args:
        kind: of the case.
        person: whose phone it is.
        names: those faults of the case that are in `_BEYOND`: nothing here depends on the others.
    """
    assertions, actions = list(_WANTED[kind]), tuple[ToolCall, ...]()
    if "overdue_bill_suspension" in names:
        assertions += _calls("assert_no_overdue_bill", overdue_bill_id=_overdue_bill(person))
    if "data_usage_exceeded" in names:
        assertions += _on_line("assert_data_refueling_amount", expected_amount=REFUEL)(person)
    if any(name in HOPELESS for name in names):
        assertions = [*_calls("assert_service_status", expected_status="no_service")]
        actions = _calls("transfer_to_human_agents", **_SUMMARY)
    place = "abroad" if any(name in GROUPS["roaming"] for name in names) else "at home"
    ticket = _TICKETS[kind].format(name=person.name, number=person.number, place=place, refuel=REFUEL)
    return ticket, _broken(person, names)[len(PHONE) :], tuple(assertions), actions


def _broken(person: _Person, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the world with faults, brought about one after the other."""
    world = World(company().snapshot())
    begin(world, _calls("set_user_info", name=person.name, phone_number=person.number))
    for name in names:
        begin(world, _BREAK[name](person))
    return world.snapshot()


class OfficialDesk:
    """The published tasks; satisfies `agentgym.tasks.Tasks`. A task's id is the published one.

    Args:
        path: a folder of the published files, or the wheel.

    Raises:
        agentgym.outside.text.DataError: as `agentgym.telecom.official.files.Files`.
    """

    def __init__(self, path: str) -> None:
        from agentgym.telecom.official.files import Files

        files = Files(path)
        self.name, self.files = f"the cases of {path}", files
        self._tasks, self._world = files.tasks(), files.world()
        self._splits = files.splits()
        self.splits = tuple(self._splits)

    def count(self, split: str) -> int:
        """Return how many tasks a split has."""
        return len(self._splits[split])

    def by_index(self, split: str, index: int) -> Task:
        """Return a task, or raise an IndexError."""
        if index < 0:
            raise IndexError(index)
        return self._task(self._splits[split][index])

    def by_id(self, task_id: str, split: str | None) -> Task:
        """Return a task by its id, or raise a ValueError."""
        if task_id not in self._tasks or (split is not None and task_id not in self._splits[split]):
            where = self.name if split is None else f"split {split!r} of {self.name}"
            raise ValueError(f"unknown task_id {task_id!r} of {where}; one is {next(iter(self._tasks))!r}")
        return self._task(task_id)

    def ids(self, split: str) -> Iterator[str]:
        """Yield the ids of a split."""
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


@lru_cache(maxsize=8)
def open_desk(path: str) -> OfficialDesk:
    """Return the published tasks of a path, read once a process."""
    return OfficialDesk(path)
