"""README, docs and examples: they run and parse as printed, names and links lead somewhere; see `website` too."""

import importlib
import re
import shlex
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks.run import app
from tests.processes import LEARNING, printed

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")), *DOCS]
#: Pages that speak of the present; the changelog also names what was.
PRESENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
#: Commands that pass their options on to another package; its tests try them.
OPTIONS_OF_OTHERS = ("wrappers.serving.verifiers",)
PACKAGES = "agentgym|wrappers|policies|baselines|benchmarks|tests"


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _blocks(page: Path, language: str) -> list[str]:
    """The page's blocks of a language, with empty lines before them so that errors show the page's line numbers."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * text[: match.start(3)].count("\n") + textwrap.dedent(match[3])
        for match in BLOCK.finditer(text)
        if match[2] == language
    ]


def _spans(page: Path) -> list[str]:
    """What stands in `single backticks` outside blocks."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def _commands(page: Path) -> list[tuple[str, str]]:
    """Commands of a page, each with its comment: the lines of shell blocks, and those in backticks."""
    lines = "\n".join(_blocks(page, "sh")).replace("\\\n", " ").splitlines()
    lines += [span for span in _spans(page) if span.startswith(("python ", "./do ", "benchmarks.run ", "stepcredit "))]
    halves = [re.split(r"\s#\s|$", line.strip(), maxsplit=1) for line in lines if line.strip()]
    return [(command.strip(), comment) for command, comment in halves]


RUNNABLE = [page for page in PAGES if _blocks(page, "python")]


@pytest.mark.parametrize("page", RUNNABLE, ids=_name)
def test_the_python_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "stable_baselines3" in page.read_text(encoding="utf-8"):
        pytest.importorskip("stable_baselines3")
    if "policies.vision.tiny" in page.read_text(encoding="utf-8"):
        pytest.importorskip("transformers", minversion="5.23")
    if "agentgym.outside.chat" in page.read_text(encoding="utf-8"):
        pytest.importorskip("aiohttp")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in _blocks(page, "python"):
        exec(compile(block, _name(page), "exec"), names)


def test_the_ten_lines_of_the_readme_print_what_stands_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    exec(next(block for block in _blocks(ROOT / "README.md", "python") if "RandomPolicy" in block), {})
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 5
    assert textwrap.indent(printed, "    ") in (ROOT / "README.md").read_text(encoding="utf-8")


def _anchors(page: Path) -> set[str]:
    """What follows the # of a link to a heading of the page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8"))
    local = [(page.parent / target if target else page, anchor) for target, anchor in links if "://" not in target]
    assert [target for target, _ in local if not target.exists()] == []
    assert [(target.name, anchor) for target, anchor in local if anchor and anchor not in _anchors(target)] == []


def _options_of_benchmark(words: list[str]) -> set[str]:
    """Parse the words after `benchmarks.run`; raise what a user would read. Nothing runs."""
    command: Any = typer.main.get_command(app)
    while words and (found := getattr(command, "get_command", lambda *_: None)(typer.Context(command), words[0])):
        command, words = found, words[1:]
    if "--help" not in words:
        command.make_context("benchmarks.run", words)
    return {name for parameter in command.params for name in parameter.opts} | {"--help"}


@pytest.mark.parametrize("page", [page for page in PRESENT if _commands(page)], ids=_name)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    tasks = re.findall(r"^ +(\w+)\) ", (ROOT / "do").read_text(encoding="utf-8"), re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for command, comment in _commands(page):
        words = shlex.split(command)
        flags = set(re.findall(r"--[a-z][a-z-]*", comment))
        while words and words[0].endswith(("python", "-m")):
            words.pop(0)
        words[0] = "benchmarks.run" if words[0] == "stepcredit" else words[0]
        if words[0] == "./do":
            assert words[1] in tasks, command
            words = [{"bench": "benchmarks.run", "fuzz": "tests.robustness.fuzz"}.get(words[1], ""), *words[2:]]
        if words[:1] == ["benchmarks.run"]:
            assert flags <= _options_of_benchmark(words[1:]), f"{command} # {comment}"
        elif words and re.match(rf"({PACKAGES})\.", words[0]) and words[0] not in OPTIONS_OF_OTHERS:
            module = ROOT / words[0].replace(".", "/")
            file = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
            source = file.read_text(encoding="utf-8")
            flags |= {word for word in words if word.startswith("--")}
            assert [flag for flag in flags if f'"{flag}"' not in source] == [], command
        elif words and words[0].endswith(".py"):
            assert (ROOT / words[0]).is_file(), command
        for listed in re.findall(r"(?:\.|stepcredit)\[([\w,-]+)\]", command):
            assert set(listed.split(",")) <= set(extras), command


def test_every_extra_stands_in_the_table_with_what_it_brings() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| ", page, re.MULTILINE)
    table = {name: brings.lower() for name, brings in rows if name not in PACKAGES.split("|")}
    assert table.keys() == extras.keys()
    for name, requirements in extras.items():
        packages = [re.split(r"[\[><=]", requirement.lower())[0] for requirement in requirements]
        assert [one for one in packages if one not in table[name] and one != "stepcredit"] == []


@pytest.mark.parametrize("page", PRESENT, ids=_name)
def test_the_names_of_a_page_exist(page: Path) -> None:
    missing = []
    for span in _spans(page):
        if re.fullmatch(rf"(?:{PACKAGES}|docs|examples)/[\w/.]*", span):
            missing += [] if (ROOT / span).exists() else [span]
        elif match := re.match(rf"(?:{PACKAGES})(?:\.\w+)+", span):
            missing += [] if _exists(match[0]) else [span]
    assert missing == []


def _exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one; a module may lack its library, not its file."""
    parts = dotted.split(".")
    for split in range(len(parts), 0, -1):
        path = ROOT / "/".join(parts[:split])
        if path.is_dir() or path.with_suffix(".py").is_file():
            found: object = importlib.import_module(".".join(parts[:split])) if split < len(parts) else None
            for part in parts[split:]:
                if not hasattr(found, part):
                    return False
                found = getattr(found, part)
            return True
    return False


@pytest.mark.parametrize("page", DOCS, ids=_name)
def test_a_page_is_short(page: Path) -> None:
    # An environment has one page; the page of the studies is written by a command.
    most = 900 if page.stem == "studies" or page.stem.endswith("-tables") else 330
    most = most if most == 900 or page.parent.name == "environments" else 200
    assert len(page.read_text(encoding="utf-8").splitlines()) <= most


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: What an example needs beyond the core.
NEEDS = {
    "own_environment.py": ("torch", "transformers"), "shape_with_sb3.py": ("torch", "stable_baselines3"),
    "train_tiny.py": ("torch", "transformers"), "train_with_trl.py": ("torch", "trl"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_as_printed(script: Path) -> None:
    for module in NEEDS.get(script.name, ()):
        pytest.importorskip(module)
    # A new process, in which nothing of ours is loaded.
    code = f"import runpy; runpy.run_path('examples/{script.name}', run_name='__main__')"
    said = printed(code, "1", LEARNING if "torch" in NEEDS.get(script.name, ()) else ())
    assert len(said.splitlines()) >= 3, said


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_one_short_file_that_readers_find(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert f"python examples/{script.name}" in text
    for page in ("README.md", "docs/README.md"):
        assert f"examples/{script.name}" in (ROOT / page).read_text(encoding="utf-8")
