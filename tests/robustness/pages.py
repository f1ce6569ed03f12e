"""Trials of the pages in a browser: whatever stands in results, it is text, and nothing of it runs."""

import atexit
import json
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.robustness.trial import Trial, fragments, record

OPTIONS = [
    "--methods", "grpo", "--seeds", "0", "--steps", "1", "--groups", "2", "--group-size", "2", "--clone-tasks", "10",
    "--clone-epochs", "1", "--eval-tasks", "4", "--validation-tasks", "2", "--validation-every", "1", "--jobs", "1",
]  # fmt: skip
#: What would show itself if it ran: each sets a variable, opens a dialogue, or reaches for another host.
LIVE = (
    "</script><script>window.harm = 1</script>", "</SCRIPT ><img src=x onerror='window.harm = 1'>", "<!--<script>",
    "<img src=x onerror=window.harm=1>", '" onmouseover="window.harm = 1" autofocus onfocus="window.harm = 1" x="',
    "'-(window.harm=1)-'", "${window.harm = 1}", "{{ 7 * 7 }}", "{% raw %}", "javascript:window.harm=1", "]]>",
    "\u2028", "<svg onload=window.harm=1>", "</textarea></title><b>", "&lt;b&gt;", "\\u003cb>",
    "<style>*{display:none}</style>", "<iframe src=//example.invalid>", "</td></tr></table>", "__proto__",
)  # fmt: skip


def temporary() -> Path:
    """A folder that goes with the process."""
    folder = Path(tempfile.mkdtemp(prefix="robustness-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def small_run() -> Path:
    """The folder of a very small run of the main job."""
    from typer.testing import CliRunner

    from benchmarks.run import app

    folder = temporary() / "run"
    result = CliRunner().invoke(app, [*OPTIONS, "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


@cache
def browser() -> Any:
    """A headless browser, for as long as the process lives."""
    from tests.benchmarks.conftest import opened_browser

    window = opened_browser(temporary())
    atexit.register(window.quit)
    return window


def spoiled(value: Any, texts: list[str], names: tuple[str, ...]) -> Any:
    """Put the texts into everything that comes from an environment or a policy."""
    if isinstance(value, dict):
        return {
            key: texts[len(item) % len(texts)] + item
            if key in names and isinstance(item, str)
            else spoiled(item, texts, names)
            for key, item in value.items()
        }
    return [spoiled(item, texts, names) for item in value] if isinstance(value, list) else value


def report(texts: list[str], folder: Path) -> Any:
    """The report of a run in which observations, commands, task names and the machine hold the texts."""
    from benchmarks.training.learning import STUDY

    shutil.copytree(small_run(), folder, dirs_exist_ok=True)
    path = folder / "results.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    names = ("text", "action", "task_id", "cpu", "system", "python", "created")
    path.write_text(json.dumps(spoiled(found, texts, names)), encoding="utf-8")
    return STUDY.shown(STUDY.load(path))


def ranking(texts: list[str], folder: Path) -> Any:
    """The ranking, with the texts in the names of the machine and of players."""
    from benchmarks.truth.league import RANKING

    study = small_ranking()
    players = [replace(one, player=texts[i % len(texts)] + one.player) for i, one in enumerate(study.standings)]
    return RANKING.shown(renamed(replace(study, standings=players), texts))


def shaping(texts: list[str], folder: Path) -> Any:
    """The study of shaping, with the texts in the names of the machine."""
    from benchmarks.training.shaping import STUDY as SHAPING
    from tests.benchmarks.training.test_studies import made_up

    return SHAPING.shown(replace(renamed(made_up(), texts), created=texts[-1]))


def renamed(study: Any, texts: list[str]) -> Any:
    return replace(study, machine=replace(study.machine, cpu="".join(texts), system=texts[0]))


PAGES = {page.__name__: page for page in (report, ranking, shaping)}


def check(given: dict[str, Any]) -> None:
    from benchmarks.report.page import write_page

    with tempfile.TemporaryDirectory() as name:
        pages = write_page(PAGES[given["page"]](given["texts"], Path(name)), Path(name))
        look_at(next(page for page in pages if page.suffix == ".html"))


@cache
def small_ranking() -> Any:
    from benchmarks.truth.league import RANKING, configure_ranking

    return RANKING.play(configure_ranking(groups=4), temporary())


def look_at(page: Path) -> None:
    """Open a page, press everything that can be pressed, and see that nothing ran and nothing broke."""
    window = browser()
    window.get_log("browser")
    window.get(page.as_uri())
    window.execute_script(
        "for (const each of document.querySelectorAll('button, select, input')) {"
        " each.focus(); each.click(); for (const kind of ['change', 'input']) each.dispatchEvent(new Event(kind)); }"
        "for (const each of document.querySelectorAll('svg, .node, tr, text'))"
        " each.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))"
    )
    window.execute_async_script("setTimeout(arguments[0], 60)")
    assert window.execute_script("return window.harm") is None, "text of the results ran as a script"
    assert window.execute_script("return document.querySelectorAll('iframe, img[onerror], [onload]').length") == 0
    assert window.execute_script("return document.body.innerText.length") > 100
    assert window.get_log("browser") == []


_NEEDS = ("selenium", "jinja2", "matplotlib", "torch", "typer", "program:chromium", "program:chromedriver")
_TEXTS = st.lists(st.sampled_from(LIVE) | fragments, min_size=1, max_size=4).map(lambda texts: [*texts, "x"])
TRIALS = [
    Trial(
        f"pages/{page}", record(page=st.just(page), texts=_TEXTS), check, 6 if page == "report" else 4, cheap=False,
        needs=_NEEDS,
    )
    for page in PAGES
]  # fmt: skip
