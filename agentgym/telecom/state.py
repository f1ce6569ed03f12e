"""The state of the telecom world: the company's tables and one customer's phone, as one tuple of immutable values.

A table maps ids to records; a record is never changed but replaced, and so is the table that holds it. Hence a
snapshot of the world is the tuple of its fields, and worlds share whatever did not change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import is_not
from typing import Any

from agentgym.outside.text import tables_beside

Table = dict[str, "Record"]
#: Dates are kept in ISO form. The original shows those with a time of day with a blank in place of the "T".
_MOMENTS = ("created_at", "activation_date", "last_esim_transfer_date")
#: Time stands still.
TODAY = "2025-02-25"


class Record(dict[str, Any]):
    """A row of a table. Its text is made once."""

    __slots__ = ("_text",)
    _text: str

    @property
    def text(self) -> str:
        """The row as the tools print it, in JSON."""
        try:
            return self._text
        except AttributeError:
            shown = {
                name: value.replace("T", " ") if name in _MOMENTS and value is not None else value
                for name, value in self.items()
            }
            self._text = json.dumps(shown)
            return self._text

    def but(self, **changed: Any) -> Record:
        """Return the record with some values replaced."""
        return Record(self, **changed)


_WORLD = tables_beside(__file__, "world.json")
#: Fields of the tables in the order in which they are printed, with the default of each.
FIELDS: Mapping[str, Mapping[str, Any]] = _WORLD["tables"]
_REQUIRED = "..."
#: Numbers that a file may write without a point.
_REALS = frozenset(_WORLD["numbers"])
#: A phone without faults: its attributes by name. "signal_strength" is the best signal of each network around.
PHONE: Mapping[str, Any] = _WORLD["phone"]
SURROUNDINGS: Mapping[str, Any] = _WORLD["surroundings"]
#: Settings of messaging, as the company sends them to a phone.
APN: Mapping[str, Any] = PHONE["active_apn_settings"]
PERMISSIONS = tuple(PHONE["app_statuses"]["messaging"]["permissions"])
TABLES = tuple(FIELDS)
_NAMES = (*PHONE, *SURROUNDINGS, *TABLES, "made", "owner", "agreed")
_PLACES = tuple(range(len(_NAMES)))
#: Values that follow from the others.
_FOLLOWING = ("owner", "agreed")


def make_table(kind: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of a `kind` (key of `FIELDS`) with rows in the order of a file; defaults may be left out.

    Raises a ValueError if a row has an unknown field or lacks one, or if two rows have one id.
    """
    table: Table = {}
    fields = FIELDS[kind]
    key = next(iter(fields))
    for number, row in enumerate(rows):
        unknown = [name for name in row if name not in fields]
        missing = [name for name, default in fields.items() if default == _REQUIRED and name not in row]
        if unknown or missing:
            wrong = f"does not know {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
            raise ValueError(f"{kind}[{number}]: the table {wrong}; its fields are {', '.join(fields)}")
        record = Record({name: _plain(name, row.get(name, default)) for name, default in fields.items()})
        if record[key] in table:
            raise ValueError(f"{kind}[{number}]: a second row with {key} {record[key]!r}; ids must differ")
        table[record[key]] = record
    return table


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {each: _plain(each, inner) for each, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain("", inner) for inner in value]
    return float(value) if name in _REALS else value


class World:
    """The company's tables, one phone and what is around it. Attributes are those of `PHONE`, `SURROUNDINGS`, `TABLES`.

    `made` counts the bills that were made since the start: their ids are numbered with it. `owner` is customer and line
    of the phone's number, and `agreed` the tables that phone and company last agreed on: both follow from the rest.
    """

    sim_card_status: str
    sim_card_missing: bool
    airplane_mode: bool
    network_signal_strength: str
    network_technology_connected: str
    network_connection_status: str
    battery_level: int
    data_enabled: bool
    roaming_enabled: bool
    network_mode_preference: str
    active_apn_settings: Mapping[str, Any]
    wifi_enabled: bool
    wifi_connected: bool
    wifi_ssid: str | None
    wifi_signal_strength: str
    wifi_calling_enabled: bool
    wifi_calling_mms_over_wifi: bool
    data_saver_mode: bool
    vpn_enabled_setting: bool
    vpn_connected: bool
    vpn_details: Mapping[str, str] | None
    app_statuses: Mapping[str, Mapping[str, Any]]
    name: str | None
    phone_number: str | None
    is_abroad: bool
    roaming_allowed: bool
    signal_strength: Mapping[str, str]
    mobile_data_usage_exceeded: bool
    line_active: bool
    payment_request: Mapping[str, Any] | None
    plans: Table
    customers: Table
    lines: Table
    bills: Table
    devices: Table
    made: int
    owner: tuple[str, str] | None
    agreed: tuple[Any, ...]

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.load(values)

    def load(self, values: tuple[Any, ...]) -> None:
        """Load a `snapshot`."""
        vars(self).update(zip(_NAMES, values, strict=True))

    def snapshot(self) -> tuple[Any, ...]:
        """Return all values as a tuple of references."""
        return tuple(vars(self).values())


def make_world(tables: Mapping[str, Table], phone: Mapping[str, Any], surroundings: Mapping[str, Any]) -> World:
    """Return a world; what phone and surroundings leave out is as in `PHONE` and `SURROUNDINGS`."""
    values = {**PHONE, **phone, **SURROUNDINGS, **surroundings, **tables, "made": 0, "owner": None, "agreed": ()}
    return World(tuple(values[name] for name in _NAMES))


class Difference:
    """The differences of states from the snapshot `start`, in words that are equal exactly for equal states.

    >>> world = make_world({}, {}, {name: () for name in TABLES})
    >>> difference = Difference(world.snapshot())
    >>> world.airplane_mode = True
    >>> difference.words(world.snapshot())
    'airplane_mode=True'
    """

    def __init__(self, start: tuple[Any, ...]) -> None:
        self._start = self._last = start
        self._words: dict[int, str] = {}
        self._text = ""

    def words(self, values: tuple[Any, ...]) -> str:
        """Return how a snapshot differs; only fields that changed since the last call are compared again."""
        if values is not self._last:
            words, start = self._words, self._start
            for place in compress(_PLACES, map(is_not, values, self._last)):
                words[place] = _changed(_NAMES[place], values[place], start[place])
            self._last, self._text = values, "; ".join([words[place] for place in sorted(words) if words[place]])
        return self._text


def _changed(name: str, value: Any, before: Any) -> str:
    """Return how a value differs, "" if it does not."""
    if value is before or name in _FOLLOWING or value == before:
        return ""
    if name not in TABLES:
        return f"{name}={value}"
    found = []
    for key, record in changed_rows(value, before).items():
        old = before.get(key, {})
        fields = [f"{each}={inner}" for each, inner in record.items() if old.get(each, ...) != inner]
        found.append(f"{key} {', '.join(fields)}")
    return "; ".join(found)


def changed_rows(table: Table, before: Table) -> Table:
    """Return the records of a table that another one does not have: rows are never removed, and keep their order."""
    pairs = zip(table.items(), chain(before.values(), repeat(None)), strict=False)
    return {key: record for (key, record), old in pairs if record is not old and record != old}


def changes(values: tuple[Any, ...], start: tuple[Any, ...]) -> tuple[tuple[int, Any], ...]:
    """Return the values of a snapshot that differ from another one's, by place; of a table its changed rows."""
    places = [place for place in compress(_PLACES, map(is_not, values, start)) if _NAMES[place] not in _FOLLOWING]
    return tuple(
        (place, changed_rows(values[place], start[place]) if _NAMES[place] in TABLES else values[place])
        for place in places
    )


def changed(start: tuple[Any, ...], found: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return the snapshot that has the `changes` `found` from another one."""
    values = list(start)
    for place, value in found:
        values[place] = {**start[place], **value} if _NAMES[place] in TABLES else value
    return tuple(values)
