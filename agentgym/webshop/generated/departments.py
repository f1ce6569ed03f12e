"""The kinds of products of the generated shop and their differences, read from `departments.toml`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.outside.text import tables_beside


@dataclass(frozen=True)
class Kind:
    """One kind of product; `name` is also the products' query, `path` runs from the widest department to the kind.

    `cheapest`, `dearest`: usual prices in dollars; `groups`: possible option groups (name, all values); `qualities`
    precede the name ("machine washable"), `features` follow "with" ("steel legs").
    """

    name: str
    category: str
    path: tuple[str, ...]
    cheapest: float
    dearest: float
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    qualities: tuple[str, ...]
    features: tuple[str, ...]


def _split(text: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator))


_TABLES = tables_beside(__file__, "departments.toml")
#: Values of option groups; the first word of a key is the group's name on the page.
VALUES: dict[str, tuple[str, ...]] = {key: _split(values) for key, values in _TABLES["values"].items()}


def _kind(category: str, department: str, qualities: Sequence[str], row: str) -> Kind:
    name, path, prices, groups, features = _split(row, "|")
    low, high = prices.split()
    return Kind(
        name=name,
        category=category,
        path=(department, *_split(path, ">"), name.title()),
        cheapest=float(low),
        dearest=float(high),
        groups=tuple((key.split()[0], VALUES[key]) for key in _split(groups)),
        qualities=tuple(qualities),
        features=_split(features),
    )


#: All kinds of products, category by category.
KINDS: tuple[Kind, ...] = tuple(
    _kind(each["category"], each["name"], _split(each["qualities"]), row)
    for each in _TABLES["departments"]
    for row in re.split(r"\n(?! )", each["kinds"].strip())
)
CATEGORIES: tuple[str, ...] = tuple(each["category"] for each in _TABLES["departments"])
