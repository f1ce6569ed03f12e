"""Freeze the goldens anew, or compare with them: `python -m tests.goldens.freeze [--only NAME] [--check]`.

Each is made twice, in two processes with different hash seeds, and written where both agree. NAME may hold wildcards:
`--only 'credit/*'`, `--only training/recipe-gigpo`. Files of goldens that are no more are removed. Commit what changes
by itself, and say why in the commit's message.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.goldens import credit, environments, studies, training
from tests.goldens.records import DATA, Golden, computed, differences, read, write

#: All of them, by name.
GOLDENS = {golden.name: golden for each in (environments, credit, training, studies) for golden in each.GOLDENS}

#: Of the processes: one thread, no hub, no window, and generated data whatever this machine holds.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg"}
_DATA_OF_OTHERS = ("ALFWORLD_DATA", "VIRTUALHOME_DATA", "OPENAI_BASE_URL")
_FOLDER = Path(__file__).parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Freeze or check, print a line for each golden, and return 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens.freeze", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="names, with wildcards; default: all")
    parser.add_argument("--cheap", action="store_true", help="leave out what takes long")
    parser.add_argument("--check", action="store_true", help="write nothing, and print what differs from what is kept")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--stream", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    chosen = [g for name, g in GOLDENS.items() if fnmatch.fnmatch(name, given.only) and not (given.cheap and g.dear)]
    if not chosen:
        parser.error(f"no golden is named {given.only!r}; --list prints their names")
    if given.list:
        print(*(f"{golden.name}{'  (dear)' if golden.dear else ''}" for golden in chosen), sep="\n")
        return 0
    if given.stream:
        return _stream(chosen)
    # Goldens that share what they build go to the same process; a dear one goes alone.
    parts = [[golden] for golden in chosen if golden.dear]
    for kind in dict.fromkeys(golden.name.partition("/")[0] for golden in chosen):
        cheap = [golden for golden in chosen if golden.name.startswith(f"{kind}/") and not golden.dear]
        parts += [cheap] if cheap else []
    with ThreadPoolExecutor(given.jobs) as pool:
        wrong = sum(pool.map(lambda part: _settle(part, given.check), parts))
    if not given.check and given.only == "*" and not given.cheap:
        for file in {*DATA.rglob("*.jsonl")} - {golden.file for golden in GOLDENS.values()}:
            print(f"{file.relative_to(DATA)}: is no more")
            file.unlink()
    return int(bool(wrong))


def _settle(part: list[Golden], check: bool) -> int:
    """Make goldens in processes of their own, and write or compare them; return how many differ."""
    # A check is the second run of what was frozen once.
    first = _made(part, 2 if check else 1)
    second = first if check else _made(part, 2)
    wrong = 0
    for golden in part:
        (found, seconds), (again, _) = first[golden.name], second[golden.name]
        failed = [each for each in (found, again) if isinstance(each, str)]
        if failed:
            lines = failed[:1]
        elif check:
            lines = differences(read(golden)[0], found) if golden.file.exists() else ["is not kept yet"]
        else:
            lines = [f"differs from run to run: {line}" for line in differences(found, again)]
            if not lines:
                write(golden, found)
        wrong += bool(lines)
        state = "DIFFERS" if lines else "as kept" if check else "written"
        print(f"{golden.name}: {seconds:.1f} s, {state}")
        print(*(f"  {line}" for line in lines[:12]), sep="\n", end="\n" if lines else "", flush=True)
    return wrong


def _made(part: list[Golden], hash_seed: int) -> dict[str, tuple[Any, float]]:
    environment = {name: value for name, value in os.environ.items() if name not in _DATA_OF_OTHERS}
    environment |= {**_ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(_FOLDER)}
    names = [golden.name for golden in part]
    # The names are read from the standard input: they are more than a command line holds.
    process = subprocess.run(
        [sys.executable, "-m", "tests.goldens.freeze", "--stream"], input=json.dumps(names), cwd=_FOLDER,
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    found = {}
    for line in process.stdout.splitlines():
        if line.startswith('{"golden":'):
            made = json.loads(line)
            found[made["golden"]] = made["columns"], made["seconds"]
    missing = f"its process ended with {process.returncode}:\n{process.stderr[-2000:]}"
    return {name: found.get(name, (missing, 0.0)) for name in names}


def _stream(chosen: list[Golden]) -> int:
    """Make the goldens that the standard input names, and write a line for each."""
    wanted = json.load(sys.stdin)
    for golden in (golden for golden in chosen if golden.name in wanted):
        begin = sum(os.times()[:4])  # of this process and of its children
        columns: Any
        try:
            columns = computed(golden)
        except Exception as error:  # one that cannot be made does not keep the others from being made
            columns = f"{type(error).__name__}: {error}"
        print(
            json.dumps({"golden": golden.name, "columns": columns, "seconds": sum(os.times()[:4]) - begin}), flush=True
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
