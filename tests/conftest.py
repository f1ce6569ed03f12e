"""Settings of the whole test run."""

import gc
import os
import signal

import pytest
from hypothesis import settings

# One thread a process unless the caller says otherwise: several test processes share few cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Figures are those of a processor; tests of a GPU start processes that see it.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# No test may reach for a model hub.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("MPLBACKEND", "Agg")
# What the shell of whoever runs the tests is set to: data, endpoints and packages of theirs, and how text is shown.
for variable in (
    "ALFWORLD_DATA", "VIRTUALHOME_DATA", "TAU2_PYTHON", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENENV_MODE",
    "FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES",
):  # fmt: skip
    os.environ.pop(variable, None)
# What test processes and the processes that they start compile once is kept: a new one compiles 500 files otherwise.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Nothing that tests write must survive a loss of power, and small files wait for the disk most of their time.
vars(os).update(fsync=lambda descriptor: None)
# A shell's background job inherits an ignored Ctrl-C; the tests of interruption send one.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline (a busy machine is not a bug); few examples unless long tests are asked for; in CI always the same.
examples = 100 if os.environ.get("STEPCREDIT_LONG") == "1" else 20
settings.register_profile("default", deadline=None, max_examples=examples)
settings.register_profile("ci", deadline=None, max_examples=examples, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of half a minute and more are asked for."""
    if item.get_closest_marker("long") and os.environ.get("STEPCREDIT_LONG") != "1":
        pytest.skip("takes long: STEPCREDIT_LONG=1 runs it")


def pytest_collection_finish() -> None:
    """What was imported and collected stays: collections of garbage need not look at it again."""
    gc.freeze()
