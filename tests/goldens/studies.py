"""Goldens of the command line: the records of every study and benchmark in its small form, times aside."""

import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.goldens.records import Golden, shape_of, without_clock

#: What stands in options for the place of the results.
_OUT = "OUT"
Reader = Callable[[Path], Any]


def played(*arguments: str) -> str:
    """Run a command and return what it prints."""
    from typer.testing import CliRunner

    from benchmarks.run import app

    result = CliRunner().invoke(app, list(arguments))
    if result.exit_code:
        raise RuntimeError(
            f"{' '.join(arguments)} ended with {result.exit_code}:\n{result.output[-2000:]}"
        ) from result.exception
    return result.output


def records(options: str, read: str = "", shape: bool = False) -> Any:
    """Run a command that writes into OUT, and return what it wrote.

    Args:
        options: of the command line, OUT for the place of the results.
        read: files below OUT, separated by blanks, JSON or JSON lines; "": OUT is the file.
        shape: keep the kinds of the figures, which are times, and not the figures.
    """
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        for command in options.split(" && "):
            played(*(word.replace(_OUT, str(out)) for word in command.split()))
        found = {}
        for pattern in read.split() or [""]:
            files = sorted(out.glob(pattern)) if pattern else [out]
            if not files:
                raise FileNotFoundError(f"{options} wrote no {pattern}: {[str(p) for p in out.rglob('*')]}")
            for file in files:
                text = file.read_text(encoding="utf-8")
                lines = file.suffix == ".jsonl"
                title = str(file.relative_to(out)) if pattern else "figures"
                found[title] = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    return shape_of(found) if shape else without_clock(found)


def dry_prompts() -> dict[str, str]:
    """The first prompts of every method of prompting."""
    panels = ("sokoban/test", "webshop/test", "searchqa/test", "sotopia/test")
    return {
        f"{panel}, {method}": played(
            "prompt", panel, "--model", "m", "--endpoint", "http://127.0.0.1:9/v1", "--method", method, "--dry-run",
            "--tasks", "2", "--shots", "1",
        )
        for panel in panels
        for method in ("vanilla", "cot", "react", "reflexion")
    }  # fmt: skip


def settings() -> dict[str, str]:
    """What is trained with: as each paper prints it and its script has it, and as every environment's settings say."""
    from agentgym.registry import ROWS

    envs = [row.module.split(".")[1] for row in ROWS]
    record = {}
    for env in dict.fromkeys(envs):
        for method in ("grpo", "dapo", "vine", "bpo"):
            record[f"{env}, {method}"] = printed("train", "--env", env, "--method", method, "--print")
        for method in ("graphgpo", "hisr", "istar", "rewardflow", "search_r1", "stepsearch"):
            for source in ([], ["--script"]):
                title = " ".join([env, method, *source])
                record[title] = printed("train", "--env", env, "--method", method, "--paper", *source, "--print")
    return record


def printed(*arguments: str) -> str:
    """Return what a command prints, or that it refuses."""
    try:
        return played(*arguments)
    except RuntimeError:
        return "refused"


#: Sizes below those of `--quick`, for all environments but the first.
_SMALL = (
    "--quick --jobs 1 --steps 1 --groups 2 --group-size 4 --clone-tasks 8 --clone-epochs 1 --eval-tasks 4 "
    "--validation-tasks 2"
)
#: Name: options, files to read, whether it takes long. A study has the name by which it is asked for.
_QUICK: dict[str, tuple[str, str, bool]] = {
    "league": ("study league --quick --out OUT", "league.json", False),
    "ranking": ("study ranking --quick --out OUT", "ranking.json", False),
    "combinations": ("study combinations --quick --split test --out OUT", "combinations.json", False),
    "scorers": ("study scorers --quick --out OUT", "scorers.json", True),
    "shaping": ("study shaping --quick --jobs 1 --out OUT", "shaping.json", True),
    "search-players": ("study search-players --quick --tasks 8 --budgets 20,60 --out OUT", "*.json", False),
    "aliasing": ("study aliasing --tasks 4 --repeats 2 --out OUT", "aliasing.json", False),
    "aliasing-virtualhome": (
        "study aliasing --env virtualhome --tasks 4 --repeats 2 --out OUT", "aliasing.json", False,
    ),
    "head-to-head": ("head-to-head --quick --jobs 1 --out OUT", "sokoban.json", True),
    **{
        f"head-to-head-{env}": (
            f"head-to-head --env {env} --quick --jobs 1 --tokens 400 --settings 1 --out OUT", f"{env}.json", True,
        )
        for env in ("alfworld", "sotopia", "searchqa")
    },
    "learning": ("--quick --jobs 1 --out OUT", "results.json", True),
    "learning-imitation": (
        f"{_SMALL} --methods sft,rft,hindsight,dpo,eto,ipr,stepagent,spear --out OUT", "results.json", True,
    ),
    "learning-search-rows": (
        f"--env searchqa {_SMALL} --methods r1,search_r1,zerosearch,stepsearch --out OUT", "results.json", True,
    ),
    **{
        f"learning-{env}": (f"--env {env} {_SMALL} --methods grpo,rft --out OUT", "results.json", True)
        for env in ("visualsokoban", "alfworld", "virtualhome", "webshop", "sotopia")
    },
    "train": ("train --quick --method graphgpo --out OUT", "log.jsonl samples.jsonl", True),
    **{
        f"study-{name}": (f"study {name} --quick --jobs 1 --out OUT", f"{name}.json", dear)
        for name, dear in (
            ("rollout-budget", True), ("group-size", False), ("distance", False),
            ("normalisation", False), ("staleness", False),
        )
    },
    **{
        f"panel-{panel.replace('/', '-')}": (
            f"play {panel} --player random --player expert --tasks 4 --out OUT", "*/*/results.json */*/episodes.jsonl",
            False,
        )
        for panel in (
            "sokoban/test", "alfworld/valid_seen", "virtualhome/valid_unseen", "webshop/test", "searchqa/test",
            "sotopia/test",
        )
    },
    "compare": (
        "play sokoban/test --player random --player expert --tasks 6 --out OUT && "
        "compare OUT/sokoban-test/random OUT/sokoban-test/expert --out OUT/compared.json", "compared.json", False,
    ),
}  # fmt: skip
#: The same, of what measures time: its figures are there, whatever they are.
_TIMED: dict[str, tuple[str, str, bool]] = {
    "throughput": ("speed throughput --quick --only sokoban,sotopia --out OUT", "throughput.json", True),
}  # fmt: skip

GOLDENS = [
    *(
        Golden(f"studies/{name}", functools.partial(records, options, read), dear=dear, learned=True)
        for name, (options, read, dear) in _QUICK.items()
    ),
    *(
        Golden(f"studies/{name}", functools.partial(records, options, read, shape=True), dear=dear)
        for name, (options, read, dear) in _TIMED.items()
    ),
    Golden("studies/prompt", dry_prompts),
    Golden("studies/settings", settings),
]
