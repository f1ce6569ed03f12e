"""`hub`: panels and results as a data set of the Hugging Face Hub, which `read_folder` reads.

    python -m benchmarks.run hub runs/panels --out hub --upload NAME/REPOSITORY

| file | holds |
|---|---|
| `README.md` | the card: what can be loaded, and the table of results |
| `panels/<panel>.jsonl` | a line for each task: panel, its hash, environment, id, digest, kind |
| `results/<panel>/<player>/results.json` | as `play` wrote it |
| `results/<panel>/<player>/outcomes.jsonl` | the same as a table, a line for each episode |

`datasets.load_dataset(NAME, "tasks")` and `(NAME, "outcomes")` are the tables; they hold no observations.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import jinja2
import typer
from huggingface_hub import HfApi
from huggingface_hub.utils import validate_repo_id
from rich.console import Console

from agentgym.outside.files import write_file
from agentgym.outside.text import DataError, read_json_lines
from agentgym.trajectory.file import write_lines
from benchmarks.console import explained, option, say
from benchmarks.json_files import ResultsError, write_json
from benchmarks.play.compare import check_same
from benchmarks.play.results import COLUMNS, RESULTS, PanelResults, load, percent

_CARD = Path(__file__).with_name("hub.md.j2")


def write_folder(results: Mapping[str, PanelResults], folder: Path) -> None:
    """Write results, by `<panel>/<player>`, and their panels as a data set's folder; earlier files are replaced."""
    if not results:
        raise ResultsError("no results to write: expected files results.json, which `play` writes")
    if (folder / "README.md").exists() and not (folder / "panels").is_dir():
        raise ResultsError(f"{folder / 'README.md'} is of another page: name an empty folder with --out")
    if others := sorted(_names(folder / "results") - results.keys()):
        path = folder / "results" / others[0]
        raise ResultsError(f"{path} is of an earlier data set: remove it, or name another folder with --out")
    results = dict(sorted(results.items()))
    first: dict[str, str] = {}
    for name, one in results.items():
        panel = name.partition("/")[0]
        other = first.setdefault(panel, name)
        check_same(results[other], one, (other, name))
        if other == name:
            write_lines(folder / "panels" / f"{panel}.jsonl", _tasks(one))
        write_json(one, folder / "results" / name / RESULTS)
        write_lines(folder / "results" / name / "outcomes.jsonl", _outcomes(one))
    # The card is Markdown, which no escaping is for.
    card = jinja2.Template(_CARD.read_text(encoding="utf-8"), undefined=jinja2.StrictUndefined)
    shown = card.render(results=list(results.values()), percent=percent)
    write_file(folder / "README.md", shown.encode())


def read_folder(folder: Path) -> dict[str, PanelResults]:
    """Return the results of a data set's folder, by `<panel>/<player>`."""
    found = _load_all(folder / "results")
    for name, one in found.items():
        path = folder / "panels" / f"{name.partition('/')[0]}.jsonl"
        try:
            listed = list(read_json_lines(path))
        except (OSError, DataError) as error:
            raise ResultsError(f"{error}; download the folder again") from None
        tasks, where = _tasks(one), f"{folder / 'results' / name}: these are not results on the tasks of {path}"
        for (line, row), task in zip(listed, tasks, strict=False):
            if row != task:
                raise ResultsError(f"{where}, line {line}: expected {task!r:.300}, got {row!r:.300}")
        if len(listed) != len(tasks):
            raise ResultsError(f"{where}, which lists {len(listed)}: expected {len(tasks)}")
    return found


def upload(folder: Path, repository: str, *, private: bool = True) -> str:
    """Send a data set's files, and no others of its folder, to `NAME/REPOSITORY` of the Hub, and return the address.

    The repository is made where it is missing. The token is that of `hf auth login`.
    """
    api = HfApi()
    address = api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
    api.upload_folder(
        repo_id=repository, repo_type="dataset", folder_path=folder, commit_message="Results on panels",
        allow_patterns=["README.md", "panels/*.jsonl", f"results/*/*/{RESULTS}", "results/*/*/outcomes.jsonl"],
    )  # fmt: skip
    return str(address)


def hub(
    results: Annotated[Path, typer.Argument(help="Folder of results, panel by panel, as play makes it.")],
    out: Annotated[Path, option("Folder of the data set.")] = Path("runs/hub"),
    upload_to: Annotated[str, option("Upload it to the data set NAME/REPOSITORY.", "--upload")] = "",
    public: Annotated[bool, option("Make a new data set public.")] = False,
) -> None:
    """Write panels and results as a data set of the Hugging Face Hub, and upload it."""
    console = Console()
    if upload_to:
        try:
            validate_repo_id(upload_to)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--upload") from None
    with explained("stopped"):
        found = _load_all(results)
        write_folder(found, out)
        say(console, f"{out}: {len(found)} results on {len({name.partition('/')[0] for name in found})} panels")
        if upload_to:
            say(console, f"sent to {upload(out, upload_to, private=not public)}")


def _load_all(folder: Path) -> dict[str, PanelResults]:
    return {name: load(folder / name / RESULTS) for name in sorted(_names(folder))}


def _names(folder: Path) -> set[str]:
    return {path.parent.relative_to(folder).as_posix() for path in folder.glob(f"*/*/{RESULTS}")}


def _tasks(one: PanelResults) -> list[dict[str, Any]]:
    panel = {"panel": one.panel.name, "hash": one.panel.hash, "env": one.panel.env}
    return [{**panel, "task": task.id, "digest": task.digest, "kind": task.kind} for task in one.tasks]


def _outcomes(one: PanelResults) -> list[dict[str, Any]]:
    return [
        {"panel": one.panel.name, "player": one.policy.name, "task": task.id, "digest": task.digest, "sample": sample}
        | {name: getattr(task, name)[sample] for name in COLUMNS}
        for task in one.tasks
        for sample in range(one.samples)
    ]
