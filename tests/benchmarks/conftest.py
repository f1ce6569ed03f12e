"""Shared by all tests: one very small but real benchmark run (for all test processes as well), and a browser."""

import shutil
from pathlib import Path
from typing import Any

import pytest

SMALL = [
    "--methods", "grpo,rewardflow", "--seeds", "0,1", "--steps", "2", "--groups", "4", "--group-size", "4",
    "--clone-tasks", "40", "--clone-epochs", "4", "--eval-tasks", "12", "--validation-tasks", "6",
    "--validation-every", "1", "--jobs", "2",
]  # fmt: skip


FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1240,2000",
)  # fmt: skip
#: Seconds that a page's script may take: many times what it needs, for machines that do much else.
PATIENCE = 600


def opened_browser(profile: Path) -> Any:
    """A headless browser whose console can be read, with this folder as its own; whoever opens it quits it."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    window = webdriver.Chrome(options=options, service=service)
    window.set_script_timeout(PATIENCE)
    return window


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """The test is skipped where there is no browser."""
    pytest.importorskip("selenium.webdriver")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    window = opened_browser(tmp_path_factory.mktemp("browser"))
    yield window
    window.quit()


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, worker_id: str = "master") -> Path:
    """Folder of a finished run; treat it as read-only."""
    from filelock import FileLock
    from typer.testing import CliRunner

    from benchmarks.run import app

    base = tmp_path_factory.getbasetemp()
    # Under pytest-xdist every process has its own base folder; their parent is shared.
    shared = base.parent if base.name.startswith("popen-") else base
    folder = shared / "small-benchmark"
    with FileLock(str(folder) + ".lock"):
        if not (folder / "report.html").exists():
            result = CliRunner().invoke(app, [*SMALL, "--out", str(folder)])
            assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def found(finished_run: Path) -> Any:
    """Results of the finished run."""
    from benchmarks.training.learning import STUDY

    return STUDY.load(finished_run / "results.json")
