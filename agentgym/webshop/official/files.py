"""The official product files as products.

`items_shuffle.json` (or `items_shuffle_1000.json`): products; `items_ins_v2*.json`: their attributes and synthetic
requests; `items_human_ins.json`: human requests.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, read_file, read_json
from agentgym.webshop.catalogue import Options, Product, read_tag
from agentgym.webshop.goals import Goal, HumanRequest
from agentgym.webshop.official.json_stream import entries

#: Maximum characters of a text (a title, a request), of an option's name or value, and of a page; maximum numbers of
#: texts on a page, option groups, and combinations of options (goals) of a product. Every page fits into the space.
LONGEST_TEXT, LONGEST_VALUE, LONGEST_PAGE = 20_000, 2_000, 300_000
MOST_PIECES, MOST_GROUPS, MOST_CHOICES = 5_000, 50, 1_000_000
#: Maximum numbers of attributes of a product, and of wishes of one kind: a purchase compares all pairs.
MOST_ATTRIBUTES, MOST_WISHES = 1_000, 100
#: Attributes of a product that is not in the attribute file.
UNKNOWN_ATTRIBUTES = ("DUMMY_ATTR",)
_ITEMS, _REQUESTS, _HUMAN = "items_shuffle", "items_ins_v2", "items_human_ins.json"
_HOW = (
    "the official files are items_shuffle.json, items_ins_v2.json and items_human_ins.json, or the small set "
    "items_shuffle_1000.json, items_ins_v2_1000.json: download them with the setup script of princeton-nlp/WebShop"
)


@dataclass(frozen=True)
class ProductFiles:
    """Paths of one product set; `human` need not exist."""

    items: Path
    requests: Path
    human: Path


def find_files(data: str | os.PathLike[str]) -> ProductFiles:
    """Return the files of a folder (the 1,000-product set if both exist), or those in the folder of an items file."""
    given = Path(data).expanduser()
    if given.is_dir():
        found = sorted(given.glob(f"{_ITEMS}*.json"), reverse=True)  # "_1000.json" before ".json"
        if not found:
            raise DataError(f"WebShop data: {given} contains no {_ITEMS}*.json; {_HOW}")
        items = found[0]
    elif given.is_file() and given.name.startswith(_ITEMS):
        items = given
    else:
        raise DataError(f"WebShop data: {given} is neither a folder nor an {_ITEMS}*.json; {_HOW}")
    files = ProductFiles(items, items.with_name(items.name.replace(_ITEMS, _REQUESTS)), items.with_name(_HUMAN))
    if not files.requests.is_file():
        raise DataError(f"WebShop data: {files.requests} is missing beside {items.name}; {_HOW}")
    return files


def read_products(items: Path, request_of: Callable[[str], Any | None], limit: int | None = None) -> Iterator[Product]:
    """Yield the products of an items file in order; a `DataError` names file, product and field.

    As in the original, the first product of an asin counts; asins of more than ten characters and "nan" are skipped.
    `request_of` returns an asin's entry in the requests file or None; `limit` counts records before any is skipped.
    """
    seen: set[str] = set()
    for number, record in entries(items):
        if limit is not None and isinstance(number, int) and number >= limit:
            return
        if not isinstance(number, int):
            raise DataError(f"{items}: expected a list of products, found an object; {_HOW}")
        fields = _Fields(items, f"product {number}", record)
        asin = fields.text("asin")
        if not asin.isprintable():
            raise fields.fail("asin", "printable")
        if asin == "nan" or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        fields.who = f"product {number} ({asin})"
        yield _product(fields, asin, request_of(asin))


def requests_of(path: Path) -> Callable[[str], Any | None]:
    """Return a function from asin to its entry in the requests file, or None, through a temporary database."""
    database = sqlite3.connect("")
    database.execute("CREATE TABLE entries (asin BLOB, entry BLOB)")
    rows = ((_key(path, asin), json.dumps(entry).encode()) for asin, entry in entries(path))
    database.executemany("INSERT INTO entries VALUES (?, ?)", rows)
    for (asin,) in database.execute("SELECT asin FROM entries GROUP BY asin HAVING count(*) > 1 LIMIT 1"):
        raise DataError(f"{path}: the asin {asin.decode()!r} is repeated; the official files have each once")
    database.execute("CREATE UNIQUE INDEX asins ON entries (asin)")

    def get(asin: str) -> Any | None:
        found = database.execute("SELECT entry FROM entries WHERE asin = ?", (_key(path, asin),)).fetchone()
        return None if found is None else json.loads(found[0])

    return get


def _key(path: Path, asin: str | int) -> bytes:
    if isinstance(asin, int):
        raise DataError(f"{path}: expected an object, asin -> entry, found a list; {_HOW}")
    return asin.encode("utf-8", "surrogatepass")


def read_human(path: Path) -> dict[str, tuple[HumanRequest, ...]]:
    """Return the human requests of every asin, in file order; a `DataError` names file, product and field."""
    if not path.is_file():
        raise DataError(f"WebShop data: {path} is missing, goals='human' needs it; {_HOW}")
    found: dict[str, tuple[HumanRequest, ...]] = {}
    for asin, listed in entries(path):
        if asin in found:
            raise DataError(f"{path}: entry {len(found)}: product {asin} is repeated")
        if not isinstance(listed, list):
            raise DataError(f"{path}: product {asin}: expected a list of requests, got {listed!r:.200}")
        rows = [_Fields(path, f"product {asin}, request {i}", row) for i, row in enumerate(listed)]
        names = ("instruction_attributes", "instruction_options")
        found[str(asin)] = tuple([HumanRequest(row.text("instruction"), *map(row.texts, names)) for row in rows])
    return found


@dataclass
class _Fields:
    path: Path
    who: str
    record: Any

    def __post_init__(self) -> None:
        if not isinstance(self.record, dict):
            raise DataError(f"{self.path}: {self.who}: expected an object with fields, got {self.record!r:.200}")

    def fail(self, name: str, expected: str) -> DataError:
        got = repr(self.record[name]) if name in self.record else "nothing"
        return DataError(f"{self.path}: {self.who}: field {name!r} must be {expected}, got {got:.200}")

    def text(self, name: str, most: int = LONGEST_TEXT) -> str:
        value = self.record.get(name)
        if not isinstance(value, str):
            raise self.fail(name, "a string")
        if len(value) > most:
            raise self.fail(name, f"of at most {most:,} characters")
        return value

    def texts(self, name: str, most: int = LONGEST_VALUE, count: int = MOST_WISHES) -> tuple[str, ...]:
        value = self.record.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fail(name, "a list of strings")
        if len(value) > count or any(len(each) > most for each in value):
            raise self.fail(name, f"at most {count:,} strings of at most {most:,} characters")
        return tuple(value)


def _product(fields: _Fields, asin: str, request: Any) -> Product:
    bullets, pricing = fields.record.get("small_description"), fields.record.get("pricing")
    if pricing is not None and not isinstance(pricing, str):
        raise fields.fail("pricing", "a string")
    try:
        prices, price_text = read_tag(pricing)
    except ValueError as error:
        raise DataError(f"{fields.path}: {fields.who}: field 'pricing': {error}") from error
    asked = _Fields(fields.path, f"{fields.who}, its entry in the requests file", {} if request is None else request)
    has_request = asked.record.get("instruction") is not None
    instruction_attributes = asked.texts("instruction_attributes") if has_request else ()
    if has_request and not instruction_attributes:
        raise asked.fail("instruction_attributes", "a list of at least one string")
    known = "attributes" in asked.record
    attributes = asked.texts("attributes", count=MOST_ATTRIBUTES) if known else UNKNOWN_ATTRIBUTES
    one = isinstance(bullets, str)
    bullets = (bullets,) if one else fields.texts("small_description", LONGEST_PAGE, MOST_PIECES)
    product = Product(
        asin=asin,
        title=fields.text("name"),
        description=fields.text("full_description", LONGEST_PAGE),
        bullets=bullets,
        prices=prices,
        price_text=price_text,
        options=_options(fields),
        attributes=attributes,
        category=fields.text("category"),
        query=fields.text("query").lower().strip(),
        product_category=fields.text("product_category"),
        instruction=asked.text("instruction") if has_request else None,
        instruction_attributes=instruction_attributes,
    )
    if sum(map(len, product.bullets)) > LONGEST_PAGE:
        raise fields.fail("small_description", f"of at most {LONGEST_PAGE:,} characters")
    shown = [value for _, values in product.options for value in values]
    if sum(map(len, shown)) > LONGEST_PAGE or len(shown) > MOST_PIECES or product.choices() > MOST_CHOICES:
        problem = f"at most {MOST_PIECES:,} values of {LONGEST_PAGE:,} characters and {MOST_CHOICES:,} ways to choose"
        raise fields.fail("customization_options", problem)
    return product


def _options(fields: _Fields) -> Options:
    given = fields.record.get("customization_options")
    if not given:
        return ()
    problem = (
        "an object of lists of objects with a string 'value' (or null), or '', of at most "
        f"{MOST_GROUPS} groups, with names and values of at most {LONGEST_VALUE:,} characters"
    )
    fine = isinstance(given, dict) and len(given) <= MOST_GROUPS
    groups: dict[str, tuple[str, ...]] = {}
    for name, contents in given.items() if fine else ():
        if contents is None and len(name) <= LONGEST_VALUE:
            continue
        listed = contents if isinstance(contents, list) else [None]
        values: list[Any] = [each.get("value") if isinstance(each, dict) else None for each in listed]
        fine = fine and all(isinstance(text, str) and len(text) <= LONGEST_VALUE for text in (name, *values))
        if fine:
            groups[name.lower()] = tuple([value.strip().replace("/", " | ").lower() for value in values])
    if not fine:
        raise fields.fail("customization_options", problem)
    return tuple(groups.items())


@dataclass(frozen=True)
class Record:
    """Recorded hidden prices (by asin) and goals (in the order served) of a running shop."""

    prices: dict[str, float]
    goals: tuple[Goal, ...] | None


def read_record(path: str | os.PathLike[str]) -> Record:
    """Read `prices` (asin -> price) and, optionally, `goals` (in the original's form), plain or xz, gzip, bzip2."""
    path = Path(path).expanduser()
    try:
        data = read_json(read_file(path), unique=True)
    except DataError as error:
        raise DataError(f"{path} cannot be read as JSON ({error})") from error
    prices = data.get("prices") if isinstance(data, dict) else None
    if not isinstance(prices, dict):
        raise DataError(f"{path}: expected an object with 'prices' (asin -> price) and, optionally, 'goals'")
    for asin, price in prices.items():
        if isinstance(price, bool) or not isinstance(price, (int, float)):
            raise DataError(f"{path}: the price of {asin!r} must be a number, got {price!r:.200}")
    goals = data.get("goals")
    if goals is not None and not isinstance(goals, list):
        raise DataError(f"{path}: 'goals' must be a list, got {goals!r:.200}")
    return Record(prices, None if goals is None else tuple([_goal(path, i, goal) for i, goal in enumerate(goals)]))


def _goal(path: Path, number: int, data: Any) -> Goal:
    fields = _Fields(path, f"goal {number}", data)
    options, limit = fields.record.get("goal_options"), fields.record.get("price_upper")
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        raise fields.fail("price_upper", "a number")
    texts = ("asin", "name", "category", "query", "product_category", "instruction_text")
    values: list[Any] = [*map(fields.text, texts), fields.texts("attributes")]
    if isinstance(options, dict):
        fields.record = {**fields.record, "goal_options": [*options, *options.values()]}
        fields.texts("goal_options", count=2 * MOST_WISHES)
        values += [tuple(options.items()), float(limit)]
    else:
        values += [fields.texts("goal_options"), float(limit)]
    return Goal(*values)
