"""One very small but real benchmark run, shared by all tests (and by all test processes)."""

from pathlib import Path

import pytest

SMALL = [
    "--methods", "grpo,rewardflow", "--seeds", "0,1", "--steps", "2", "--groups", "4", "--group-size", "4",
    "--clone-levels", "40", "--clone-epochs", "4", "--eval-levels", "12", "--validation-levels", "6",
    "--validation-every", "1", "--jobs", "2",
]  # fmt: skip


@pytest.fixture(scope="session")
def small_options() -> list[str]:
    return list(SMALL)


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, worker_id: str = "master") -> Path:
    """Folder of a finished run; treat it as read-only."""
    for module in ("torch", "transformers", "typer", "rich", "matplotlib", "jinja2", "filelock"):
        pytest.importorskip(module)
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
