"""What is said of training that goes nowhere or collapses: when, once, and with what to do."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.outside.files import seal
from baselines.config import TRAINING_RULES
from baselines.evaluation import Evaluation
from baselines.records.metrics import LOG_FILE, Row, read_log
from baselines.records.watch import kept_in, unfinished, warning_texts, watch
from tests.baselines.corridor_learning import repeatable, small_policy, trainer
from tests.cases import cases

HEALTHY: Row = {"success": 0.5, "invalid_rate": 0.1, "contrast": 0.8, "signal": 0.6, "entropy": 1.0}


def run_of(*changes: Row) -> list[Row]:
    """A log: the start, and a row for each of the changes to a healthy one."""
    return [{"iteration": 0}, *({**HEALTHY, **change, "iteration": i} for i, change in enumerate(changes, 1))]


def said(rows: list[Row], over: bool = True, kept: dict[int, str] | None = None) -> list[tuple[int, str]]:
    """Play a log row by row, with the keys written into it, and return iterations and keys."""
    found = []
    for number in range(1, len(rows) + 1):
        given = watch(rows[:number], over=over and number == len(rows), kept=kept)
        rows[number - 1] |= dict.fromkeys(given, 1.0)
        found += [(int(rows[number - 1]["iteration"]), key.removeprefix("warning_")) for key in given]
    return found


LOST: Row = {"success": 0.0}
FLAT: Row = {"success": 0.0, "contrast": 0.0, "signal": 0.0}


@cases(
    "rows, expected",
    ([{}] * 9, []),
    ([{"success": 0.5 + i / 100} for i in range(20)], []),
    ([], []),
    # Ten in a row without success, whatever went before; once, though it goes on.
    ([LOST] * 9 + [{}] * 2, []),
    ([{"success": 0.05}, *[LOST] * 30], [(11, "no_success")]),
    ([LOST] * 9 + [{"success": 0.05}] + [LOST] * 10, [(20, "no_success")]),
    # The end of a shorter run.
    ([LOST] * 3, [(3, "no_success")]),
    ([{"success": 0.02}, {"success": 0.0}, {"success": 0.02}], [(3, "no_better")]),
    # The mean of the last five of ten is that of the first five; a bit more is better, and so is what is solved.
    ([{"success": 0.4}] * 10, [(10, "no_better")]),
    ([{"success": 0.4}] * 9 + [{"success": 0.5}], []),
    ([{"success": 0.4}] * 9, []),
    ([{"success": 0.95}] * 10, []),
    # More than half refused in three iterations, and not falling.
    ([{"invalid_rate": rate} for rate in (0.2, 0.55, 0.6, 0.55)], [(4, "refused")]),
    ([{"invalid_rate": rate} for rate in (0.97, 0.97, 0.97, 0.98)], [(3, "refused")]),
    ([{"invalid_rate": rate} for rate in (0.97, 0.98, 0.9, 0.8, 0.7, 0.6, 0.55)], []),
    ([{"invalid_rate": rate} for rate in (0.4, 0.45, 0.5, 0.5, 0.5)], []),
    # Five iterations without contrast in any group, or all of a shorter run.
    ([{}, *[{"contrast": 0.0}] * 9], [(6, "no_contrast"), (10, "no_better")]),
    ([{"contrast": 0.0}] * 4 + [{}], []),
    ([{"contrast": 0.0}] * 2, [(2, "no_contrast")]),
    # At once.
    ([{}, {"signal": 0.05}, {"signal": 0.049}, {"signal": 0.0}], [(3, "little_signal")]),
    # Success that was there, three iterations without any, and nothing to compare.
    ([{}, {}, FLAT, FLAT, FLAT, FLAT], [(3, "little_signal"), (5, "collapse")]),
    ([{}] * 2 + [LOST] * 6, [(8, "no_better")]),
    ([{}, FLAT, FLAT, {"success": 0.1}], [(2, "little_signal"), (4, "no_better")]),
    # Below a tenth of the start twice in a row, unless the tasks are solved; what was not measured is passed over.
    ([{"entropy": 2.0}, {"entropy": 0.19}, {}, {"entropy": 0.19}, {"entropy": 0.21}], []),
    ([{"entropy": 2.0}, {"entropy": 0.19}, {"entropy": 0.19}], [(3, "entropy")]),
    ([{"entropy": 2.0}, *[{"entropy": 0.1, "success": 0.95}] * 3], []),
)  # fmt: skip
def test_each_thing_is_said_once_and_when_it_is_so(rows: list[Row], expected: list[tuple[int, str]]) -> None:
    assert said(run_of(*rows)) == expected


def test_what_was_not_measured_is_no_sign() -> None:
    rows = run_of({}, {}, {}, {})
    for row in rows[1:]:
        row["invalid_rate"] = row["signal"] = None  # type: ignore[assignment]
        row["entropy"] = None  # type: ignore[assignment]
        del row["contrast"]
    assert said(rows) == []
    assert watch([{"iteration": 0, "success": 0.0}, {"iteration": 1}]) == {}
    # Without groups of several episodes there is no contrast to look at: success alone says it.
    alone = [{"iteration": i, "success": 0.0 if i > 2 else 0.4} for i in range(1, 6)]
    assert said(alone) == [(5, "collapse")]


@cases(
    "kept, words",
    # Iteration 3 was played by the policy after two updates.
    ({1: "checkpoint-000001", 2: "best-000002", 3: "checkpoint-000003"}, "go back to best-000002;"),
    ({3: "checkpoint-000003"}, "no earlier checkpoint is left (checkpoint.every, checkpoint.keep): start again"),
    ({}, "start again; to prevent this, use a smaller learning_rate or a KL penalty"),
)
def test_a_collapse_names_the_last_good_checkpoint(kept: dict[int, str], words: str) -> None:
    rows = run_of({"success": 0.6}, {"success": 0.5}, {"success": 0.3}, {"success": 0.1}, FLAT, FLAT, FLAT)
    collapse = watch(rows, kept=kept)["warning_collapse"]
    assert collapse.startswith("success was 60% and has been 0 for 3 iterations")
    assert "The last good iteration was 3, with a success of 30%" in collapse  # at least half of the best
    assert words in collapse
    rows = run_of({"entropy": 2.0}, {"entropy": 1.0}, {"entropy": 0.3}, {"entropy": 0.1}, {"entropy": 0.1})
    entropy = watch(rows, kept=kept)["warning_entropy"]
    assert entropy.startswith("the entropy fell from 2 to 0.1 nats per token at a success of 50%")
    assert words in entropy


def test_words_fit_what_happened_and_contrast_is_a_difference_in_outcomes() -> None:
    solved: Row = {"success": 1.0, "contrast": 0.0, "signal": 0.0}
    easy = watch(run_of(*[solved] * 5))
    assert list(easy) == ["warning_little_signal"]
    assert "harder ones" in easy["warning_little_signal"]
    lost = watch(run_of(*[FLAT] * 10))
    for key in ("warning_no_success", "warning_no_contrast", "warning_little_signal"):
        assert "easier tasks, or a warm start" in lost[key]
    rows = run_of(*[FLAT] * 12)
    words = []
    for number, row in enumerate(rows, 1):
        given = watch(rows[:number], over=number == len(rows))
        row |= dict.fromkeys(given, 1.0)
        words += [f"iteration {row['iteration']}: {line}" for line in given.values()]
    assert warning_texts(rows) == words
    assert len(words) == 3
    # A log that another version has written.
    assert warning_texts([{"iteration": 4, "success": 0.5, "warning_refused": 1.0}]) == ["iteration 4: warning_refused"]
    success = np.array([[True, False], [False, False], [False, False], [True, True]])
    returns = np.array([[1.0, 1.0], [0.2, 0.3], [0.1 + 0.2, 0.3], [1.0, 1.0]])
    assert Evaluation(success, returns, np.ones((4, 2), np.int64), np.zeros((4, 2), np.int64)).contrast == 0.5


def test_a_run_warns_once_also_when_it_is_resumed(tmp_path: Path) -> None:
    def hopeless(folder: Path, iterations: int, **changes: Any) -> tuple[list[Row], list[str]]:
        given = {"learning_rate": 0.0, "loss.kl": 0.0, "validation.every": 0, "checkpoint": {"every": 1, "keep": 50}}
        given |= {"credit": lambda table: np.zeros(len(table)), **changes}
        made = trainer(folder=folder, iterations=iterations, **given)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return made.run(), [str(one.message) for one in caught if "iteration" in str(one.message)]

    rows, words = hopeless(tmp_path / "a", 6)
    assert [row["iteration"] for row in rows if "warning_little_signal" in row] == [1]
    assert [line for line in words if "no step has an advantage other than 0" in line] == [words[0]]
    assert words[0].startswith(f"{tmp_path / 'a'}, iteration 1: ")
    assert (rows[1]["silent_updates"], rows[0]["training_rules"]) == (1.0, TRAINING_RULES)
    assert [row for row in rows[1:] if "training_rules" in row] == []
    first, again = hopeless(tmp_path / "b", 3)[1], hopeless(tmp_path / "b", 6, resume=True)[1]
    assert len([line for line in first if "no step has" in line]) == 1
    assert [line for line in again if "no step has" in line] == []
    assert [row["iteration"] for row in read_log(tmp_path / "b" / LOG_FILE) if "warning_little_signal" in row] == [1]
    assert (kept_in(tmp_path / "b"), kept_in(None)) == ({i: f"checkpoint-{i:06d}" for i in range(1, 7)}, {})


def test_a_run_that_goes_on_past_its_end_is_one_that_was_longer(tmp_path: Path) -> None:
    given: dict[str, Any] = {"learning_rate": 0.0, "loss.kl": 0.0, "validation.every": 0, "group_size": 2}
    lost = [row | {"success": 0.0} for row in run_of({}, {})[1:]]
    straight = [row | dict.fromkeys(watch(lost[: i + 1], over=i == 1), 1.0) for i, row in enumerate(lost)]
    shorter = [lost[0] | dict.fromkeys(watch(lost[:1], over=True), 1.0)]
    assert "warning_no_success" in shorter[0]
    assert unfinished(shorter) == lost[0]
    assert "warning_no_success" in straight[1]
    # In the trainer: a run of one iteration that won nothing, gone on with for another.
    rows = []
    for folder, lengths in (("a", (2,)), ("b", (1, 2))):
        for iterations in lengths:
            policy = small_policy(prefix="", suffix="")  # no reply can be read
            made = trainer(policy, folder=tmp_path / folder, resume=True, iterations=iterations, **given)
            with pytest.warns(UserWarning, match=f"iteration {iterations}: no episode .* succeeded"):
                made.run()
        rows.append(repeatable(read_log(tmp_path / folder / LOG_FILE)))
    assert rows[0] == rows[1]
    assert ["warning_no_success" in row for row in rows[0]] == [False, False, True]


def test_a_run_of_older_rules_goes_on_and_says_so(tmp_path: Path) -> None:
    trainer(folder=tmp_path, iterations=1).run()
    state = tmp_path / "checkpoint-000001" / "state.json"
    content = json.loads(state.read_text())
    assert content.pop("training_rules") == TRAINING_RULES
    state.write_text(json.dumps(content))
    (state.parent / "seal.json").unlink()
    seal(state.parent)
    with pytest.warns(UserWarning, match=f"was trained by rules 1 and continues by {TRAINING_RULES}"):
        resumed = trainer(folder=tmp_path, iterations=3, resume=True)
    rows = resumed.run()
    assert [row.get("training_rules") for row in rows] == [TRAINING_RULES, None, TRAINING_RULES, None]
