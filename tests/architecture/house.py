"""The measures of the house in one table: `python -m tests.architecture.house [--list]`.

Source is every Python file of the five folders. A line is a line of the file, blank ones and comments included.
"""

import argparse
import ast
import dataclasses
import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("agentgym", "wrappers", "policies", "baselines", "benchmarks")


@dataclass(frozen=True)
class Limit:
    """One limit of the house.

    Attributes:
        measure: key of `measures()`.
        most: the largest value for what there was when the house was built.
        later: the largest value with evidence, further methods and trainer work, which a test asserts; None: `most`.
    """

    measure: str
    most: float
    later: float | None = None

    @property
    def allowed(self) -> float:
        return self.most if self.later is None else self.later


LIMITS = (
    Limit("lines of source", 68_000, later=78_000),  # 4,000 of them are for the world of tools
    Limit("lines of benchmarks", 12_500, later=13_500),
    Limit("lines of benchmarks, shared", 1_800),
    Limit("lines of benchmarks/truth", 2_700),
    Limit("lines of benchmarks/training", 2_700, later=3_500),  # the evidence of head to heads
    Limit("lines of benchmarks/play", 2_400),
    Limit("lines of benchmarks/speed", 2_300),
    Limit("lines of benchmarks/keys", 400),
    Limit("lines of tests", 46_000, later=52_000),
    Limit("pages of docs", 65, later=72),
    Limit("lines of docs", 7_000),
    Limit("lines of the longest file", 600),
    Limit("files directly in agentgym", 10),
    Limit("files directly in policies", 10),
    Limit("files that name an environment", 4),
    Limit("files that name a method", 2),
    Limit("files that name a scorer", 1),
    Limit("fields of TrainerConfig", 14),
    Limit("files of an iteration", 35),
    Limit("functions of an iteration", 170),
)
#: The two that serve as examples may be named anywhere.
EXAMPLES = ("sokoban", "alfworld")
#: Methods whose name is also an English word, or another thing's: a mention is a name or a word of the code, not prose.
WORDS = ("attribution", "frontier", "judge", "potential", "prime", "salt", "shuffled", "spa", "vine")
#: Where a method's name is another thing's, by name: files or folders, and what it is there.
ELSEWHERE = {
    "grpo": (
        "baselines/engines/verl",  # a value of verl's option `adv_estimator`
        "wrappers/credit/sdpo.py",  # an option: the weight of the outcome's advantage
    ),
    "judge": ("agentgym/sotopia",),  # who scores dialogues
    "potential": ("wrappers/process_reward.py", "wrappers/shaping.py"),  # of shaping rewards, public attributes
    "ppo": (
        "baselines/config.py", "baselines/update.py",  # the clipped objective, a value of `Loss.objective`
        "baselines/engines/verl",  # a package of verl
        "baselines/sb3", "benchmarks/training/shaping.py",  # a class of Stable-Baselines3
    ),
    "process_reward": ("baselines/scorers/reward_models.py", "policies/engines/judge.py"),  # the environment wrapper
    "spa": ("agentgym/virtualhome/env.py",),  # a protocol of replies
}  # fmt: skip
#: Answers by name, without a sum: those of `route.py`, which trains for an iteration.
ROUTE = ("files of an iteration", "functions of an iteration")


@cache
def texts() -> dict[PurePosixPath, str]:
    """Return every source file's text, by its path from the root."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {PurePosixPath(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def lines(text: str) -> int:
    return len(text.splitlines())


def lines_under(folder: str) -> int:
    return sum(lines(text) for path, text in texts().items() if path.is_relative_to(folder))


def files_in(folder: str) -> int:
    """Return the number of source files directly in a folder, its `__init__.py` included."""
    return sum(path.parent == PurePosixPath(folder) for path in texts())


@cache
def words_of_code(path: PurePosixPath) -> frozenset[str]:
    """Return names and words of one-word string literals of a file, not what its docstrings and comments say."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(texts()[path])):
        for _, value in ast.iter_fields(node):
            for word in value if isinstance(value, list) else [value]:
                if isinstance(word, str) and not re.search(r"\s", word):
                    found.update(re.findall(r"\w+", word))
    return frozenset(found)


@cache
def lower_case() -> dict[PurePosixPath, str]:
    return {path: text.lower() for path, text in texts().items()}


def mentions(begin: str, pattern: str, own: Iterable[PurePosixPath]) -> list[str]:
    """Return the source files that a pattern is found in, in any case, besides one's own; each match begins so."""
    compiled, mine = re.compile(pattern), set(own)
    return [
        str(path)
        for path, text in lower_case().items()
        if begin in text and path not in mine and compiled.search(text)
    ]  # fmt: skip


@cache
def environments() -> dict[str, list[str]]:
    """Return the source files outside an environment's own that name it; its own have its name in their path."""
    from agentgym.registry import ROWS

    found = {}
    for name in dict.fromkeys(row.module.split(".")[1] for row in ROWS):
        # Search-QA is written with a hyphen in prose.
        pattern = name.replace("searchqa", "search[-_ ]?qa")
        found[name] = mentions(name[:6], pattern, [path for path in texts() if re.search(pattern, str(path))])
    return found


def _is_own(path: PurePosixPath, name: str) -> bool:
    return any(_is_of(part, name) for part in (*path.parent.parts, path.stem))


def _is_of(word: str, name: str) -> bool:
    return word == name or word.startswith(f"{name}_")


@cache
def _declared() -> dict[PurePosixPath, list[str]]:
    """Return the names of the methods that files of `wrappers/credit` declare."""
    found: dict[PurePosixPath, list[str]] = {}
    for path in texts():
        if path.parent == PurePosixPath("wrappers/credit"):
            there = vars(importlib.import_module(f"wrappers.credit.{path.stem}"))
            methods = there.get("METHODS", [there["METHOD"]] if "METHOD" in there else ())
            found[path] = [method.name for method in methods]
    return found


@cache
def methods(prose: bool = True) -> dict[str, list[str]]:
    """Return the source files that name a credit method besides its own and the two `__init__.py`.

    Methods are the functions of `wrappers.credit` that are named like their file, and the recipes. A method's own files
    are named for it, or declare it or a variant of it: what is declared counts as a part of a file's name.

    Args:
        prose: whether docstrings, comments and sentences count, except for those of `WORDS`.
    """
    from baselines.recipes import RECIPES
    from wrappers import credit

    files = {path.stem for path in texts() if path.parent == PurePosixPath("wrappers/credit")}
    aside = {PurePosixPath("wrappers/__init__.py"), PurePosixPath("wrappers/credit/__init__.py")}
    aside |= {path for path in texts() if "generated" in path.parts}
    found = {}
    for name in sorted({*(files & set(credit.__all__)), *RECIPES}):
        own = aside | {path for path in texts() if _is_own(path, name)}
        own |= {path for path, declared in _declared().items() if any(_is_of(each, name) for each in declared)}
        own |= {path for path in texts() if any(path.is_relative_to(other) for other in ELSEWHERE.get(name, ()))}
        if prose and name not in WORDS:
            spelled = "|".join((
                name.replace("_", "[-_ ]"), name.replace("_", ""), re.sub("_plus_plus", r"[+][+]", name),
            ))  # fmt: skip
            found[name] = mentions(name.partition("_")[0], rf"(?<![\w-])({spelled})(?![\w-])", own)
        else:
            found[name] = [str(path) for path in texts() if path not in own and _says(path, name)]
    return found


def _says(path: PurePosixPath, name: str) -> bool:
    return any(word == name or word.lower() == name.replace("_", "") for word in words_of_code(path))


@cache
def scorers() -> dict[str, list[str]]:
    """Return the source files that name a scorer's class, or its settings' class, besides its own."""
    found = {}
    for path in texts():
        if path.parent == PurePosixPath("baselines/scorers"):
            camel = "".join(part.capitalize() for part in path.stem.split("_"))
            if re.search(rf"^class {camel}\b", texts()[path], re.MULTILINE) and f"class {camel}Config" in texts()[path]:
                found[path.stem] = [
                    str(other)
                    for other in texts()
                    if other != path and {camel, f"{camel}Config"} & words_of_code(other)
                ]  # fmt: skip
    return found


def trainer_fields() -> int:
    from baselines.config import TrainerConfig

    return len(dataclasses.fields(TrainerConfig))


def longest(count: int = 10) -> list[tuple[int, str]]:
    """Return the longest files, tests included, with their lines."""
    tests = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")}
    return sorted(((lines(text), str(path)) for path, text in {**texts(), **tests}.items()), reverse=True)[:count]


def subfolders(folder: str) -> dict[str, int]:
    """Return lines of a folder's folders, and under "" of the files directly in it."""
    found: dict[str, int] = {}
    for path, text in texts().items():
        if path.parts[0] == folder:
            name = path.parts[1] if len(path.parts) > 2 else ""
            found[name] = found.get(name, 0) + lines(text)
    return found


@cache
def measures() -> dict[str, float]:
    """Return what the limits are about, without the route of an iteration."""
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    benchmarks = subfolders("benchmarks")
    beside = {name: named for name, named in environments().items() if name not in EXAMPLES}
    return {
        "lines of source": sum(map(lines, texts().values())),
        **{f"lines of {folder}": lines_under(folder) for folder in FOLDERS},
        "lines of benchmarks, shared": benchmarks.pop(""),
        **{f"lines of benchmarks/{name}": count for name, count in benchmarks.items()},
        "lines of tests": sum(map(lines, tests)),
        "pages of docs": len(pages),
        "lines of docs": sum(map(lines, pages)),
        "lines of the longest file": longest(1)[0][0],
        **{f"files directly in {name}": files_in(name) for name in ("agentgym", "policies")},
        "files that name an environment": max(map(len, beside.values())),
        "files that name a method": max(map(len, methods().values())),
        "files that name a scorer": max(map(len, scorers().values()), default=0),
        "fields of TrainerConfig": trainer_fields(),
    }


def broken(found: Mapping[str, float], limits: Iterable[Limit] = LIMITS) -> list[str]:
    """Return the limits that do not hold; a measure that is not there counts as 0."""
    return [
        f"{limit.measure}: {found.get(limit.measure, 0):g}, at most {limit.allowed:g}"
        for limit in limits
        if found.get(limit.measure, 0) > limit.allowed
    ]


def _rows() -> list[tuple[str, ...]]:
    found, limits = measures(), {limit.measure: limit for limit in LIMITS}
    rows: list[tuple[str, ...]] = [("measure", "today", "limit", "later", "")]
    for measure in dict.fromkeys((*limits, *found)):
        value, limit = found.get(measure), limits.get(measure)
        today = "-" if measure in ROUTE else "none yet" if value is None else f"{value:,}"
        if limit is None:
            rows.append((measure, today, "", "", ""))
            continue
        state = "-" if value is None else "holds" if value <= limit.allowed else "above"
        state = "python -m tests.architecture.route" if measure in ROUTE else state
        rows.append((measure, today, f"{limit.most:,}", "" if limit.later is None else f"{limit.later:,}", state))
    return rows


def _print(rows: Iterable[tuple[Any, ...]]) -> None:
    written = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in written) for i in range(len(written[0]))]
    for row in written:
        first, *others = [
            cell.ljust(width) if cell[:1].isalpha() or not i else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join([first, *others]).rstrip())
    print()


def main(arguments: list[str] | None = None) -> int:
    """Print all measures, and return 1 where a limit does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.house", description="Measure the house.")
    parser.add_argument("--list", action="store_true", help="also the files behind the numbers, the most first")
    given = parser.parse_args(arguments)
    _print(_rows())
    if given.list:
        _print([("longest files", "lines"), *((path, n) for n, path in longest())])
        for title, named in (("environment", environments()), ("method", methods()), ("scorer", scorers())):
            for name, files in sorted(named.items(), key=lambda each: (-len(each[1]), each[0])):
                print(f"{title} {name}: {len(files)}", *files, sep="\n  ")
    missed = broken(measures())
    print(*missed, sep="\n")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
