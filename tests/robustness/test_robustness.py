"""The short form of the campaign: every trial with the same inputs each time, and every input that failed once.

`./do fuzz --minutes N` is the long form: fresh inputs.
"""

import json
from pathlib import Path

import pytest

from tests.robustness.campaign import TRIALS
from tests.robustness.trial import FAILURES, Trial, play

BY_NAME = {trial.name: trial for trial in TRIALS}


@pytest.mark.parametrize("trial", [trial for trial in TRIALS if not trial.long], ids=lambda trial: trial.name)
def test_trial(trial: Trial) -> None:
    if trial.missing:
        pytest.skip(f"needs {trial.missing}")
    found = play(trial, trial.examples)
    assert found.cases > 0
    assert not found.error, f"{found.error}\ninput: {json.dumps(found.failing):.2000}"


@pytest.mark.parametrize("path", sorted(FAILURES.glob("*.json")), ids=lambda path: path.stem)
def test_what_failed_once(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    trial = BY_NAME[kept["trial"]]
    if trial.missing:
        pytest.skip(f"needs {trial.missing}")
    trial.check(kept["input"])


def test_a_failing_input_is_made_small_and_kept(tmp_path: Path) -> None:
    """The campaign itself: a check that fails on long texts leaves the shortest one behind."""
    from hypothesis import strategies as st

    from tests.robustness.trial import keep

    def check(value: str) -> None:
        assert len(value) < 3, "too long"

    trial = Trial("made/up", st.text(), check)
    found = play(trial, 200, 1)
    assert found.failing == "000"
    kept = json.loads(keep(trial, found, tmp_path).read_text())
    assert kept == {"trial": "made/up", "input": "000", "error": kept["error"]}
    assert "too long" in kept["error"]
    assert play(Trial("made/up", st.just("a"), check), 20).error == ""
